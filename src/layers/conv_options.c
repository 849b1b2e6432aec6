/* conv_options.c - the functions that apply convolutions and linear layers: options become the
 * attributes of the layers in conv.c, and a weight that is made of other parameters becomes a
 * value.
 */
#include "layers/conv.h"
#include "layers/weight_norm.h"

#include <string.h>

/* The fields that both option structs of two axes have, under the same names. */
#define COMMON_ATTRIBUTES(conv, options)                                                           \
    do {                                                                                           \
        memset(&(conv), 0, sizeof(conv));                                                          \
        for (int axis = 0; axis < 2; ++axis) {                                                     \
            (conv).kernel[axis] = (options)->kernel[axis];                                         \
            (conv).params.stride[axis] = (options)->stride[axis];                                  \
            (conv).params.padding[axis] = (options)->padding[axis];                                \
            (conv).params.dilation[axis] = (options)->dilation[axis];                              \
        }                                                                                          \
        (conv).params.groups = (options)->groups;                                                  \
        (conv).bias = (options)->bias;                                                             \
    } while (0)

/* Where a layer's weight and bias come from: parameters of a scope, or values of the graph. */
typedef struct conv_source {
    uf_scope scope;
    int64_t out_channels; /* of parameters */
    bool by_value;
    uf_value weight, bias; /* a zeroed bias: none */
    uf_weight_kind kind;   /* of parameters; the options say it */
} conv_source;

/* Weight and bias of a layer whose weight is made of other parameters, as values. An input that
 * does not fit is left to the layer's own inference, which says so. */
static uf_status make_weight(uf_graph *graph, uf_value input, const uf_conv_attributes *conv,
                             conv_source *from) {
    const uf_shape shape = uf_value_shape(graph, input);
    const int64_t groups = conv->params.groups;
    UF_CHECK_ARG((unsigned)from->kind <= UF_WEIGHT_SPECTRAL_NORM,
                 "%s: weight is %d, which is no uf_weight_kind", uf_conv_layer_name(conv),
                 (int)from->kind);
    if (from->kind == UF_WEIGHT_PLAIN || shape.rank != 2 + conv->axes || groups < 1 ||
        shape.extent[1] % groups != 0 || from->out_channels < 1 ||
        from->out_channels % groups != 0) {
        return UF_OK;
    }
    const int64_t in = shape.extent[1], out = from->out_channels;
    const uf_shape weight =
        uf_conv_layer_shape(conv->transposed ? in : out, (conv->transposed ? out : in) / groups,
                            conv->kernel, conv->axes);
    from->by_value = true;
    from->weight = from->kind == UF_WEIGHT_NORM
                       ? uf_weight_norm(graph, from->scope, weight, 0)
                       : uf_spectral_norm(graph, from->scope, weight, conv->transposed ? 1 : 0);
    if (conv->bias) {
        const int64_t fan_in = uf_shape_count(&weight) / weight.extent[0];
        from->bias =
            uf_parameter_layer(graph, from->scope, "bias", UF_SHAPE(out), UF_INIT_BIAS, fan_in);
    }
    from->scope.store = NULL; /* the layer itself has no parameters */
    return UF_OK;
}

static uf_value append(uf_graph *graph, const uf_layer *layer, uf_value input, conv_source *from,
                       uf_conv_attributes *conv) {
    const uf_status status = from->by_value ? UF_OK : make_weight(graph, input, conv, from);
    if (status != UF_OK) {
        if (from->scope.path[0] != '\0') {
            uf_error_prefix("%s", from->scope.path);
        }
        return uf_graph_reject(graph, status);
    }
    const uf_value inputs[3] = {input, from->weight, from->bias};
    conv->by_value = from->by_value;
    if (from->by_value) {
        conv->bias = from->bias.id != 0 || from->bias.graph != 0;
        return uf_graph_append(graph, layer, conv, sizeof *conv, inputs, conv->bias ? 3 : 2,
                               &from->scope);
    }
    conv->out_channels = from->out_channels;
    return uf_graph_append(graph, layer, conv, sizeof *conv, inputs, 1, &from->scope);
}

static uf_value append_transposed(uf_graph *graph, uf_value input, conv_source *from,
                                  const uf_conv_transpose2d_options *options, int32_t axes) {
    uf_conv_attributes conv;
    COMMON_ATTRIBUTES(conv, options);
    for (int axis = 0; axis < 2; ++axis) {
        conv.params.output_padding[axis] = options->output_padding[axis];
        conv.output_size[axis] = options->output_size[axis];
    }
    conv.has_output_size = options->has_output_size;
    from->kind = options->weight;
    conv.transposed = true;
    conv.axes = axes;
    return append(graph, &uf_layer_conv_transpose2d, input, from, &conv);
}

static uf_value append_conv(uf_graph *graph, uf_value input, conv_source *from,
                            const uf_conv2d_options *options, int32_t axes) {
    uf_conv_attributes conv;
    COMMON_ATTRIBUTES(conv, options);
    conv.axes = axes;
    from->kind = options->weight;
    return append(graph, axes > 0 ? &uf_layer_conv2d : &uf_layer_linear, input, from, &conv);
}

