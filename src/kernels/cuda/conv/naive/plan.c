/* plan.c - the plans of naive: every problem has one. */
#include "kernels/cuda/conv/naive/plan.h"

#include <string.h>

#include "core/tensor.h"
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/select/cost.h"

/* `rate`: multiply-adds that an H200 makes a cycle. Measured from a few calls. */
static double cost_of(const uf_conv_problem *problem, double rate) {
    return uf_conv_is_empty(problem)
               ? 0.0
               : uf_conv_multiply_adds(problem) / (rate * problem->gpu->multiprocessors / 132);
}

bool uf_conv_plan_naive(const uf_conv_problem *problem, uf_conv_plan *plan) {
    plan->cost = cost_of(problem, 275.0);
    plan->workspace = 0;
    return true;
}

/* Splits follow from the shape alone, as the order of sums must. */
static naive_wgrad_plan divide(const uf_conv_kernel_args *args) {
    naive_wgrad_plan plan;
    plan.k_per_group = args->w.extent[0] / args->groups;
    plan.c_per_group = args->w.extent[1];
    plan.k_tiles = uf_div_up(plan.k_per_group, NAIVE_TILE);
    plan.c_tiles = uf_div_up(plan.c_per_group, NAIVE_TILE);
    plan.tiles = args->groups * plan.k_tiles * plan.c_tiles * args->w.extent[2] * args->w.extent[3];
    plan.pixels = args->y.extent[0] * args->y.extent[2] * args->y.extent[3];
    /* Enough blocks for any GPU, but pieces long enough to pay for the reduction at their end and
     * short enough for plain sums: 256 multiply-adds of a thread. */
    int64_t piece = uf_div_up(plan.pixels, uf_div_up(2048, plan.tiles));
    piece = piece < 2048 ? 2048 : piece > 65536 ? 65536 : piece;
    if (plan.pixels / piece > 4096) {
        piece = uf_div_up(plan.pixels, 4096);
    }
    plan.piece = piece;
    plan.splits = plan.pixels > 0 ? uf_div_up(plan.pixels, piece) : 1;
    return plan;
}

bool uf_conv_plan_naive_wgrad(const uf_conv_problem *problem, uf_conv_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    naive_wgrad_plan *const own = UF_CONV_PLAN_OF(naive_wgrad_plan, plan);
    plan->cost = cost_of(problem, 150.0);
    plan->workspace = 0;
    if (uf_view_count(&args->w) == 0) { /* no tile to divide by; a launch is never asked for */
        memset(own, 0, sizeof *own);
        return true;
    }
    *own = divide(args);
    if (own->splits > 1) {
        /* Partial sums are not rounded to bf16 yet. */
        const size_t element =
            args->w.dtype == UF_BF16 ? sizeof(float) : uf_dtype_size(args->w.dtype);
        plan->workspace = (size_t)(own->splits * uf_view_count(&args->w)) * element;
    }
    return true;
}
