/* conv_estimate.c - how long a variant of a convolution would take.
 *
 * Every kernel's plan has a model of its work, which also chooses its tiles. Models leave out what
 * all tiles share, and err alike for a kernel; so a call takes
 *     work * clocks + call + filter * MB of w + tensors * MB of x and y
 * with rates that were fitted, by kernel and math, to what forced variants took over 76 layers
 * (bench/shapes.json, bench/shapes-other.json and more) on an H200: docs/performance-gpu.md. */
#include "kernels/cuda/conv_estimate.h"

#include <math.h>

#include "kernels/cuda/conv_depthwise_plan.h"
#include "kernels/cuda/conv_direct_plan.h"
#include "kernels/cuda/conv_few_plan.h"
#include "kernels/cuda/conv_thin_plan.h"
#include "kernels/cuda/conv_wgmma_apart_plan.h"
#include "kernels/cuda/conv_wgmma_geometry.h"
#include "kernels/cuda/conv_wgrad_blocks_plan.h"
#include "kernels/cuda/conv_wgrad_straight_plan.h"
#include "kernels/cuda/conv_wgrad_thin_plan.h"

enum { MULTIPROCESSORS = 132, MATHS = 3 };

static const double clocks_per_microsecond = 1755.0;

static double products_of(const uf_conv_kernel_args *args) {
    return (double)uf_view_count(&args->y) * (double)args->w.extent[1] *
           (double)(args->w.extent[2] * args->w.extent[3]);
}

/* ---- work: clocks, or -1 where the variant has another kernel for these arguments ---- */

/* Bound by two loads for each multiplication, on whatever multiprocessor there is work for. */
static double naive_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    return products_of(args) / (direction == UF_CONV_WGRAD ? 150.0 : 275.0);
}

/* As the kernel gets them: bf16 tensors are multiplied as bf16. */
static uf_conv_kernel_args with_math(const uf_conv_kernel_args *args) {
    uf_conv_kernel_args made = *args;
    made.math = args->x.dtype == UF_BF16 ? UF_MATH_BF16 : args->math;
    return made;
}

/* Launches, and passes over the tensors, where bf16 is made f32 first. */
static double widening(const uf_conv_kernel_args *args) {
    const double elements = (double)(uf_view_count(&args->x) + uf_view_count(&args->y));
    return args->x.dtype == UF_BF16 ? clocks_per_microsecond * (8.0 + 2.4e-6 * elements) : 0.0;
}

static double mma_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args made = with_math(args);
    return uf_cuda_conv_mma_clocks(direction, &made) + widening(args);
}

static double apart_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    uf_apart_plan plan;
    return uf_apart_plan_of(direction, &canonical, &plan) ? plan.clocks : -1.0;
}

static double wgmma_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    uf_wgmma_geometry geometry;
    return uf_wgmma_geometry_of(direction, &canonical, &geometry) ? geometry.clocks : -1.0;
}

/* Memory bounds it, and no other variant has anything to save. */
static double depthwise_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_depthwise_plan plan;
    return uf_depthwise_plan_of(direction, args, &plan) ? 0.0 : -1.0;
}

static double direct_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_direct_plan plan;
    return uf_direct_plan_of(direction, args, &plan) ? plan.clocks : -1.0;
}

static double thin_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_thin_plan plan;
    return uf_thin_plan_of(direction, args, &plan) ? plan.clocks : -1.0;
}

/* Multiply-adds, of which a multiprocessor makes 128 a clock. */
static double multiply_add_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    return products_of(args) / (128.0 * MULTIPROCESSORS);
}

static double wgrad_mma_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    const uf_conv_kernel_args made = with_math(args);
    return uf_cuda_conv_wgrad_mma_clocks(&made) + widening(args);
}

static double wgrad_lines_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    return uf_cuda_conv_wgrad_lines_clocks(args);
}

static double wgrad_straight_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    uf_straight_plan plan;
    uf_straight_copies copies;
    if (uf_wgrad_straight_plan_of(args, &plan)) {
        return plan.clocks;
    }
    /* Copies are written and read at about 2.3 KB a clock. */
    return uf_wgrad_straight_copies_of(args, &copies) &&
                   uf_wgrad_straight_plan_of(&copies.args, &plan)
               ? plan.clocks + (double)(copies.x_bytes + copies.y_bytes) * 3.0 / 2300.0
               : -1.0;
}

static double wgrad_thin_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    uf_wgrad_thin_plan plan;
    return uf_wgrad_thin_plan_of(args, &plan) ? plan.clocks : -1.0;
}

static double wgrad_blocks_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    uf_blocks_plan plan;
    return uf_wgrad_blocks_plan_of(args, false, &plan) ? plan.clocks : -1.0;
}

/* Its plans say microseconds, fitted to calls of up to 32 of them without groups; with groups they
 * take half as long again. */
static double few_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const double beyond = args->groups > 1 ? 1.5 : 1.0;
    uf_few_plan plan;
    uf_few_wgrad_plan wgrad;
    if (direction == UF_CONV_WGRAD) {
        return uf_few_wgrad_plan_of(args, &wgrad) ? beyond * wgrad.micros * clocks_per_microsecond
                                                  : -1.0;
    }
    return uf_few_plan_of(direction, args, &plan) ? beyond * plan.micros * clocks_per_microsecond
                                                  : -1.0;
}

/* ---- rates ---- */

/* Per microsecond of work; microseconds of any call; of a MB of w; of a MB of x and y. */
typedef struct rate {
    double work, call, filter, tensors;
} rate;

