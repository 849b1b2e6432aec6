/* plan.h - tiles of the patch GEMM and the order of its sums, from the arguments alone. Plain C. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_PLAN_H
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_PLAN_H

#include "kernels/cuda/arch/mma_math.h"
#include "kernels/cuda/conv/problem.h"

UF_BEGIN_DECLS

enum {
    UF_PATCH_PIXELS = 256, /* pixels of a CTA: positions of the small side, neighbours in memory */
    UF_PATCH_GROUPS = 2,   /* consumer warpgroups of 128 pixels */
    UF_PATCH_READ = 32768, /* bytes of the read side in a stage */
    UF_PATCH_RUN = 128,    /* contiguous bytes of a channel in a stage */
    UF_PATCH_RUNS = 16,    /* runs beside each other in a tile, at most: TMA loads of a stage */
    UF_PATCH_BARRIERS = 128,  /* bytes */
    UF_PATCH_STAGING = 8192,  /* bytes: eight accumulators of each consumer thread */
    UF_PATCH_THREES = 24,     /* columns stored at once where a pixel has three or six */
    UF_PATCH_STAGES = 4,      /* stages, at most */
    UF_PATCH_BRIEF = 64,      /* MMAs of a sum up to which FP32 promotes after each step */
    UF_PATCH_SHARED = 232448, /* bytes of shared memory of a CTA */
    UF_PATCH_STRIDE = 32,     /* stride, at most */
    UF_PATCH_SPLITS = 8,      /* CTAs of a cluster, at most */
    UF_PATCH_TILE_NUMBERS = 4 /* log2 of the CTAs of a cluster */
};

/* The layout of a stage and the terms of an MMA. */
typedef struct uf_patch_tile {
    int32_t element;  /* bytes of an element of the tensors */
    int32_t side;     /* columns of the read side under a pixel: 1, 2, 4, 8 or 16 */
    int32_t spread;   /* columns of the written side in a unit: 1, 2 or 4 */
    int32_t columns;  /* columns of an MMA: written units times `spread` */
    int32_t channels; /* channels of a stage */
    int32_t planes;   /* planes of 16 bytes of K of a stage's weights, without FP32's small parts */
    int32_t unit;     /* channels of the least number of whole steps */
    int32_t pieces;   /* planes of a unit */
    int32_t run;      /* pixels in UF_PATCH_RUN bytes of a channel */
    int32_t values;   /* values of K in 16 bytes */
} uf_patch_tile;

static inline UF_HD uf_patch_tile uf_patch_tile_of(uf_mma_math math, int32_t element, int32_t side,
                                                   int32_t spread) {
    uf_patch_tile tile;
    const bool bf16 = math == UF_MMA_BF16;
    tile.element = element;
    tile.side = side;
    tile.spread = spread;
    tile.columns = math == UF_MMA_TF32X3 ? 64 : 128;
    tile.channels = UF_PATCH_READ / (UF_PATCH_PIXELS * side * element);
    tile.values = bf16 ? 8 : 4;
    tile.planes = tile.channels * side / tile.values;
    tile.unit = side * element >= 16 ? 64 / (side * element) : bf16 && side == 1 ? 16 : 8;
    tile.pieces = tile.unit * side / tile.values;
    tile.run = UF_PATCH_RUN / (side * element);
    return tile;
}

/* The channel within a unit and the column of the read side of value `value` of 16 bytes `piece`.
 * In this order lanes find their channels in shared memory without bank conflicts. Lane l has value
 * l % 4 of f32, or two values of bf16, of both halves of a step's K. */
static inline UF_HD void uf_patch_k(const uf_patch_tile *tile, int32_t piece, int32_t value,
                                    int32_t *channel, int32_t *column) {
    const int32_t half = piece & 1, step = piece >> 1;
    const bool pairs = tile->values == 8; /* a word is two values: of two columns where there are */
    const int32_t lane = pairs ? value >> 1 : value, odd = pairs ? value & 1 : 0;
    const int32_t bytes = tile->side * tile->element; /* bytes of a channel under a pixel */
    if (tile->side == 1) {
        *channel = pairs ? 8 * half + value : 2 * value + half;
        *column = 0;
    } else if (bytes == 4) {
        *channel = 2 * lane + half;
        *column = odd;
    } else if (bytes == 8) {
        const int32_t fourth = (lane & 1) + 4 * (lane >> 1);
        const bool second = tile->side == 2 && pairs; /* halves are channels, else columns */
        *channel = fourth + 2 * (second ? half : step);
        *column = second ? odd : pairs ? 2 * half + odd : half;
    } else { /* a lane has 16 bytes of one of the channels in 64 bytes */
        const int32_t each = bytes / 16, values = 16 / tile->element;
        *channel = lane / each;
        *column = lane % each * values + (tile->element == 2 ? 2 * piece + odd
                                          : pairs            ? 2 * half + odd
                                                             : piece);
    }
}

