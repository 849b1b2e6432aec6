/* layers.h - what a graph is built from. Names and defaults are those of torch.nn.
 *
 * Every function appends one node and returns its output; an invalid input gives an invalid output.
 * `options` may be NULL for the defaults. Layers with parameters take a scope: the tensors are
 * declared in its store (or, in a sealed store, must be there) under the names state_dict() gives
 * them. */
#ifndef UNFURL_LAYERS_H
#define UNFURL_LAYERS_H

#include <unfurl/graph.h>
#include <unfurl/ops.h>

UF_BEGIN_DECLS

/* How a convolution has its weight in the store, as torch.nn.utils.weight_norm (dim 0) and
 * torch.nn.utils.spectral_norm wrap a module: see uf_weight_norm and uf_spectral_norm. */
typedef enum uf_weight_kind {
    UF_WEIGHT_PLAIN = 0,    /* weight */
    UF_WEIGHT_NORM,         /* weight_g, weight_v */
    UF_WEIGHT_SPECTRAL_NORM /* weight_orig, weight_u, weight_v */
} uf_weight_kind;

/* ConvTranspose2d: (N, C_in, H, W) -> (N, C_out, H', W'), parameters weight (C_in, C_out/groups,
 * kH, kW) and bias (C_out). Formula: uf_conv_transpose2d_forward in ops.h. */
typedef struct uf_conv_transpose2d_options {
    size_t struct_size;
    int64_t kernel[2];         /* 3 */
    int64_t stride[2];         /* 1 */
    int64_t padding[2];        /* 0 */
    int64_t output_padding[2]; /* 0; < max(stride, dilation) */
    int64_t dilation[2];       /* 1 */
    int64_t groups;            /* 1 */
    bool bias;                 /* true */
    bool has_output_size;      /* false; true: output_size decides and output_padding is ignored */
    int64_t output_size[2];
    uf_weight_kind weight; /* UF_WEIGHT_PLAIN */
} uf_conv_transpose2d_options;

static inline uf_conv_transpose2d_options uf_conv_transpose2d_options_default(void) {
    uf_conv_transpose2d_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.kernel[0] = options.kernel[1] = 3;
    options.stride[0] = options.stride[1] = 1;
    options.dilation[0] = options.dilation[1] = 1;
    options.groups = 1;
    options.bias = true;
    return options;
}

/* Options in one expression, in the order of torch.nn: square, and the defaults for the rest.
 * UF_CONV_TRANSPOSE2D(4, 2, 1, false) is a 4x4 kernel, stride 2, padding 1, no bias, as a pointer
 * for one call (UF_OPTIONS). */
static inline uf_conv_transpose2d_options
uf_conv_transpose2d_options_square(int64_t kernel, int64_t stride, int64_t padding, bool bias) {
    uf_conv_transpose2d_options options = uf_conv_transpose2d_options_default();
    options.kernel[0] = options.kernel[1] = kernel;
    options.stride[0] = options.stride[1] = stride;
    options.padding[0] = options.padding[1] = padding;
    options.bias = bias;
    return options;
}
#define UF_CONV_TRANSPOSE2D(kernel, stride, padding, bias)                                         \
    UF_OPTIONS(uf_conv_transpose2d_options,                                                        \
               uf_conv_transpose2d_options_square(kernel, stride, padding, bias))

UF_API uf_value uf_conv_transpose2d(uf_graph *graph, uf_value input, uf_scope scope,
                                    int64_t out_channels,
                                    const uf_conv_transpose2d_options *options);

/* Conv2d: (N, C_in, H, W) -> (N, C_out, H', W'), parameters weight (C_out, C_in/groups, kH, kW) and
 * bias (C_out). Formula: uf_conv2d_forward in ops.h. */
