/* ops.h - the plain door: one function per operation and direction, on memory the caller owns.
 *
 * Every view points to memory of the context's device. Work is queued on the context's stream and
 * is asynchronous on a GPU; on the CPU it is done when the call returns. Nothing is allocated: an
 * operation that needs scratch says how much through its _workspace function. */
#ifndef UNFURL_OPS_H
#define UNFURL_OPS_H

#include <unfurl/tensor.h>

UF_BEGIN_DECLS

/* Four-dimensional view, (N, C, H, W). Strides count elements. A view with data == NULL is
 * absent. */
typedef struct uf_view {
    void *data;
    uf_dtype dtype;
    int64_t extent[4];
    int64_t stride[4];
} uf_view;

/* A contiguous view in C order. */
UF_API uf_view uf_view_nchw(void *data, uf_dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w);

/* How products of f32 tensors are computed. Accumulation is always f32 or better. f64 is f64 and
 * bf16 is bf16 in every mode: a product of two bf16 numbers is exact in f32, there is nothing to
 * choose. */
typedef enum uf_math {
    UF_MATH_FP32 = 0, /* single-precision accuracy, whichever units compute it */
    UF_MATH_TF32,     /* inputs rounded to TF32 where the device has it */
    UF_MATH_BF16      /* inputs rounded to bfloat16 where the device has it */
} uf_math;

typedef enum uf_write_mode {
    UF_OVERWRITE = 0,
    UF_ACCUMULATE /* add to what is there */
} uf_write_mode;

typedef enum uf_activation_kind {
    UF_ACTIVATION_IDENTITY = 0,
    UF_ACTIVATION_RELU,       /* max(x, 0) */
    UF_ACTIVATION_LEAKY_RELU, /* x >= 0 ? x : parameter * x */
    UF_ACTIVATION_TANH,       /* tanh(x) */
    UF_ACTIVATION_SIGMOID,    /* 1 / (1 + exp(-x)) */
    UF_ACTIVATION_ELU,        /* x > 0 ? x : parameter * (exp(x) - 1) */
    UF_ACTIVATION_SELU, /* s * ELU with alpha = 1.67326..., s = 1.05070... (Klambauer et al.) */
    UF_ACTIVATION_GELU, /* x * Phi(x), with the normal distribution Phi(x) = erfc(-x/sqrt(2)) / 2 */
    UF_ACTIVATION_GELU_TANH,   /* x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))) / 2 */
    UF_ACTIVATION_SILU,        /* x / (1 + exp(-x)) */
    UF_ACTIVATION_MISH,        /* x * tanh(log(1 + exp(x))) */
    UF_ACTIVATION_SOFTPLUS,    /* log(1 + exp(parameter * x)) / parameter; x where parameter * x is
                                  above 20 */
    UF_ACTIVATION_SOFTSIGN,    /* x / (1 + |x|) */
    UF_ACTIVATION_LOG_SIGMOID, /* -log(1 + exp(-x)) */
    UF_ACTIVATION_RELU6,       /* min(max(x, 0), 6) */
    UF_ACTIVATION_HARDSIGMOID, /* min(max(x + 3, 0), 6) / 6 */
    UF_ACTIVATION_HARDSWISH,   /* x * min(max(x + 3, 0), 6) / 6 */
    UF_ACTIVATION_ABS,         /* |x| */
    UF_ACTIVATION_SCALE,       /* parameter * x */
    UF_ACTIVATION_SQUARE,      /* x^2 */
    UF_ACTIVATION_EXP,         /* exp(x) */
    UF_ACTIVATION_LOG,         /* log(x) */
    UF_ACTIVATION_SQRT,        /* sqrt(x) */
    UF_ACTIVATION_HARDTANH,    /* min(max(x, parameter), maximum); its derivative is 0 at both */
    UF_ACTIVATION_CLAMP,       /* the same; its derivative is 1 at both */
    UF_ACTIVATION_COUNT
} uf_activation_kind;

/* The losses of uf_loss, element by element: x of the input, t of the target.
 * https://docs.pytorch.org/docs/stable/nn.html#loss-functions
 * hinge: https://arxiv.org/abs/1705.02894; least squares: https://arxiv.org/abs/1611.04076, without
 * its factor of a half; kl_normal: https://arxiv.org/abs/1312.6114, appendix B */
