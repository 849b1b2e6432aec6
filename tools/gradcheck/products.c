/* products.c - products of matrices, over each way in which leading axes may be repeated. */
#include "gradcheck/cases.h"

struct shapes {
    uf_shape a, b;
};

static const struct shapes products[] = {
    {{2, {3, 4}}, {2, {4, 5}}},
    {{3, {2, 3, 4}}, {3, {2, 4, 2}}},
    {{3, {2, 3, 4}}, {2, {4, 2}}},
    {{2, {3, 4}}, {3, {2, 4, 5}}},
    {{4, {2, 3, 2, 3}}, {4, {1, 3, 3, 2}}},
    {{4, {1, 3, 2, 3}}, {4, {2, 3, 3, 2}}},
    {{4, {3, 2, 2, 3}}, {4, {3, 1, 3, 2}}},
    {{4, {2, 1, 2, 3}}, {4, {1, 3, 3, 2}}},
    {{5, {1, 2, 1, 2, 3}}, {5, {2, 2, 2, 3, 2}}},
    {{3, {2, 1, 3}}, {3, {2, 3, 1}}},
};

static void build_matmul(uf_graph *graph, uf_store *store, const void *data) {
    const struct shapes *shapes = data;
    (void)store;
    const uf_value a = uf_input(graph, "a", shapes->a);
    const uf_value b = uf_input(graph, "b", shapes->b);
    uf_output(graph, "output", uf_matmul(graph, a, b));
    /* Each operand once more: its second gradient is added. */
    uf_output(graph, "again", uf_matmul(graph, uf_tanh(graph, a), b));
    uf_output(graph, "and again", uf_matmul(graph, a, uf_tanh(graph, b)));
}

/* The same matrix on both sides. */
static void build_square(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    (void)data;
    const uf_value a = uf_input(graph, "a", UF_SHAPE(2, 3, 3));
    uf_output(graph, "output", uf_matmul(graph, a, a));
}

#define MATMUL(i, text)                                                                            \
    { "matmul", text, true, UF_TRAIN, build_matmul, &products[i] }

const gradcheck_case gradcheck_products[] = {
    MATMUL(0, "3x4 4x5"),
    MATMUL(1, "a batch"),
    MATMUL(2, "one b"),
    MATMUL(3, "one a"),
    MATMUL(4, "b repeated outside"),
    MATMUL(5, "a repeated outside"),
    MATMUL(6, "b repeated inside"),
    MATMUL(7, "both repeated"),
    MATMUL(8, "a repeated outside and inside"),
    MATMUL(9, "vectors"),
    {"matmul", "a square", true, UF_TRAIN, build_square, NULL},
    {NULL, NULL, false, UF_TRAIN, NULL, NULL},
};
