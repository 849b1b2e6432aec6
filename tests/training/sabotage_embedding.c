/* sabotage_embedding.c - defects of embedding_backward. */
#include <unfurl/layers.h>

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "sabotage.h"
#include "support/test.h"

static void build_embedding(uf_graph *graph, uf_store *store) {
    const uf_value i = uf_input_i64(graph, "i", UF_SHAPE(3, 4));
    uf_output(graph, "y", uf_embedding(graph, i, uf_at(store, "0"), 3, 4));
}

/* Two layers with one weight. */
static void build_shared(uf_graph *graph, uf_store *store) {
    const uf_value i = uf_input_i64(graph, "i", UF_SHAPE(3, 4));
    const uf_value j = uf_input_i64(graph, "j", UF_SHAPE(5));
    uf_output(graph, "y", uf_embedding(graph, i, uf_at(store, "0"), 3, 4));
    uf_output(graph, "second", uf_embedding(graph, j, uf_at(store, "0"), 3, 4));
}

static uf_status spoiled(uf_context *context, const uf_embedding_kernel_args *args) {
    sabotage_hit();
    return context->device->kernels->embedding_backward(context, args);
}

static uf_status overwrites(uf_context *context, const uf_embedding_kernel_args *args) {
    uf_embedding_kernel_args bad = *args;
    bad.mode = UF_OVERWRITE;
    return spoiled(context, &bad);
}

/* The gradient that was there is nothing yet. */
static uf_status accumulates(uf_context *context, const uf_embedding_kernel_args *args) {
    uf_embedding_kernel_args bad = *args;
    double *to = args->grad_weight.data;
    for (int64_t k = 0; k < args->count * args->width; ++k) {
        to[k] = 0.5;
    }
    bad.mode = UF_ACCUMULATE;
    return spoiled(context, &bad);
}

static uf_status last_index_left_out(uf_context *context, const uf_embedding_kernel_args *args) {
    uf_embedding_kernel_args bad = *args;
    bad.indices.extent[0] -= 1;
    bad.grad_output.extent[0] -= 1;
    return spoiled(context, &bad);
}

/* Row i of the upstream goes to the row of index i + 1. */
static uf_status next_index(uf_context *context, const uf_embedding_kernel_args *args) {
    uf_embedding_kernel_args bad = *args;
    const int64_t count = uf_view_count(&args->indices);
    int64_t *moved = test_allocate((size_t)count * sizeof *moved);
    for (int64_t i = 0; i < count; ++i) {
        moved[i] = ((const int64_t *)args->indices.data)[(i + 1) % count];
    }
    bad.indices.data = moved;
    const uf_status status = spoiled(context, &bad);
    free(moved);
    return status;
}

static uf_status other_row(uf_context *context, const uf_embedding_kernel_args *args) {
    UF_TRY(spoiled(context, args));
    double *to = args->grad_weight.data;
    for (int64_t c = 0; c < args->width; ++c) {
        const double first = to[c];
        to[c] = to[args->width + c];
        to[args->width + c] = first;
    }
    return UF_OK;
}

/* Of several rows with one index the last one alone. */
static uf_status last_one_wins(uf_context *context, const uf_embedding_kernel_args *args) {
    const int64_t *indices = args->indices.data;
    const double *from = args->grad_output.data;
    (void)context;
    sabotage_hit();
    memset(args->grad_weight.data, 0, (size_t)(args->count * args->width) * sizeof(double));
    for (int64_t i = 0; i < uf_view_count(&args->indices); ++i) {
        memcpy((double *)args->grad_weight.data + indices[i] * args->width, from + i * args->width,
               (size_t)args->width * sizeof(double));
    }
    return UF_OK;
}

#define ROW(text, graph, defect)                                                                   \
    {                                                                                              \
        .name = "embedding: " text, .build = graph,                                                \
        .slot = offsetof(struct uf_kernels, embedding_backward),                                   \
        .function = (void (*)(void))(defect)                                                       \
    }

const sabotage sabotage_embedding[] = {
    ROW("overwrites where it should add", build_shared, overwrites),
    ROW("adds where it should overwrite", build_embedding, accumulates),
    ROW("the last indices left out", build_embedding, last_index_left_out),
    ROW("the next index's row", build_embedding, next_index),
    ROW("two rows exchanged", build_embedding, other_row),
    ROW("the last one wins", build_embedding, last_one_wins),
    {.name = NULL},
};
