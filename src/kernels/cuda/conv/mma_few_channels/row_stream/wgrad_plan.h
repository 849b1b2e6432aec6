/* wgrad_plan.h - the host side of row_stream/wgrad_launch.cu: what the kernel is told, from
 * the arguments alone. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_WGRAD_PLAN_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_WGRAD_PLAN_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

enum {
    UF_ROW_STREAM_WGRAD_WARPS = 7,          /* of a block that multiply; one more brings rows */
    UF_ROW_STREAM_WGRAD_PIXELS = 128,       /* of a row at a time, at most */
    UF_ROW_STREAM_WGRAD_LAGS = 3,           /* rows of the filter */
    UF_ROW_STREAM_WGRAD_C = 16,             /* channels of x of a tile of w */
    UF_ROW_STREAM_WGRAD_K = 8,              /* and of y */
    UF_ROW_STREAM_WGRAD_STAGES = 8,         /* at most */
    UF_ROW_STREAM_WGRAD_HEAD = 176,         /* bytes of barriers and such before the rows */
    UF_ROW_STREAM_WGRAD_SHARED = 113 * 1024 /* bytes of each of two blocks, at most */
};

/* A block makes a tile of w, all taps, from `band` rows of `tile` pixels of one image. A stage is a
 * row of x of the tile's channels; the row of y that its first tap meets lies in a ring of its own,
 * because the rows of x that come next meet it with the other taps. */
typedef struct uf_row_stream_wgrad_plan {
    int32_t taps;          /* columns of the filter */
    int32_t tile, tiles_w; /* pixels; parts of a row */
    int32_t band, bands;   /* rows */
    int32_t tiles_k, tiles_c, splits;
    int32_t reach;            /* columns of x from a tile's first tap to its last */
    int32_t pitch_x, pitch_y; /* bytes from channel to channel; of x as in memory modulo 16 */
    int32_t x_bytes, y_bytes; /* of a stage, of a row of y */
    int32_t stages, rows_y;   /* rows of x, of y (the last one zeros) */
    uint32_t zeros_at;        /* bytes from the first row of y to these */
    int32_t shared;
    double cost; /* an estimate for an H200 */
} uf_row_stream_wgrad_plan;

/* False: a filter of other than three rows, as far apart as a step down; of other than three to
 * five columns; channels that do not fill tiles; rows of y that begin at different places modulo 16
 * bytes. */
bool uf_row_stream_wgrad_plan_of(const uf_conv_kernel_args *args, uf_row_stream_wgrad_plan *plan);

UF_END_DECLS

#endif