/* The written unit of column `column` of a tile, and the column within the unit. Four lanes share a
 * row of accumulators; each has all columns of its units. */
static inline UF_HD void uf_patch_column(const uf_patch_tile *tile, int32_t column,
                                         int32_t *channel, int32_t *over) {
    const int32_t eight = column >> 3, lane = column >> 1 & 3, odd = column & 1;
    *channel = tile->spread == 1   ? column
               : tile->spread == 2 ? 4 * eight + lane
                                   : 4 * (eight >> 1) + lane;
    *over = tile->spread == 1 ? 0 : tile->spread == 2 ? odd : 2 * (eight & 1) + odd;
}

typedef struct uf_patch_plan {
    uf_patch_tile tile;
    int32_t read_rows, written_rows; /* filter rows that are summed; that are tiles of their own */
    int32_t over[2];                 /* rows and columns of the written side over a pixel */
    int32_t units;        /* units of `spread` columns that a group writes per row of pixels */
    int32_t fold, across; /* units of a channel: in all its rows; in one row */
    int32_t fold_log, across_log; /* log2 of fold and across; -1: no power of two */
    bool flat;                    /* a channel's plane is one row of pixels */
    int32_t width, row;           /* pixels of a row as walked; of a row of the small side */
    int32_t height;
    int32_t piece;          /* bytes of a copy, at least: 16 (TMA loads), 8 or 4 */
    int32_t log;            /* log2 of a tile's columns; it has UF_PATCH_PIXELS >> log rows */
    int32_t chunks, stages; /* chunks of channels; stages of a sum: chunks times read_rows */
    bool threes;            /* units are single columns, three or six over a pixel */
    int32_t tile_units;     /* units of a tile */
    int32_t channel_tiles;  /* tiles of units, per group */
    int32_t column_tiles;   /* channel_tiles times written_rows */
    int32_t pixel_tiles[2]; /* tiles per image: down, across */
    bool brief;             /* FP32: promotion after each step, because sums are short */
    int32_t buffers, stage_bytes, staging, shared;
    int64_t weight_bytes; /* bytes of all packed weights */
    int64_t tiles;
    double cost;    /* modelled cycles */
    int32_t splits; /* CTAs of a cluster that share the stages of a tile */
} uf_patch_plan;

/* The channel, row and first column of unit `unit` of a group. */
static inline UF_HD int32_t uf_patch_unit(const uf_patch_plan *plan, int32_t unit, int32_t *row,
                                          int32_t *column) {
    const int32_t channel = plan->fold_log >= 0 ? unit >> plan->fold_log : unit / plan->fold;
    const int32_t rest = unit - channel * plan->fold;
    *row = plan->across_log >= 0 ? rest >> plan->across_log : rest / plan->across;
    *column = (rest - *row * plan->across) * plan->tile.spread;
    return channel;
}

/* The first stage of split `split` of a tile. */
static inline UF_HD int32_t uf_patch_split_begin(const uf_patch_plan *plan, int32_t split) {
    return (int32_t)((int64_t)plan->stages * split / plan->splits);
}

/* A plan's tile (conv/plan.h). */
static inline int uf_patch_tile_number(const uf_patch_plan *plan) {
    int log = 0;
    while (1 << log < plan->splits) {
        ++log;
    }
    return log;
}

/* False unless kernel = stride without padding, and tiles are mostly filled; or where `tile` does
 * not fit. Rows must be multiples
 * of 16 bytes, or of 4 where one column of one row is read. Here and in the kernel pointwise
 * convolutions are as uf_conv_flat makes them. */
bool uf_patch_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args, int tile,
                      uf_patch_plan *plan);

UF_END_DECLS

#endif
