/* sabotage_weights.c - defects of the kernels that make weights of other parameters. */
#include <stddef.h>
#include <string.h>

#include <unfurl/unfurl.h>

#include "sabotage.h"

static const uf_shape shape = {4, {4, 3, 3, 2}};

static void build_weight_norm(uf_graph *graph, uf_store *store) {
    const uf_value weight = uf_weight_norm(graph, uf_at(store, "layer"), shape, 0);
    uf_output(graph, "y", uf_tanh(graph, weight));
}

/* Of the same parameters twice: the second gradient is added. */
static void build_weight_norm_twice(uf_graph *graph, uf_store *store) {
    build_weight_norm(graph, store);
    uf_output(graph, "again", uf_weight_norm(graph, uf_at(store, "layer"), shape, 0));
}

static void build_spectral_norm(uf_graph *graph, uf_store *store) {
    const uf_value weight = uf_spectral_norm(graph, uf_at(store, "layer"), shape, 1);
    uf_output(graph, "y", uf_tanh(graph, weight));
}

static void build_spectral_norm_twice(uf_graph *graph, uf_store *store) {
    build_spectral_norm(graph, store);
    uf_output(graph, "again", uf_spectral_norm(graph, uf_at(store, "layer"), shape, 1));
}

/* ---- weight_norm_backward ---- */

static uf_status real_weight(uf_context *context, const uf_weight_norm_kernel_args *args) {
    sabotage_hit();
    return context->device->kernels->weight_norm_backward(context, args);
}

static uf_status weight_sign(uf_context *context, const uf_weight_norm_kernel_args *args) {
    const uf_status status = real_weight(context, args);
    sabotage_scale(&args->grad_v, -1.0);
    return status;
}

static uf_status weight_scale_sign(uf_context *context, const uf_weight_norm_kernel_args *args) {
    const uf_status status = real_weight(context, args);
    sabotage_scale(&args->grad_g, -1.0);
    return status;
}

/* grad_output * g / |v|, without the part that the norm takes away. */
static uf_status weight_no_projection(uf_context *context, const uf_weight_norm_kernel_args *args) {
    const uf_status status = real_weight(context, args);
    const int64_t columns = args->matrix.inner;
    for (int64_t i = 0; i < args->matrix.rows * columns; ++i) {
        const double factor = ((const double *)args->g.data)[i / columns] /
                              ((const double *)args->norms.data)[i / columns];
        ((double *)args->grad_v.data)[i] = factor * ((const double *)args->grad_output.data)[i];
    }
    return status;
}

static uf_status weight_other_row(uf_context *context, const uf_weight_norm_kernel_args *args) {
    const uf_status status = real_weight(context, args);
    sabotage_alter(&args->grad_v, ROTATE_HALF);
    return status;
}

static uf_status weight_nudged(uf_context *context, const uf_weight_norm_kernel_args *args) {
    const uf_status status = real_weight(context, args);
    sabotage_nudge(&args->grad_v);
    return status;
}

static uf_status weight_other_axis(uf_context *context, const uf_weight_norm_kernel_args *args) {
    uf_weight_norm_kernel_args bad = *args;
    bad.matrix = (uf_weight_matrix){args->matrix.inner, args->matrix.rows, 1};
    return real_weight(context, &bad);
}

static uf_status weight_overwrites(uf_context *context, const uf_weight_norm_kernel_args *args) {
    uf_weight_norm_kernel_args bad = *args;
    bad.grad_v_mode = UF_OVERWRITE;
    return real_weight(context, &bad);
}

static uf_status weight_scale_overwrites(uf_context *context,
                                         const uf_weight_norm_kernel_args *args) {
    uf_weight_norm_kernel_args bad = *args;
    bad.grad_g_mode = UF_OVERWRITE;
    return real_weight(context, &bad);
}

/* ---- spectral_norm_backward ---- */

static uf_status real_spectral(uf_context *context, const uf_spectral_norm_kernel_args *args) {
    sabotage_hit();
    return context->device->kernels->spectral_norm_backward(context, args);
}

static uf_status spectral_sign(uf_context *context, const uf_spectral_norm_kernel_args *args) {
    const uf_status status = real_spectral(context, args);
    sabotage_scale(&args->grad_weight, -1.0);
    return status;
}

