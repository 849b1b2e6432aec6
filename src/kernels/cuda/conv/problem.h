/* problem.h - a convolution as every plan sees it. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_PROBLEM_H
#define UF_KERNELS_CUDA_CONV_PROBLEM_H

#include "kernels/cuda/device/gpu.h"
#include "kernels/geometry.h"
#include "kernels/kernels.h"

UF_BEGIN_DECLS

/* Splits of weight gradients are made for an H200 on every GPU: they decide the order of sums, and
 * so the bits of w. */
enum { UF_CONV_SPLIT_MULTIPROCESSORS = 132 };

/* Tiles of a main loop have numbers from 0 on (plan.h); with this one the plan function chooses. */
enum { UF_CONV_ANY_TILE = -1 };

static inline bool uf_conv_is_tile(int wanted, int tile) {
    return wanted == UF_CONV_ANY_TILE || wanted == tile;
}

/* Borrowed: args have passed uf_conv_check. A plan may ask for extents, strides, types, the
 * epilogue's kind and the alignment of x, w and y to 128 bytes; addresses count in a launch alone.
 */
typedef struct uf_conv_problem {
    uf_conv_direction direction;
    const uf_conv_kernel_args *args;
    const uf_gpu *gpu;
    int tile; /* that is asked for, or UF_CONV_ANY_TILE */
} uf_conv_problem;

/* The problem with any tile. */
static inline uf_conv_problem uf_conv_problem_of(uf_conv_direction direction,
                                                 const uf_conv_kernel_args *args,
                                                 const uf_gpu *gpu) {
    const uf_conv_problem problem = {direction, args, gpu, UF_CONV_ANY_TILE};
    return problem;
}

/* The same problem with any tile: for the plan of a fallback. */
static inline uf_conv_problem uf_conv_any_tile(const uf_conv_problem *problem) {
    return uf_conv_problem_of(problem->direction, problem->args, problem->gpu);
}

/* fprop writes y, dgrad x, wgrad w. */
static inline const uf_view *uf_conv_written(const uf_conv_problem *problem) {
    return problem->direction == UF_CONV_FPROP   ? &problem->args->y
           : problem->direction == UF_CONV_DGRAD ? &problem->args->x
                                                 : &problem->args->w;
}

/* Some tensor has no element: results are the epilogue of 0, and every plan is as fast. */
static inline bool uf_conv_is_empty(const uf_conv_problem *problem) {
    const uf_conv_kernel_args *args = problem->args;
    return uf_view_count(&args->x) == 0 || uf_view_count(&args->w) == 0 ||
           uf_view_count(&args->y) == 0;
}

/* For correlations: fprop reads x, dgrad y. */
static inline const uf_view *uf_conv_read(const uf_conv_problem *problem) {
    return problem->direction == UF_CONV_FPROP ? &problem->args->x : &problem->args->y;
}

/* w in its packed form, which is at the beginning of the workspace unless it outlives the call. */
static inline void *uf_conv_packed_at(const uf_conv_kernel_args *args) {
    return args->packing == UF_CONV_PACK_IN_CALL ? args->workspace : args->packed;
}

/* The rest of the workspace, behind `bytes` of a packed form that may be there. */
static inline char *uf_conv_behind_packed(const uf_conv_kernel_args *args, int64_t bytes) {
    char *const workspace = (char *)args->workspace;
    return args->packing == UF_CONV_PACK_IN_CALL && workspace != NULL ? workspace + bytes
                                                                      : workspace;
}

/* The least exponent whose power of two is `value` or more. */
static inline int32_t uf_conv_log2(int32_t value) {
    int32_t log = 0;
    while (1 << log < value) {
        ++log;
    }
    return log;
}

/* limits.c: every extent, and every position of a tap, padding included, has 28 bits: sums of a few
 * of them are int32_t. */
bool uf_conv_positions_fit(const uf_conv_kernel_args *args);

/* The same, and tiles of 128 written pixels of a phase by 32 channels have indices of 30 bits. */
bool uf_conv_tiles_fit(uf_conv_direction direction, const uf_conv_kernel_args *args);

UF_END_DECLS

#endif