typedef enum uf_loss_kind {
    UF_LOSS_BCE_WITH_LOGITS = 0, /* max(x, 0) - x*t + log(1 + exp(-|x|)) */
    UF_LOSS_BCE,                 /* -(t*log(x) + (1 - t)*log(1 - x)), each log not below -100 */
    UF_LOSS_MSE,                 /* (x - t)^2 */
    UF_LOSS_L1,                  /* |x - t| */
    UF_LOSS_SMOOTH_L1,          /* (x - t)^2/(2*beta) where |x - t| < beta, else |x - t| - beta/2 */
    UF_LOSS_HINGE_REAL,         /* max(0, 1 - x); no target */
    UF_LOSS_HINGE_FAKE,         /* max(0, 1 + x); no target */
    UF_LOSS_HINGE_GENERATOR,    /* -x; no target */
    UF_LOSS_LEAST_SQUARES_REAL, /* (x - 1)^2; no target; of the generator too */
    UF_LOSS_LEAST_SQUARES_FAKE, /* x^2; no target */
    UF_LOSS_KL_NORMAL, /* (x^2 + exp(t) - t - 1)/2: from N(x, exp(t)) to N(0, 1); gradients reach
                          x and t */
    UF_LOSS_COUNT
} uf_loss_kind;

/* How elements of a loss become its value. */
typedef enum uf_reduction {
    UF_REDUCTION_MEAN = 0, /* over all elements; of KL_NORMAL the sum over axis 1, then the mean */
    UF_REDUCTION_SUM,
    UF_REDUCTION_NONE /* they stay: the value has the input's shape */
} uf_reduction;

/* HARDTANH and CLAMP have two parameters. uf_activation_args has the second one; the other calls
 * that take an activation refuse them. */
typedef struct uf_activation {
    uf_activation_kind kind;
    double parameter; /* LEAKY_RELU: the slope. ELU: alpha. SOFTPLUS: beta. SCALE: the factor.
                         HARDTANH, CLAMP: the minimum. Ignored by the others */
} uf_activation;

/* Both convolutions, both axes: [0] is height, [1] is width. */
typedef struct uf_conv2d_params {
    int64_t stride[2];         /* 1 */
    int64_t padding[2];        /* 0; may exceed the kernel */
    int64_t output_padding[2]; /* 0; conv_transpose2d only, < max(stride, dilation) */
    int64_t dilation[2];       /* 1 */
    int64_t groups;            /* 1 */
} uf_conv2d_params;

static inline uf_conv2d_params uf_conv2d_params_default(void) {
    uf_conv2d_params params;
    memset(&params, 0, sizeof params);
    params.stride[0] = params.stride[1] = 1;
    params.dilation[0] = params.dilation[1] = 1;
    params.groups = 1;
    return params;
}

/* Tensors of one convolution; a call reads and writes those its comment names, the rest may be
 * absent. For conv_transpose2d, weight is (C_in, C_out/groups, kH, kW); for conv2d, (C_out,
 * C_in/groups, kH, kW). bias is C_out elements. A gradient has the shape of what it is the gradient
 * of. All views of a call have one element type: f32, f64 or bf16. With bf16, sums, bias,
 * activation and what ACCUMULATE adds are f32, and each result is rounded once, to nearest even;
 * grad_weight and grad_bias may be f32 (some variants of a GPU round the former to bf16 first). */
typedef struct uf_conv2d_args {
    size_t struct_size;
    uf_conv2d_params params;
    uf_view input, weight, bias, output;
    uf_view grad_input, grad_weight, grad_bias, grad_output;
    uf_activation activation; /* applied to the output of a forward call; IDENTITY */
    uf_write_mode mode; /* of what the call writes; OVERWRITE. A forward call that ACCUMULATEs takes
                           no bias and no activation */
    uf_math math;       /* FP32 */
    void *workspace;    /* scratch of at least the queried size, 256-byte aligned */
    size_t workspace_size;
    const char *variant; /* a kernel variant by name, to force it, or on a GPU "name:N" for tile N
                            of its main loop; NULL: the library chooses */
} uf_conv2d_args;

static inline uf_conv2d_args uf_conv2d_args_default(void) {
    uf_conv2d_args args;
    memset(&args, 0, sizeof args);
    args.struct_size = sizeof args;
    args.params = uf_conv2d_params_default();
    return args;
}

/* conv_transpose2d, as torch.nn.functional.conv_transpose2d:
 *   output[n, co, oh, ow] = bias[co] + sum over ci in the group, r, s with
 *       oh = ih*stride - padding + r*dilation (and so for ow)  of  input[n, ci, ih, iw] *
 *       weight[ci, co', r, s]
 * output extent = (in - 1)*stride - 2*padding + dilation*(kernel - 1) + output_padding + 1.
 *   forward:         reads input, weight, bias (optional);   writes output
 *   backward_input:  reads grad_output, weight;              writes grad_input
 *   backward_weight: reads input, grad_output;               writes grad_weight, grad_bias
 *   (optional)
 * Errors: INVALID_ARGUMENT, SHAPE, UNSUPPORTED (a forced variant that does not take these
 * arguments).
 * https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose2d.html */
