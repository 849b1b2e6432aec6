/* plan.h - the plan of mma_implicit_gemm/launch.cu: tile, grid, splits and workspace, from the
 * arguments alone; and the convolution as the device sees it. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_IMPLICIT_GEMM_PLAN_H
#define UF_KERNELS_CUDA_CONV_MMA_IMPLICIT_GEMM_PLAN_H

#include "kernels/cuda/arch/mma_math.h"
#include "kernels/cuda/conv/plan.h"

UF_BEGIN_DECLS

enum {
    MMA_PIXELS = 128,        /* of a tile */
    MMA_PIXEL_PITCH = 136,   /* words from one k to the next: 8 mod 32 */
    MMA_STAGING_PITCH = 132, /* words from one channel to the next on the epilogue: 4 mod 32 */
    MMA_PHASES = 16,         /* per axis that fit the kernel's parameters */
    MMA_PACK_TAPS = 8,       /* of one thread of conv_mma_pack */
    MMA_LEAST_CHANNELS = 32, /* of a tile; tiles have numbers by their channels: 32, 64, 128 */
    MMA_TILES = 3
};

/* One axis. Entries by phase; larger strides make theirs in the thread. */
typedef struct mma_walk {
    int32_t out_first, out_count, in_first, tap_first, taps;
} mma_walk;

typedef struct mma_axis {
    int32_t read; /* extent of the side that is read */
    int32_t phases, out_step, in_step, in_tap_step, tap_step;
    int32_t written, kernel, stride, padding, dilation;
    mma_walk walk[MMA_PHASES];
} mma_axis;

typedef struct mma_conv {
    const float *read,
        *weight; /* or bf16, as the functions' T says; so are `written` and `scale` */
    int64_t read_stride[4];
    int64_t w_group, w_written, w_read, w_row,
        w_column; /* strides of w as this direction sees it */
    uint32_t *packed;
    float *written;
    int64_t written_stride[4];
    float *partial; /* of the splits, each `partial_count` elements in C order */
    int64_t partial_count;
    const float *scale, *shift;
    int64_t scale_stride, shift_stride;
    uf_activation_kind activation;
    float parameter;
    bool accumulate;
    bool batch_fastest; /* order of a phase's pixels: (j_h, j_w, n) instead of (n, j_h, j_w) */
    mma_axis axis[2];
    int32_t batch, groups, read_per_group, written_per_group;
    int32_t chunks;   /* of read channels per tap */
    int32_t blocks_n; /* tiles of written channels per group */
    int32_t splits;
} mma_conv;

static UF_HD_INLINE mma_walk mma_walk_of(const mma_axis *axis, int32_t phase) {
    if (axis->phases <= MMA_PHASES) {
        return axis->walk[phase];
    }
    const uf_axis_walk wide = uf_axis_dgrad(axis->written, axis->kernel, axis->stride,
                                            axis->padding, axis->dilation, phase);
    mma_walk walk;
    walk.out_first = (int32_t)wide.out_first;
    walk.out_count = (int32_t)wide.out_count;
    walk.in_first = (int32_t)wide.in_first;
    walk.tap_first = (int32_t)wide.tap_first;
    walk.taps = (int32_t)wide.taps;
    return walk;
}

/* A block's tile: channels go fastest, then phases, so that blocks that read the same pixels or
 * write the same lines run together. */
typedef struct mma_block {
    int32_t channel_block; /* tile of written channels, of all groups */
    int32_t phase;         /* row phase * phases of a row + column phase */
    int32_t tile;          /* of MMA_PIXELS pixels of the phase, which may have fewer tiles */
} mma_block;

static UF_HD_INLINE mma_block mma_block_of(const mma_conv *p, int32_t block) {
    const int32_t channel_blocks = p->groups * p->blocks_n;
    mma_block at;
    at.channel_block = block % channel_blocks;
    block /= channel_blocks;
    const int32_t phases = p->axis[0].phases * p->axis[1].phases;
    at.phase = block % phases;
    at.tile = block / phases;
    return at;
}

