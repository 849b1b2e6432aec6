/* norms.c - instance, group and layer norm, and batch norm of other ranks. */
#include "gradcheck/cases.h"

struct norm {
    uf_shape shape;
    int32_t number; /* groups, or axes */
    bool affine, tracks;
};

static const struct norm norms[] = {
    {{4, {2, 3, 4, 5}}, 0, true, false},  {{3, {3, 2, 6}}, 0, false, false},
    {{4, {2, 3, 3, 4}}, 0, true, true},   {{4, {2, 6, 3, 4}}, 3, true, false},
    {{2, {3, 8}}, 2, true, false},        {{5, {2, 4, 2, 3, 2}}, 2, false, false},
    {{3, {2, 3, 7}}, 1, true, false},     {{4, {2, 3, 2, 4}}, 3, true, false},
    {{4, {2, 3, 2, 4}}, 2, false, false}, {{4, {2, 5, 3, 4}}, 0, true, false},
    {{2, {5, 3}}, 0, true, false},        {{3, {3, 2, 5}}, 0, true, false},
};

/* An activation behind the norm, which becomes a part of it. */
static void put(uf_graph *graph, uf_value y) {
    uf_output(graph, "output", uf_tanh(graph, y));
}

static void build_instance_norm(uf_graph *graph, uf_store *store, const void *data) {
    const struct norm *n = data;
    uf_instance_norm_options options = uf_instance_norm_options_default();
    options.affine = n->affine;
    options.track_running_stats = n->tracks;
    const uf_value x = uf_input(graph, "input", n->shape);
    const uf_scope scope = uf_at(store, "layer");
    put(graph, n->shape.rank == 3 ? uf_instance_norm1d(graph, x, scope, &options)
                                  : uf_instance_norm2d(graph, x, scope, &options));
}

static void build_group_norm(uf_graph *graph, uf_store *store, const void *data) {
    const struct norm *n = data;
    uf_group_norm_options options = uf_group_norm_options_default();
    options.affine = n->affine;
    const uf_value x = uf_input(graph, "input", n->shape);
    put(graph, uf_group_norm(graph, x, uf_at(store, "layer"), n->number, &options));
}

static void build_layer_norm(uf_graph *graph, uf_store *store, const void *data) {
    const struct norm *n = data;
    uf_layer_norm_options options = uf_layer_norm_options_default();
    options.elementwise_affine = n->affine;
    const uf_value x = uf_input(graph, "input", n->shape);
    put(graph, uf_layer_norm(graph, x, uf_at(store, "layer"), n->number, &options));
}

static void build_layer_norm2d(uf_graph *graph, uf_store *store, const void *data) {
    const struct norm *n = data;
    const uf_value x = uf_input(graph, "input", n->shape);
    put(graph, uf_layer_norm2d(graph, x, uf_at(store, "layer"), NULL));
}

static void build_batch_norm1d(uf_graph *graph, uf_store *store, const void *data) {
    const struct norm *n = data;
    const uf_value x = uf_input(graph, "input", n->shape);
    put(graph, uf_batch_norm1d(graph, x, uf_at(store, "layer"), NULL));
}

/* Layers with a bias in front of a norm, where its gradient is 0, one of them elsewhere too. */
static void build_biases(uf_graph *graph, uf_store *store, const void *data) {
    const uf_value x = uf_input(graph, "input", UF_SHAPE(2, 3, 4, 5));
    uf_value y[2];
    (void)data;
    for (int i = 0; i < 2; ++i) {
        y[i] = uf_conv2d(graph, i == 0 ? x : uf_square(graph, x), uf_at(store, "shared"), 2,
                         UF_CONV2D(3, 1, 1, true));
        y[i] = uf_conv_transpose2d(graph, y[i], uf_atf(store, "%d", i), 3,
                                   UF_CONV_TRANSPOSE2D(2, 2, 0, true));
        y[i] = uf_tanh(graph, uf_batch_norm2d(graph, y[i], uf_atf(store, "norm%d", i), NULL));
    }
    uf_value z = uf_conv2d(graph, x, uf_at(store, "shared"), 2, UF_CONV2D(3, 1, 1, true));
    z = uf_instance_norm2d(graph, z, (uf_scope){0}, NULL);
    z = uf_linear(graph, uf_reshape(graph, z, UF_SHAPE(8, 10)), uf_at(store, "linear"), 3, true);
    put(graph, uf_add(graph, y[0], y[1]));
    uf_output(graph, "rows", uf_batch_norm1d(graph, z, uf_at(store, "last"), NULL));
}

const gradcheck_case gradcheck_norms[] = {
    {"instance_norm", "(2, 3, 4, 5), affine", true, UF_TRAIN, build_instance_norm, &norms[0]},
    {"instance_norm", "(3, 2, 6)", true, UF_TRAIN, build_instance_norm, &norms[1]},
    {"instance_norm", "running statistics, training", true, UF_TRAIN, build_instance_norm,
     &norms[2]},
    {"instance_norm", "running statistics, evaluation", true, UF_EVAL, build_instance_norm,
     &norms[2]},
    {"instance_norm", "evaluation without them", true, UF_EVAL, build_instance_norm, &norms[0]},
    {"group_norm", "3 groups of (2, 6, 3, 4)", true, UF_TRAIN, build_group_norm, &norms[3]},
    {"group_norm", "2 groups of (3, 8)", true, UF_TRAIN, build_group_norm, &norms[4]},
    {"group_norm", "2 groups of (2, 4, 2, 3, 2), not affine", true, UF_TRAIN, build_group_norm,
     &norms[5]},
    {"layer_norm", "1 axis of (2, 3, 7)", true, UF_TRAIN, build_layer_norm, &norms[6]},
    {"layer_norm", "3 axes of (2, 3, 2, 4)", true, UF_TRAIN, build_layer_norm, &norms[7]},
    {"layer_norm", "2 axes of (2, 3, 2, 4), not affine", true, UF_TRAIN, build_layer_norm,
     &norms[8]},
    {"layer_norm2d", "(2, 5, 3, 4)", true, UF_TRAIN, build_layer_norm2d, &norms[9]},
    {"batch_norm2d", "1-D: (5, 3)", true, UF_TRAIN, build_batch_norm1d, &norms[10]},
    {"batch_norm2d", "1-D: (3, 2, 5)", true, UF_TRAIN, build_batch_norm1d, &norms[11]},
    {"network", "biases in front of norms", true, UF_TRAIN, build_biases, NULL},
    {NULL, NULL, false, UF_TRAIN, NULL, NULL},
};
