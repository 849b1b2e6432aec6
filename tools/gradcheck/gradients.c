/* gradients.c - gradients as values of a graph, differentiated once more. */
#include "gradcheck/cases.h"

/* The gradient of the sum of f(x)^2: 2 f(x) f'(x), so that both inputs of the layer get a
 * gradient. `offset` moves the numbers to where the function is defined. */
struct curve {
    uf_value (*plain)(uf_graph *graph, uf_value input);
    uf_value (*with)(uf_graph *graph, uf_value input, double parameter);
    double parameter, spread, offset;
};

static void build_curve(uf_graph *graph, uf_store *store, const void *data) {
    const struct curve *curve = data;
    (void)store;
    uf_value x = uf_scale(graph, uf_input(graph, "input", UF_SHAPE(2, 3, 2, 5)), curve->spread);
    if (curve->offset != 0.0) {
        x = uf_add(graph, uf_tanh(graph, x), uf_full_like(graph, x, curve->offset));
    }
    const uf_value y =
        curve->plain != NULL ? curve->plain(graph, x) : curve->with(graph, x, curve->parameter);
    uf_output(graph, "output", uf_gradient(graph, uf_square(graph, y), x));
}

static const struct curve leaky_relu = {.with = uf_leaky_relu, .parameter = 0.2, .spread = 1.0};
static const struct curve tanh_ = {.plain = uf_tanh, .spread = 1.0};
static const struct curve sigmoid = {.plain = uf_sigmoid, .spread = 2.0};
static const struct curve elu = {.with = uf_elu, .parameter = 0.7, .spread = 1.0};
static const struct curve selu = {.plain = uf_selu, .spread = 1.0};
static const struct curve gelu = {.plain = uf_gelu, .spread = 1.5};
static const struct curve gelu_tanh = {.plain = uf_gelu_tanh, .spread = 1.5};
static const struct curve silu = {.plain = uf_silu, .spread = 2.0};
static const struct curve mish = {.plain = uf_mish, .spread = 2.0};
static const struct curve softplus = {.with = uf_softplus, .parameter = 1.5, .spread = 1.0};
static const struct curve softsign = {.plain = uf_softsign, .spread = 1.0};
static const struct curve log_sigmoid = {.plain = uf_log_sigmoid, .spread = 2.0};
static const struct curve hardswish = {.plain = uf_hardswish, .spread = 3.0};
static const struct curve scale = {.with = uf_scale, .parameter = -1.75, .spread = 1.0};
static const struct curve exponential = {.plain = uf_exp, .spread = 0.5};
static const struct curve logarithm = {.plain = uf_log, .spread = 1.0, .offset = 1.5};
static const struct curve root = {.plain = uf_sqrt, .spread = 1.0, .offset = 1.5};

/* Layers whose gradient has the parameters that they have, between two curves. */
struct chain {
    int64_t kernel, stride, padding, dilation, groups, output_padding;
    int32_t axes; /* 0: Linear */
    bool transposed;
    uf_weight_kind weight; /* not PLAIN: the weight is a value */
};

static uf_value append_line(uf_graph *graph, uf_scope scope, uf_value x,
                            const struct chain *chain) {
    uf_conv1d_options conv = uf_conv1d_options_default();
    uf_conv_transpose1d_options transposed = uf_conv_transpose1d_options_default();
    conv.kernel = transposed.kernel = chain->kernel;
    conv.stride = transposed.stride = chain->stride;
    conv.padding = transposed.padding = chain->padding;
    conv.dilation = transposed.dilation = chain->dilation;
    conv.groups = transposed.groups = chain->groups;
    transposed.output_padding = chain->output_padding;
    conv.weight = transposed.weight = chain->weight;
    return chain->transposed ? uf_conv_transpose1d(graph, x, scope, 6, &transposed)
                             : uf_conv1d(graph, x, scope, 6, &conv);
}

static uf_value append(uf_graph *graph, uf_store *store, uf_value x, const struct chain *chain) {
    uf_conv2d_options conv = uf_conv2d_options_default();
    uf_conv_transpose2d_options transposed = uf_conv_transpose2d_options_default();
    for (int axis = 0; axis < 2; axis++) {
        conv.kernel[axis] = transposed.kernel[axis] = chain->kernel;
        conv.stride[axis] = transposed.stride[axis] = chain->stride;
        conv.padding[axis] = transposed.padding[axis] = chain->padding;
        conv.dilation[axis] = transposed.dilation[axis] = chain->dilation;
        transposed.output_padding[axis] = chain->output_padding;
    }
    conv.groups = transposed.groups = chain->groups;
    conv.weight = transposed.weight = chain->weight;
    const uf_scope scope = uf_at(store, "layer");
    switch (chain->axes) {
    case 0:
        return chain->weight == UF_WEIGHT_PLAIN
                   ? uf_linear(graph, x, scope, 3, true)
                   : uf_linear_with(graph, x, uf_weight_norm(graph, scope, UF_SHAPE(3, 4), 0),
                                    uf_parameter(graph, scope, "bias", UF_SHAPE(3)));
    case 1:
        return append_line(graph, scope, x, chain);
    default:
        return chain->transposed ? uf_conv_transpose2d(graph, x, scope, 6, &transposed)
                                 : uf_conv2d(graph, x, scope, 6, &conv);
    }
}