/* Where a thread's pixel is: image n, element (h, w) of the phase; tap 0 reads (read_h, read_w). */
typedef struct mma_pixel {
    int32_t n, h, w, read_h, read_w;
    bool there;
} mma_pixel;

static UF_HD_INLINE mma_pixel mma_locate(const mma_conv *p, const mma_walk *down,
                                         const mma_walk *across, int32_t index) {
    const int32_t plane = down->out_count * across->out_count;
    mma_pixel at;
    at.there = index < p->batch * plane;
    int32_t in_plane;
    if (p->batch_fastest) {
        in_plane = index / p->batch;
        at.n = index - in_plane * p->batch;
    } else {
        at.n = index / plane;
        in_plane = index - at.n * plane;
    }
    at.h = in_plane / across->out_count;
    at.w = in_plane - at.h * across->out_count;
    at.read_h = at.h * p->axis[0].in_step + down->in_first;
    at.read_w = at.w * p->axis[1].in_step + across->in_first;
    return at;
}

/* math, channels of a tile, warps, blocks per multiprocessor that registers are rationed for */
#define UF_MMA_TILES                                                                               \
    UF_MMA_TILE(UF_MMA_TF32X3, 32, 4, 3)                                                           \
    UF_MMA_TILE(UF_MMA_TF32X3, 64, 4, 2)                                                           \
    UF_MMA_TILE(UF_MMA_TF32X3, 128, 8, 1)                                                          \
    UF_MMA_TILE(UF_MMA_TF32, 32, 4, 4)                                                             \
    UF_MMA_TILE(UF_MMA_TF32, 64, 4, 4)                                                             \
    UF_MMA_TILE(UF_MMA_TF32, 128, 8, 2)                                                            \
    UF_MMA_TILE(UF_MMA_BF16, 32, 4, 4)                                                             \
    UF_MMA_TILE(UF_MMA_BF16, 64, 4, 3)                                                             \
    UF_MMA_TILE(UF_MMA_BF16, 128, 8, 2)

typedef struct mma_plan {
    mma_conv conv;
    int tile_n;
    int64_t blocks; /* per split */
    double k_tiles; /* of a block of the phase that has most; and on average over phases */
    double mean_k_tiles;
    int64_t pack_warps, pack_rows; /* conv_mma_pack: warps of a row of its grid; such rows */
    int64_t add_pixels, add_rows;  /* conv_mma_add: threads of a row of its grid; such rows */
    int64_t workspace;             /* bytes */
    int64_t packed; /* bytes of the packed filter, which comes first in the workspace */
} mma_plan;

/* A plan's tile (conv/plan.h). */
static inline int uf_mma_tile_of(const mma_plan *plan) {
    return plan->tile_n == MMA_LEAST_CHANNELS ? 0 : plan->tile_n == 2 * MMA_LEAST_CHANNELS ? 1 : 2;
}

/* The plan of a tile that there is, but for the members that uf_mma_bind sets. */
mma_plan uf_mma_shape_of(uf_conv_direction direction, const uf_conv_kernel_args *args, int tile);

/* Sets addresses, strides, the epilogue and the mode, which a plan in the cache does not keep. */
void uf_mma_bind(mma_plan *plan, uf_conv_direction direction, const uf_conv_kernel_args *args);

/* The convolution of a plan, bound: for main loops that have tiles of their own. */
mma_conv uf_mma_bound(const mma_plan *plan, uf_conv_direction direction,
                      const uf_conv_kernel_args *args);

/* Models do not see that neighbours along a row are read or written far from each other: from 5 to
 * 12 layers on an H200, each. */
double uf_mma_step_factor(uf_conv_direction direction, const uf_conv_kernel_args *args);

UF_END_DECLS

#endif
