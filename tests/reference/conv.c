/* conv.c - transposed convolution and convolution by their definitions. */
#include "reference/reference.h"

#include <stddef.h>

/* The place of an element in a C-order (a, b, c, d) tensor. */
static int64_t at(int64_t a, int64_t b, int64_t extent_b, int64_t c, int64_t extent_c, int64_t d,
                  int64_t extent_d) {
    return ((a * extent_b + b) * extent_c + c) * extent_d + d;
}

void ref_conv_transpose2d_extents(ref_conv *conv) {
    conv->out_height = (conv->height - 1) * conv->stride[0] - 2 * conv->padding[0] +
                       conv->dilation[0] * (conv->kernel[0] - 1) + conv->output_padding[0] + 1;
    conv->out_width = (conv->width - 1) * conv->stride[1] - 2 * conv->padding[1] +
                      conv->dilation[1] * (conv->kernel[1] - 1) + conv->output_padding[1] + 1;
}

static int64_t conv2d_extent(const ref_conv *conv, int axis, int64_t extent) {
    const int64_t room =
        extent + 2 * conv->padding[axis] - conv->dilation[axis] * (conv->kernel[axis] - 1) - 1;
    return room < 0 ? 0 : room / conv->stride[axis] + 1;
}

void ref_conv2d_extents(ref_conv *conv) {
    conv->out_height = conv2d_extent(conv, 0, conv->height);
    conv->out_width = conv2d_extent(conv, 1, conv->width);
}

/* What to do with one (input, weight, output) triple that a layer's formula multiplies. */
typedef enum ref_target { REF_OUTPUT, REF_GRAD_INPUT, REF_GRAD_WEIGHT } ref_target;

static void fill(double *values, int64_t count, double value) {
    for (int64_t i = 0; i < count; ++i) {
        values[i] = value;
    }
}

/* Every triple of conv_transpose2d: input (n, ci, ih, iw) reaches output (n, co, oh, ow) through
 * weight (ci, co', r, s) where oh = ih*stride - padding + r*dilation lies inside. The three
 * directions differ in which of the three is summed into. */
