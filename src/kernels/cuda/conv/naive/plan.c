/* plan.c - the plans of naive: every problem has one. */
#include "kernels/cuda/conv/naive/plan.h"

#include <math.h>
#include <string.h>

#include "core/tensor.h"
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/select/cost.h"

/* Cycles on an H200, fitted to the 86 calls of bench/results/matrix-nvidia-h200.jsonl: estimates
 * are from 0.5 to 2.5 times what was measured. By multiply-adds alone they were from 0.09 to 4
 * times, and least for few long sums, whose loads nothing hides. */
#define MULTIPLY_ADDS 275.0 /* of all threads, a cycle */
#define ELEMENTS 30.0       /* written, a cycle: positions and phases */
enum {
    PRODUCT = 205,    /* of a thread, which waits for its loads */
    PIXELS = 4500,    /* a block of wgrad: one pixel a thread, sixteen products of it */
    REDUCTION = 5000, /* its sums at the end */
    BLOCKS = 8,       /* of a multiprocessor at a time */
    THREADS = 256     /* of a block */
};

/* Products of one written element, where no border cuts them off. */
static double products_of(const uf_conv_problem *problem) {
    const uf_conv_kernel_args *args = problem->args;
    if (problem->direction == UF_CONV_FPROP) {
        return (double)args->w.extent[1] * (double)args->w.extent[2] * (double)args->w.extent[3];
    }
    double products = (double)(args->w.extent[0] / args->groups);
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t step = args->stride[axis] / uf_gcd(args->stride[axis], args->dilation[axis]);
        products *= (double)uf_div_up(args->w.extent[2 + axis], step);
    }
    return products;
}

static double cost_of(const uf_conv_problem *problem) {
    const double parallel = uf_conv_multiply_adds(problem) / MULTIPLY_ADDS +
                            (double)uf_view_count(uf_conv_written(problem)) / ELEMENTS;
    return uf_conv_is_empty(problem)
               ? 0.0
               : parallel * 132 / problem->gpu->multiprocessors + PRODUCT * products_of(problem);
}

bool uf_conv_plan_naive(const uf_conv_problem *problem, uf_conv_plan *plan) {
    plan->cost = cost_of(problem);
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

static double wgrad_cost_of(const uf_conv_problem *problem, const naive_wgrad_plan *plan) {
    const double blocks = (double)plan->tiles * (double)plan->splits;
    const int64_t pixels = plan->pixels < plan->piece ? plan->pixels : plan->piece;
    return fmax(blocks / (BLOCKS * problem->gpu->multiprocessors), 1.0) *
           (PIXELS * (double)uf_div_up(pixels, THREADS) + REDUCTION);
}

bool uf_conv_plan_naive_wgrad(const uf_conv_problem *problem, uf_conv_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    naive_wgrad_plan *const own = UF_CONV_PLAN_OF(naive_wgrad_plan, plan);
    plan->cost = 0.0;
    plan->workspace = 0;
    if (uf_view_count(&args->w) == 0) { /* no tile to divide by; a launch is never asked for */
        memset(own, 0, sizeof *own);
        return true;
    }
    *own = divide(args);
    plan->cost = uf_conv_is_empty(problem) ? 0.0 : wgrad_cost_of(problem, own);
    if (own->splits > 1) {
        /* Partial sums are not rounded to bf16 yet. */
        const size_t element =
            args->w.dtype == UF_BF16 ? sizeof(float) : uf_dtype_size(args->w.dtype);
        plan->workspace = (size_t)(own->splits * uf_view_count(&args->w)) * element;
    }
    return true;
}
