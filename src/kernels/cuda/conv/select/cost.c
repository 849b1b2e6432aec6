/* cost.c - how long a variant of a convolution would take.
 *
 * Every kernel's plan has a model of its work, which also chooses its tiles. Models leave out what
 * all tiles share, and err alike for a kernel; so a call takes
 *     work * cycles + call + filter * MB of w + tensors * MB of x and y
 * with rates that were fitted, by kernel and math, to what forced variants took over 76 layers
 * (bench/shapes.json, shapes-other.json, shapes-sweep.json) on an H200: docs/performance-gpu.md. By
 * hand, from a few times: naive, depthwise, gemm, columns and held (their plans say all), shuffle,
 * what long steps add to others, `mma_small`'s weight gradient of bf16 tensors, and rates of
 * `wgmma_channel_blocked` beyond BF16, which nobody asks for. */
#include "kernels/cuda/conv/select/cost.h"

#include <math.h>

#include "kernels/cuda/conv/mma_few_channels/stride2_k4/plan.h"
#include "kernels/cuda/conv/depthwise/plan.h"
#include "kernels/cuda/conv/simt_direct/plan.h"
#include "kernels/cuda/conv/mma_small/plan.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/filter_stationary/plan.h"
#include "kernels/cuda/conv/transform/space_to_depth/plan.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/dgrad_plan.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/fprop_plan.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/wgrad_plan.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/plan.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/plan.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/plan.h"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/plan.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/plan.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/wgrad_plan.h"

enum { MULTIPROCESSORS = 132, MATHS = 3 };

static const double cycles_per_microsecond = 1755.0;

static double multiply_adds_of(const uf_conv_kernel_args *args) {
    return (double)uf_view_count(&args->y) * (double)args->w.extent[1] *
           (double)(args->w.extent[2] * args->w.extent[3]);
}

/* ---- work: cycles, or -1 where the variant has another kernel for these arguments ---- */

/* Bound by two loads for each multiplication, on whatever multiprocessor there is work for. */
static double naive_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    return multiply_adds_of(args) / (direction == UF_CONV_WGRAD ? 150.0 : 275.0);
}

/* As the kernel gets them: bf16 tensors are multiplied as bf16. */
static uf_conv_kernel_args with_math(const uf_conv_kernel_args *args) {
    uf_conv_kernel_args made = *args;
    made.math = args->x.dtype == UF_BF16 ? UF_MATH_BF16 : args->math;
    return made;
}

/* What models do not see of long steps: neighbours along a row that are read or written far from
 * each other. From what 5 to 12 layers took on an H200, each. */
static double mma_step_factor(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const double step = (double)args->stride[1];
    if (direction == UF_CONV_FPROP) {
        return step < 8 ? 1.0 : fmin(1.0 + 0.08 * (step - 2), 2.6);
    }
    return step < 4 ? 1.0 : fmin(1.0 + 0.05 * step, 1.8);
}

/* Cycles to write phases one after the other, in parts of sectors. */
static double wgmma_step_cost(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const double written = (double)uf_view_count(&args->x);
    const bool one_row = args->x.extent[2] == 1;
    return direction != UF_CONV_DGRAD || args->stride[1] < 4 ? 0.0
           : args->x.dtype == UF_BF16                        ? written * 0.003
                                                             : written * (one_row ? 0.012 : 0.007);
}

static double wgrad_step_factor(const uf_conv_kernel_args *args) {
    return args->stride[1] >= 8 ? 1.4 : 1.0;
}

static double mma_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args made = with_math(args);
    return uf_cuda_conv_mma_cost(direction, &made) * mma_step_factor(direction, args);
}

static double patch_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    uf_patch_plan plan;
    return uf_patch_plan_of(direction, &canonical, &plan) ? plan.cost : -1.0;
}

static double wgmma_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    uf_wgmma_geometry geometry;
    return uf_wgmma_geometry_of(direction, &canonical, &geometry)
               ? geometry.cost + wgmma_step_cost(direction, args)
               : -1.0;
}

static double split_f16_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    uf_wgmma_geometry geometry;
    return uf_wgmma_split_f16_of(direction, &canonical, &geometry)
               ? geometry.cost + wgmma_step_cost(direction, args)
               : -1.0;
}

/* Memory bounds it, and no other variant has anything to save. */
static double depthwise_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_depthwise_plan plan;
    return uf_depthwise_plan_of(direction, args, &plan) ? 0.0 : -1.0;
}