typedef struct uf_conv2d_options {
    size_t struct_size;
    int64_t kernel[2];     /* 3 */
    int64_t stride[2];     /* 1 */
    int64_t padding[2];    /* 0 */
    int64_t dilation[2];   /* 1 */
    int64_t groups;        /* 1 */
    bool bias;             /* true */
    uf_weight_kind weight; /* UF_WEIGHT_PLAIN */
} uf_conv2d_options;

static inline uf_conv2d_options uf_conv2d_options_default(void) {
    uf_conv2d_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.kernel[0] = options.kernel[1] = 3;
    options.stride[0] = options.stride[1] = 1;
    options.dilation[0] = options.dilation[1] = 1;
    options.groups = 1;
    options.bias = true;
    return options;
}

/* As UF_CONV_TRANSPOSE2D. */
static inline uf_conv2d_options uf_conv2d_options_square(int64_t kernel, int64_t stride,
                                                         int64_t padding, bool bias) {
    uf_conv2d_options options = uf_conv2d_options_default();
    options.kernel[0] = options.kernel[1] = kernel;
    options.stride[0] = options.stride[1] = stride;
    options.padding[0] = options.padding[1] = padding;
    options.bias = bias;
    return options;
}
#define UF_CONV2D(kernel, stride, padding, bias)                                                   \
    UF_OPTIONS(uf_conv2d_options, uf_conv2d_options_square(kernel, stride, padding, bias))

UF_API uf_value uf_conv2d(uf_graph *graph, uf_value input, uf_scope scope, int64_t out_channels,
                          const uf_conv2d_options *options);

/* BatchNorm2d over (N, C, H, W), per channel. Parameters weight, bias (C) when affine; buffers
 * running_mean, running_var (C); counter num_batches_tracked. */
typedef struct uf_batch_norm2d_options {
    size_t struct_size;
    double eps;      /* 1e-5 */
    double momentum; /* 0.1 */
    bool affine;     /* true */
} uf_batch_norm2d_options;

static inline uf_batch_norm2d_options uf_batch_norm2d_options_default(void) {
    uf_batch_norm2d_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.eps = 1e-5;
    options.momentum = 0.1;
    options.affine = true;
    return options;
}
UF_API uf_value uf_batch_norm2d(uf_graph *graph, uf_value input, uf_scope scope,
                                const uf_batch_norm2d_options *options);

/* BatchNorm1d over (N, C) or (N, C, L): the same per channel, tensors and options too. */
UF_API uf_value uf_batch_norm1d(uf_graph *graph, uf_value input, uf_scope scope,
                                const uf_batch_norm2d_options *options);

/* The norms below make y = (x - mean) / sqrt(var + eps) * weight + bias, with mean and biased
 * variance of the elements that each of them names; the shape stays. Without weight and bias they
 * have no tensors, and scope may be (uf_scope){0}. */

/* InstanceNorm2d over (N, C, H, W), InstanceNorm1d over (N, C, L): of each channel of each image,
 * which has 2 elements or more. Parameters weight, bias (C) when affine. With track_running_stats
 * buffers running_mean, running_var (C), which TRAIN moves towards the mean over the images and
 * EVAL normalises by, and the counter num_batches_tracked, which PyTorch has and does not advance
 * either. */
typedef struct uf_instance_norm_options {
    size_t struct_size;
    double eps;               /* 1e-5 */
    double momentum;          /* 0.1 */
    bool affine;              /* false */
    bool track_running_stats; /* false */
} uf_instance_norm_options;

static inline uf_instance_norm_options uf_instance_norm_options_default(void) {
    uf_instance_norm_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.eps = 1e-5;
    options.momentum = 0.1;
    return options;
}
UF_API uf_value uf_instance_norm2d(uf_graph *graph, uf_value input, uf_scope scope,
                                   const uf_instance_norm_options *options);
UF_API uf_value uf_instance_norm1d(uf_graph *graph, uf_value input, uf_scope scope,
                                   const uf_instance_norm_options *options);

/* GroupNorm over (N, C, ...), of 2 axes or more: of each group of C/groups neighbouring channels of
 * each image. Parameters weight, bias (C) when affine. */
