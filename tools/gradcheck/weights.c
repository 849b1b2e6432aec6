/* weights.c - layers whose weight and bias are values of the graph, and weights that are made of
 * other parameters. */
#include "gradcheck/cases.h"

struct conv {
    uf_shape input, weight;
    int64_t stride, padding, dilation, groups;
};

static const struct conv convs[] = {
    {{4, {2, 3, 5, 4}}, {4, {5, 3, 3, 2}}, 1, 1, 1, 1},
    {{4, {2, 4, 6, 5}}, {4, {6, 2, 3, 3}}, 2, 1, 1, 2},
    {{4, {2, 3, 4, 3}}, {4, {3, 2, 4, 4}}, 2, 1, 1, 1},
    {{4, {2, 4, 3, 4}}, {4, {4, 3, 2, 3}}, 2, 0, 2, 2},
};

static void put_conv(uf_graph *graph, const struct conv *conv, bool transposed, uf_value input,
                     uf_value weight, uf_value bias, const char *name) {
    uf_conv2d_options plain = uf_conv2d_options_default();
    uf_conv_transpose2d_options options = uf_conv_transpose2d_options_default();
    for (int axis = 0; axis < 2; axis++) {
        plain.stride[axis] = options.stride[axis] = conv->stride;
        plain.padding[axis] = options.padding[axis] = conv->padding;
        plain.dilation[axis] = options.dilation[axis] = conv->dilation;
    }
    plain.groups = options.groups = conv->groups;
    uf_output(graph, name,
              transposed ? uf_conv_transpose2d_with(graph, input, weight, bias, &options)
                         : uf_conv2d_with(graph, input, weight, bias, &plain));
}

/* Each operand once more, so that second gradients are added. */
static void build(uf_graph *graph, const struct conv *conv, bool transposed) {
    const uf_value input = uf_input(graph, "input", conv->input);
    const uf_value weight = uf_input(graph, "weight", conv->weight);
    const uf_value bias = uf_input(
        graph, "bias",
        UF_SHAPE(transposed ? conv->weight.extent[1] * conv->groups : conv->weight.extent[0]));
    put_conv(graph, conv, transposed, input, weight, bias, "output");
    put_conv(graph, conv, transposed, uf_tanh(graph, input), weight, bias, "again");
    put_conv(graph, conv, transposed, input, uf_tanh(graph, weight), (uf_value){0}, "no bias");
}

static void build_conv(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    build(graph, data, false);
}

static void build_conv_transpose(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    build(graph, data, true);
}

static void build_linear(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    (void)data;
    const uf_value input = uf_input(graph, "input", UF_SHAPE(2, 3, 4));
    const uf_value weight = uf_input(graph, "weight", UF_SHAPE(5, 4));
    const uf_value bias = uf_input(graph, "bias", UF_SHAPE(5));
    uf_output(graph, "output", uf_linear_with(graph, input, weight, bias));
    uf_output(graph, "again", uf_linear_with(graph, uf_tanh(graph, input), weight, (uf_value){0}));
}

/* A parameter, twice. */
static void build_parameter(uf_graph *graph, uf_store *store, const void *data) {
    (void)data;
    const uf_value input = uf_input(graph, "input", UF_SHAPE(3, 2));
    for (int i = 0; i < 2; i++) {
        const uf_value constant =
            uf_parameter(graph, uf_at(store, "layer"), "constant", UF_SHAPE(3, 2));
        uf_output(graph, i == 0 ? "output" : "again",
                  uf_tanh(graph, uf_add(graph, input, constant)));
    }
}

struct norm {
    bool spectral;
    int32_t dim;
    uf_shape shape;
};

static const struct norm norms[] = {
    {false, 0, {4, {3, 2, 3, 2}}}, {false, 1, {4, {3, 2, 3, 2}}}, {false, 2, {3, {2, 3, 4}}},
    {true, 0, {4, {3, 2, 3, 2}}},  {true, 1, {4, {3, 2, 3, 2}}},  {true, 0, {2, {4, 3}}},
};

/* Made twice of the same parameters, and used twice. */
static void build_norm(uf_graph *graph, uf_store *store, const void *data) {
    const struct norm *norm = data;
    const uf_scope scope = uf_at(store, "layer");
    for (int i = 0; i < 2; i++) {
        const uf_value weight = norm->spectral
                                    ? uf_spectral_norm(graph, scope, norm->shape, norm->dim)
                                    : uf_weight_norm(graph, scope, norm->shape, norm->dim);
        uf_output(graph, i == 0 ? "output" : "again", i == 0 ? weight : uf_tanh(graph, weight));
    }
}

/* In the layers that have it as an option. */
static void build_layers(uf_graph *graph, uf_store *store, const void *data) {
    const uf_weight_kind kind = *(const uf_weight_kind *)data;
    uf_conv2d_options conv = uf_conv2d_options_default();
    uf_conv_transpose2d_options transposed = uf_conv_transpose2d_options_default();
    uf_conv1d_options line = uf_conv1d_options_default();
    conv.weight = transposed.weight = line.weight = kind;
    conv.groups = transposed.groups = line.groups = 2;
    line.bias = false;
    transposed.stride[0] = transposed.stride[1] = 2;
    uf_value x = uf_input(graph, "input", UF_SHAPE(2, 4, 4, 5));
    x = uf_tanh(graph, uf_conv2d(graph, x, uf_at(store, "0"), 6, &conv));
    x = uf_tanh(graph, uf_conv_transpose2d(graph, x, uf_at(store, "1"), 4, &transposed));
    x = uf_reshape(graph, x, UF_SHAPE(2, 4, -1));
    uf_output(graph, "output", uf_conv1d(graph, x, uf_at(store, "2"), 2, &line));
}

static const uf_weight_kind kinds[] = {UF_WEIGHT_NORM, UF_WEIGHT_SPECTRAL_NORM};

const gradcheck_case gradcheck_weights[] = {
    {"conv2d", "a weight that is a value", true, UF_TRAIN, build_conv, &convs[0]},
    {"conv2d", "a weight that is a value, groups 2", true, UF_TRAIN, build_conv, &convs[1]},
    {"conv_transpose2d", "a weight that is a value", true, UF_TRAIN, build_conv_transpose,
     &convs[2]},
    {"conv_transpose2d", "a weight that is a value, groups 2", true, UF_TRAIN, build_conv_transpose,
     &convs[3]},
    {"linear", "a weight that is a value", true, UF_TRAIN, build_linear, NULL},
    {"parameter", "twice", true, UF_TRAIN, build_parameter, NULL},
    {"weight_norm", "dim 0", true, UF_TRAIN, build_norm, &norms[0]},
    {"weight_norm", "dim 1", true, UF_TRAIN, build_norm, &norms[1]},
    {"weight_norm", "the last axis", true, UF_TRAIN, build_norm, &norms[2]},
    {"weight_norm", "as an option", true, UF_TRAIN, build_layers, &kinds[0]},
    {"spectral_norm", "dim 0", true, UF_EVAL, build_norm, &norms[3]},
    {"spectral_norm", "dim 1", true, UF_EVAL, build_norm, &norms[4]},
    {"spectral_norm", "a matrix", true, UF_EVAL, build_norm, &norms[5]},
    {"spectral_norm", "as an option", true, UF_EVAL, build_layers, &kinds[1]},
    {NULL, NULL, false, UF_TRAIN, NULL, NULL},
};
