/* plan.c - the matrices of simt_gemm, and how their sum is split. */
#include "kernels/cuda/conv/simt_gemm/plan.h"

#include <math.h>
#include <string.h>

#include "core/tensor.h"
#include "kernels/cuda/conv/registry.h"

enum {
    GEMM_FILL = 264,   /* blocks that fill a large GPU twice over */
    GEMM_CHAIN = 1024, /* multiply-adds added one after the other, at most */
};

/* Cycles on an H200, fitted to the 48 calls of bench/results/matrix-nvidia-h200*.jsonl. */
enum {
    GEMM_STEP = 137,  /* one k of a block, with two blocks on each multiprocessor */
    GEMM_SUMS = 2000, /* the kernel that adds splits */
};
#define GEMM_ALONE 0.7 /* of GEMM_STEP: a block with a multiprocessor of its own */

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
static bool takes(const uf_conv_kernel_args *args) {
    const int64_t limit = INT64_C(1) << 28;
    const int64_t columns = args->w.extent[1] * args->w.extent[2] * args->w.extent[3];
    const int64_t rows =
        args->y.extent[0] > args->w.extent[0] ? args->y.extent[0] : args->w.extent[0];
    return args->y.extent[2] == 1 && args->y.extent[3] == 1 &&
           args->x.extent[2] == args->w.extent[2] && args->x.extent[3] == args->w.extent[3] &&
           args->padding[0] == 0 && args->padding[1] == 0 && is_flat(&args->x) &&
           is_flat(&args->w) && uf_view_count(&args->x) > 0 && uf_view_count(&args->y) > 0 &&
           uf_view_count(&args->w) > 0 && columns < limit && rows < limit &&
           (columns / GEMM_TILE + 1) * (rows / GEMM_TILE + 1) * args->groups < limit;
}

static bool is_aligned(const uf_view *view, int64_t group, int64_t other) {
    return (uintptr_t)view->data % (4 * uf_dtype_size(view->dtype)) == 0 && group % 4 == 0 &&
           other % 4 == 0;
}

/* Vectors lie along the index whose stride (`deep` or `across`) is 1. */
static gemm_operand operand_of(const uf_view *view, int64_t group, int64_t across, int64_t deep,
                               bool along_deep) {
    gemm_operand operand = {NULL, group, across, deep, false};
    operand.vector =
        (along_deep ? deep : across) == 1 && is_aligned(view, group, along_deep ? across : deep);
    return operand;
}

static void set_matrices(const uf_conv_problem *problem, gemm_call *call) {
    const uf_conv_kernel_args *args = problem->args;
    const uf_view *x = &args->x, *w = &args->w, *y = &args->y;
    const int64_t k_per_group = w->extent[0] / args->groups;
    const int64_t taps = w->extent[2] * w->extent[3];
    const int64_t columns = w->extent[1] * taps;
    const int64_t x_group = columns, y_group = k_per_group * y->stride[1],
                  w_group = k_per_group * w->stride[0];
    call->groups = (int32_t)args->groups;
    call->per_channel = 1;
    call->c_column = 1;
    switch (problem->direction) {
    case UF_CONV_DGRAD:
        call->m = (int32_t)y->extent[0];
        call->n = (int32_t)columns;
        call->k = (int32_t)k_per_group;
        call->a = operand_of(y, y_group, y->stride[0], y->stride[1], true);
        call->b = operand_of(w, w_group, 1, w->stride[0], false);
        call->c_group = x_group;
        call->c_row = x->stride[0];
        call->per_channel = (int32_t)taps;
        break;
    case UF_CONV_FPROP:
        call->m = (int32_t)y->extent[0];
        call->n = (int32_t)k_per_group;
        call->k = (int32_t)columns;
        call->a = operand_of(x, x_group, x->stride[0], 1, true);
        call->b = operand_of(w, w_group, w->stride[0], 1, true);
        call->c_group = y_group;
        call->c_row = y->stride[0];
        call->c_column = y->stride[1];
        break;
    default:
        call->m = (int32_t)k_per_group;
        call->n = (int32_t)columns;
        call->k = (int32_t)y->extent[0];
        call->a = operand_of(y, y_group, y->stride[1], y->stride[0], false);
        call->b = operand_of(x, x_group, 1, x->stride[0], false);
        call->c_group = w_group;
        call->c_row = w->stride[0];
        break;
    }
    call->c_vector =
        call->c_column == 1 && is_aligned(uf_conv_written(problem), call->c_group, call->c_row);
    call->accumulate = args->mode == UF_ACCUMULATE;
}

/* Enough blocks, each with two tiles' depth at the least; and short chains. From the shape alone,
 * as the order of sums must be. */
static void choose_splits(gemm_call *call) {
    call->tiles_m = (int32_t)uf_div_up(call->m, GEMM_TILE);
    call->tiles_n = (int32_t)uf_div_up(call->n, GEMM_TILE);
    const int64_t tiles = (int64_t)call->tiles_m * call->tiles_n * call->groups;
    int64_t splits = tiles < GEMM_FILL ? GEMM_FILL / tiles : 1;
    const int64_t most = call->k / (2 * GEMM_DEPTH) > 1 ? call->k / (2 * GEMM_DEPTH) : 1;
    splits = splits < most ? splits : most;
    splits = splits * GEMM_CHAIN < call->k ? uf_div_up(call->k, GEMM_CHAIN) : splits;
    call->split_depth = (int32_t)uf_round_up(uf_div_up(call->k, splits), GEMM_DEPTH);
    call->splits = (int32_t)uf_div_up(call->k, call->split_depth);
}

/* A block makes its k one after the other, so that few blocks take nearly as long as those that
 * fill the GPU. */
static double cost_of(const uf_conv_problem *problem, const gemm_call *call) {
    const double blocks = (double)call->tiles_m * call->tiles_n * call->groups * call->splits;
    const double rounds = blocks / (2.0 * problem->gpu->multiprocessors);
    const double depth = fmin(call->split_depth, call->k);
    return fmax(rounds, GEMM_ALONE) * GEMM_STEP * depth + (call->splits > 1 ? GEMM_SUMS : 0);
}

bool uf_conv_plan_simt_gemm(const uf_conv_problem *problem, uf_conv_plan *plan) {
    if (!takes(problem->args)) {
        return false;
    }
    gemm_call *const call = UF_CONV_PLAN_OF(gemm_call, plan);
    memset(call, 0, sizeof *call);
    set_matrices(problem, call);
    choose_splits(call);
    plan->cost = cost_of(problem, call);
    plan->workspace = call->splits > 1 ? (size_t)call->splits * (size_t)call->groups *
                                             (size_t)call->m * (size_t)call->n * sizeof(float)
                                       : 0;
    return true;
}

bool uf_conv_plan_simt_gemm_wgrad(const uf_conv_problem *problem, uf_conv_plan *plan) {
    return uf_conv_plan_simt_gemm(problem, plan);
}