static void build_chain(uf_graph *graph, uf_store *store, const void *data) {
    const struct chain *chain = data;
    const uf_shape shape = chain->axes == 2   ? UF_SHAPE(2, 4, 5, 4)
                           : chain->axes == 1 ? UF_SHAPE(2, 4, 5)
                                              : UF_SHAPE(2, 3, 4);
    const uf_value x = uf_input(graph, "input", shape);
    const uf_value y = append(graph, store, uf_tanh(graph, x), chain);
    uf_output(graph, "output", uf_gradient(graph, uf_sigmoid(graph, y), x));
}

/* The last rows of the image lie in no window; then one that lies beyond the output's stride. */
static const struct chain conv_open = {3, 2, 0, 1, 1, 0, 2, false, UF_WEIGHT_PLAIN};
static const struct chain conv_groups = {3, 2, 1, 1, 2, 0, 2, false, UF_WEIGHT_PLAIN};
static const struct chain conv_line = {3, 2, 1, 2, 1, 0, 1, false, UF_WEIGHT_PLAIN};
static const struct chain transposed_odd = {3, 2, 1, 1, 2, 1, 2, true, UF_WEIGHT_PLAIN};
static const struct chain transposed_beyond = {3, 1, 0, 2, 1, 1, 2, true, UF_WEIGHT_PLAIN};
static const struct chain transposed_line = {4, 2, 1, 1, 1, 0, 1, true, UF_WEIGHT_PLAIN};
static const struct chain linear = {.axes = 0};
static const struct chain conv_made = {3, 2, 1, 1, 2, 0, 2, false, UF_WEIGHT_NORM};
static const struct chain transposed_made = {3, 2, 1, 1, 2, 1, 2, true, UF_WEIGHT_NORM};
static const struct chain line_made = {3, 2, 1, 2, 1, 0, 1, false, UF_WEIGHT_NORM};
static const struct chain linear_made = {.axes = 0, .weight = UF_WEIGHT_NORM};

/* The gradients of a square of two values, of which the second repeats. */
typedef uf_value (*binary)(uf_graph *graph, uf_value a, uf_value b);

static void build_binary(uf_graph *graph, uf_store *store, const void *data) {
    const uf_value a = uf_input(graph, "a", UF_SHAPE(2, 3, 4)),
                   b = uf_input(graph, "b", UF_SHAPE(3, 1));
    const uf_value divisor = uf_add(graph, uf_tanh(graph, b), uf_full_like(graph, b, 1.5));
    const uf_value y = uf_square(graph, (*(const binary *)data)(graph, a, divisor));
    (void)store;
    uf_output(graph, "of a", uf_gradient(graph, y, a));
    uf_output(graph, "of b", uf_gradient(graph, y, b));
}

static const binary add = uf_add, sub = uf_sub, mul = uf_mul, div_ = uf_div;

/* A value that goes two ways, under two shapes, and a way that carries nothing. */
static void build_ways(uf_graph *graph, uf_store *store, const void *data) {
    (void)data;
    const uf_value x = uf_input(graph, "input", UF_SHAPE(2, 3, 2, 2));
    const uf_value flat = uf_reshape(graph, uf_tanh(graph, x), UF_SHAPE(2, -1));
    const uf_value a = uf_linear(graph, flat, uf_at(store, "layer"), 12, true);
    const uf_value b = uf_add(graph, uf_square(graph, a), uf_add(graph, flat, flat));
    const uf_value y = uf_add(graph, uf_sigmoid(graph, b), uf_detach(graph, flat));
    uf_output(graph, "near", uf_gradient(graph, y, flat));
    uf_output(graph, "far", uf_gradient(graph, y, x));
}

static void build_softmax(uf_graph *graph, uf_store *store, const void *data) {
    const uf_value x = uf_input(graph, "input", UF_SHAPE(2, 4, 3));
    const uf_value y = uf_softmax(graph, x, *(const int32_t *)data);
    (void)store;
    uf_output(graph, "output", uf_gradient(graph, uf_square(graph, y), x));
}

static const int32_t axes[] = {1, -1};

/* Linear layers whose gradient is their backward step. The same value goes through two of them, so
 * that one adds to the gradient that the other made. */
