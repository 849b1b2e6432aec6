/* weights.c - layers whose weight and bias are values of the graph. */
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

const gradcheck_case gradcheck_weights[] = {
    {"conv2d", "a weight that is a value", true, UF_TRAIN, build_conv, &convs[0]},
    {"conv2d", "a weight that is a value, groups 2", true, UF_TRAIN, build_conv, &convs[1]},
    {"conv_transpose2d", "a weight that is a value", true, UF_TRAIN, build_conv_transpose,
     &convs[2]},
    {"conv_transpose2d", "a weight that is a value, groups 2", true, UF_TRAIN, build_conv_transpose,
     &convs[3]},
    {"linear", "a weight that is a value", true, UF_TRAIN, build_linear, NULL},
    {NULL, NULL, false, UF_TRAIN, NULL, NULL},
};