UF_API UF_NODISCARD uf_status uf_conv_transpose2d_forward(uf_context *context,
                                                          const uf_conv2d_args *args);
UF_API UF_NODISCARD uf_status uf_conv_transpose2d_forward_workspace(uf_context *context,
                                                                    const uf_conv2d_args *args,
                                                                    size_t *size);
UF_API UF_NODISCARD uf_status uf_conv_transpose2d_backward_input(uf_context *context,
                                                                 const uf_conv2d_args *args);
UF_API UF_NODISCARD uf_status uf_conv_transpose2d_backward_input_workspace(
    uf_context *context, const uf_conv2d_args *args, size_t *size);
UF_API UF_NODISCARD uf_status uf_conv_transpose2d_backward_weight(uf_context *context,
                                                                  const uf_conv2d_args *args);
UF_API UF_NODISCARD uf_status uf_conv_transpose2d_backward_weight_workspace(
    uf_context *context, const uf_conv2d_args *args, size_t *size);

/* The output extents (height, width) of conv_transpose2d for an input and a kernel of these
 * extents.
 * Errors: INVALID_ARGUMENT (parameters, or an extent below 1, or a size past 2^62). */
UF_API UF_NODISCARD uf_status uf_conv_transpose2d_output_size(const uf_conv2d_params *params,
                                                              const int64_t input[2],
                                                              const int64_t kernel[2],
                                                              int64_t output[2]);

/* PyTorch's output_size argument: the output_padding for which the output has these extents. Any
 * value from the minimum to minimum + stride - 1 is legal. params->output_padding is ignored. */
UF_API UF_NODISCARD uf_status uf_conv_transpose2d_output_padding(const uf_conv2d_params *params,
                                                                 const int64_t input[2],
                                                                 const int64_t kernel[2],
                                                                 const int64_t output[2],
                                                                 int64_t output_padding[2]);

/* conv2d, as torch.nn.functional.conv2d (a cross-correlation):
 *   output[n, co, oh, ow] = bias[co] + sum over ci in the group, r, s
 *       of  input[n, ci, oh*stride - padding + r*dilation, ...] * weight[co, ci', r, s]
 * output extent = floor((in + 2*padding - dilation*(kernel - 1) - 1) / stride) + 1.
 * Reads and writes as conv_transpose2d does; output_padding must be 0. */
UF_API UF_NODISCARD uf_status uf_conv2d_forward(uf_context *context, const uf_conv2d_args *args);
UF_API UF_NODISCARD uf_status uf_conv2d_forward_workspace(uf_context *context,
                                                          const uf_conv2d_args *args, size_t *size);
UF_API UF_NODISCARD uf_status uf_conv2d_backward_input(uf_context *context,
                                                       const uf_conv2d_args *args);
UF_API UF_NODISCARD uf_status uf_conv2d_backward_input_workspace(uf_context *context,
                                                                 const uf_conv2d_args *args,
                                                                 size_t *size);
UF_API UF_NODISCARD uf_status uf_conv2d_backward_weight(uf_context *context,
                                                        const uf_conv2d_args *args);
UF_API UF_NODISCARD uf_status uf_conv2d_backward_weight_workspace(uf_context *context,
                                                                  const uf_conv2d_args *args,
                                                                  size_t *size);
UF_API UF_NODISCARD uf_status uf_conv2d_output_size(const uf_conv2d_params *params,
                                                    const int64_t input[2], const int64_t kernel[2],
                                                    int64_t output[2]);

/* output = activation(input), elementwise; the two may be the same memory. */
typedef struct uf_activation_args {
    size_t struct_size;
    uf_activation activation;
    uf_view input, output;
    uf_view grad_output, grad_input;
    uf_write_mode mode;
    double maximum; /* of HARDTANH and CLAMP, not below the minimum; 0, ignored by the others */
} uf_activation_args;

static inline uf_activation_args uf_activation_args_default(void) {
    uf_activation_args args;
    memset(&args, 0, sizeof args);
    args.struct_size = sizeof args;
    return args;
}
UF_API UF_NODISCARD uf_status uf_activation_forward(uf_context *context,
                                                    const uf_activation_args *args);
