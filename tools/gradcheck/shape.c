/* shape.c - arithmetic with broadcasting, reductions, and layers that rearrange elements. */
#include "gradcheck/cases.h"

typedef uf_value (*binary)(uf_graph *graph, uf_value a, uf_value b);

static const binary add = uf_add, sub = uf_sub, mul = uf_mul, div = uf_div;

static uf_value image(uf_graph *graph, const char *name) {
    return uf_input(graph, name, UF_SHAPE(2, 3, 4, 5));
}

/* A value between 1/2 and 3/2, to divide by. */
static uf_value positive(uf_graph *graph, uf_value value) {
    const uf_value between = uf_sigmoid(graph, value);
    return uf_add(graph, between, uf_full_like(graph, between, 0.5));
}

static void build_equal(uf_graph *graph, uf_store *store, const void *data) {
    const binary apply = *(const binary *)data;
    (void)store;
    const uf_value a = image(graph, "a"), b = positive(graph, image(graph, "b"));
    const uf_value y = apply(graph, uf_tanh(graph, a), b);
    uf_output(graph, "output", apply(graph, uf_add(graph, y, a), b));
    uf_output(graph, "same", apply(graph, b, b));
}

/* Either operand repeats, along an axis of extent 1 or one that is not there. */
static void build_broadcast(uf_graph *graph, uf_store *store, const void *data) {
    const binary apply = *(const binary *)data;
    (void)store;
    const uf_value a = uf_input(graph, "a", UF_SHAPE(2, 1, 4, 5));
    const uf_value b = positive(graph, uf_input(graph, "b", UF_SHAPE(3, 1, 5)));
    const uf_value c = positive(graph, uf_input(graph, "c", UF_SCALAR));
    uf_output(graph, "output", apply(graph, uf_tanh(graph, a), b));
    uf_output(graph, "scalar", apply(graph, b, c));
    uf_output(graph, "turned", apply(graph, c, positive(graph, a)));
}

/* The operands and the results lie in concats, with gaps between the images. */
static void build_gaps(uf_graph *graph, uf_store *store, const void *data) {
    const binary apply = *(const binary *)data;
    (void)store;
    const uf_value a = image(graph, "a"), b = image(graph, "b");
    const uf_value parts[] = {uf_tanh(graph, a), positive(graph, b)};
    const uf_value all = uf_concat(graph, parts, 2);
    const uf_value made[] = {apply(graph, parts[0], parts[1]),
                             apply(graph, parts[1], uf_mean(graph, parts[1], NULL, 0, false)), all};
    uf_output(graph, "output", uf_tanh(graph, uf_concat(graph, made, 3)));
}

struct reduce {
    uf_shape input;
    int32_t axes[4], count;
    bool mean, keepdim;
};

static const struct reduce reductions[] = {
    {{4, {2, 3, 4, 5}}, {1, 2}, 2, false, false},
    {{4, {2, 3, 4, 5}}, {-1, 0}, 2, true, true},
    {{3, {4, 3, 2}}, {0}, 0, true, false},
    {{5, {2, 3, 2, 2, 3}}, {1, -2}, 2, true, false},
    {{1, {7}}, {0}, 1, false, false},
    {{4, {5, 1, 1, 3}}, {3}, 1, false, false},
};

static void build_reduce(uf_graph *graph, uf_store *store, const void *data) {
    const struct reduce *r = data;
    (void)store;
    const uf_value x = uf_tanh(graph, uf_input(graph, "input", r->input));
    const uf_value y = r->mean ? uf_mean(graph, x, r->axes, r->count, r->keepdim)
                               : uf_sum(graph, x, r->axes, r->count, r->keepdim);
    uf_output(graph, "output", uf_tanh(graph, y));
}

/* The mean of the squared distance from the mean. */
static void build_variance(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    (void)data;
    const uf_value x = image(graph, "input");
    const uf_value d = uf_sub(graph, x, uf_global_avg_pool2d(graph, x));
    uf_output(graph, "output", uf_global_avg_pool2d(graph, uf_mul(graph, d, d)));
}

#define BINARY(name)                                                                               \
    {#name, "equal shapes", true, UF_TRAIN, build_equal, &name},                                   \
        {#name, "broadcast", true, UF_TRAIN, build_broadcast, &name}, {                            \
#name, "with gaps", true, UF_TRAIN, build_gaps, &name                                      \
    }

const gradcheck_case gradcheck_shape[] = {
    BINARY(add),
    BINARY(sub),
    BINARY(mul),
    BINARY(div),
    {"reduce", "sum over axes 1, 2", true, UF_TRAIN, build_reduce, &reductions[0]},
    {"reduce", "mean over axes -1, 0, kept", true, UF_TRAIN, build_reduce, &reductions[1]},
    {"reduce", "mean of all", true, UF_TRAIN, build_reduce, &reductions[2]},
    {"reduce", "mean over axes 1, -2 of 5", true, UF_TRAIN, build_reduce, &reductions[3]},
    {"reduce", "sum of a row", true, UF_TRAIN, build_reduce, &reductions[4]},
    {"reduce", "sum over the last axis", true, UF_TRAIN, build_reduce, &reductions[5]},
    {"reduce", "variance", true, UF_TRAIN, build_variance, NULL},
    {NULL, NULL, false, UF_TRAIN, NULL, NULL},
};
