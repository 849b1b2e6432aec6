/* wgrad_plan.h - the plan of row_stream/wgrad_launch.cu, from the arguments alone. Needs no GPU and
 * no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_WGRAD_PLAN_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_ROW_STREAM_WGRAD_PLAN_H

#include "kernels/cuda/conv/plan.h"

UF_BEGIN_DECLS

enum {
    UF_ROW_STREAM_WGRAD_WARPS = 7,    /* warps of a block that multiply; one more loads rows */
    UF_ROW_STREAM_WGRAD_PIXELS = 128, /* pixels of a row at a time, at most */
    UF_ROW_STREAM_WGRAD_LAGS = 3,     /* rows of the filter */
    UF_ROW_STREAM_WGRAD_C = 16,       /* channels of x of a tile of w */
    UF_ROW_STREAM_WGRAD_K = 8,        /* channels of y of a tile of w */
    UF_ROW_STREAM_WGRAD_STAGES = 8,   /* stages of the ring of x, at most */
    UF_ROW_STREAM_WGRAD_HEAD = 176,   /* bytes of barriers and coordinates before the rows */
    UF_ROW_STREAM_WGRAD_BLOCKS = 264, /* blocks of a round that the splits are made for; no GPU's
                                         own number, so that sums do not depend on it */
    UF_ROW_STREAM_WGRAD_SHARED = 113 * 1024 /* bytes of each of two resident blocks, at most */
};

/* A block computes a tile of w, all taps, from `band` rows of `tile` pixels of one image. A stage
 * is one row of x of the tile's channels. The row of y that its first tap meets lies in a ring of
 * its own, because the next rows of x meet it with the other taps. */
typedef struct uf_row_stream_wgrad_plan {
    int32_t taps;          /* columns of the filter */
    int32_t tile, tiles_w; /* pixels of a tile; tiles of a row */
    int32_t band, bands;   /* rows of a band; bands of an image */
    int32_t tiles_k, tiles_c, splits;
    int32_t reach; /* columns of x from the first pixel's first tap to the last pixel's last */
    int32_t pitch_x, pitch_y; /* bytes from channel to channel; of x as in memory modulo 16 */
    int32_t x_bytes, y_bytes; /* bytes of a stage of x, of a row of y */
    int32_t stages, rows_y;   /* rows of x; rows of y, of which the last is zeros */
    uint32_t zeros_at;        /* bytes from the first row of y to the zeros */
    int32_t shared;
    double cost; /* cycles, modelled */
} uf_row_stream_wgrad_plan;

/* False: other filters or dilations, channels that do not fill tiles, rows of y of different
 * alignment modulo 16 bytes, or no room. */
bool uf_row_stream_wgrad_plan_of(const uf_conv_problem *problem, uf_row_stream_wgrad_plan *plan);

UF_END_DECLS

#endif