typedef struct uf_group_norm_options {
    size_t struct_size;
    double eps;  /* 1e-5 */
    bool affine; /* true */
} uf_group_norm_options;

static inline uf_group_norm_options uf_group_norm_options_default(void) {
    uf_group_norm_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.eps = 1e-5;
    options.affine = true;
    return options;
}
UF_API uf_value uf_group_norm(uf_graph *graph, uf_value input, uf_scope scope, int64_t groups,
                              const uf_group_norm_options *options);

/* LayerNorm: of the last `axes` extents of each row before them; any shape. Parameters weight, bias
 * of those extents, when elementwise_affine; bias only when both are true.
 * uf_layer_norm2d is LayerNorm over the channels of each pixel of (N, C, H, W), with weight, bias
 * (C); networks like ConvNeXt take an eps of 1e-6. */
typedef struct uf_layer_norm_options {
    size_t struct_size;
    double eps;              /* 1e-5 */
    bool elementwise_affine; /* true */
    bool bias;               /* true */
} uf_layer_norm_options;

static inline uf_layer_norm_options uf_layer_norm_options_default(void) {
    uf_layer_norm_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.eps = 1e-5;
    options.elementwise_affine = true;
    options.bias = true;
    return options;
}
UF_API uf_value uf_layer_norm(uf_graph *graph, uf_value input, uf_scope scope, int32_t axes,
                              const uf_layer_norm_options *options);
UF_API uf_value uf_layer_norm2d(uf_graph *graph, uf_value input, uf_scope scope,
                                const uf_layer_norm_options *options);

/* Elementwise, any shape; formulas at uf_activation_kind in ops.h. uf_gelu is exact,
 * uf_gelu_tanh is approximate="tanh". PyTorch's defaults: alpha 1 of ELU, beta 1 of Softplus (its
 * threshold is 20), minimum -1 and maximum 1 of Hardtanh. uf_clamp and uf_hardtanh differ in the
 * derivative at the bounds alone; minimum <= maximum. uf_neg is uf_scale by -1.
 * https://docs.pytorch.org/docs/stable/nn.html#non-linear-activations-weighted-sum-nonlinearity */
UF_API uf_value uf_relu(uf_graph *graph, uf_value input);
UF_API uf_value uf_leaky_relu(uf_graph *graph, uf_value input, double negative_slope);
UF_API uf_value uf_tanh(uf_graph *graph, uf_value input);
UF_API uf_value uf_sigmoid(uf_graph *graph, uf_value input);
UF_API uf_value uf_elu(uf_graph *graph, uf_value input, double alpha);
UF_API uf_value uf_selu(uf_graph *graph, uf_value input);
UF_API uf_value uf_gelu(uf_graph *graph, uf_value input);
UF_API uf_value uf_gelu_tanh(uf_graph *graph, uf_value input);
UF_API uf_value uf_silu(uf_graph *graph, uf_value input);
UF_API uf_value uf_mish(uf_graph *graph, uf_value input);
UF_API uf_value uf_softplus(uf_graph *graph, uf_value input, double beta);
UF_API uf_value uf_softsign(uf_graph *graph, uf_value input);
UF_API uf_value uf_log_sigmoid(uf_graph *graph, uf_value input);
UF_API uf_value uf_relu6(uf_graph *graph, uf_value input);
UF_API uf_value uf_hardsigmoid(uf_graph *graph, uf_value input);
UF_API uf_value uf_hardswish(uf_graph *graph, uf_value input);
UF_API uf_value uf_hardtanh(uf_graph *graph, uf_value input, double minimum, double maximum);
UF_API uf_value uf_clamp(uf_graph *graph, uf_value input, double minimum, double maximum);
UF_API uf_value uf_abs(uf_graph *graph, uf_value input);
UF_API uf_value uf_neg(uf_graph *graph, uf_value input);
UF_API uf_value uf_scale(uf_graph *graph, uf_value input, double factor);
UF_API uf_value uf_square(uf_graph *graph, uf_value input);
UF_API uf_value uf_exp(uf_graph *graph, uf_value input);
UF_API uf_value uf_log(uf_graph *graph, uf_value input);
UF_API uf_value uf_sqrt(uf_graph *graph, uf_value input);

