/* fit.h - the layout of conv_im2col's shared memory, for im2col/plan.c. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_FIT_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_FIT_H

#include "kernels/cuda/conv/mma_few_channels/im2col/plan.h"

UF_BEGIN_DECLS

/* The part of a plan that all tiles of a layer share. */
typedef struct uf_im2col_layer {
    uf_im2col_plan plan; /* the members that follow from the tile are not set */
    size_t element;      /* bytes */
    int32_t multiprocessors;
    int32_t cell_span[2];
    int64_t offset[2][UF_IM2COL_TAPS];
} uf_im2col_layer;

/* Lays out window, records, weights and stage for a plan whose tiles are set, `chunk` channels at a
 * time; sets blocks and cost. False: it does not fit. */
bool uf_im2col_fit(const uf_im2col_layer *layer, int64_t chunk, uf_im2col_plan *plan);

/* Resident blocks of a multiprocessor. */
int64_t uf_im2col_blocks_at_once(const uf_im2col_plan *plan);

UF_END_DECLS

#endif
