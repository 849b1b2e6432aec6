/* sabotage_norm.c - norm_backward with one defect each. */
#include <unfurl/layers.h>

#include <stddef.h>
#include <stdlib.h>

#include "sabotage.h"

static uf_status real_norm(uf_context *context, const uf_norm_kernel_args *args) {
    sabotage_hit();
    return context->device->kernels->norm_backward(context, args);
}

/* ---- graphs ---- */

static void build_group_norm(uf_graph *graph, uf_store *store) {
    const uf_value x = uf_input(graph, "x", UF_SHAPE(2, 4, 3, 2));
    uf_output(graph, "y", uf_group_norm(graph, x, uf_at(store, "norm"), 2, NULL));
}

static void build_activated(uf_graph *graph, uf_store *store) {
    const uf_value x = uf_input(graph, "x", UF_SHAPE(2, 4, 3, 2));
    uf_output(graph, "y", uf_tanh(graph, uf_layer_norm2d(graph, x, uf_at(store, "norm"), NULL)));
}

/* The input goes into two layers, which share weight and bias. */
static void build_twice(uf_graph *graph, uf_store *store) {
    const uf_value x = uf_input(graph, "x", UF_SHAPE(3, 5));
    const uf_value a = uf_layer_norm(graph, x, uf_at(store, "norm"), 1, NULL);
    const uf_value b = uf_layer_norm(graph, uf_tanh(graph, x), uf_at(store, "norm"), 1, NULL);
    uf_output(graph, "y", uf_add(graph, a, uf_tanh(graph, uf_add(graph, b, x))));
}

/* ---- defects ---- */

static uf_status wrong_sign(uf_context *context, const uf_norm_kernel_args *args) {
    const uf_status status = real_norm(context, args);
    sabotage_scale(&args->grad_input, -1.0);
    return status;
}

static uf_status weight_sign(uf_context *context, const uf_norm_kernel_args *args) {
    const uf_status status = real_norm(context, args);
    sabotage_scale(&args->grad_weight, -1.0);
    return status;
}

static uf_status bias_sign(uf_context *context, const uf_norm_kernel_args *args) {
    const uf_status status = real_norm(context, args);
    sabotage_scale(&args->grad_bias, -1.0);
    return status;
}

static uf_status no_weight(uf_context *context, const uf_norm_kernel_args *args) {
    uf_norm_kernel_args bad = *args;
    bad.weight.data = NULL;
    return real_norm(context, &bad);
}

static uf_status no_activation(uf_context *context, const uf_norm_kernel_args *args) {
    uf_norm_kernel_args bad = *args;
    bad.activation.kind = UF_ACTIVATION_IDENTITY;
    return real_norm(context, &bad);
}

static uf_status no_centering(uf_context *context, const uf_norm_kernel_args *args) {
    uf_norm_kernel_args bad = *args;
    bad.save_mean = sabotage_clone(&args->save_mean);
    sabotage_scale(&bad.save_mean, 0.0);
    const uf_status status = real_norm(context, &bad);
    free(bad.save_mean.data);
    return status;
}

/* Each statistic is that of its neighbour. */
static uf_status other_statistic(uf_context *context, const uf_norm_kernel_args *args) {
    uf_norm_kernel_args bad = *args;
    bad.save_mean = sabotage_clone(&args->save_mean);
    bad.save_invstd = sabotage_clone(&args->save_invstd);
    sabotage_alter(&bad.save_mean, ROTATE_CHANNEL);
    sabotage_alter(&bad.save_invstd, ROTATE_CHANNEL);
    const uf_status status = real_norm(context, &bad);
    free(bad.save_mean.data);
    free(bad.save_invstd.data);
    return status;
}

static uf_status other_parameter(uf_context *context, const uf_norm_kernel_args *args) {
    const uf_status status = real_norm(context, args);
    if (args->grad_weight.data != NULL) {
        sabotage_alter(&args->grad_weight, ROTATE_CHANNEL);
    }
    return status;
}

/* Mean and variance as if they were constants. */
static uf_status evaluated(uf_context *context, const uf_norm_kernel_args *args) {
    const uf_norm_layout *layout = &args->layout;
    const uf_status status = real_norm(context, args);
    const double *g = args->grad_output.data, *weight = args->weight.data;
    for (int64_t e = 0; e < layout->outer * layout->size && args->grad_input.data != NULL; ++e) {
        const int64_t o = e / layout->size, s = e % layout->size;
        const int64_t p = o % layout->groups * (layout->size / layout->run) + s / layout->run;
        ((double *)args->grad_input.data)[e] =
            ((const double *)args->save_invstd.data)[o] * g[e] * weight[p];
    }
    return status;
}

static uf_status overwrites(uf_context *context, const uf_norm_kernel_args *args) {
    uf_norm_kernel_args bad = *args;
    bad.grad_input_mode = UF_OVERWRITE;
    return real_norm(context, &bad);
}

static uf_status overwrites_parameters(uf_context *context, const uf_norm_kernel_args *args) {
    uf_norm_kernel_args bad = *args;
    bad.grad_weight_mode = bad.grad_bias_mode = UF_OVERWRITE;
    return real_norm(context, &bad);
}

#define NORM(text, where, what)                                                                    \
    {                                                                                              \
        .name = "norm_backward: " text, .build = where,                                            \
        .slot = offsetof(struct uf_kernels, norm_backward), .function = (void (*)(void))what       \
    }

const sabotage sabotage_norms[] = {
    NORM("wrong sign", build_group_norm, wrong_sign),
    NORM("weight, wrong sign", build_group_norm, weight_sign),
    NORM("bias, wrong sign", build_group_norm, bias_sign),
    NORM("no weight", build_group_norm, no_weight),
    NORM("no activation behind it", build_activated, no_activation),
    NORM("no centering", build_group_norm, no_centering),
    NORM("another statistic", build_activated, other_statistic),
    NORM("another parameter", build_group_norm, other_parameter),
    NORM("statistics as constants", build_group_norm, evaluated),
    NORM("overwrites where it should add", build_twice, overwrites),
    NORM("overwrites parameters' gradients", build_twice, overwrites_parameters),
    {.name = NULL},
};
