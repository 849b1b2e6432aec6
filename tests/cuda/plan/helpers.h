/* helpers.h - arithmetic and views that several tests of plans need. */
#ifndef TEST_CUDA_PLAN_HELPERS_H
#define TEST_CUDA_PLAN_HELPERS_H

#include "kernels/cuda/conv/problem.h"
#include "kernels/cuda/conv/simt_direct/plan.h"

/* A convolution on the GPU that costs were measured on. */
static inline uf_conv_problem problem_of(uf_conv_direction direction,
                                         const uf_conv_kernel_args *args) {
    static const uf_gpu h200 = {90, 132, 227 << 10, 1755.0};
    return uf_conv_problem_of(direction, args, &h200);
}

/* The same with a tile that is asked for. */
static inline uf_conv_problem tiled_problem_of(uf_conv_direction direction,
                                               const uf_conv_kernel_args *args, int tile) {
    uf_conv_problem problem = problem_of(direction, args);
    problem.tile = tile;
    return problem;
}

static inline int64_t round_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

/* From 0 on, below 0 too. */
static inline int64_t modulo(int64_t value, int64_t by) {
    return (value % by + by) % by;
}

/* As direct_divide does: for 0 <= x < 2^31. */
static inline int64_t divide(const uf_direct_divisor *by, int64_t x) {
    const uint64_t high = (uint64_t)x * by->multiplier >> 32;
    return by->divisor == 1 ? x : (int64_t)(high >> by->shift);
}

/* Dense but for rows that are `row` elements apart. */
static inline void set_rows(uf_view *view, int64_t row) {
    view->stride[2] = row;
    view->stride[1] = view->stride[2] * view->extent[2];
    view->stride[0] = view->stride[1] * view->extent[1];
}

/* Such a view, at address 4096. */
static inline uf_view view_of(uf_dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w,
                              int64_t row) {
    uf_view view = uf_view_nchw((void *)4096, dtype, n, c, h, w);
    set_rows(&view, row);
    return view;
}

#endif
