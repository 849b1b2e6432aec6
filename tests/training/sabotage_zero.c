/* sabotage_zero.c - defects of the zeros that a bias in front of a norm has for its gradient. That
 * they are not written at all is nothing to see here, where all gradients begin as zeros:
 * graph/test_zero_bias.c begins with others. */
#include <unfurl/layers.h>

#include <stddef.h>

#include "sabotage.h"

/* In the arena the bias lies between the gradients of two weights. */
static void build(uf_graph *graph, uf_store *store) {
    uf_value x = uf_input(graph, "x", UF_SHAPE(2, 4, 5, 4));
    x = uf_conv2d(graph, x, uf_at(store, "layer"), 4, UF_CONV2D(3, 2, 1, true));
    uf_output(graph, "y", uf_batch_norm2d(graph, x, uf_at(store, "norm"), NULL));
}

static uf_status spoiled(uf_context *context, const uf_zero_kernel_args *args, int64_t earlier,
                         int64_t longer) {
    uf_zero_kernel_args bad = *args;
    sabotage_hit();
    bad.spans[0].offset -= earlier;
    bad.spans[0].size += longer;
    return context->device->kernels->zero(context, &bad);
}

static uf_status begins_early(uf_context *context, const uf_zero_kernel_args *args) {
    return spoiled(context, args, (int64_t)UF_ALIGNMENT, (int64_t)UF_ALIGNMENT);
}

static uf_status ends_late(uf_context *context, const uf_zero_kernel_args *args) {
    return spoiled(context, args, 0, (int64_t)UF_ALIGNMENT);
}

static uf_status is_next(uf_context *context, const uf_zero_kernel_args *args) {
    return spoiled(context, args, -(int64_t)UF_ALIGNMENT, 0);
}

static uf_status is_first(uf_context *context, const uf_zero_kernel_args *args) {
    return spoiled(context, args, args->spans[0].offset, 0);
}

static uf_status is_small(uf_context *context, const uf_zero_kernel_args *args) {
    UF_TRY(spoiled(context, args, 0, 0));
    *(double *)(void *)((char *)args->memory + args->spans[0].offset) = 0.01;
    return UF_OK;
}

#define ROW(text, defect)                                                                          \
    {                                                                                              \
        .name = "zero: " text, .build = build, .slot = offsetof(struct uf_kernels, zero),          \
        .function = (void (*)(void))(defect)                                                       \
    }

const sabotage sabotage_zeros[] = {
    ROW("begins early", begins_early),  ROW("ends late", ends_late),
    ROW("of the next tensor", is_next), ROW("of the first tensor", is_first),
    ROW("not quite", is_small),         {.name = NULL},
};