/* Of a plan that says cycles. */
#define PLANNED_WORK(kernel)                                                                       \
    static double kernel##_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {    \
        uf_##kernel##_plan plan;                                                                   \
        return uf_##kernel##_plan_of(direction, args, &plan) ? plan.cost : -1.0;                   \
    }

PLANNED_WORK(stride2_k4)
PLANNED_WORK(direct)
PLANNED_WORK(filter_stationary)
PLANNED_WORK(im2col)
PLANNED_WORK(row_stream_dgrad)
PLANNED_WORK(row_stream_fprop)

/* Multiply-adds, of which a multiprocessor makes 128 a cycle. */
static double multiply_add_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    return multiply_adds_of(args) / (128.0 * MULTIPROCESSORS);
}

static double wgrad_row_stream_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    uf_row_stream_wgrad_plan plan;
    return uf_row_stream_wgrad_plan_of(args, &plan) ? plan.cost : -1.0;
}

static double wgrad_mma_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    const uf_conv_kernel_args made = with_math(args);
    return uf_cuda_conv_wgrad_mma_cost(&made) * mma_step_factor(UF_CONV_WGRAD, args);
}

static double wgrad_lines_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    return uf_cuda_conv_wgrad_rs_cost(args);
}

static double patch_wgrad_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    uf_patch_wgrad_plan plan;
    uf_patch_wgrad_copies copies;
    if (uf_patch_wgrad_plan_of(args, &plan)) {
        return plan.cost;
    }
    /* Copies are written and read at about 2.3 KB a cycle. */
    return uf_patch_wgrad_copies_of(args, &copies) && uf_patch_wgrad_plan_of(&copies.args, &plan)
               ? plan.cost + (double)(copies.x_bytes + copies.y_bytes) * 3.0 / 2300.0
               : -1.0;
}

static double wgrad_im2col_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    uf_wgrad_im2col_plan plan;
    return uf_wgrad_im2col_plan_of(args, &plan) ? plan.cost * wgrad_step_factor(args) : -1.0;
}

static double wgrad_channel_blocked_work(uf_conv_direction direction,
                                         const uf_conv_kernel_args *args) {
    (void)direction;
    uf_channel_blocked_plan plan;
    return uf_wgrad_channel_blocked_plan_of(args, false, &plan) ? plan.cost : -1.0;
}

/* Its plans say microseconds, fitted to calls of up to 32 of them, of images of more than a pixel,
 * without groups; others take half as long again. Weight gradients that take more than 26 take 1.2
 * to 1.9 times what their plan says. */
static double small_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const bool pixel = args->y.extent[2] * args->y.extent[3] == 1;
    const double beyond = args->groups > 1 || pixel ? 1.5 : 1.0;
    uf_small_plan plan;
    uf_small_wgrad_plan wgrad;
    if (direction == UF_CONV_WGRAD) {
        if (!uf_small_wgrad_plan_of(args, &wgrad)) {
            return -1.0;
        }
        const double micros = beyond * wgrad.micros * wgrad_step_factor(args), sure = 26.0;
        return (micros > sure ? 2.0 * micros - sure : micros) * cycles_per_microsecond;
    }
    return uf_small_plan_of(direction, args, &plan) ? beyond * plan.micros * cycles_per_microsecond
                                                    : -1.0;
}

/* What moves tensors, and whatever variant is the fastest behind it. */
static double space_to_depth_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_space_to_depth_plan plan;
    uf_cuda_conv_variant variant;
    if (!uf_space_to_depth_plan_of(direction, args, &plan) ||
        uf_cuda_conv_choose(direction, &plan.inner, UF_CUDA_CONV_SPACE_TO_DEPTH_CAPABILITY,
                            &variant) != UF_OK) {
        return -1.0;
    }
    return plan.cost +
           uf_cuda_conv_estimate(direction, &plan.inner, variant) * cycles_per_microsecond;
}

/* ---- rates ---- */

/* Per microsecond of work; microseconds of any call; of a MB of w; of a MB of x and y. */
typedef struct rate {
    double work, call, filter, tensors;
} rate;

/* A kernel of a variant; of several, the first that has work. By math: FP32, TF32, and of bf16
 * tensors. */
typedef struct kernel {
    uf_cuda_conv_variant variant;
    double (*work)(uf_conv_direction direction, const uf_conv_kernel_args *args);
    rate rates[MATHS];
} kernel;

