/* cost.c - how long a plan takes.
 *
 * A plan models its own work in cycles, which also chooses its tiles. Models leave out what all
 * tiles share, and err alike for a main loop; so a call takes work * cost + call + filter * MB of w
 * + tensors * MB of x and y with rates by main loop and arithmetic, which are data: gpu_h200.def.
 */
#include "kernels/cuda/conv/select/cost.h"

double uf_conv_multiply_adds(const uf_conv_problem *problem) {
    const uf_conv_kernel_args *args = problem->args;
    return (double)uf_view_count(&args->y) * (double)args->w.extent[1] *
           (double)(args->w.extent[2] * args->w.extent[3]);
}

double uf_conv_multiply_add_cost(const uf_conv_problem *problem) {
    return uf_conv_multiply_adds(problem) / (128.0 * problem->gpu->multiprocessors);
}

int uf_conv_arithmetic(const uf_conv_kernel_args *args) {
    return args->x.dtype == UF_BF16     ? UF_CONV_RATE_BF16
           : args->math == UF_MATH_BF16 ? UF_CONV_RATE_BF16_MATH
           : args->math == UF_MATH_TF32 ? UF_CONV_RATE_TF32
                                        : UF_CONV_RATE_FP32;
}

uf_conv_features uf_conv_features_of(const uf_conv_problem *problem, double cost) {
    const uf_conv_kernel_args *args = problem->args;
    const double mega = (double)uf_dtype_size(args->x.dtype) / 1e6;
    const uf_conv_features features = {
        .work = cost / problem->gpu->cycles_per_microsecond,
        .filter = (double)uf_view_count(&args->w) * mega,
        .tensors = (double)(uf_view_count(&args->x) + uf_view_count(&args->y)) * mega,
    };
    return features;
}

double uf_conv_estimate(const uf_conv_features *of, const uf_conv_rates *rates, int arithmetic) {
    const uf_conv_rate *const rate = &rates->of[arithmetic];
    return rate->work * of->work + rate->call + rate->filter * of->filter +
           rate->tensors * of->tensors;
}

const uf_conv_rates *uf_conv_rates_of(const uf_conv_loop *loop) {
    static const uf_conv_rates unmeasured = {
        .of = {{2, 10, 0, 0}, {2, 10, 0, 0}, {2, 10, 0, 0}, {2, 10, 0, 0}}};
    return loop->rates->measured ? loop->rates : &unmeasured;
}

double uf_conv_microseconds(const uf_conv_problem *problem, const uf_conv_plan *plan) {
    const uf_conv_features features = uf_conv_features_of(problem, plan->cost);
    return uf_conv_estimate(&features, uf_conv_rates_of(plan->loop),
                            uf_conv_arithmetic(problem->args));
}
