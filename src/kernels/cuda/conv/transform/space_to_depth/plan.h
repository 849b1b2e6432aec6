/* plan.h - the host side of space_to_depth/launch.cu: which convolution a convolution with
 * steps becomes, and how tensors get there. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_TRANSFORM_SPACE_TO_DEPTH_PLAN_H
#define UF_KERNELS_CUDA_CONV_TRANSFORM_SPACE_TO_DEPTH_PLAN_H

#include "kernels/cuda/conv/simt_direct/plan.h"

UF_BEGIN_DECLS

enum {
    UF_SPACE_TO_DEPTH_THREADS = 256,
    UF_SPACE_TO_DEPTH_TILE = 16384, /* bytes of shared memory of a block */
    UF_SPACE_TO_DEPTH_TOGETHER = 4, /* loads of a lane under way */
    UF_SPACE_TO_DEPTH_PHASES = 64   /* of an axis, at most */
};

/* x with its phases as channels. Pixel (h, w) of channel c is element (i, j), a cell, of channel
 * (c * phases[0] + a) * phases[1] + b with
 *     h = i * phases[0] + a - origin[0],  w = j * phases[1] + b - origin[1];
 * cells whose pixel lies outside are zero. A unit is a row phase of a plane; a block moves a tile
 * of cells of `together` units, all column phases of them. Offsets of elements are 32-bit. */
typedef struct uf_space_to_depth_move {
    int32_t stride[4];    /* of pixels */
    int32_t plane, pitch; /* of cells: elements of a channel, of a row, which is whole 16 bytes */
    int32_t channels;     /* of pixels */
    int32_t extent[2];    /* of pixels */
    int32_t phases[2], origin[2];
    int32_t cells[2];
    int32_t tile[2], tiles[2]; /* cells of a tile; tiles of a plane */
    int32_t units, together;
    int32_t spacing; /* elements of a cell's phases in shared memory: odd, for its banks */
    int32_t blocks;
    int32_t segments[2]; /* of a row of pixels: what a warp moves, one by one or by 16 bytes */
    int32_t runs;        /* eights of 16 bytes of a phase of a tile */
    int32_t fours;       /* of column phases */
    bool vector;         /* rows of pixels begin at multiples of 16 bytes, if the first one does */
    bool wide;           /* 16 bytes of pixels lie in two cells at most */
    uf_direct_divisor by_channels, by_row_phases, by_phases, by_rows; /* these; rows of a tile */
    uf_direct_divisor by_segments[2], by_runs, by_fours,
        by_row; /* these; 16 bytes of a row of a tile */
} uf_space_to_depth_move;

/* w as the same makes it: element (r, s) of (k, c) is (r / phases[0], s / phases[1]) of channel
 * (c * phases[0] + r % phases[0]) * phases[1] + s % phases[1]; zeros fill it up. */
typedef struct uf_space_to_depth_filter {
    int64_t stride[4]; /* of w */
    int32_t channels, kernel[2], phases[2], taps[2];
    int32_t count, moved; /* elements of w; of what it becomes */
    uf_direct_divisor by_channels, by_kernel[2], by_phases[2], by_taps[2];
} uf_space_to_depth_filter;

typedef struct uf_space_to_depth_plan {
    /* Its x and w are moved, its y is as it was; addresses are any, of the right alignment, so that
     * a choice does not depend on them. */
    uf_conv_kernel_args inner;
    uf_space_to_depth_move tensor;
    uf_space_to_depth_filter filter;
    size_t tensor_at, filter_at, scale_at, shift_at; /* in scratch */
    size_t bytes;   /* of all these; inner's scratch begins there */
    int32_t spread; /* channels of inner's scale and shift, one for each phase; 0: none */
    bool fixups;    /* fprop: what is NaN is looked at again */
    double cost;    /* of moving, about, on an H200 */
} uf_space_to_depth_plan;

/* True where some axis has steps, of up to 64, and filters with steps are not dilated. bf16 tensors
 * and fprop are not added to. */
bool uf_space_to_depth_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                               uf_space_to_depth_plan *plan);

/* inner with addresses: args' scratch, of at least plan->bytes, and what is left of it. */
uf_conv_kernel_args uf_space_to_depth_inner(const uf_space_to_depth_plan *plan,
                                            const uf_conv_kernel_args *args);

UF_END_DECLS

#endif