static const kernel correlations[] = {
    {UF_CUDA_CONV_NAIVE, naive_work, {{1, 5, 0, 0}, {1, 5, 0, 0}, {1, 5, 0, 0}}},
    {UF_CUDA_CONV_MMA_IMPLICIT_GEMM,
     mma_work,
     {{0.969, 6.7, 0.892, 0.11}, {0.957, 8.82, 1.29, 0.145}, {1.19, 9.04, 4.16, 2.11}}},
    {UF_CUDA_CONV_WGMMA_IMPLICIT_GEMM,
     patch_work,
     {{0.792, 8.21, 0.411, 0.0252}, {0.559, 6.82, 1.22, 0.0644}, {0.546, 8.82, 1.07, 0}}},
    {UF_CUDA_CONV_WGMMA_IMPLICIT_GEMM,
     wgmma_work,
     {{0.913, 7.85, 0.665, 0.0647}, {0.9, 5.49, 0.603, 0.0378}, {0.818, 6.55, 0.688, 0.174}}},
    {UF_CUDA_CONV_SIMT_DIRECT, depthwise_work, {{0, 4, 0, 0.3}, {0, 4, 0, 0.3}, {0, 4, 0, 0.4}}},
    {UF_CUDA_CONV_SIMT_DIRECT,
     direct_work,
     {{0.754, 8.45, 14.1, 0.123}, {0.748, 8.5, 13.4, 0.129}, {0.847, 8.37, 42.4, 0.732}}},
    {UF_CUDA_CONV_MMA_IM2COL,
     im2col_work,
     {{0.972, 0, 29, 0}, {0.906, 0.218, 15.9, 0.0328}, {0.991, 0, 1.09, 0}}},
    {UF_CUDA_CONV_SIMT_GEMM, multiply_add_work, {{0.8, 9, 0, 0}, {0.8, 9, 0, 0}, {0.8, 9, 0, 0}}},
    {UF_CUDA_CONV_MMA_SMALL,
     small_work,
     {{0.98, 0, 0, 0.153}, {0.985, 0, 0, 0.177}, {0.905, 0, 0.52, 1.35}}},
    {UF_CUDA_CONV_WGMMA_SPLIT_F16,
     split_f16_work, /* 38 calls of 19 layers: 6 % off on average */
     {{1.1, 2.5, 0.57, 0}, {1, 10, 1, 1}, {1, 10, 1, 1}}},
    {UF_CUDA_CONV_MMA_ROW_STREAM,
     row_stream_fprop_work, /* more than fitted: what others take is better known */
     {{1.2, 0, 0, 0}, {1.12, 0, 0, 0}, {1.06, 2.2, 0, 0}}},
    {UF_CUDA_CONV_MMA_ROW_STREAM,
     row_stream_dgrad_work,
     {{1, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 0}}},
    {UF_CUDA_CONV_MMA_STRIDE2_K4, stride2_k4_work, {{1, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 0}}},
    {UF_CUDA_CONV_WGMMA_FILTER_STATIONARY,
     filter_stationary_work, /* less than its plan: of 38 calls wgmma was faster in three, by 2 to 5
                                % */
     {{0.92, 0, 0, 0}, {0.92, 0, 0, 0}, {0.92, 0, 0, 0}}},
    {UF_CUDA_CONV_SPACE_TO_DEPTH,
     space_to_depth_work,
     {{1.12, 0, 0, 0}, {1.12, 0, 0, 0}, {1.18, 0, 0, 0}}},
};

