/* adapters.c - main loops whose plans are not objects yet: their limits, their costs, and launches
 * that plan again. */
#include <math.h>
#include <string.h>

#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/depthwise/plan.h"
#include "kernels/cuda/conv/simt_direct/plan.h"
#include "kernels/cuda/conv/select/cost.h"

enum { MULTIPROCESSORS = 132 };

static double multiply_adds_of(const uf_conv_kernel_args *args) {
    const uf_conv_problem problem = {UF_CONV_FPROP, args, NULL};
    return uf_conv_multiply_adds(&problem);
}

/* ---- limits: problems that a kernel computes correctly ---- */

static bool anything(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    (void)args;
    return true;
}

/* 32-bit offsets within a box of up to 128 images. */
static bool near_enough(int64_t steps, int64_t stride) {
    const int64_t limit = INT64_C(1) << 29;
    const int64_t size = stride < 0 ? -stride : stride;
    return size < limit && steps * size < limit;
}

static bool direct_wgrad_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    const int64_t limit = INT64_C(1) << 28;
    const int64_t r = args->w.extent[2], s = args->w.extent[3];
    const bool images =
        args->y.extent[3] < 4 && args->y.extent[0] > 1; /* boxes of four images and more */
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) && uf_conv_positions_fit(args) &&
           r <= 11 && s <= 11 && uf_view_count(&args->w) < limit && uf_view_count(&args->y) > 0 &&
           uf_view_count(&args->y) / args->y.extent[1] < limit &&
           near_enough((r - 1) * args->dilation[0] + 1, args->x.stride[2]) &&
           near_enough(3 * args->stride[1] + (s - 1) * args->dilation[1] + 1, args->x.stride[3]) &&
           near_enough(1, args->y.stride[2]) && near_enough(4, args->y.stride[3]) &&
           near_enough(512, args->y.stride[1]) &&
           (!images || (near_enough(4, args->x.stride[0]) && near_enough(4, args->y.stride[0])));
}

/* Then direct moves memory and no other variant has anything to save. */
static bool is_depthwise(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_depthwise_plan plan;
    return uf_depthwise_plan_of(direction, args, &plan);
}

static bool direct_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    uf_direct_plan plan;
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) && uf_conv_positions_fit(args) &&
           (is_depthwise(direction, args) || uf_direct_plan_of(direction, args, &plan));
}

/* Elements of (c, r, s) follow each other. */
static bool is_flat(const uf_view *view) {
    int64_t step = 1;
    for (int axis = 3; axis > 0; --axis) {
        if (view->extent[axis] != 1 && view->stride[axis] != step) {
            return false;
        }
        step *= view->extent[axis];
    }
    return true;
}

/* Each tap meets a pixel of its own: x is as large as the filter. Counts and tiles of 64 x 64 fit
 * 32 bits. */
static bool gemm_suits(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    const int64_t limit = INT64_C(1) << 28;
    const int64_t columns = args->w.extent[1] * args->w.extent[2] * args->w.extent[3];
    const int64_t rows =
        args->y.extent[0] > args->w.extent[0] ? args->y.extent[0] : args->w.extent[0];
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) && args->y.extent[2] == 1 &&
           args->y.extent[3] == 1 && args->x.extent[2] == args->w.extent[2] &&
           args->x.extent[3] == args->w.extent[3] && args->padding[0] == 0 &&
           args->padding[1] == 0 && is_flat(&args->x) && is_flat(&args->w) &&
           uf_view_count(&args->x) > 0 && uf_view_count(&args->y) > 0 &&
           uf_view_count(&args->w) > 0 && columns < limit && rows < limit &&
           (columns / 64 + 1) * (rows / 64 + 1) * args->groups < limit;
}

/* ---- costs: cycles, or -1 where the variant has another main loop for these arguments ---- */

/* Bound by two loads for each multiplication, on whatever multiprocessor there is work for. */
static double naive_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    return multiply_adds_of(args) / (direction == UF_CONV_WGRAD ? 150.0 : 275.0);
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

PLANNED_WORK(direct)

/* Multiply-adds, of which a multiprocessor makes 128 a cycle. */
static double multiply_add_work(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    return multiply_adds_of(args) / (128.0 * MULTIPROCESSORS);
}

static size_t no_workspace(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    (void)direction;
    (void)args;
    return 0;
}

typedef bool limits_function(uf_conv_direction direction, const uf_conv_kernel_args *args);
typedef double cost_function(uf_conv_direction direction, const uf_conv_kernel_args *args);

static bool adapt(const uf_conv_problem *problem, uf_conv_plan *plan, limits_function *limits,
                  cost_function *cost, uf_cuda_conv_workspace *workspace) {
    if (!limits(problem->direction, problem->args)) {
        return false;
    }
    /* Models divide by extents. */
    plan->cost = uf_conv_is_empty(problem) ? 0.0 : cost(problem->direction, problem->args);
    if (plan->cost < 0.0) {
        return false;
    }
    plan->workspace = uf_view_count(uf_conv_written(problem)) == 0
                          ? 0
                          : workspace(problem->direction, problem->args);
    return true;
}

#define ADAPT(id, limits, cost, bytes, run)                                                        \
    bool uf_conv_plan_##id(const uf_conv_problem *problem, uf_conv_plan *plan) {                   \
        return adapt(problem, plan, limits, cost, bytes);                                          \
    }                                                                                              \
    uf_status uf_conv_launch_##id(uf_context *context, const uf_conv_problem *problem,             \
                                  const uf_conv_plan *plan) {                                      \
        (void)plan;                                                                                \
        return run(context, problem->direction, problem->args);                                    \
    }

ADAPT(naive, anything, naive_work, uf_cuda_conv_naive_workspace, uf_cuda_conv_naive)
ADAPT(naive_wgrad, anything, naive_work, uf_cuda_conv_naive_workspace, uf_cuda_conv_naive)
ADAPT(simt_depthwise, direct_suits, depthwise_work, no_workspace, uf_cuda_conv_direct)
ADAPT(simt_direct, direct_suits, direct_work, no_workspace, uf_cuda_conv_direct)
ADAPT(simt_direct_wgrad, direct_wgrad_suits, multiply_add_work, uf_cuda_conv_wgrad_direct_workspace,
      uf_cuda_conv_wgrad_direct)
ADAPT(simt_gemm, gemm_suits, multiply_add_work, uf_cuda_conv_gemm_workspace, uf_cuda_conv_gemm)
ADAPT(simt_gemm_wgrad, gemm_suits, multiply_add_work, uf_cuda_conv_gemm_workspace,
      uf_cuda_conv_gemm)