/* grad_input = grad_output * activation'(input). Reads, besides grad_output, the output of forward
 * (RELU, RELU6, TANH, SIGMOID, EXP, SQRT, HARDTANH) or its input (the others); the other one may be
 * absent, and both for IDENTITY and SCALE. At a kink the derivative is PyTorch's. grad_input may be
 * grad_output's memory. */
UF_API UF_NODISCARD uf_status uf_activation_backward(uf_context *context,
                                                     const uf_activation_args *args);

/* batch_norm2d, per channel c:  z = (input - mean) / sqrt(var + eps) * weight + bias,
 * output = activation(z).
 * `training` false: mean and var are running_mean and running_var. `training` true: they are the
 * mean and the biased variance of the batch; running_mean and running_var (optional) become
 * (1 - momentum)*running + momentum*batch, with the unbiased variance, and num_batches_tracked
 * grows by 1. weight and bias may be absent (1, 0).
 *   forward:  reads input, weight, bias, running_*;  writes output; in training also running_*,
 *   and, where
 *             given, save_mean and save_invstd (1/sqrt(var + eps))
 *   backward: reads grad_output, input, weight, and save_* (training) or running_*;  writes those
 *   of
 *             grad_input, grad_weight, grad_bias that are given. With an activation grad_output is
 *             the gradient of its output; z is made again from input, so bias is read too.
 * Errors: INVALID_ARGUMENT (also: one value per channel in training), SHAPE, UNSUPPORTED.
 * https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html */
typedef struct uf_batch_norm2d_args {
    size_t struct_size;
    uf_view input, weight, bias, output;
    uf_view running_mean, running_var; /* parameters and these: f32 beside bf16 tensors */
    int64_t *num_batches_tracked;      /* of the context's device; may be NULL */
    uf_view save_mean, save_invstd;    /* f64 for either element type */
    uf_view grad_output, grad_input, grad_weight, grad_bias;
    uf_write_mode grad_input_mode, grad_param_mode; /* OVERWRITE */
    double eps;                                     /* 1e-5 */
    double momentum;                                /* 0.1 */
    bool training;                                  /* false */
    uf_activation activation;                       /* of forward and backward; IDENTITY */
    void *workspace;                                /* see the _workspace functions */
    size_t workspace_size;
} uf_batch_norm2d_args;

static inline uf_batch_norm2d_args uf_batch_norm2d_args_default(void) {
    uf_batch_norm2d_args args;
    memset(&args, 0, sizeof args);
    args.struct_size = sizeof args;
    args.eps = 1e-5;
    args.momentum = 0.1;
    return args;
}
UF_API UF_NODISCARD uf_status uf_batch_norm2d_forward(uf_context *context,
                                                      const uf_batch_norm2d_args *args);
UF_API UF_NODISCARD uf_status uf_batch_norm2d_forward_workspace(uf_context *context,
                                                                const uf_batch_norm2d_args *args,
                                                                size_t *size);
/* Less workspace than backward_workspace says, or none: the same bits in more time. */
UF_API UF_NODISCARD uf_status uf_batch_norm2d_backward(uf_context *context,
                                                       const uf_batch_norm2d_args *args);
/* The bytes that backward uses; 0 on the CPU and for channels that fit a GPU's registers. */
UF_API UF_NODISCARD uf_status uf_batch_norm2d_backward_workspace(uf_context *context,
                                                                 const uf_batch_norm2d_args *args,
                                                                 size_t *size);

/* pad2d: output (N, C, H + top + bottom, W + left + right). REPLICATE repeats the edge, REFLECT
 * mirrors without repeating it (each amount < the extent). Amounts are >= 0.
 * https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.pad.html */
typedef enum uf_pad_mode { UF_PAD_ZERO = 0, UF_PAD_REPLICATE, UF_PAD_REFLECT } uf_pad_mode;

typedef struct uf_pad2d_args {
    size_t struct_size;
    uf_pad_mode pad_mode;
    int64_t left, right, top, bottom; /* PyTorch's order */
    uf_view input, output;
    uf_view grad_output, grad_input;
    uf_write_mode mode;
} uf_pad2d_args;

static inline uf_pad2d_args uf_pad2d_args_default(void) {
    uf_pad2d_args args;
    memset(&args, 0, sizeof args);
    args.struct_size = sizeof args;
    return args;
}
UF_API UF_NODISCARD uf_status uf_pad2d_forward(uf_context *context, const uf_pad2d_args *args);
/* grad_input: each element sums grad_output over the places that forward copied it to. */
UF_API UF_NODISCARD uf_status uf_pad2d_backward(uf_context *context, const uf_pad2d_args *args);

UF_END_DECLS

#endif
