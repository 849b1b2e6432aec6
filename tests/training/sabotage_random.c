/* sabotage_random.c - defects of dropout's backward call. Forward is the same kernel, and stays
 * right: the check runs backward once, so the second call of all is the one to spoil. */
#include <unfurl/layers.h>

#include <stddef.h>

#include "sabotage.h"

static void build_dropout(uf_graph *graph, uf_store *store) {
    const uf_value x = uf_input(graph, "x", UF_SHAPE(2, 4, 5, 4));
    (void)store;
    uf_output(graph, "y", uf_dropout(graph, x, 0.4));
}

static void build_dropout2d(uf_graph *graph, uf_store *store) {
    const uf_value x = uf_input(graph, "x", UF_SHAPE(2, 4, 5, 4));
    (void)store;
    uf_output(graph, "y", uf_dropout2d(graph, x, 0.4));
}

/* x goes on to another layer, whose gradient is there before. */
static void build_twice(uf_graph *graph, uf_store *store) {
    const uf_value x = uf_input(graph, "x", UF_SHAPE(2, 4, 5, 4));
    (void)store;
    uf_output(graph, "y", uf_dropout(graph, x, 0.4));
    uf_output(graph, "second", uf_tanh(graph, x));
}

typedef void change(uf_dropout_kernel_args *args);

static uf_status spoiled(uf_context *context, const uf_dropout_kernel_args *args, change *what) {
    uf_dropout_kernel_args bad = *args;
    sabotage_hit();
    if (sabotage_hits() == 2) {
        what(&bad);
    }
    return context->device->kernels->dropout(context, &bad);
}

static void other_key(uf_dropout_kernel_args *args) {
    args->draw.key += 1;
}

static void other_step(uf_dropout_kernel_args *args) {
    static const int64_t next = 1;
    args->draw.step = &next;
}

static void other_rate(uf_dropout_kernel_args *args) {
    args->p = 0.39;
}

static void nothing_dropped(uf_dropout_kernel_args *args) {
    args->p = 0.0;
}

static void other_plane(uf_dropout_kernel_args *args) {
    args->plane = args->plane == 1 ? 2 : 1;
}

static void overwrites(uf_dropout_kernel_args *args) {
    args->mode = UF_OVERWRITE;
}

static void another_image(uf_dropout_kernel_args *args) {
    args->input.stride[0] = 0;
}

#define DEFECT(what)                                                                               \
    static uf_status dropout_##what(uf_context *context, const uf_dropout_kernel_args *args) {     \
        return spoiled(context, args, what);                                                       \
    }
DEFECT(other_key)
DEFECT(other_step)
DEFECT(other_rate)
DEFECT(nothing_dropped)
DEFECT(other_plane)
DEFECT(overwrites)
DEFECT(another_image)

#define ROW(text, graph, defect)                                                                   \
    {                                                                                              \
        .name = "dropout: " text, .build = graph, .slot = offsetof(struct uf_kernels, dropout),    \
        .function = (void (*)(void))dropout_##defect                                               \
    }

const sabotage sabotage_random[] = {
    ROW("another layer's mask", build_dropout, other_key),
    ROW("another step's mask", build_dropout, other_step),
    ROW("another rate", build_dropout, other_rate),
    ROW("nothing dropped", build_dropout, nothing_dropped),
    ROW("a mask of pairs", build_dropout, other_plane),
    ROW("channels: a mask of elements", build_dropout2d, other_plane),
    ROW("channels: another step's mask", build_dropout2d, other_step),
    ROW("the first image's gradient", build_dropout, another_image),
    ROW("overwrites where it should add", build_twice, overwrites),
    {.name = NULL},
};