/* A kernel of a variant; of several, the first that has work. By math: FP32, TF32, and BF16, which
 * all of bf16 tensors is. */
typedef struct kernel {
    uf_cuda_conv_variant variant;
    double (*work)(uf_conv_direction direction, const uf_conv_kernel_args *args);
    rate rates[MATHS];
} kernel;

static const kernel correlations[] = {
    {UF_CUDA_CONV_NAIVE, naive_work, {{1, 5, 0, 0}, {1, 5, 0, 0}, {1, 5, 0, 0}}},
    {UF_CUDA_CONV_MMA,
     mma_work,
     {{1, 6.13, 0, 0.0891}, {1, 8.03, 1.27, 0.137}, {1, 8.03, 1.27, 0.137}}},
    {UF_CUDA_CONV_WGMMA,
     apart_work,
     {{1.5e+03, 8.76, 5.57, 0.251}, {967, 8.86, 1.26, 0.174}, {618, 11.2, 2.52, 0.259}}},
    {UF_CUDA_CONV_WGMMA,
     wgmma_work,
     {{0.888, 8.71, 0.669, 0.145}, {0.877, 7.82, 0.581, 0.105}, {0.834, 6.45, 0.804, 0.183}}},
    {UF_CUDA_CONV_DIRECT, depthwise_work, {{0, 4, 0, 0.3}, {0, 4, 0, 0.3}, {0, 4, 0, 0.4}}},
    {UF_CUDA_CONV_DIRECT,
     direct_work,
     {{0.754, 8.46, 14.1, 0.123}, {0.748, 8.5, 13.4, 0.128}, {0.847, 8.37, 42.4, 0.732}}},
    {UF_CUDA_CONV_THIN,
     thin_work,
     {{0.992, 0, 46.8, 0.0311}, {1.05, 1.15, 0, 0}, {1.13, 1.14, 0, 0}}},
    {UF_CUDA_CONV_GEMM, multiply_add_work, {{0.8, 9, 0, 0}, {0.8, 9, 0, 0}, {0.8, 9, 0, 0}}},
    {UF_CUDA_CONV_FEW, few_work, {{1, 0, 0, 0}, {1, 0, 0, 0}, {1.1, 0, 0, 0}}},
};

static const kernel wgrads[] = {
    {UF_CUDA_CONV_NAIVE, naive_work, {{1, 5, 0, 0}, {1, 5, 0, 0}, {1, 5, 0, 0}}},
    {UF_CUDA_CONV_MMA,
     wgrad_mma_work,
     {{1.9, 0.736, 0, 0.182}, {1.82, 2.09, 1.13, 0.115}, {1.82, 2.09, 1.13, 0.115}}},
    {UF_CUDA_CONV_WGMMA,
     wgrad_straight_work,
     {{1.09, 7.24, 0.517, 0.0319}, {0.377, 11.5, 2.28, 0.166}, {0.377, 11.5, 2.28, 0.166}}},
    {UF_CUDA_CONV_WGMMA,
     wgrad_lines_work,
     {{0.798, 11.8, 0.429, 0}, {0.811, 9.47, 0.364, 0.187}, {0.811, 9.47, 0.364, 0.187}}},
    {UF_CUDA_CONV_DIRECT,
     multiply_add_work,
     {{2.06, 13.8, 0.96, 0.25}, {2.06, 13.7, 0.977, 0.251}, {1.98, 14.1, 4.84, 1.1}}},
    {UF_CUDA_CONV_THIN,
     wgrad_thin_work,
     {{1.56, 11.2, 5.78, 0}, {1.38, 11.2, 5.52, 0}, {1.57, 10.8, 9.41, 0}}},
    {UF_CUDA_CONV_GEMM, multiply_add_work, {{0.8, 9, 0, 0}, {0.8, 9, 0, 0}, {0.8, 9, 0, 0}}},
    {UF_CUDA_CONV_BLOCKS,
     wgrad_straight_work,
     {{1, 10, 1, 1}, {1, 10, 1, 1}, {0.118, 13.3, 3.44, 0.231}}},
    {UF_CUDA_CONV_BLOCKS,
     wgrad_blocks_work,
     {{1, 10, 1, 1}, {1, 10, 1, 1}, {0.877, 5.01, 0.782, 0.14}}},
    {UF_CUDA_CONV_FEW, few_work, {{1, 0, 0, 0}, {1, 0, 0, 0}, {1.1, 0, 0, 0}}},
};

double uf_cuda_conv_estimate(uf_conv_direction direction, const uf_conv_kernel_args *args,
                             uf_cuda_conv_variant variant) {
    const bool wgrad = direction == UF_CONV_WGRAD;
    const kernel *const table = wgrad ? wgrads : correlations;
    const int count = (int)(wgrad ? sizeof wgrads / sizeof wgrads[0]
                                  : sizeof correlations / sizeof correlations[0]);
    const int math = args->x.dtype == UF_F32 ? (int)args->math : UF_MATH_BF16;
    const double element = (double)uf_dtype_size(args->x.dtype);
    const double filter = (double)uf_view_count(&args->w) * element / 1e6;
    const double tensors =
        (double)(uf_view_count(&args->x) + uf_view_count(&args->y)) * element / 1e6;
    for (int i = 0; i < count; ++i) {
        const double work = table[i].variant == variant ? table[i].work(direction, args) : -1.0;
        if (work >= 0.0) {
            const rate *const of = &table[i].rates[math];
            return of->work * work / clocks_per_microsecond + of->call + of->filter * filter +
                   of->tensors * tensors;
        }
    }
    return HUGE_VAL;
}
