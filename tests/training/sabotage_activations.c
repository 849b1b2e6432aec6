/* sabotage_activations.c - defects of the kernels behind PReLU, as its backward calls them. */
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
    {.name = NULL},
};