/* PReLU, any shape: x where x > 0, else weight * x. Parameter weight (num_parameters), at first
 * 0.25: one for all, or one for each channel (extent 1). Errors: INVALID_ARGUMENT for another
 * num_parameters. */
UF_API uf_value uf_prelu(uf_graph *graph, uf_value input, uf_scope scope, int64_t num_parameters);

/* Softmax along an axis of any shape, exp(x) / sum of exp(x), computed from x less the maximum
 * along the axis. An axis below 0 is counted from the last one, which is -1. Errors:
 * INVALID_ARGUMENT for an axis that the input lacks. */
UF_API uf_value uf_softmax(uf_graph *graph, uf_value input, int32_t axis);

/* Pad the last two axes of (N, C, H, W); amounts in PyTorch's order. */
UF_API uf_value uf_pad2d(uf_graph *graph, uf_value input, uf_pad_mode mode, int64_t left,
                         int64_t right, int64_t top, int64_t bottom);

/* Upsample of (N, C, H, W) to other extents, which may be smaller too. With ratio = in / out where
 * `size` is given, else 1 / scale, element o of an axis lies at
 *   nearest:                  floor(o * ratio)
 *   bilinear:                 (o + 1/2) * ratio - 1/2, between the two elements there
 *   bilinear, align_corners:  o * (in - 1) / (out - 1)
 * and never outside the image. Positions are computed in f64. The shape follows a program's
 * input_shapes where `scale` decides it. Errors: INVALID_ARGUMENT for another rank, a size or scale
 * that gives no output, align_corners with nearest. */
typedef struct uf_upsample_options {
    size_t struct_size;
    int64_t size[2];    /* 0: by scale; else height and width of the output */
    double scale[2];    /* 2: the output's extent is floor(extent * scale) */
    bool align_corners; /* false */
} uf_upsample_options;

static inline uf_upsample_options uf_upsample_options_default(void) {
    uf_upsample_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.scale[0] = options.scale[1] = 2.0;
    return options;
}
UF_API uf_value uf_upsample_nearest(uf_graph *graph, uf_value input,
                                    const uf_upsample_options *options);
UF_API uf_value uf_upsample_bilinear(uf_graph *graph, uf_value input,
                                     const uf_upsample_options *options);

/* MaxPool2d of (N, C, H, W): the maximum over o * stride - padding + r * dilation, 0 <= r < kernel,
 * of the elements inside the image; NaN where there is one. The gradient goes to the first element
 * that has the maximum. Extents: floor((in + 2 padding - dilation (kernel - 1) - 1) / stride) + 1;
 * with ceil_mode rounded up, without windows that begin behind the image. Errors: INVALID_ARGUMENT
 * for another rank, numbers out of range, a padding beyond half a window, a window beyond the image
 * and its padding. */
typedef struct uf_max_pool2d_options {
    size_t struct_size;
    int64_t kernel[2];   /* 2 */
    int64_t stride[2];   /* 0: the kernel's extents */
    int64_t padding[2];  /* 0 */
    int64_t dilation[2]; /* 1 */
    bool ceil_mode;      /* false */
} uf_max_pool2d_options;

static inline uf_max_pool2d_options uf_max_pool2d_options_default(void) {
    uf_max_pool2d_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.kernel[0] = options.kernel[1] = 2;
    options.dilation[0] = options.dilation[1] = 1;
    return options;
}
UF_API uf_value uf_max_pool2d(uf_graph *graph, uf_value input,
                              const uf_max_pool2d_options *options);

/* AvgPool2d: the sum of such a window, without dilation, by its size. With count_include_pad the
 * size counts elements of the padding too, which are 0. Extents and errors as above. */
