/* reduce.h - the plan of channel_blocked/reduce.cuh, the split-K reduction of three main loops:
 * layout of the sums in the workspace, and the work of its threads. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_CHANNEL_BLOCKED_REDUCE_H
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_CHANNEL_BLOCKED_REDUCE_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

enum {
    UF_CHANNEL_BLOCKED_ADD_THREADS = 256,
    UF_CHANNEL_BLOCKED_SPAN_ELEMENTS =
        1024,                               /* most elements of a span; 8 channels of 64 taps fit */
    UF_CHANNEL_BLOCKED_LONG_ELEMENTS = 2048 /* the same for up to 16 taps */
};

/* Sums are [split][group][64 channels of y][row][unit of channels][tap][channel of x]. A span is
 * one row of w (k) and 2^span_log channels, all taps: one run of w, and `taps` runs of each split.
 */
typedef struct uf_channel_blocked_reduction {
    int32_t rows;           /* of a tile: channels of y, a multiple of 8, at most 64 */
    int32_t columns;        /* of a tile: channels of x, padded to whole units, times taps */
    int32_t channel_blocks; /* units along channels of x */
    int32_t tiles_m, tiles; /* of a group; of all */
    int32_t width;          /* channels of a unit */
    int32_t width_log;      /* its log2, rounded up */
    int32_t splits;
    int32_t adders;   /* threads that share the splits of an element */
    int32_t span_log; /* log2 of a span's channels */
    int32_t spans;    /* of a row */
    int32_t items;    /* spans of all rows and groups */
} uf_channel_blocked_reduction;

/* The reduction of `splits` sums in units of `width` channels of x. */
uf_channel_blocked_reduction uf_channel_blocked_reduction_of(const uf_conv_kernel_args *args,
                                                             int32_t width, int32_t splits);

/* Bytes of the sums. */
size_t uf_channel_blocked_sums_bytes(const uf_channel_blocked_reduction *reduction);

UF_END_DECLS

#endif
