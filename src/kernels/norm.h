/* norm.h - the norms whose statistics belong to one image, and how they see a tensor. */
#ifndef UF_KERNELS_NORM_H
#define UF_KERNELS_NORM_H

#include <unfurl/ops.h>

#include "core/context.h"
#include "core/tensor.h"

UF_BEGIN_DECLS

/* A contiguous tensor as (outer, size, inner): element (o, s, i) lies at (o*size + s)*inner + i.
 * Each (o, i) has a mean and a variance, over s. Weight and bias have
 * params = groups * size/run elements; (o, s, i) takes number (o % groups)*(size/run) + s/run.
 *
 *                       outer   size      inner  groups  run
 *   instance norm       N*C     H*W       1      C       H*W
 *   group norm          N*G     C/G*H*W   1      G       H*W
 *   layer norm          rows    of a row  1      1       1
 *   layer norm over C   N       C         H*W    1       1
 *
 * groups divides outer, run divides size, and run is 1 where inner is not. */
typedef struct uf_norm_layout {
    int64_t outer, size, inner, groups, run;
} uf_norm_layout;

static inline int64_t uf_norm_params(const uf_norm_layout *layout) {
    return layout->groups * (layout->size / layout->run);
}

/* With mean and invstd = 1/sqrt(var + eps) of each (o, i), var being the biased variance:
 *   norm_forward:   output = act(z),  z = xhat*weight + bias,  xhat = (input - mean)*invstd;
 *     writes save_mean and save_invstd, which backward reads;
 *     running_c = (1 - momentum)*running_c + momentum * (mean over o = c mod groups), of the mean
 *     and of the variance with size - 1 for size; absent ones are not kept
 *   norm_backward:  g = grad_output * act'(z),  h = g*weight,
 *     grad_bias = sum g,  grad_weight = sum g*xhat, over all elements of a parameter,
 *     grad_input = invstd * (h - mean(h) - xhat*mean(h*xhat)), means over s
 * Backward makes z again as forward made it. weight, bias, running_* and gradients may be absent.
 * Parameters, running statistics and gradients of parameters are (1, params, 1, 1), f32 for bf16
 * tensors; saved statistics are (1, outer*inner, 1, 1) and f64: a mean rounded to f32 would be
 * what remains where values are large and alike. output may be input's memory, grad_input
 * grad_output's. */
typedef struct uf_norm_kernel_args {
    uf_norm_layout layout;
    uf_view input, output, weight, bias;
    uf_view save_mean, save_invstd;
    double eps;
    uf_activation activation; /* behind the norm; backward goes back through it first */
    uf_view running_mean, running_var;
    double momentum;
    /* The backward call's; absent ones are not made. */
    uf_view grad_output, grad_input, grad_weight, grad_bias;
    uf_write_mode grad_input_mode, grad_weight_mode, grad_bias_mode;
    void *workspace;
    size_t workspace_size;
} uf_norm_kernel_args;

/* src/kernels/check_norm.c */
uf_status uf_norm_check(const uf_norm_kernel_args *args, bool backward);

UF_END_DECLS

#endif