static void conv_transpose2d_triples(const ref_conv *conv, ref_target target, const double *input,
                                     const double *weight, const double *output, double *result) {
    const int64_t in_group = conv->in_channels / conv->groups;
    const int64_t out_group = conv->out_channels / conv->groups;
    for (int64_t n = 0; n < conv->batch; ++n) {
        for (int64_t ci = 0; ci < conv->in_channels; ++ci) {
            for (int64_t co_group = 0; co_group < out_group; ++co_group) {
                const int64_t co = ci / in_group * out_group + co_group;
                for (int64_t ih = 0; ih < conv->height; ++ih) {
                    for (int64_t iw = 0; iw < conv->width; ++iw) {
                        for (int64_t r = 0; r < conv->kernel[0]; ++r) {
                            for (int64_t s = 0; s < conv->kernel[1]; ++s) {
                                const int64_t oh =
                                    ih * conv->stride[0] - conv->padding[0] + r * conv->dilation[0];
                                const int64_t ow =
                                    iw * conv->stride[1] - conv->padding[1] + s * conv->dilation[1];
                                if (oh < 0 || oh >= conv->out_height || ow < 0 ||
                                    ow >= conv->out_width) {
                                    continue;
                                }
                                const int64_t i =
                                    at(n, ci, conv->in_channels, ih, conv->height, iw, conv->width);
                                const int64_t w = at(ci, co_group, out_group, r, conv->kernel[0], s,
                                                     conv->kernel[1]);
                                const int64_t o = at(n, co, conv->out_channels, oh,
                                                     conv->out_height, ow, conv->out_width);
                                if (target == REF_OUTPUT) {
                                    result[o] += input[i] * weight[w];
                                } else if (target == REF_GRAD_INPUT) {
                                    result[i] += output[o] * weight[w];
                                } else {
                                    result[w] += output[o] * input[i];
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/* Every triple of conv2d: output (n, co, oh, ow) sees input (n, ci, ih, iw) through weight (co,
 * ci', r, s) where ih = oh*stride - padding + r*dilation lies inside. */
static void conv2d_triples(const ref_conv *conv, ref_target target, const double *input,
                           const double *weight, const double *output, double *result) {
    const int64_t in_group = conv->in_channels / conv->groups;
    const int64_t out_group = conv->out_channels / conv->groups;
    for (int64_t n = 0; n < conv->batch; ++n) {
        for (int64_t co = 0; co < conv->out_channels; ++co) {
            for (int64_t oh = 0; oh < conv->out_height; ++oh) {
                for (int64_t ow = 0; ow < conv->out_width; ++ow) {
                    for (int64_t ci_group = 0; ci_group < in_group; ++ci_group) {
                        const int64_t ci = co / out_group * in_group + ci_group;
                        for (int64_t r = 0; r < conv->kernel[0]; ++r) {
                            for (int64_t s = 0; s < conv->kernel[1]; ++s) {
                                const int64_t ih =
                                    oh * conv->stride[0] - conv->padding[0] + r * conv->dilation[0];
                                const int64_t iw =
                                    ow * conv->stride[1] - conv->padding[1] + s * conv->dilation[1];
                                if (ih < 0 || ih >= conv->height || iw < 0 || iw >= conv->width) {
                                    continue;
                                }
                                const int64_t i =
                                    at(n, ci, conv->in_channels, ih, conv->height, iw, conv->width);
                                const int64_t w = at(co, ci_group, in_group, r, conv->kernel[0], s,
                                                     conv->kernel[1]);
                                const int64_t o = at(n, co, conv->out_channels, oh,
                                                     conv->out_height, ow, conv->out_width);
                                if (target == REF_OUTPUT) {
                                    result[o] += input[i] * weight[w];
                                } else if (target == REF_GRAD_INPUT) {
                                    result[i] += output[o] * weight[w];
                                } else {
                                    result[w] += output[o] * input[i];
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

static void fill_bias(const ref_conv *conv, const double *bias, double *output) {
    const int64_t pixels = conv->out_height * conv->out_width;
    for (int64_t n = 0; n < conv->batch; ++n) {
        for (int64_t co = 0; co < conv->out_channels; ++co) {
            fill(output + (n * conv->out_channels + co) * pixels, pixels,
                 bias != NULL ? bias[co] : 0.0);
        }
    }
}

static int64_t input_count(const ref_conv *conv) {
    return conv->batch * conv->in_channels * conv->height * conv->width;
}

static int64_t weight_count(const ref_conv *conv) {
    return conv->in_channels * (conv->out_channels / conv->groups) * conv->kernel[0] *
           conv->kernel[1];
}

void ref_conv_transpose2d_forward(const ref_conv *conv, const double *input, const double *weight,
                                  const double *bias, double *output) {
    fill_bias(conv, bias, output);
    conv_transpose2d_triples(conv, REF_OUTPUT, input, weight, NULL, output);
}

void ref_conv_transpose2d_backward_input(const ref_conv *conv, const double *weight,
                                         const double *grad_output, double *grad_input) {
    fill(grad_input, input_count(conv), 0.0);
    conv_transpose2d_triples(conv, REF_GRAD_INPUT, NULL, weight, grad_output, grad_input);
}

void ref_conv_transpose2d_backward_weight(const ref_conv *conv, const double *input,
                                          const double *grad_output, double *grad_weight) {
    fill(grad_weight, weight_count(conv), 0.0);
    conv_transpose2d_triples(conv, REF_GRAD_WEIGHT, input, NULL, grad_output, grad_weight);
}

void ref_conv2d_forward(const ref_conv *conv, const double *input, const double *weight,
                        const double *bias, double *output) {
    fill_bias(conv, bias, output);
    conv2d_triples(conv, REF_OUTPUT, input, weight, NULL, output);
}

void ref_conv2d_backward_input(const ref_conv *conv, const double *weight,
                               const double *grad_output, double *grad_input) {
    fill(grad_input, input_count(conv), 0.0);
    conv2d_triples(conv, REF_GRAD_INPUT, NULL, weight, grad_output, grad_input);
}

void ref_conv2d_backward_weight(const ref_conv *conv, const double *input,
                                const double *grad_output, double *grad_weight) {
    fill(grad_weight, weight_count(conv), 0.0);
    conv2d_triples(conv, REF_GRAD_WEIGHT, input, NULL, grad_output, grad_weight);
}

void ref_conv_backward_bias(const ref_conv *conv, const double *grad_output, double *grad_bias) {
    const int64_t pixels = conv->out_height * conv->out_width;
    fill(grad_bias, conv->out_channels, 0.0);
    for (int64_t n = 0; n < conv->batch; ++n) {
        for (int64_t co = 0; co < conv->out_channels; ++co) {
            for (int64_t p = 0; p < pixels; ++p) {
                grad_bias[co] += grad_output[(n * conv->out_channels + co) * pixels + p];
            }
        }
    }
}
