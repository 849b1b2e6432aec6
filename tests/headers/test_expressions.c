/* test_expressions.c - options written within a call, as C11 and as C++17: test_expressions.cpp is
 * this file. Each layer is compared with one whose options were set member by member. */
#include <stdio.h>

#include <unfurl/unfurl.h>

static int failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: %s (%s)\n", __LINE__, #condition, uf_last_error());                   \
            ++failures;                                                                            \
        }                                                                                          \
    } while (0)

typedef struct network {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    uf_value x;
} network;

static network make_network(uf_shape shape) {
    network net;
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU;
    options.threads = 1;
    CHECK(uf_context_create(&options, &net.context) == UF_OK);
    CHECK(uf_store_create(net.context, "net", &net.store) == UF_OK);
    CHECK(uf_graph_create(net.context, &net.graph) == UF_OK);
    net.x = uf_input(net.graph, "x", shape);
    return net;
}

static bool same_shape(uf_graph *graph, uf_value a, uf_value b) {
    const uf_shape left = uf_value_shape(graph, a), right = uf_value_shape(graph, b);
    return left.rank > 0 && uf_shape_equal(&left, &right);
}

/* The tensors of the store are declared in the order of the layers: each is there twice. */
static bool same_tensors(const uf_store *store) {
    const int64_t half = uf_store_size(store) / 2;
    bool same = half > 0 && uf_store_size(store) == 2 * half;
    for (int64_t i = 0; i < half && same; ++i) {
        uf_store_entry a, b;
        same = uf_store_entry_at(store, i, &a) == UF_OK &&
               uf_store_entry_at(store, half + i, &b) == UF_OK &&
               uf_shape_equal(&a.shape, &b.shape);
    }
    return same;
}

static void test_conv2d(void) {
    const network net = make_network(UF_SHAPE(2, 3, 16, 14));
    uf_conv2d_options options = uf_conv2d_options_default();
    options.kernel[0] = options.kernel[1] = 5;
    options.stride[0] = options.stride[1] = 2;
    options.padding[0] = options.padding[1] = 1;
    options.bias = false;
    const uf_value a = uf_conv2d(net.graph, net.x, uf_at(net.store, "a"), 4, &options);
    const uf_value b =
        uf_conv2d(net.graph, net.x, uf_atf(net.store, "%c", 'b'), 4, UF_CONV2D(5, 2, 1, false));
    CHECK(same_shape(net.graph, a, b) && same_tensors(net.store));
    CHECK(uf_store_size(net.store) == 2);
    for (int i = 0; i < 2; ++i) { /* one or the other, in one call */
        const uf_value c = uf_conv2d(net.graph, net.x, uf_inf(uf_at(net.store, "c"), "%d", i), 4,
                                     i == 0 ? UF_CONV2D(1, 1, 0, true) : UF_CONV2D(3, 1, 1, true));
        CHECK(uf_value_shape(net.graph, c).extent[2] == 16);
    }
    CHECK(uf_graph_status(net.graph) == UF_OK && uf_store_size(net.store) == 6);
    uf_context_destroy(net.context);
}

static void test_conv_transpose2d(void) {
    const network net = make_network(UF_SHAPE(2, 3, 5, 7));
    uf_conv_transpose2d_options options = uf_conv_transpose2d_options_default();
    options.kernel[0] = options.kernel[1] = 4;
    options.stride[0] = options.stride[1] = 3;
    options.padding[0] = options.padding[1] = 1;
    const uf_value a = uf_conv_transpose2d(net.graph, net.x, uf_at(net.store, "a"), 6, &options);
    const uf_value b = uf_conv_transpose2d(net.graph, net.x, uf_at(net.store, "b"), 6,
                                           UF_CONV_TRANSPOSE2D(4, 3, 1, true));
    CHECK(same_shape(net.graph, a, b) && same_tensors(net.store));
    CHECK(uf_store_size(net.store) == 4 && uf_graph_status(net.graph) == UF_OK);
    uf_context_destroy(net.context);
}

static void test_one_axis(void) {
    const network net = make_network(UF_SHAPE(2, 3, 16));
    const uf_value a =
        uf_conv1d(net.graph, net.x, uf_at(net.store, "a"), 4, UF_CONV1D(5, 2, 1, false));
    const uf_value b = uf_conv_transpose1d(net.graph, net.x, uf_at(net.store, "b"), 4,
                                           UF_CONV_TRANSPOSE1D(5, 2, 1, true));
    CHECK(uf_value_shape(net.graph, a).extent[2] == 7);
    CHECK(uf_value_shape(net.graph, b).extent[2] == 33);
    CHECK(uf_graph_status(net.graph) == UF_OK && uf_store_size(net.store) == 3);
    uf_context_destroy(net.context);
}

static uf_batch_norm2d_options plain_norm(void) {
    uf_batch_norm2d_options options = uf_batch_norm2d_options_default();
    options.affine = false;
    return options;
}

/* Options of the caller's own making. */
static void test_options(void) {
    const network net = make_network(UF_SHAPE(2, 3, 5, 7));
    (void)uf_batch_norm2d(net.graph, net.x, uf_at(net.store, "norm"),
                          UF_OPTIONS(uf_batch_norm2d_options, plain_norm()));
    CHECK(uf_graph_status(net.graph) == UF_OK && uf_store_size(net.store) == 3);
    uf_context_destroy(net.context);
}

int main(void) {
    test_conv2d();
    test_conv_transpose2d();
    test_one_axis();
    test_options();
    return failures == 0 ? 0 : 1;
}