static void build_linear(uf_graph *graph, uf_store *store, const void *data) {
    const uf_value x = uf_input(graph, "input", UF_SHAPE(2, 3, 4, 5));
    const uf_value t = uf_tanh(graph, x);
    const uf_value padded = uf_pad2d(graph, t, *(const uf_pad_mode *)data, 1, 2, 3, 0);
    const uf_value mean = uf_mean(graph, t, axes, 2, false),
                   sum = uf_sum(graph, t, axes + 1, 1, true);
    const uf_value y = uf_add(graph, uf_mul(graph, uf_square(graph, sum), t), t);
    (void)store;
    uf_output(graph, "padded", uf_gradient(graph, uf_sigmoid(graph, padded), x));
    uf_output(graph, "mean", uf_gradient(graph, uf_square(graph, mean), x));
    uf_output(graph, "sum", uf_gradient(graph, y, x));
    /* The gradient of a gradient: no activation is between. */
    const uf_value wide = uf_pad2d(graph, x, *(const uf_pad_mode *)data, 1, 2, 3, 0);
    const uf_value cube =
        uf_mul(graph, uf_mul(graph, wide, wide), uf_sum(graph, wide, axes + 1, 1, true));
    uf_output(graph, "twice", uf_gradient(graph, uf_gradient(graph, cube, x), x));
}

/* Layers that rearrange elements, one behind the other, and each once more differentiated. */
static void build_rearranged(uf_graph *graph, uf_store *store, const void *data) {
    static const int32_t order[] = {2, 0, 1, 3};
    const uf_value x = uf_input(graph, "input", UF_SHAPE(2, 4, 3, 4));
    uf_value y = uf_pixel_shuffle(graph, uf_tanh(graph, x), 2);
    y = uf_crop_like(graph, y, x);
    y = uf_permute(graph, y, order, 4);
    y = uf_slice(graph, y, -1, 1, 3);
    y = uf_flatten(graph, y, 1, 2);
    (void)store;
    (void)data;
    uf_output(graph, "small", uf_gradient(graph, uf_sigmoid(graph, y), x));
    y = uf_pixel_unshuffle(graph, uf_slice(graph, x, 2, 0, 2), 2);
    y = uf_gradient(graph, uf_mul(graph, y, uf_mul(graph, y, y)), x);
    uf_output(graph, "twice", uf_gradient(graph, y, x));
}

/* The middle of three along an axis, of which one is of another extent. */
static void build_concat(uf_graph *graph, uf_store *store, const void *data) {
    const int32_t axis = *(const int32_t *)data;
    const uf_value x = uf_input(graph, "input", UF_SHAPE(2, 3, 4));
    const uf_value parts[] = {uf_slice(graph, x, axis, 0, 1), uf_tanh(graph, x), x};
    const uf_value y = uf_sigmoid(graph, uf_concat_axis(graph, parts, 3, axis));
    (void)store;
    uf_output(graph, "all", uf_gradient(graph, y, x));
    uf_output(graph, "middle", uf_gradient(graph, y, parts[1]));
}

/* The second matrix is one for all. */
static void build_matmul(uf_graph *graph, uf_store *store, const void *data) {
    const uf_value a = uf_input(graph, "a", UF_SHAPE(3, 2, 4)),
                   b = uf_input(graph, "b", UF_SHAPE(4, 5));
    const uf_value y = uf_sigmoid(graph, uf_matmul(graph, a, b));
    (void)store;
    (void)data;
    uf_output(graph, "of a", uf_gradient(graph, y, a));
    uf_output(graph, "of b", uf_gradient(graph, y, b));
}

static const uf_pad_mode pad_modes[] = {UF_PAD_ZERO, UF_PAD_REPLICATE, UF_PAD_REFLECT};

/* A critic whose parameters are of the second derivative's making. */
static void build_penalty(uf_graph *graph, uf_store *store, const void *data) {
    uf_conv2d_options conv = uf_conv2d_options_default();
    conv.kernel[0] = conv.kernel[1] = 4;
    conv.stride[0] = conv.stride[1] = 2;
    conv.padding[0] = conv.padding[1] = 1;
    const uf_value x = uf_input(graph, "input", UF_SHAPE(2, 2, 5, 4));
    uf_value y = uf_tanh(graph, uf_conv2d(graph, x, uf_at(store, "0"), 3, &conv));
    y = uf_linear(graph, uf_reshape(graph, y, UF_SHAPE(2, -1)), uf_at(store, "1"), 1, true);
    uf_output(graph, "output", uf_gradient_penalty(graph, y, x, data));
}

static const uf_gradient_penalty_options wgan_gp = {sizeof(uf_gradient_penalty_options),
                                                    UF_GRADIENT_PENALTY_WGAN_GP, 10.0, false};