/* sigma counted as a constant. */
static uf_status spectral_no_sigma(uf_context *context, const uf_spectral_norm_kernel_args *args) {
    const uf_status status = real_spectral(context, args);
    const double sigma =
        ((const double *)args->saved.data)[uf_spectral_norm_saved(&args->matrix) - 1];
    EACH(&args->grad_weight, n, c, h, w) {
        *sabotage_element(&args->grad_weight, n, c, h, w) =
            *sabotage_element(&args->grad_output, n, c, h, w) / sigma;
    }
    return status;
}

static uf_status spectral_no_scale(uf_context *context, const uf_spectral_norm_kernel_args *args) {
    const uf_status status = real_spectral(context, args);
    sabotage_scale(&args->grad_weight,
                   ((const double *)args->saved.data)[uf_spectral_norm_saved(&args->matrix) - 1]);
    return status;
}

/* The rows of axis 0 in place of those of axis 1. */
static uf_status spectral_other_axis(uf_context *context,
                                     const uf_spectral_norm_kernel_args *args) {
    uf_spectral_norm_kernel_args bad = *args;
    bad.matrix = (uf_weight_matrix){args->matrix.rows, args->matrix.outer, args->matrix.inner};
    double workspace[64];
    double saved[64];
    const int64_t count = uf_spectral_norm_saved(&args->matrix);
    memset(saved, 0, sizeof saved);
    memcpy(saved, args->saved.data, (size_t)count * sizeof *saved);
    saved[uf_spectral_norm_saved(&bad.matrix) - 1] = saved[count - 1];
    bad.saved.data = saved;
    bad.workspace = workspace;
    return real_spectral(context, &bad);
}

static uf_status spectral_nudged(uf_context *context, const uf_spectral_norm_kernel_args *args) {
    const uf_status status = real_spectral(context, args);
    sabotage_nudge(&args->grad_weight);
    return status;
}

static uf_status spectral_overwrites(uf_context *context,
                                     const uf_spectral_norm_kernel_args *args) {
    uf_spectral_norm_kernel_args bad = *args;
    bad.mode = UF_OVERWRITE;
    return real_spectral(context, &bad);
}

#define WEIGHT(text, graph_, kernel)                                                               \
    {                                                                                              \
        .name = "weight_norm_backward: " text, .build = graph_,                                    \
        .slot = offsetof(struct uf_kernels, weight_norm_backward),                                 \
        .function = (void (*)(void))kernel                                                         \
    }
#define SPECTRAL(text, graph_, kernel)                                                             \
    {                                                                                              \
        .name = "spectral_norm_backward: " text, .build = graph_, .graph = GRAPH_BATCH_NORM_EVAL,  \
        .slot = offsetof(struct uf_kernels, spectral_norm_backward),                               \
        .function = (void (*)(void))kernel                                                         \
    }

/* GRAPH_BATCH_NORM_EVAL stands for the mode: in TRAIN each evaluation would change u and v. */
const sabotage sabotage_weights[] = {
    WEIGHT("sign", build_weight_norm, weight_sign),
    WEIGHT("sign of g's", build_weight_norm, weight_scale_sign),
    WEIGHT("no projection", build_weight_norm, weight_no_projection),
    WEIGHT("another row's", build_weight_norm, weight_other_row),
    WEIGHT("1% in one element", build_weight_norm, weight_nudged),
    WEIGHT("norms over another axis", build_weight_norm, weight_other_axis),
    WEIGHT("overwrites v's", build_weight_norm_twice, weight_overwrites),
    WEIGHT("overwrites g's", build_weight_norm_twice, weight_scale_overwrites),
    SPECTRAL("sign", build_spectral_norm, spectral_sign),
    SPECTRAL("sigma is a constant", build_spectral_norm, spectral_no_sigma),
    SPECTRAL("not divided by sigma", build_spectral_norm, spectral_no_scale),
    SPECTRAL("another axis", build_spectral_norm, spectral_other_axis),
    SPECTRAL("1% in one element", build_spectral_norm, spectral_nudged),
    SPECTRAL("overwrites", build_spectral_norm_twice, spectral_overwrites),
    {.name = NULL},
};
