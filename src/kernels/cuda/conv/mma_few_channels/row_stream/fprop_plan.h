/* fprop_plan.h - the host side of row_stream/fprop_launch.cu: what the kernel is told, from
 * the arguments alone. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_FPROP_PLAN_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_FPROP_PLAN_H

#include "kernels/cuda/conv/simt_direct/plan.h"

UF_BEGIN_DECLS

enum {
    UF_ROW_STREAM_FPROP_WARPS = 8,              /* of a block that multiply, at most */
    UF_ROW_STREAM_FPROP_LAGS = 3,               /* taps that share a row, where any do */
    UF_ROW_STREAM_FPROP_STAGES = 8,             /* at most */
    UF_ROW_STREAM_FPROP_HEAD = 256,             /* bytes of barriers and such before the weights */
    UF_ROW_STREAM_FPROP_SHARED = 227 * 1024,    /* bytes of a block, at most */
    UF_ROW_STREAM_FPROP_SHARED_TWO = 113 * 1024 /* of each of two */
};

/* A block makes `band` rows of `tile` pixels of up to 8*n channels of a group, from the top down. A
 * stage is one row of `chunk` channels of what is read. Where a step down is as far as from one
 * tap's row to the next (lags 3), each row comes once, for three rows of pixels; else a row of
 * pixels has `classes` rows, one per tap. */
typedef struct uf_row_stream_fprop_conv {
    uf_direct_conv conv; /* tensors, epilogue; of the axes what is read alone */
    int32_t written[2];  /* extents */
    int32_t warps, tile, tiles, band, bands, slices;
    int32_t classes, chunk, chunks, stages;
    int32_t reach; /* columns from a tile's first pixel's first tap to the last one's last */
    int32_t pitch; /* bytes from channel to channel of a stage, as in memory modulo 16 */
    int32_t stage_bytes, weight_bytes;
    int32_t stage_weight_bytes; /* for a stage */
    /* In memory from row to row and from chunk to chunk; in a stage from tap to tap across. The
     * last 32 bits: registers are few, and addresses modulo 16 are wanted. */
    uint32_t row_bytes, chunk_bytes, tap_bytes;
    bool vector; /* a lane's pixels leave together */
} uf_row_stream_fprop_conv;

typedef struct uf_row_stream_fprop_plan {
    uf_row_stream_fprop_conv stream;
    int32_t m, n; /* of a warp: sixteens of pixels, eights of channels */
    int32_t lags; /* rows of pixels that a stage's row is for */
    int64_t blocks;
    int32_t threads, resident; /* blocks of a multiprocessor */
    size_t shared;
    double cost; /* an estimate for an H200 */
} uf_row_stream_fprop_plan;

/* False: not fprop; an activation or what is there to add to; channels that do not fill a MMA's
 * depth; short rows; weights and rows beyond shared memory. */
bool uf_row_stream_fprop_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                                 uf_row_stream_fprop_plan *plan);

UF_END_DECLS

#endif
