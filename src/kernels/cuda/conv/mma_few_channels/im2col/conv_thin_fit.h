/* conv_thin_fit.h - for conv_thin_plan.c, which chooses among tiles: does one fit shared memory? */
#ifndef UF_KERNELS_CUDA_CONV_THIN_FIT_H
#define UF_KERNELS_CUDA_CONV_THIN_FIT_H

#include "kernels/cuda/conv/mma_few_channels/im2col/conv_thin_plan.h"

UF_BEGIN_DECLS

static inline int64_t uf_thin_div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static inline int64_t uf_thin_round_up(int64_t value, int64_t unit) {
    return uf_thin_div_up(value, unit) * unit;
}

/* What the tiles that are tried have in common. */
typedef struct uf_thin_layer {
    uf_thin_plan plan; /* without what follows from the tile */
    size_t element;
    int32_t cell_span[2];
    int64_t offset[2][UF_THIN_TAPS];
} uf_thin_layer;

/* Window, records, weights and stage for tiles that are set and `chunk` channels at a time, blocks
 * and clocks; false: no room. */
bool uf_thin_fit(const uf_thin_layer *layer, int64_t chunk, uf_thin_plan *plan);

/* Blocks of a multiprocessor. */
int64_t uf_thin_blocks_at_once(const uf_thin_plan *plan);

UF_END_DECLS

#endif