typedef struct uf_avg_pool2d_options {
    size_t struct_size;
    int64_t kernel[2];      /* 2 */
    int64_t stride[2];      /* 0: the kernel's extents */
    int64_t padding[2];     /* 0 */
    bool ceil_mode;         /* false */
    bool count_include_pad; /* true */
} uf_avg_pool2d_options;

static inline uf_avg_pool2d_options uf_avg_pool2d_options_default(void) {
    uf_avg_pool2d_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.kernel[0] = options.kernel[1] = 2;
    options.count_include_pad = true;
    return options;
}
UF_API uf_value uf_avg_pool2d(uf_graph *graph, uf_value input,
                              const uf_avg_pool2d_options *options);

/* ConvTranspose1d: (N, C_in, L) -> (N, C_out, L'), parameters weight (C_in, C_out/groups, k) and
 * bias (C_out): ConvTranspose2d with a height of 1. */
typedef struct uf_conv_transpose1d_options {
    size_t struct_size;
    int64_t kernel;         /* 3 */
    int64_t stride;         /* 1 */
    int64_t padding;        /* 0 */
    int64_t output_padding; /* 0; < max(stride, dilation) */
    int64_t dilation;       /* 1 */
    int64_t groups;         /* 1 */
    bool bias;              /* true */
    bool has_output_size;   /* false; true: output_size decides and output_padding is ignored */
    int64_t output_size;
    uf_weight_kind weight; /* UF_WEIGHT_PLAIN */
} uf_conv_transpose1d_options;

static inline uf_conv_transpose1d_options uf_conv_transpose1d_options_default(void) {
    uf_conv_transpose1d_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.kernel = 3;
    options.stride = options.dilation = options.groups = 1;
    options.bias = true;
    return options;
}

/* As UF_CONV_TRANSPOSE2D. */
static inline uf_conv_transpose1d_options
uf_conv_transpose1d_options_with(int64_t kernel, int64_t stride, int64_t padding, bool bias) {
    uf_conv_transpose1d_options options = uf_conv_transpose1d_options_default();
    options.kernel = kernel;
    options.stride = stride;
    options.padding = padding;
    options.bias = bias;
    return options;
}
#define UF_CONV_TRANSPOSE1D(kernel, stride, padding, bias)                                         \
    UF_OPTIONS(uf_conv_transpose1d_options,                                                        \
               uf_conv_transpose1d_options_with(kernel, stride, padding, bias))

UF_API uf_value uf_conv_transpose1d(uf_graph *graph, uf_value input, uf_scope scope,
                                    int64_t out_channels,
                                    const uf_conv_transpose1d_options *options);

/* Conv1d: (N, C_in, L) -> (N, C_out, L'), parameters weight (C_out, C_in/groups, k) and bias
 * (C_out): Conv2d with a height of 1. */
typedef struct uf_conv1d_options {
    size_t struct_size;
    int64_t kernel;        /* 3 */
    int64_t stride;        /* 1 */
    int64_t padding;       /* 0 */
    int64_t dilation;      /* 1 */
    int64_t groups;        /* 1 */
    bool bias;             /* true */
    uf_weight_kind weight; /* UF_WEIGHT_PLAIN */
} uf_conv1d_options;

static inline uf_conv1d_options uf_conv1d_options_default(void) {
    uf_conv1d_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.kernel = 3;
    options.stride = options.dilation = options.groups = 1;
    options.bias = true;
    return options;
}

/* As UF_CONV_TRANSPOSE2D. */
static inline uf_conv1d_options uf_conv1d_options_with(int64_t kernel, int64_t stride,
                                                       int64_t padding, bool bias) {
    uf_conv1d_options options = uf_conv1d_options_default();
    options.kernel = kernel;
    options.stride = stride;
    options.padding = padding;
    options.bias = bias;
    return options;
}
#define UF_CONV1D(kernel, stride, padding, bias)                                                   \
    UF_OPTIONS(uf_conv1d_options, uf_conv1d_options_with(kernel, stride, padding, bias))

