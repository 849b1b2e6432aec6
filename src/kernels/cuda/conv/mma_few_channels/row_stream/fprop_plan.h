/* fprop_plan.h - the plan of row_stream/fprop_launch.cu, from the arguments alone. Needs no GPU and
 * no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_FPROP_PLAN_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_FPROP_PLAN_H

#include "kernels/cuda/conv/plan.h"
#include "kernels/cuda/conv/simt_direct/plan.h"

UF_BEGIN_DECLS

enum {
    UF_ROW_STREAM_FPROP_N = 4,      /* 8-channel blocks of a warp, at most */
    UF_ROW_STREAM_FPROP_WARPS = 8,  /* warps of a block that multiply, at most */
    UF_ROW_STREAM_FPROP_LAGS = 3,   /* rows of the filter that share a row, where any do */
    UF_ROW_STREAM_FPROP_STAGES = 8, /* stages of the ring, at most */
    UF_ROW_STREAM_FPROP_HEAD = 256, /* bytes of barriers and coordinates before the weights */
    UF_ROW_STREAM_FPROP_SHARED = 227 * 1024,    /* bytes of a block that is alone, at most */
    UF_ROW_STREAM_FPROP_SHARED_TWO = 113 * 1024 /* bytes of each of two resident blocks, at most */
};

/* A block computes `band` rows of `tile` pixels of up to 8*n channels of a group, from the top
 * down. A stage holds one row of `chunk` read channels. Lags 3: the stride equals the dilation, and
 * each row is loaded once for three rows of pixels. Lags 1: a row of pixels reads `classes` rows,
 * one for each row of the filter. */
typedef struct uf_row_stream_fprop_conv {
    uf_direct_conv conv; /* tensors, epilogue; of the axes only the read extents */
    int32_t written[2];  /* rows and columns of the written tensor */
    int32_t warps, tile, tiles, band, bands, slices;
    int32_t classes, chunk, chunks, stages;
    int32_t reach; /* columns from the first pixel's first tap to the last pixel's last */
    int32_t pitch; /* bytes from channel to channel of a stage, as in memory modulo 16 */
    int32_t stage_bytes, weight_bytes;
    int32_t stage_weight_bytes; /* bytes of weights for one stage */
    /* Bytes in memory from row to row, from chunk to chunk; in a stage from tap to tap across. Only
     * the low 32 bits: registers are few, and only addresses modulo 16 are needed. */
    uint32_t row_bytes, chunk_bytes, tap_bytes;
    bool vector; /* a lane's pixels are one store */
} uf_row_stream_fprop_conv;

typedef struct uf_row_stream_fprop_plan {
    uf_row_stream_fprop_conv stream;
    int32_t m, n; /* of a warp: 16-pixel blocks, 8-channel blocks */
    int32_t lags; /* rows of pixels that read a stage's row */
    int64_t blocks;
    int32_t threads, resident; /* threads of a block; blocks of a multiprocessor */
    size_t shared;
    double cost; /* cycles, modelled */
} uf_row_stream_fprop_plan;

/* Numbers of tiles (conv/plan.h): one or two 16-pixel blocks of a warp. */
enum { UF_ROW_STREAM_FPROP_TILES = 2 };

static inline int uf_row_stream_fprop_tile_number(int32_t m) {
    return m - 1;
}

/* False: not fprop, an activation or accumulation, channels that do not fill the K of an MMA, short
 * rows, weights and rows beyond shared memory, or another tile than the problem's. */
bool uf_row_stream_fprop_plan_of(const uf_conv_problem *problem, uf_row_stream_fprop_plan *plan);

UF_END_DECLS

#endif
