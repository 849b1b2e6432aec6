/* cost.h - how long a plan takes. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_SELECT_COST_H
#define UF_KERNELS_CUDA_CONV_SELECT_COST_H

#include "kernels/cuda/conv/registry.h"

UF_BEGIN_DECLS

/* The rates of a main loop. One without a row in gpu_h200.def has not been measured: it is chosen
 * only where it is twice as fast as all others by its own model, and several microseconds besides.
 */
const uf_conv_rates *uf_conv_rates_of(const uf_conv_loop *loop);

/* Microseconds for a plan whose loop and cost are set: structure here, figures in gpu_h200.def. */
double uf_conv_microseconds(const uf_conv_problem *problem, const uf_conv_plan *plan);

/* The factors of the rates of a plan of `cost` cycles: microseconds of cost, MB of w, MB of x and
 * y. The factor of a call is 1. */
typedef struct uf_conv_features {
    double work, filter, tensors;
} uf_conv_features;

uf_conv_features uf_conv_features_of(const uf_conv_problem *problem, double cost);

/* Microseconds by these rates. */
double uf_conv_estimate(const uf_conv_features *of, const uf_conv_rates *rates, int arithmetic);

/* The rates that count: UF_CONV_RATE_... */
int uf_conv_arithmetic(const uf_conv_kernel_args *args);

/* Multiply-adds of a problem; and the cost where a multiprocessor makes 128 of them a cycle. */
double uf_conv_multiply_adds(const uf_conv_problem *problem);
double uf_conv_multiply_add_cost(const uf_conv_problem *problem);

/* Wgrad models do not see that neighbours along a row of x lie far from each other: from 5 to 12
 * layers on an H200. */
static inline double uf_conv_wgrad_step_factor(const uf_conv_kernel_args *args) {
    return args->stride[1] >= 8 ? 1.4 : 1.0;
}

UF_END_DECLS

#endif
