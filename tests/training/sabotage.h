/* sabotage.h - backward kernels with one defect each, to show that the gradient check sees it. */
#ifndef TEST_TRAINING_SABOTAGE_H
#define TEST_TRAINING_SABOTAGE_H

#include <unfurl/graph.h>

#include "kernels/kernels.h"

/* What a sabotaged kernel does in place of the real one; the conv kernels share a signature. */
typedef uf_status (*conv_defect)(uf_context *context, uf_conv_direction direction,
                                 const uf_conv_kernel_args *args);
typedef uf_status (*channel_sum_defect)(uf_context *context,
                                        const uf_channel_sum_kernel_args *args);
typedef uf_status (*activation_defect)(uf_context *context, const uf_activation_kernel_args *args);
typedef uf_status (*batch_norm_defect)(uf_context *context, const uf_batch_norm_kernel_args *args);
typedef uf_status (*pad_defect)(uf_context *context, const uf_pad_kernel_args *args);
typedef uf_status (*copy_defect)(uf_context *context, const uf_copy_kernel_args *args);
typedef uf_status (*loss_defect)(uf_context *context, const uf_loss_kernel_args *args);

/* The graphs that defects are put into: each reaches its kernel in backward. */
typedef enum sabotage_graph {
    GRAPH_CONV_TRANSPOSE = 0, /* k3 s2 p1, square channels: backward uses fprop and wgrad */
    GRAPH_CONV_TRANSPOSE_GROUPS,
    GRAPH_CONV_TRANSPOSE_TWICE, /* the input goes into two layers, which share their weights */
    GRAPH_CONV,                 /* backward uses dgrad and wgrad */
    GRAPH_CONV_GROUPS,
    GRAPH_CONV_TWICE,
    GRAPH_LEAKY_RELU,
    GRAPH_TANH,
    GRAPH_SIGMOID_TWICE,
    GRAPH_BATCH_NORM,
    GRAPH_BATCH_NORM_EVAL,
    GRAPH_BATCH_NORM_TWICE,
    GRAPH_PAD_ZERO,
    GRAPH_PAD_REPLICATE,
    GRAPH_PAD_REFLECT,
    GRAPH_PAD_TWICE,
    GRAPH_CONCAT,
    GRAPH_CONCAT_SAME,
    GRAPH_RESHAPE,
    GRAPH_RESHAPE_TWICE,
    GRAPH_FUSED, /* conv_transpose, leaky_relu, batch norm, tanh: two steps forward */
    GRAPH_BCE_WITH_LOGITS,
    GRAPH_BCE,
    GRAPH_MSE,
    GRAPH_L1,
    GRAPH_MSE_TWICE
} sabotage_graph;

/* One defect of one kernel; one of the functions is set. A defect of a kernel that has no member
 * here brings its graph and stands in the kernel's slot itself; it counts with sabotage_hit. */
typedef struct sabotage {
    const char *name;
    void (*build)(uf_graph *graph, uf_store *store);
    size_t slot;            /* offsetof(struct uf_kernels, ...) */
    void (*function)(void); /* of the slot's type */
    sabotage_graph graph;
    uf_conv_direction direction; /* of conv */
    conv_defect conv;
    channel_sum_defect channel_sum;
    activation_defect activation;
    batch_norm_defect batch_norm;
    pad_defect pad;
    copy_defect copy;
    loss_defect loss;
} sabotage;

/* Tables, each ended by a row without a name; sabotage.c lists them. */
extern const sabotage sabotage_layers[];
extern const sabotage sabotage_strided[];
extern const sabotage sabotage_activations[];
extern const sabotage sabotage_layers[], sabotage_norms[];
extern const sabotage sabotage_layers[], sabotage_losses[];
extern const sabotage sabotage_layers[], sabotage_random[];
extern const sabotage sabotage_embedding[];
extern const sabotage sabotage_images[];
extern const sabotage sabotage_weights[];
extern const sabotage sabotage_gradient[];
extern const sabotage sabotage_zeros[];

/* Row `index` of all tables, one after the other; NULL beyond the last. */
const sabotage *sabotage_at(int index);

/* Where the spoiled kernel is in struct uf_kernels. */
size_t sabotage_slot(const sabotage *one);

/* A wrapper with no defect: the wrapping itself must not be what is noticed. */
extern const sabotage sabotage_control;

/* Let `context` compute with the defect, or with its own kernels again (NULL). Counts what it
 * spoils. */
void sabotage_apply(uf_context *context, const sabotage *one);
void sabotage_hit(void);
int64_t sabotage_hits(void);

/* ---- views of f64 in host memory, for defects ---- */

typedef enum sabotage_change {
    MIRROR,       /* rows and columns from the other end */
    TRANSPOSE,    /* rows and columns exchanged */
    EXCHANGE,     /* the first two axes exchanged */
    SHIFT_COLUMN, /* by one, zeros come in */
    SHIFT_ROW,
    NO_TAP,        /* the last row's last column is missing */
    NO_COLUMN,     /* the last column is missing */
    NO_CHANNEL,    /* the last channel is missing */
    NO_IMAGE,      /* the last image is missing */
    NO_PHASE,      /* every second column is missing */
    ROTATE_HALF,   /* the first axis by half of it: another group's weights */
    ROTATE_CHANNEL /* by one */
} sabotage_change;

#define EACH(view, n, c, h, w)                                                                     \
    for (int64_t n = 0; n < (view)->extent[0]; ++n)                                                \
        for (int64_t c = 0; c < (view)->extent[1]; ++c)                                            \
            for (int64_t h = 0; h < (view)->extent[2]; ++h)                                        \
                for (int64_t w = 0; w < (view)->extent[3]; ++w)

double *sabotage_element(const uf_view *view, int64_t n, int64_t c, int64_t h, int64_t w);
uf_view sabotage_clone(const uf_view *view); /* contiguous; free its data */
void sabotage_scale(const uf_view *view, double factor);
void sabotage_nudge(const uf_view *view); /* the largest element grows by 1 % */
void sabotage_alter(const uf_view *view, sabotage_change what); /* in place */

#endif