UF_API uf_value uf_conv1d(uf_graph *graph, uf_value input, uf_scope scope, int64_t out_channels,
                          const uf_conv1d_options *options);

/* Linear over the last axis: (..., in) -> (..., out), output = input * weight^T + bias; weight
 * (out, in), bias (out). A scalar input is an error (INVALID_ARGUMENT). */
UF_API uf_value uf_linear(uf_graph *graph, uf_value input, uf_scope scope, int64_t out_features,
                          bool bias);

/* The same three with values of the graph as weight and bias, as in torch.nn.functional: no
 * parameters, and gradients flow to weight and bias like to any value. The weight has the layer's
 * shape, which gives the channels and the kernel; of the options kernel, bias and weight are
 * ignored. A zeroed `bias` is none. A bf16 program rounds weight, bias and their gradients to bf16,
 * like all values. A batch norm is folded only into a convolution without a bias of this kind.
 * Errors: INVALID_ARGUMENT, SHAPE (a weight or bias that does not fit). */
UF_API uf_value uf_conv_transpose2d_with(uf_graph *graph, uf_value input, uf_value weight,
                                         uf_value bias, const uf_conv_transpose2d_options *options);
UF_API uf_value uf_conv2d_with(uf_graph *graph, uf_value input, uf_value weight, uf_value bias,
                               const uf_conv2d_options *options);
UF_API uf_value uf_linear_with(uf_graph *graph, uf_value input, uf_value weight, uf_value bias);

/* A parameter `name` of the scope as a value: for the three functions above, or a learned constant.
 * At first 0. Its gradient is the parameter's. Errors: INVALID_ARGUMENT (a name that is empty or
 * has 64 characters or more). */
UF_API uf_value uf_parameter(uf_graph *graph, uf_scope scope, const char *name, uf_shape shape);

/* A weight of this shape as v * (g / |v|), the norm of each index of axis `dim` over all other
 * axes. Parameters weight_v (the shape) and weight_g (the shape with 1 in place of all extents but
 * dim's); at first v as a convolution's weight and g its norms. Where g's row of v is 0 the value
 * is NaN. https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.weight_norm.html */
UF_API uf_value uf_weight_norm(uf_graph *graph, uf_scope scope, uf_shape shape, int32_t dim);

/* A weight of this shape as W / sigma: W as a matrix whose rows are axis `dim` (0; 1 for a
 * ConvTranspose weight) and sigma = u . W v. Parameter weight_orig (W); buffers weight_u and
 * weight_v (u and v), at first random. In TRAIN each run of this value first does one power
 * iteration, v = W^T u / |W^T u| and u = W v / |W v|, norms not below 1e-12, and changes the
 * buffers; in EVAL they stay. u and v count as constants in the gradient. A layer that is applied
 * again makes a value of its own: an iteration for each, as PyTorch does for each call.
 * uf_gradcheck takes it in EVAL alone.
 * https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.spectral_norm.html */
UF_API uf_value uf_spectral_norm(uf_graph *graph, uf_scope scope, uf_shape shape, int32_t dim);

/* Rows of the parameter `weight` (num_embeddings, embedding_dim), chosen by indices from
 * uf_input_i64: (...) to (..., embedding_dim). An index outside of 0 to num_embeddings - 1 makes a
 * row of NaN and adds to no gradient. Gradients are dense: rows without an index get 0.
 * https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html */
UF_API uf_value uf_embedding(uf_graph *graph, uf_value indices, uf_scope scope,
                             int64_t num_embeddings, int64_t embedding_dim);

/* Matrix products, as torch.matmul for values of rank 2 or more: (..., M, K) times (..., K, N) is
 * (..., M, N). Leading axes are aligned at the last one; where one of the two has an extent of 1 or
 * no axis it is repeated. Computed in the program's math like a convolution. Errors:
 * INVALID_ARGUMENT for a rank below 2, SHAPE. */
