/* sabotage_strided.c - defects of broadcast and reduce, as backward calls them. */
#include <stddef.h>

#include <unfurl/layers.h>

#include "sabotage.h"

/* Forward computes with the same kernels and must stay right: of these graphs only backward's calls
 * have a factor of -1, repeat an operand or read three. */
static void build_quotient(uf_graph *graph, uf_store *store) {
    (void)store;
    const uf_value a = uf_input(graph, "a", UF_SHAPE(2, 4, 5, 3));
    const uf_value b = uf_input(graph, "b", UF_SHAPE(4, 1, 3));
    const uf_value c = uf_sigmoid(graph, b);
    uf_output(graph, "y",
              uf_div(graph, uf_tanh(graph, a), uf_add(graph, c, uf_full_like(graph, c, 0.5))));
}

static void build_difference(uf_graph *graph, uf_store *store) {
    (void)store;
    const uf_value a = uf_input(graph, "a", UF_SHAPE(2, 4, 5, 3));
    const uf_value b = uf_input(graph, "b", UF_SHAPE(2, 4, 5, 3));
    const uf_value c = uf_tanh(graph, b);
    uf_output(graph, "y", uf_sub(graph, uf_sub(graph, a, c), c));
}

static bool is_backward(const uf_strided_kernel_args *args) {
    return args->factor == -1.0 && args->term != UF_TERM_SUBTRACT;
}

static uf_status real(uf_context *context, const uf_strided_kernel_args *args) {
    const struct uf_kernels *kernels = context->device->kernels;
    return uf_strided_repeats(&args->space) ? kernels->reduce(context, args)
                                            : kernels->broadcast(context, args);
}

static uf_status wrong_sign(uf_context *context, const uf_strided_kernel_args *args) {
    uf_strided_kernel_args bad = *args;
    if (is_backward(args)) {
        sabotage_hit();
        bad.factor = -args->factor;
    }
    return real(context, &bad);
}

static uf_status slightly_off(uf_context *context, const uf_strided_kernel_args *args) {
    uf_strided_kernel_args bad = *args;
    if (is_backward(args)) {
        sabotage_hit();
        bad.factor *= 1.05;
    }
    return real(context, &bad);
}

static uf_status overwrites(uf_context *context, const uf_strided_kernel_args *args) {
    uf_strided_kernel_args bad = *args;
    if (is_backward(args)) {
        sabotage_hit();
        bad.mode = UF_OVERWRITE;
    }
    return real(context, &bad);
}

static uf_status adds(uf_context *context, const uf_strided_kernel_args *args) {
    uf_strided_kernel_args bad = *args;
    if (is_backward(args)) {
        sabotage_hit();
        bad.mode = UF_ACCUMULATE;
        double *first = args->data[0];
        *first += 1.0;
    }
    return real(context, &bad);
}

/* The last index of the first axis is missing. */
static uf_status stops_early(uf_context *context, const uf_strided_kernel_args *args) {
    uf_strided_kernel_args bad = *args;
    if (is_backward(args)) {
        sabotage_hit();
        bad.space.extent[0] -= 1;
    }
    return real(context, &bad);
}

/* The operand that is read first walks its last two axes in the wrong order. */
static uf_status wrong_stride(uf_context *context, const uf_strided_kernel_args *args) {
    uf_strided_kernel_args bad = *args;
    if (is_backward(args)) {
        sabotage_hit();
        const int32_t last = args->space.rank - 1;
        bad.space.stride[1][last] = args->space.stride[1][0];
        bad.space.stride[1][0] = args->space.stride[1][last];
    }
    return real(context, &bad);
}

/* ---- copies ---- */

/* Of the two gradients of a value one is added, which forward never does. */
static void build_turned(uf_graph *graph, uf_store *store) {
    static const int32_t axes[3] = {2, 0, 1};
    (void)store;
    const uf_value x = uf_tanh(graph, uf_input(graph, "x", UF_SHAPE(3, 4, 3)));
    uf_output(graph, "first", uf_permute(graph, x, axes, 3));
    uf_output(graph, "second", uf_permute(graph, x, axes, 3));
}

static void build_cut(uf_graph *graph, uf_store *store) {
    (void)store;
    const uf_value x = uf_tanh(graph, uf_input(graph, "x", UF_SHAPE(3, 4, 3)));
    uf_output(graph, "first", uf_slice(graph, x, 1, 1, 3));
    uf_output(graph, "second", uf_slice(graph, x, 1, 2, 4));
}

/* What is read walks its axes of equal extents in the wrong order. */
static uf_status axes_exchanged(uf_context *context, const uf_strided_kernel_args *args) {
    uf_strided_kernel_args bad = *args;
    if (args->mode == UF_ACCUMULATE) {
        sabotage_hit();
        const int32_t other = args->space.extent[0] == args->space.extent[1] ? 1 : 2;
        bad.space.stride[1][0] = args->space.stride[1][other];
        bad.space.stride[1][other] = args->space.stride[1][0];
    }
    return real(context, &bad);
}

/* Written one index before where it belongs. */
static uf_status one_before(uf_context *context, const uf_strided_kernel_args *args) {
    uf_strided_kernel_args bad = *args;
    if (args->mode == UF_ACCUMULATE) {
        sabotage_hit();
        bad.data[0] = (double *)args->data[0] - args->space.stride[0][1];
    }
    return real(context, &bad);
}

static uf_status only_overwrites(uf_context *context, const uf_strided_kernel_args *args) {
    uf_strided_kernel_args bad = *args;
    if (args->mode == UF_ACCUMULATE) {
        sabotage_hit();
        bad.mode = UF_OVERWRITE;
    }
    return real(context, &bad);
}

/* The gradient of what a slice leaves out. */
static uf_status fills_with_one(uf_context *context, const uf_fill_kernel_args *args) {
    uf_fill_kernel_args bad = *args;
    sabotage_hit();
    bad.value = 1.0;
    return context->device->kernels->fill(context, &bad);
}

#define BROADCAST(text, graph, defect)                                                             \
    {                                                                                              \
        .name = "broadcast: " text, .build = (graph),                                              \
        .slot = offsetof(struct uf_kernels, broadcast), .function = (void (*)(void))(defect),      \
    }
#define REDUCE(text, graph, defect)                                                                \
    {                                                                                              \
        .name = "reduce: " text, .build = (graph), .slot = offsetof(struct uf_kernels, reduce),    \
        .function = (void (*)(void))(defect),                                                      \
    }

const sabotage sabotage_strided[] = {
    BROADCAST("wrong sign", build_difference, wrong_sign),
    BROADCAST("5 % too large", build_difference, slightly_off),
    BROADCAST("overwrites where it should add", build_difference, overwrites),
    BROADCAST("the last image missing", build_difference, stops_early),
    REDUCE("wrong sign", build_quotient, wrong_sign),
    REDUCE("5 % too large", build_quotient, slightly_off),
    REDUCE("adds where it should overwrite", build_quotient, adds),
    REDUCE("the last image missing", build_quotient, stops_early),
    REDUCE("axes exchanged", build_quotient, wrong_stride),
    BROADCAST("axes exchanged in permute", build_turned, axes_exchanged),
    BROADCAST("overwrites where permute should add", build_turned, only_overwrites),
    BROADCAST("one index before in slice", build_cut, one_before),
    BROADCAST("overwrites where slice should add", build_cut, only_overwrites),
    {
        .name = "fill: what a slice leaves out is 1",
        .build = build_cut,
        .slot = offsetof(struct uf_kernels, fill),
        .function = (void (*)(void))fills_with_one,
    },
    {.name = NULL},
};
