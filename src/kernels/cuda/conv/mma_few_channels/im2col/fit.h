/* fit.h - for im2col/plan.c, which chooses among tiles: does one fit shared memory? */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_FIT_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_FIT_H

#include "kernels/cuda/conv/mma_few_channels/im2col/plan.h"

UF_BEGIN_DECLS

static inline int64_t uf_im2col_div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static inline int64_t uf_im2col_round_up(int64_t value, int64_t unit) {
    return uf_im2col_div_up(value, unit) * unit;
}

/* What the tiles that are tried have in common. */
typedef struct uf_im2col_layer {
    uf_im2col_plan plan; /* without what follows from the tile */
    size_t element;
    int32_t cell_span[2];
    int64_t offset[2][UF_IM2COL_TAPS];
} uf_im2col_layer;

/* Window, records, weights and stage for tiles that are set and `chunk` channels at a time, blocks
 * and cycles; false: no room. */
bool uf_im2col_fit(const uf_im2col_layer *layer, int64_t chunk, uf_im2col_plan *plan);

/* Blocks of a multiprocessor. */
int64_t uf_im2col_blocks_at_once(const uf_im2col_plan *plan);

UF_END_DECLS

#endif