UF_API uf_value uf_matmul(uf_graph *graph, uf_value a, uf_value b);

/* a + b, a - b, a * b, a / b, elementwise. The shapes broadcast as in PyTorch: counted from the
 * last axis, extents are equal, or one of them is 1 or not there, and repeats. Errors: SHAPE.
 * https://docs.pytorch.org/docs/stable/notes/broadcasting.html */
UF_API uf_value uf_add(uf_graph *graph, uf_value a, uf_value b);
UF_API uf_value uf_sub(uf_graph *graph, uf_value a, uf_value b);
UF_API uf_value uf_mul(uf_graph *graph, uf_value a, uf_value b);
UF_API uf_value uf_div(uf_graph *graph, uf_value a, uf_value b);

/* The sum or the mean over `count` axes, which may be negative: -1 is the last one. `count` 0 means
 * all axes; `axes` may be NULL then. With `keepdim` the axes stay, with an extent of 1; without it
 * they go. Summed in f64 and rounded once. Errors: INVALID_ARGUMENT.
 * https://docs.pytorch.org/docs/stable/generated/torch.mean.html */
UF_API uf_value uf_sum(uf_graph *graph, uf_value input, const int32_t *axes, int32_t count,
                       bool keepdim);
UF_API uf_value uf_mean(uf_graph *graph, uf_value input, const int32_t *axes, int32_t count,
                        bool keepdim);

/* AdaptiveAvgPool2d(1): the mean over the last two axes, (N, C, H, W) -> (N, C, 1, 1). */
UF_API uf_value uf_global_avg_pool2d(uf_graph *graph, uf_value input);

/* Join 1 to 8 values along the channel axis (axis 1); the other extents are equal. */
UF_API uf_value uf_concat(uf_graph *graph, const uf_value *inputs, int32_t count);

/* Join 1 to 8 values along any axis, which may be negative: -1 is the last one. Along axis 1 of 2
 * to 4 it is uf_concat, which need not copy. Errors: INVALID_ARGUMENT, SHAPE. */
UF_API uf_value uf_concat_axis(uf_graph *graph, const uf_value *inputs, int32_t count,
                               int32_t axis);

/* The same elements under another shape. One extent may be -1, which is what the others leave, and
 * an extent of 0 is the input's at the same place; extents that vary need one of the two. Errors:
 * INVALID_ARGUMENT, SHAPE where the counts of elements differ. */
UF_API uf_value uf_reshape(uf_graph *graph, uf_value input, uf_shape shape);

/* The same elements with the axes `start` to `end`, both included, as one; negative axes count from
 * the end. uf_flatten(graph, x, 1, -1) makes rows of images. Errors: INVALID_ARGUMENT. */
UF_API uf_value uf_flatten(uf_graph *graph, uf_value input, int32_t start, int32_t end);

/* Axis i of the output is axis axes[i] of the input; -1 is the last one. `count` is the input's
 * rank, and each axis is there once. Errors: INVALID_ARGUMENT.
 * https://docs.pytorch.org/docs/stable/generated/torch.permute.html */
UF_API uf_value uf_permute(uf_graph *graph, uf_value input, const int32_t *axes, int32_t count);

/* Indices `start` to `stop` - 1 of an axis, as x[start:stop] in Python: a negative index counts
 * from the end, one beyond an end means that end, so that INT64_MAX stops at the last one. Errors:
 * INVALID_ARGUMENT, SHAPE where nothing is left. */
UF_API uf_value uf_slice(uf_graph *graph, uf_value input, int32_t axis, int64_t start,
                         int64_t stop);

/* The centre of the last two axes, as large as those of `like`: U-Net's skips. The first of its h
 * rows is row (H - h) / 2 of the input, rounded down; columns likewise. No gradient passes to
 * `like`; its shape alone counts. Errors: SHAPE where `like` is larger. */