static conv_source parameters(uf_scope scope, int64_t out_channels) {
    return (conv_source){.scope = scope, .out_channels = out_channels};
}

static conv_source values(uf_value weight, uf_value bias) {
    return (conv_source){.by_value = true, .weight = weight, .bias = bias};
}

/* The options as this version of the library knows them, or an error of the graph. */
static uf_value append_known_transposed(uf_graph *graph, uf_value input, conv_source *from,
                                        const uf_conv_transpose2d_options *options) {
    uf_conv_transpose2d_options known = uf_conv_transpose2d_options_default();
    if (!uf_graph_options(graph, "uf_conv_transpose2d_options", options, &known, sizeof known)) {
        return (uf_value){0};
    }
    return append_transposed(graph, input, from, &known, 2);
}

static uf_value append_known(uf_graph *graph, uf_value input, conv_source *from,
                             const uf_conv2d_options *options) {
    uf_conv2d_options known = uf_conv2d_options_default();
    if (!uf_graph_options(graph, "uf_conv2d_options", options, &known, sizeof known)) {
        return (uf_value){0};
    }
    return append_conv(graph, input, from, &known, 2);
}

uf_value uf_conv_transpose2d(uf_graph *graph, uf_value input, uf_scope scope, int64_t out_channels,
                             const uf_conv_transpose2d_options *options) {
    conv_source from = parameters(scope, out_channels);
    return append_known_transposed(graph, input, &from, options);
}

uf_value uf_conv_transpose2d_with(uf_graph *graph, uf_value input, uf_value weight, uf_value bias,
                                  const uf_conv_transpose2d_options *options) {
    conv_source from = values(weight, bias);
    return append_known_transposed(graph, input, &from, options);
}

uf_value uf_conv2d(uf_graph *graph, uf_value input, uf_scope scope, int64_t out_channels,
                   const uf_conv2d_options *options) {
    conv_source from = parameters(scope, out_channels);
    return append_known(graph, input, &from, options);
}

uf_value uf_conv2d_with(uf_graph *graph, uf_value input, uf_value weight, uf_value bias,
                        const uf_conv2d_options *options) {
    conv_source from = values(weight, bias);
    return append_known(graph, input, &from, options);
}

/* A layer of one axis is the one of two axes over a height of 1: `wide`, made by its default, gets
 * what the options of one axis say. */
#define COMMON_OPTIONS(wide, options)                                                              \
    do {                                                                                           \
        (wide).kernel[0] = 1;                                                                      \
        (wide).kernel[1] = (options).kernel;                                                       \
        (wide).stride[1] = (options).stride;                                                       \
        (wide).padding[1] = (options).padding;                                                     \
        (wide).dilation[1] = (options).dilation;                                                   \
        (wide).groups = (options).groups;                                                          \
        (wide).bias = (options).bias;                                                              \
        (wide).weight = (options).weight;                                                          \
    } while (0)

uf_value uf_conv_transpose1d(uf_graph *graph, uf_value input, uf_scope scope, int64_t out_channels,
                             const uf_conv_transpose1d_options *options) {
    uf_conv_transpose1d_options known = uf_conv_transpose1d_options_default();
    if (!uf_graph_options(graph, "uf_conv_transpose1d_options", options, &known, sizeof known)) {
        return (uf_value){0};
    }
    uf_conv_transpose2d_options wide = uf_conv_transpose2d_options_default();
    COMMON_OPTIONS(wide, known);
    wide.output_padding[1] = known.output_padding;
    wide.has_output_size = known.has_output_size;
    wide.output_size[0] = 1;
    wide.output_size[1] = known.output_size;
    conv_source from = parameters(scope, out_channels);
    return append_transposed(graph, input, &from, &wide, 1);
}

uf_value uf_conv1d(uf_graph *graph, uf_value input, uf_scope scope, int64_t out_channels,
                   const uf_conv1d_options *options) {
    uf_conv1d_options known = uf_conv1d_options_default();
    if (!uf_graph_options(graph, "uf_conv1d_options", options, &known, sizeof known)) {
        return (uf_value){0};
    }
    uf_conv2d_options wide = uf_conv2d_options_default();
    COMMON_OPTIONS(wide, known);
    conv_source from = parameters(scope, out_channels);
    return append_conv(graph, input, &from, &wide, 1);
}

static uf_conv2d_options linear_options(bool bias) {
    uf_conv2d_options options = uf_conv2d_options_default();
    options.kernel[0] = options.kernel[1] = 1;
    options.bias = bias;
    return options;
}

uf_value uf_linear(uf_graph *graph, uf_value input, uf_scope scope, int64_t out_features,
                   bool bias) {
    const uf_conv2d_options options = linear_options(bias);
    conv_source from = parameters(scope, out_features);
    return append_conv(graph, input, &from, &options, 0);
}

uf_value uf_linear_with(uf_graph *graph, uf_value input, uf_value weight, uf_value bias) {
    const uf_conv2d_options options = linear_options(false);
    conv_source from = values(weight, bias);
    return append_conv(graph, input, &from, &options, 0);
}
