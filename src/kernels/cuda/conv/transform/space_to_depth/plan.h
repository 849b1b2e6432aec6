/* plan.h - the plan of space_to_depth/launch.cu: the inner convolution, and the moves of x and w.
 * Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_TRANSFORM_SPACE_TO_DEPTH_PLAN_H
#define UF_KERNELS_CUDA_CONV_TRANSFORM_SPACE_TO_DEPTH_PLAN_H

#include "kernels/cuda/conv/problem.h"
#include "kernels/cuda/conv/simt_direct/plan.h"

UF_BEGIN_DECLS

enum {
    UF_SPACE_TO_DEPTH_THREADS = 256,
    UF_SPACE_TO_DEPTH_TILE = 16384, /* bytes of shared memory of a block */
    UF_SPACE_TO_DEPTH_TOGETHER = 4, /* loads of a lane in flight */
    UF_SPACE_TO_DEPTH_PHASES = 64   /* most phases of an axis */
};

/* x with its phases as channels. Pixel (h, w) of channel c is element (i, j), a cell, of channel
 * (c * phases[0] + a) * phases[1] + b with
 *     h = i * phases[0] + a - origin[0],  w = j * phases[1] + b - origin[1];
 * cells whose pixel lies outside are zero. A unit is a row phase of a plane. A block moves a tile
 * of cells of `together` units, with all column phases. Offsets of elements have 32 bits. */
typedef struct uf_space_to_depth_move {
    int32_t stride[4];    /* elements of x; 0: extent 1 */
    int32_t plane, pitch; /* elements of a channel, of a row of cells: a multiple of 16 bytes */
    int32_t channels;     /* of x */
    int32_t extent[2];    /* pixels of x */
    int32_t phases[2], origin[2];
    int32_t cells[2];          /* of a plane */
    int32_t tile[2], tiles[2]; /* cells of a tile; tiles of a plane */
    int32_t units, together;
    int32_t spacing; /* elements from cell to cell in shared memory: odd, against bank conflicts */
    int32_t blocks;  /* of the grid */
    int32_t segments[2]; /* of a row, one warp each: moved by elements, by 16 bytes */
    int32_t runs;        /* groups of eight times 16 bytes of a phase of a tile */
    int32_t fours;       /* groups of four column phases */
    bool vector;         /* rows of pixels begin at multiples of 16 bytes if the first one does */
    bool wide;           /* 16 bytes of pixels lie in two cells at most */
    uf_direct_divisor by_channels, by_row_phases, by_phases, by_rows; /* these; rows of a tile */
    uf_direct_divisor by_segments[2], by_runs, by_fours,
        by_row; /* these; 16 bytes of a row of a tile */
} uf_space_to_depth_move;

/* The move of w: element (r, s) of (k, c) becomes (r / phases[0], s / phases[1]) of channel
 * (c * phases[0] + r % phases[0]) * phases[1] + s % phases[1]. Zeros pad it. */
typedef struct uf_space_to_depth_filter {
    int64_t stride[4]; /* elements of w */
    int32_t channels, kernel[2], phases[2], taps[2];
    int32_t count, moved; /* elements of w; of the moved filter */
    uf_direct_divisor by_channels, by_kernel[2], by_phases[2], by_taps[2];
} uf_space_to_depth_filter;

typedef struct uf_space_to_depth_plan {
    /* The inner convolution: x and w are moved, y is not. Its addresses stand for any aligned ones,
     * so that a choice does not depend on them. */
    uf_conv_kernel_args inner;
    uf_space_to_depth_move tensor;
    uf_space_to_depth_filter filter;
    size_t tensor_at, filter_at, scale_at, shift_at; /* byte offsets in scratch */
    size_t bytes;   /* of these in scratch; inner's scratch follows */
    int32_t spread; /* elements of inner's scale and shift; 0: none */
    bool fixups;    /* fprop: NaN in y is fixed up */
    double cost;    /* cycles of the moves */
} uf_space_to_depth_plan;

/* False: no axis has a stride of 2 to 64, a strided axis is dilated, or the problem accumulates in
 * fprop or in bf16 tensors. */
bool uf_space_to_depth_plan_of(const uf_conv_problem *problem, uf_space_to_depth_plan *plan);

/* inner with addresses, in args' scratch of at least plan->bytes; inner's scratch is the remainder.
 */
uf_conv_kernel_args uf_space_to_depth_inner(const uf_space_to_depth_plan *plan,
                                            const uf_conv_kernel_args *args);

UF_END_DECLS

#endif
