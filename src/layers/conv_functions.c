/* conv_functions.c - the functions of convolutions and linear layers, for models. */
#include "layers/conv.h"

#define FIELD(kind, name, member, fallback)                                                        \
    UF_FIELD(kind, name, uf_conv_attributes, member, fallback)
#define FIXED(kind, member, value) UF_FIXED(kind, uf_conv_attributes, member, value)

/* The source of the weight, and the rest that tells the functions of a layer apart. */
#define KIND(axes_, transposed_, by_value_)                                                        \
    FIXED(SMALL, axes, axes_), FIXED(FLAG, transposed, transposed_),                               \
        FIXED(FLAG, by_value, by_value_), FIXED(FLAG, has_like, 0)

#define STEPS                                                                                      \
    FIELD(PAIR, "stride", params.stride, 1), FIELD(PAIR, "padding", params.padding, 0),            \
        FIELD(PAIR, "dilation", params.dilation, 1), FIELD(INTEGER, "groups", params.groups, 1)

/* One axis is the second number of each pair. */
#define STEPS_1D                                                                                   \
    FIXED(INTEGER, kernel[0], 1), FIXED(INTEGER, params.stride[0], 1),                             \
        FIXED(INTEGER, params.padding[0], 0), FIXED(INTEGER, params.dilation[0], 1),               \
        FIELD(INTEGER, "kernel", kernel[1], 3), FIELD(INTEGER, "stride", params.stride[1], 1),     \
        FIELD(INTEGER, "padding", params.padding[1], 0),                                           \
        FIELD(INTEGER, "dilation", params.dilation[1], 1),                                         \
        FIELD(INTEGER, "groups", params.groups, 1)

#define OUTPUT                                                                                     \
    FIELD(PAIR, "output_padding", params.output_padding, 0),                                       \
        FIELD(FLAG, "has_output_size", has_output_size, 0),                                        \
        FIELD(PAIR, "output_size", output_size, 0)

#define OUT_CHANNELS UF_REQUIRED(INTEGER, "out_channels", uf_conv_attributes, out_channels)
#define BIAS FIELD(FLAG, "bias", bias, 1)
#define BIAS_VALUE                                                                                 \
    {                                                                                              \
        .kind = UF_OPTION_FLAG, .place = UF_PLACE_INPUTS,                                          \
        .offset = offsetof(uf_conv_attributes, bias)                                               \
    }

static const uf_option conv2d[] = {
    KIND(2, 0, 0), OUT_CHANNELS, FIELD(PAIR, "kernel", kernel, 3), STEPS, BIAS,
};
static const uf_option conv2d_with[] = {KIND(2, 0, 1), STEPS, BIAS_VALUE};
static const uf_option conv1d[] = {KIND(1, 0, 0), OUT_CHANNELS, STEPS_1D, BIAS};
static const uf_option conv_transpose2d[] = {
    KIND(2, 1, 0), OUT_CHANNELS, FIELD(PAIR, "kernel", kernel, 3), STEPS, BIAS, OUTPUT,
};
static const uf_option conv_transpose2d_with[] = {KIND(2, 1, 1), STEPS, BIAS_VALUE, OUTPUT};
static const uf_option conv_transpose1d[] = {
    KIND(1, 1, 0),
    OUT_CHANNELS,
    STEPS_1D,
    BIAS,
    FIXED(INTEGER, params.output_padding[0], 0),
    FIXED(INTEGER, output_size[0], 1),
    FIELD(INTEGER, "output_padding", params.output_padding[1], 0),
    FIELD(FLAG, "has_output_size", has_output_size, 0),
    FIELD(INTEGER, "output_size", output_size[1], 0),
};

/* As linear_options in conv_options.c. */
#define POINT                                                                                      \
    FIXED(PAIR, kernel, 1), FIXED(PAIR, params.stride, 1), FIXED(PAIR, params.dilation, 1),        \
        FIXED(INTEGER, params.groups, 1)

static const uf_option linear[] = {
    KIND(0, 0, 0),
    POINT,
    UF_REQUIRED(INTEGER, "out_features", uf_conv_attributes, out_channels),
    UF_ARGUMENT(FLAG, "bias", uf_conv_attributes, bias, 1),
};
static const uf_option linear_with[] = {KIND(0, 0, 1), POINT, BIAS_VALUE};

#define FUNCTION(name_, options_, shorthand_, table_)                                              \
    {                                                                                              \
        .name = (name_), .size = sizeof(uf_conv_attributes), .least_inputs = 1, .most_inputs = 1,  \
        .scope = true, .options = (options_), .shorthand = (shorthand_), UF_TABLE(table_)          \
    }
/* With weight and bias as values. */
#define FUNCTION_WITH(name_, options_, table_)                                                     \
    {                                                                                              \
        .name = (name_), .size = sizeof(uf_conv_attributes), .least_inputs = 2, .most_inputs = 3,  \
        .options = (options_), UF_TABLE(table_)                                                    \
    }

const uf_layer_function uf_conv2d_functions[] = {
    FUNCTION("conv2d", "uf_conv2d_options", "UF_CONV2D", conv2d),
    FUNCTION_WITH("conv2d_with", "uf_conv2d_options", conv2d_with),
    FUNCTION("conv1d", "uf_conv1d_options", "UF_CONV1D", conv1d),
    {0},
};
const uf_layer_function uf_conv_transpose2d_functions[] = {
    FUNCTION("conv_transpose2d", "uf_conv_transpose2d_options", "UF_CONV_TRANSPOSE2D",
             conv_transpose2d),
    FUNCTION_WITH("conv_transpose2d_with", "uf_conv_transpose2d_options", conv_transpose2d_with),
    FUNCTION("conv_transpose1d", "uf_conv_transpose1d_options", "UF_CONV_TRANSPOSE1D",
             conv_transpose1d),
    {0},
};
const uf_layer_function uf_linear_functions[] = {
    FUNCTION("linear", NULL, NULL, linear),
    FUNCTION_WITH("linear_with", NULL, linear_with),
    {0},
};
