/* sabotage_activations.c - defects of softmax's gradient, and of the kernels behind PReLU as its
 * backward calls them. */
#include <stddef.h>

#include <unfurl/layers.h>

#include "sabotage.h"

/* The input goes on beside the layer, so that its gradient is added to. */
static void build_prelu(uf_graph *graph, uf_store *store) {
    const uf_value x = uf_input(graph, "x", UF_SHAPE(2, 3, 4, 5));
    uf_output(graph, "y", uf_prelu(graph, x, uf_at(store, "layer"), 3));
    uf_output(graph, "z", uf_prelu(graph, uf_tanh(graph, x), uf_at(store, "layer"), 3));
}

static uf_status real(uf_context *context, const uf_strided_kernel_args *args) {
    const struct uf_kernels *kernels = context->device->kernels;
    return uf_strided_repeats(&args->space) ? kernels->reduce(context, args)
                                            : kernels->broadcast(context, args);
}

static bool is_backward(const uf_strided_kernel_args *args) {
    return args->term == UF_TERM_PRELU_INPUT || args->term == UF_TERM_PRELU_WEIGHT;
}

/* The slope is taken where the input is positive. */
static uf_status other_side(uf_context *context, const uf_strided_kernel_args *args) {
    uf_strided_kernel_args bad = *args;
    if (is_backward(args)) {
        sabotage_hit();
        bad.data[1] = args->data[2];
        bad.data[2] = args->data[1];
    }
    return real(context, &bad);
}

/* The positive side has no slope, the sum none of its sides. */
static uf_status no_kink(uf_context *context, const uf_strided_kernel_args *args) {
    uf_strided_kernel_args bad = *args;
    if (is_backward(args)) {
        sabotage_hit();
        bad.term = UF_TERM_MULTIPLY;
        bad.space.operands = 3;
    }
    return real(context, &bad);
}

/* Channels and pixels exchanged. */
static uf_status other_channel(uf_context *context, const uf_strided_kernel_args *args) {
    uf_strided_kernel_args bad = *args;
    if (args->term == UF_TERM_PRELU_INPUT) {
        sabotage_hit();
        bad.space.stride[3][1] = 0;
    } else if (is_backward(args)) {
        sabotage_hit();
        bad.space.stride[1][1] = args->space.stride[1][2];
        bad.space.stride[1][2] = args->space.extent[1] * args->space.stride[1][2];
    }
    return real(context, &bad);
}

static uf_status no_image(uf_context *context, const uf_strided_kernel_args *args) {
    uf_strided_kernel_args bad = *args;
    if (is_backward(args)) {
        sabotage_hit();
        bad.space.extent[0] -= 1;
    }
    return real(context, &bad);
}

static uf_status overwrites(uf_context *context, const uf_strided_kernel_args *args) {
    uf_strided_kernel_args bad = *args;
    if (is_backward(args) && args->mode == UF_ACCUMULATE) {
        sabotage_hit();
        bad.mode = UF_OVERWRITE;
    }
    return real(context, &bad);
}

/* ---- softmax_backward ---- */

/* Channels are neither the first nor the last axis; the input goes into two layers. */
static void build_softmax(uf_graph *graph, uf_store *store) {
    (void)store;
    const uf_value x = uf_input(graph, "x", UF_SHAPE(2, 3, 4, 5));
    uf_output(graph, "y", uf_softmax(graph, x, 1));
    uf_output(graph, "z", uf_softmax(graph, x, 3));
}

static uf_status real_softmax(uf_context *context, const uf_softmax_kernel_args *args) {
    sabotage_hit();
    return context->device->kernels->softmax_backward(context, args);
}

static uf_status softmax_sign(uf_context *context, const uf_softmax_kernel_args *args) {
    const uf_status status = real_softmax(context, args);
    sabotage_scale(&args->grad_input, -1.0);
    return status;
}

/* grad_output * output alone. */
static uf_status softmax_no_sum(uf_context *context, const uf_softmax_kernel_args *args) {
    const double *y = args->output.data, *g = args->grad_output.data;
    double *to = args->grad_input.data;
    (void)context;
    sabotage_hit();
    for (int64_t i = 0; i < uf_view_count(&args->output); ++i) {
        to[i] = y[i] * g[i] + (args->mode == UF_ACCUMULATE ? to[i] : 0.0);
    }
    return UF_OK;
}

static uf_status softmax_other_axis(uf_context *context, const uf_softmax_kernel_args *args) {
    uf_softmax_kernel_args bad = *args;
    bad.outer = args->outer * args->inner;
    bad.inner = 1;
    if (args->inner == 1) {
        bad.extent = args->outer;
        bad.outer = args->extent;
    }
    return real_softmax(context, &bad);
}

static uf_status softmax_no_tail(uf_context *context, const uf_softmax_kernel_args *args) {
    const uf_status status = real_softmax(context, args);
    double *to = args->grad_input.data;
    to[uf_view_count(&args->grad_input) - 1] = 0.0;
    return status;
}

static uf_status softmax_nudged(uf_context *context, const uf_softmax_kernel_args *args) {
    const uf_status status = real_softmax(context, args);
    sabotage_nudge(&args->grad_input);
    return status;
}

static uf_status softmax_overwrites(uf_context *context, const uf_softmax_kernel_args *args) {
    uf_softmax_kernel_args bad = *args;
    bad.mode = UF_OVERWRITE;
    return real_softmax(context, &bad);
}

#define SOFTMAX(text, defect)                                                                      \
    {                                                                                              \
        .name = "softmax_backward: " text, .build = build_softmax,                                 \
        .slot = offsetof(struct uf_kernels, softmax_backward),                                     \
        .function = (void (*)(void))(defect),                                                      \
    }
#define PRELU(kernel, text, defect)                                                                \
    {                                                                                              \
        .name = "prelu, " #kernel ": " text, .build = build_prelu,                                 \
        .slot = offsetof(struct uf_kernels, kernel), .function = (void (*)(void))(defect),         \
    }

const sabotage sabotage_activations[] = {
    PRELU(broadcast, "the kink of the gradient", other_side),
    PRELU(broadcast, "no kink", no_kink),
    PRELU(broadcast, "one weight for all", other_channel),
    PRELU(broadcast, "the last image missing", no_image),
    PRELU(broadcast, "overwrites where it should add", overwrites),
    PRELU(reduce, "the kink of the gradient", other_side),
    PRELU(reduce, "no kink", no_kink),
    PRELU(reduce, "channels and pixels exchanged", other_channel),
    PRELU(reduce, "the last image missing", no_image),
    PRELU(reduce, "overwrites where it should add", overwrites),
    SOFTMAX("wrong sign", softmax_sign),
    SOFTMAX("no sum", softmax_no_sum),
    SOFTMAX("lines along another axis", softmax_other_axis),
    SOFTMAX("the last element missing", softmax_no_tail),
    SOFTMAX("one element wrong by 1%", softmax_nudged),
    SOFTMAX("overwrites where it should add", softmax_overwrites),
    {.name = NULL},
};