UF_API uf_value uf_crop_like(uf_graph *graph, uf_value input, uf_value like);

/* PixelShuffle and PixelUnshuffle, r = factor: (..., C r r, H, W) -> (..., C, H r, W r) and back,
 *   spread[..., c, h r + i, w r + j] = packed[..., (c r + i) r + j, h, w].
 * Rank 3 to 6. Errors: INVALID_ARGUMENT, SHAPE where the channels, or height and width, are no
 * multiples. https://docs.pytorch.org/docs/stable/generated/torch.nn.PixelShuffle.html */
UF_API uf_value uf_pixel_shuffle(uf_graph *graph, uf_value input, int64_t factor);
UF_API uf_value uf_pixel_unshuffle(uf_graph *graph, uf_value input, int64_t factor);

/* The same value, through which no gradient passes. */
UF_API uf_value uf_detach(uf_graph *graph, uf_value input);

/* A value of one number, of the shape of `like`: labels of a GAN. No gradient passes to `like`. */
UF_API uf_value uf_full_like(uf_graph *graph, uf_value like, double number);

/* In TRAIN each element is 0 with probability p, 0 to 1, and x / (1 - p) otherwise, by a mask that
 * each run draws anew (uf_program_random_step); in EVAL the value itself. uf_dropout2d draws for
 * whole channels of (N, C, ...), of rank 3 or more. No mask is stored: backward makes it again.
 * https://docs.pytorch.org/docs/stable/nn.html#dropout-layers */
UF_API uf_value uf_dropout(uf_graph *graph, uf_value input, double p);
UF_API uf_value uf_dropout2d(uf_graph *graph, uf_value input, double p);

/* Random numbers of the shape of `like`, drawn anew in each run, in TRAIN and in EVAL: normal ones,
 * std 0 or more, and uniform ones between low and high. No gradient passes to `like`. */
UF_API uf_value uf_noise_normal_like(uf_graph *graph, uf_value like, double mean, double std);
UF_API uf_value uf_noise_uniform_like(uf_graph *graph, uf_value like, double low, double high);

/* Losses: scalars, or with UF_REDUCTION_NONE values of the input's shape; f32 in a bf16 program.
 * The formulas are at uf_loss_kind. Input and target have one shape. No gradient passes to
 * `target`, but for KL_NORMAL, whose input is the mean and whose target is the logarithm of the
 * variance. Kinds that have no target ignore it: it may be zeroed. */
typedef struct uf_loss_options {
    size_t struct_size;
    uf_reduction reduction; /* MEAN */
    double beta;            /* 1; of SMOOTH_L1, 0 or more */
} uf_loss_options;

static inline uf_loss_options uf_loss_options_default(void) {
    uf_loss_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.beta = 1.0;
    return options;
}
UF_API uf_value uf_loss(uf_graph *graph, uf_loss_kind kind, uf_value input, uf_value target,
                        const uf_loss_options *options);

/* Cross-entropy of logits (N, C, d1, ...) with class indices (N, d1, ...) from uf_input_i64:
 *   log(sum over c of exp(x[n, c, ...])) - x[n, target[n, ...], ...]
 * and the mean over all targets, their sum, or a value of the target's shape. A target outside
 * 0..C-1 makes its element, and its gradient, NaN. options->beta is ignored.
 * https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html */
UF_API uf_value uf_cross_entropy_loss(uf_graph *graph, uf_value input, uf_value target,
                                      const uf_loss_options *options);

/* The mean over all elements. */
UF_API uf_value uf_bce_with_logits_loss(uf_graph *graph, uf_value input, uf_value target);
UF_API uf_value uf_bce_loss(uf_graph *graph, uf_value input, uf_value target);
UF_API uf_value uf_mse_loss(uf_graph *graph, uf_value input, uf_value target);
UF_API uf_value uf_l1_loss(uf_graph *graph, uf_value input, uf_value target);

UF_END_DECLS

#endif
