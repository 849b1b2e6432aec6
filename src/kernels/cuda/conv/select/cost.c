/* cost.c - how long a plan takes.
 *
 * A plan models its own work in cycles, which also chooses its tiles. Models leave out what all
 * tiles share, and err alike for a main loop; so a call takes work * cost + call + filter * MB of w
 * + tensors * MB of x and y with rates by main loop and arithmetic, which are data: gpu_h200.def.
 */
#include "kernels/cuda/conv/select/cost.h"

#include <math.h>

double uf_conv_multiply_adds(const uf_conv_problem *problem) {
    const uf_conv_kernel_args *args = problem->args;
    return (double)uf_view_count(&args->y) * (double)args->w.extent[1] *
           (double)(args->w.extent[2] * args->w.extent[3]);
}

double uf_conv_multiply_add_cost(const uf_conv_problem *problem) {
    return uf_conv_multiply_adds(problem) / (128.0 * problem->gpu->multiprocessors);
}

static const uf_conv_rate *rate_of(const uf_conv_kernel_args *args, const uf_conv_rates *rates) {
    return &rates->of[args->x.dtype == UF_BF16     ? UF_CONV_RATE_BF16
                      : args->math == UF_MATH_BF16 ? UF_CONV_RATE_BF16_MATH
                      : args->math == UF_MATH_TF32 ? UF_CONV_RATE_TF32
                                                   : UF_CONV_RATE_FP32];
}

double uf_conv_microseconds(const uf_conv_problem *problem, const uf_conv_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    const uf_conv_rates *const rates = plan->loop->rates;
    const uf_conv_rate *const rate = rate_of(args, rates);
    const double mega = (double)uf_dtype_size(args->x.dtype) / 1e6;
    const double most = rates->most_filter > 0.0 ? rates->most_filter : HUGE_VAL;
    const double filter = fmin((double)uf_view_count(&args->w) * mega, most);
    const double tensors = (double)(uf_view_count(&args->x) + uf_view_count(&args->y)) * mega;
    return rate->work * plan->cost / problem->gpu->cycles_per_microsecond + rate->call +
           rate->filter * filter + rate->tensors * tensors;
}
