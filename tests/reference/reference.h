/* reference.h - the slowest, plainest loops in double, straight from the definitions.
 *
 * Every device is held to these. They are never optimised and share no arithmetic with the library:
 * a mistake in the kernels' index arithmetic cannot be repeated here. All tensors are contiguous, C
 * order. */
#ifndef TEST_REFERENCE_H
#define TEST_REFERENCE_H

#include <stdint.h>

/* One convolution or transposed convolution. `height`, `width` are those of the layer's input and
 * `out_height`, `out_width` those of its output. */
typedef struct ref_conv {
    int64_t batch, in_channels, out_channels, groups;
    int64_t height, width, out_height, out_width;
    int64_t kernel[2], stride[2], padding[2], output_padding[2], dilation[2];
} ref_conv;

/* Set out_height and out_width from the rest; they may come out below 1.
 * https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose2d.html (Shape)
 * https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html (Shape) */
void ref_conv_transpose2d_extents(ref_conv *conv);
void ref_conv2d_extents(ref_conv *conv);

/* conv_transpose2d in its scatter form: every input element adds its copy of the kernel to the
 * output. weight is (in_channels, out_channels/groups, kH, kW); bias may be NULL. All outputs
 * overwrite. */
void ref_conv_transpose2d_forward(const ref_conv *conv, const double *input, const double *weight,
                                  const double *bias, double *output);
void ref_conv_transpose2d_backward_input(const ref_conv *conv, const double *weight,
                                         const double *grad_output, double *grad_input);
void ref_conv_transpose2d_backward_weight(const ref_conv *conv, const double *input,
                                          const double *grad_output, double *grad_weight);

/* conv2d as the cross-correlation it is; weight is (out_channels, in_channels/groups, kH, kW). */
void ref_conv2d_forward(const ref_conv *conv, const double *input, const double *weight,
                        const double *bias, double *output);
void ref_conv2d_backward_input(const ref_conv *conv, const double *weight,
                               const double *grad_output, double *grad_input);
void ref_conv2d_backward_weight(const ref_conv *conv, const double *input,
                                const double *grad_output, double *grad_weight);

/* The gradient of either layer's bias: the sum of grad_output over batch and pixels. */
void ref_conv_backward_bias(const ref_conv *conv, const double *grad_output, double *grad_bias);

typedef enum ref_activation {
    REF_IDENTITY = 0,
    REF_RELU,
    REF_LEAKY_RELU,
    REF_TANH,
    REF_SIGMOID,
    REF_ELU,
    REF_SELU,
    REF_GELU,
    REF_GELU_TANH,
    REF_SILU,
    REF_MISH,
    REF_SOFTPLUS,
    REF_SOFTSIGN,
    REF_LOG_SIGMOID,
    REF_RELU6,
    REF_HARDSIGMOID,
    REF_HARDSWISH,
    REF_ABS,
    REF_SCALE,
    REF_SQUARE,
    REF_EXP,
    REF_LOG,
    REF_SQRT
} ref_activation;

/* `slope` is LEAKY_RELU's, ELU's alpha, SOFTPLUS's beta, SCALE's factor. The derivative at a kink
 * is PyTorch's: 0 for relu, slope for leaky_relu. */
double ref_activate(ref_activation kind, double slope, double x);
double ref_activate_derivative(ref_activation kind, double slope, double x);
void ref_activation_forward(ref_activation kind, double slope, int64_t count, const double *input,
                            double *output);
void ref_activation_backward(ref_activation kind, double slope, int64_t count, const double *input,
                             const double *grad_output, double *grad_input);

/* batch_norm2d over (batch, channels, pixels); weight and bias may be NULL (1 and 0).
 * https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html */
typedef struct ref_batch_norm {
    int64_t batch, channels, pixels;
    double eps, momentum;
} ref_batch_norm;

void ref_batch_norm_eval_forward(const ref_batch_norm *norm, const double *input,
                                 const double *weight, const double *bias,
                                 const double *running_mean, const double *running_var,
                                 double *output);
void ref_batch_norm_eval_backward(const ref_batch_norm *norm, const double *input,
                                  const double *weight, const double *running_mean,
                                  const double *running_var, const double *grad_output,
                                  double *grad_input, double *grad_weight, double *grad_bias);

/* Normalises by the biased variance, moves running_var towards the unbiased one. */
void ref_batch_norm_train_forward(const ref_batch_norm *norm, const double *input,
                                  const double *weight, const double *bias, double *running_mean,
                                  double *running_var, double *output);
void ref_batch_norm_train_backward(const ref_batch_norm *norm, const double *input,
                                   const double *weight, const double *grad_output,
                                   double *grad_input, double *grad_weight, double *grad_bias);

typedef enum ref_pad_mode { REF_PAD_ZERO = 0, REF_PAD_REPLICATE, REF_PAD_REFLECT } ref_pad_mode;

typedef struct ref_pad {
    ref_pad_mode mode;
    int64_t planes, height, width; /* planes = batch * channels */
    int64_t left, right, top, bottom;
} ref_pad;

void ref_pad_forward(const ref_pad *pad, const double *input, double *output);
void ref_pad_backward(const ref_pad *pad, const double *grad_output, double *grad_input);

#endif