static const kernel wgrads[] = {
    {UF_CUDA_CONV_NAIVE, naive_work, {{1, 5, 0, 0}, {1, 5, 0, 0}, {1, 5, 0, 0}}},
    {UF_CUDA_CONV_MMA_IMPLICIT_GEMM,
     wgrad_mma_work,
     {{1.89, 0.488, 0, 0.192}, {1.88, 1.43, 0.138, 0.105}, {2.15, 3.6, 1.65, 1.51}}},
    {UF_CUDA_CONV_WGMMA_IMPLICIT_GEMM,
     patch_wgrad_work,
     {{0.962, 10.6, 2.14, 0.0662}, {0.514, 12.7, 1.59, 0.103}, {0.514, 12.7, 1.59, 0.103}}},
    {UF_CUDA_CONV_WGMMA_IMPLICIT_GEMM,
     wgrad_lines_work,
     {{0.942, 9.4, 0.0625, 0.0181}, {0.961, 9.67, 0, 0.086}, {0.961, 9.67, 0, 0.086}}},
    {UF_CUDA_CONV_SIMT_DIRECT,
     multiply_add_work,
     {{2.06, 13.8, 0.923, 0.245}, {2.06, 13.8, 0.945, 0.246}, {1.98, 14.1, 4.84, 1.1}}},
    {UF_CUDA_CONV_MMA_IM2COL,
     wgrad_im2col_work,
     {{1.64, 10.2, 3.45, 0}, {1.39, 11.6, 4.79, 0}, {1.53, 11.2, 8.34, 0}}},
    {UF_CUDA_CONV_SIMT_GEMM, multiply_add_work, {{0.8, 9, 0, 0}, {0.8, 9, 0, 0}, {0.8, 9, 0, 0}}},
    {UF_CUDA_CONV_WGMMA_CHANNEL_BLOCKED,
     patch_wgrad_work,
     {{1, 10, 1, 1}, {1, 10, 1, 1}, {0.215, 13.9, 2.32, 0.19}}},
    {UF_CUDA_CONV_WGMMA_CHANNEL_BLOCKED,
     wgrad_channel_blocked_work,
     {{1, 10, 1, 1}, {1, 10, 1, 1}, {0.917, 4.66, 0.7, 0.11}}},
    {UF_CUDA_CONV_MMA_SMALL,
     small_work,
     {{0.866, 0.414, 0, 0.357}, {0.791, 0.674, 0, 0.304}, {1, 1, 0, 1}}},
    {UF_CUDA_CONV_WGMMA_SPLIT_F16,
     wgrad_channel_blocked_work, /* 35 calls */
     {{0.868, 11.9, 1.58, 0.236}, {1, 10, 1, 1}, {1, 10, 1, 1}}},
    {UF_CUDA_CONV_MMA_ROW_STREAM,
     wgrad_row_stream_work,
     {{0.934, 5.26, 6.72, 0.025}, {0.87, 0, 4.44, 0.028}, {0.889, 10.1, 33, 0}}},
    {UF_CUDA_CONV_MMA_STRIDE2_K4, stride2_k4_work, {{1, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 0}}},
    {UF_CUDA_CONV_SPACE_TO_DEPTH,
     space_to_depth_work,
     {{1.12, 0, 0, 0}, {1.12, 0, 0, 0}, {1.12, 0, 0, 0}}},
};

double uf_cuda_conv_estimate(uf_conv_direction direction, const uf_conv_kernel_args *args,
                             uf_cuda_conv_variant variant) {
    const bool wgrad = direction == UF_CONV_WGRAD;
    const kernel *const table = wgrad ? wgrads : correlations;
    const int count = (int)(wgrad ? sizeof wgrads / sizeof wgrads[0]
                                  : sizeof correlations / sizeof correlations[0]);
    /* f32 tensors in BF16 were timed in `wgmma_channel_blocked` alone; elsewhere they are taken for
     * TF32. */
    const bool bf16 = args->x.dtype == UF_BF16 || args->math == UF_MATH_BF16;
    const int math =
        args->x.dtype == UF_BF16 || (bf16 && variant == UF_CUDA_CONV_WGMMA_CHANNEL_BLOCKED)
            ? UF_MATH_BF16
        : bf16 ? UF_MATH_TF32
               : (int)args->math;
    const double element = (double)uf_dtype_size(args->x.dtype);
    /* `mma_im2col` was fitted to filters of up to half a MB: of 1.8 MB it takes no longer for that.
     */
    const double most = variant == UF_CUDA_CONV_MMA_IM2COL && !wgrad ? 0.5 : HUGE_VAL;
    const double filter = fmin((double)uf_view_count(&args->w) * element / 1e6, most);
    const double tensors =
        (double)(uf_view_count(&args->x) + uf_view_count(&args->y)) * element / 1e6;
    for (int i = 0; i < count; ++i) {
        const double work = table[i].variant == variant ? table[i].work(direction, args) : -1.0;
        if (work >= 0.0) {
            const rate *const of = &table[i].rates[math];
            return of->work * work / cycles_per_microsecond + of->call + of->filter * filter +
                   of->tensors * tensors;
        }
    }
    return HUGE_VAL;
}