static const uf_gradient_penalty_options r1 = {sizeof(uf_gradient_penalty_options),
                                               UF_GRADIENT_PENALTY_R1, 10.0, false};

const gradcheck_case gradcheck_gradients[] = {
    {"activation_backward", "leaky_relu 0.2", false, UF_TRAIN, build_curve, &leaky_relu},
    {"activation_backward", "tanh", true, UF_TRAIN, build_curve, &tanh_},
    {"activation_backward", "sigmoid", true, UF_TRAIN, build_curve, &sigmoid},
    {"activation_backward", "elu 0.7", false, UF_TRAIN, build_curve, &elu},
    {"activation_backward", "selu", false, UF_TRAIN, build_curve, &selu},
    {"activation_backward", "gelu", true, UF_TRAIN, build_curve, &gelu},
    {"activation_backward", "gelu_tanh", true, UF_TRAIN, build_curve, &gelu_tanh},
    {"activation_backward", "silu", true, UF_TRAIN, build_curve, &silu},
    {"activation_backward", "mish", true, UF_TRAIN, build_curve, &mish},
    {"activation_backward", "softplus 1.5", true, UF_TRAIN, build_curve, &softplus},
    {"activation_backward", "softsign", false, UF_TRAIN, build_curve, &softsign},
    {"activation_backward", "log_sigmoid", true, UF_TRAIN, build_curve, &log_sigmoid},
    {"activation_backward", "hardswish", false, UF_TRAIN, build_curve, &hardswish},
    {"activation_backward", "scale -1.75", true, UF_TRAIN, build_curve, &scale},
    {"activation_backward", "exp", true, UF_TRAIN, build_curve, &exponential},
    {"activation_backward", "log", true, UF_TRAIN, build_curve, &logarithm},
    {"activation_backward", "sqrt", true, UF_TRAIN, build_curve, &root},
    {"conv2d", "gradient, k3 s2", true, UF_TRAIN, build_chain, &conv_open},
    {"conv2d", "gradient, k3 s2 p1, groups 2", true, UF_TRAIN, build_chain, &conv_groups},
    {"conv2d", "gradient, 1d k3 s2 p1 d2", true, UF_TRAIN, build_chain, &conv_line},
    {"conv_transpose2d", "gradient, k3 s2 p1 op1, groups 2", true, UF_TRAIN, build_chain,
     &transposed_odd},
    {"conv_transpose2d", "gradient, k3 d2 op1", true, UF_TRAIN, build_chain, &transposed_beyond},
    {"conv_transpose2d", "gradient, 1d k4 s2 p1", true, UF_TRAIN, build_chain, &transposed_line},
    {"linear", "gradient", true, UF_TRAIN, build_chain, &linear},
    {"conv2d", "gradient, weight norm", true, UF_TRAIN, build_chain, &conv_made},
    {"conv_transpose2d", "gradient, weight norm", true, UF_TRAIN, build_chain, &transposed_made},
    {"conv2d", "gradient, 1d, weight norm", true, UF_TRAIN, build_chain, &line_made},
    {"linear", "gradient, weight norm", true, UF_TRAIN, build_chain, &linear_made},
    {"add", "gradient", true, UF_TRAIN, build_binary, &add},
    {"sub", "gradient", true, UF_TRAIN, build_binary, &sub},
    {"mul", "gradient", true, UF_TRAIN, build_binary, &mul},
    {"div", "gradient", true, UF_TRAIN, build_binary, &div_},
    {"sum_to_size", "of a product", true, UF_TRAIN, build_binary, &mul},
    {"softmax", "gradient, axis 1", true, UF_TRAIN, build_softmax, &axes[0]},
    {"softmax", "gradient, axis -1", true, UF_TRAIN, build_softmax, &axes[1]},
    {"adjoint", "zero padding, sum, mean", true, UF_TRAIN, build_linear, &pad_modes[0]},
    {"adjoint", "replicate padding, sum, mean", true, UF_TRAIN, build_linear, &pad_modes[1]},
    {"adjoint", "reflect padding, sum, mean", true, UF_TRAIN, build_linear, &pad_modes[2]},
    {"network", "gradients of what is rearranged", true, UF_TRAIN, build_rearranged, NULL},
    {"concat_part", "along axis 1", true, UF_TRAIN, build_concat, &axes[0]},
    {"concat_part", "along the last axis", true, UF_TRAIN, build_concat, &axes[1]},
    {"matmul", "gradient", true, UF_TRAIN, build_matmul, NULL},
    {"network", "gradients by several ways", true, UF_TRAIN, build_ways, NULL},
    {"network", "gradient penalty, WGAN-GP", true, UF_TRAIN, build_penalty, &wgan_gp},
    {"network", "gradient penalty, R1", true, UF_TRAIN, build_penalty, &r1},
    {NULL, NULL, false, UF_TRAIN, NULL, NULL},
};
