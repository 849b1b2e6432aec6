/* sabotage.h - backward kernels with one defect each, to show that the gradient check sees it. */
#ifndef TEST_TRAINING_SABOTAGE_H
#define TEST_TRAINING_SABOTAGE_H

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
    GRAPH_ADD,
    GRAPH_ADD_SAME,
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

/* One defect of one kernel; one of the functions is set. */
typedef struct sabotage {
    const char *name;
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

extern const sabotage sabotages[];
extern const int sabotage_count;

/* A wrapper with no defect: the wrapping itself must not be what is noticed. */
extern const sabotage sabotage_control;

/* Let `context` compute with the defect, or with its own kernels again (NULL). Counts what it
 * spoils. */
void sabotage_apply(uf_context *context, const sabotage *one);
int64_t sabotage_hits(void);

#endif
