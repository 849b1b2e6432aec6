/* plan.h - the host side of mma_small/launch.cu: boxes of positions, warps, chunks, splits, and
 * how long it takes, from the shape alone. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_SMALL_PLAN_H
#define UF_KERNELS_CUDA_CONV_MMA_SMALL_PLAN_H

#include "kernels/cuda/conv/mma_implicit_gemm/plan.h"

UF_BEGIN_DECLS

enum {
    UF_SMALL_PHASES = 16,      /* that a block's warps share */
    UF_SMALL_WARPS = 16,       /* of a block, at most */
    UF_SMALL_TALL_WARPS = 8,   /* where they are tall */
    UF_SMALL_STAGES = 3,       /* chunks in shared memory, at most */
    UF_SMALL_SHARED = 98 << 10 /* bytes */
};

/* Division of numbers below 2^31 as a multiplication: a block's first load waits for a dozen of
 * them. */
typedef struct uf_small_divisor {
    uint32_t factor; /* 2^shift / by, rounded up */
    int32_t shift;
    int32_t by;
} uf_small_divisor;

static inline uf_small_divisor uf_small_divisor_of(int32_t by) {
    uf_small_divisor made = {0, 31, by};
    while (made.shift < 62 && (INT64_C(1) << (made.shift - 31)) < by) {
        ++made.shift;
    }
    made.factor = (uint32_t)(((UINT64_C(1) << made.shift) + (uint64_t)by - 1) / (uint64_t)by);
    return made;
}

static inline UF_HD int32_t uf_small_divide(int32_t number, uf_small_divisor divisor) {
    return (int32_t)((uint64_t)(uint32_t)number * divisor.factor >> divisor.shift);
}

/* A position is element j of every phase (of fprop's one): a block makes a box of them, all phases,
 * and a tile of written channels, from a range of the read channels with all their taps. Warps
 * share phases, positions, channels and, what is summed in the end, the depth of a chunk. */
typedef struct uf_small_plan {
    bool wide;           /* warps of 32 positions and 32 channels, or 64 and 8 */
    bool tall;           /* of 64 and 32 */
    int32_t tile_pixels; /* positions of a block: whole warps */
    int32_t tile_channels;
    int32_t phases, pixel_warps, channel_warps, depth_warps, depth_log, warps;
    int32_t box[3], boxes[3]; /* images, rows, columns: of a box; boxes along each */
    int32_t window[2],
        first[2];          /* elements of an image that a box reads, and where (below 0: padding) */
    int32_t plane;         /* elements of a read channel in shared memory */
    int32_t channel_tiles; /* per group */
    int32_t depth, chunks, per_split, splits; /* read channels of a chunk; chunks of a split */
    int32_t step;                             /* of K of an MMA: 8, or 16 in BF16 */
    int32_t most_steps;                       /* of K of a phase, with padding up to whole MMAs */
    bool padded;    /* some phase's last MMA has such: a plane of zeros is there for it */
    bool vector;    /* weights come 16 bytes at a time */
    int32_t run;    /* elements that one row of w gives to a chunk */
    int32_t pieces; /* of a run: copies */
    /* Weights in shared memory, in elements: from row of w to row, from written channel to written
     * channel, from read channel to read channel. */
    int32_t row_pitch, across, deep;
    int32_t stage; /* bytes of a chunk */
    int32_t stages;
    int32_t staging_pitch; /* on the epilogue */
    int32_t shared;        /* bytes */
    double micros;         /* that it takes on a large GPU */
} uf_small_plan;

/* Numbers of tiles (conv/plan.h): warps of positions, 1 to 8, by warps of channels, 1 to 4; in the
 * weight gradient warps of columns, 1 to 5 and 8, by warps of rows, 1 or 2. */
enum { UF_SMALL_TILES = 12, UF_SMALL_WGRAD_TILES = 12 };

static inline int uf_small_tile_number(int32_t pixel_warps, int32_t channel_warps) {
    return 3 * uf_conv_log2(pixel_warps) + uf_conv_log2(channel_warps);
}

static inline int uf_small_wgrad_tile_number(int32_t row_warps, int32_t column_warps) {
    return 2 * (column_warps == 8 ? 5 : column_warps - 1) + row_warps - 1;
}

/* Is there one, of this tile? Extents and positions fit 28 bits. */
bool uf_small_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args, int tile,
                      uf_small_plan *plan);

/* A plan in the cache: conv_mma_add adds the splits. */
typedef struct uf_small_conv_plan {
    uf_small_plan small;
    mma_plan sums;
} uf_small_conv_plan;

/* The weight gradient: a block makes a tile of `rows` channels of y and `channels` of x with all
 * taps, from a range of the boxes of positions; warps share rows, columns (c, r, s) and, what is
 * summed in the end, the positions of a box. */
typedef struct uf_small_wgrad_plan {
    int32_t row_warps, column_warps, depth_warps, depth_log, warps;
    int32_t rows, channels, columns;  /* of a tile; columns: whole warps */
    int32_t row_tiles, channel_tiles; /* per group */
    int32_t box[3], boxes[3];         /* images, rows, columns */
    int32_t window[2], plane;     /* elements of an image that a box reads; words of a channel */
    int32_t positions, row_pitch; /* of a box, whole MMAs; words of a row of y: 4 mod 32 */
    int32_t all_boxes, per_split, splits;
    int32_t stage, stages, staging_pitch, shared;
    double micros;
} uf_small_wgrad_plan;

bool uf_small_wgrad_plan_of(const uf_conv_kernel_args *args, int tile, uf_small_wgrad_plan *plan);

UF_END_DECLS

#endif
