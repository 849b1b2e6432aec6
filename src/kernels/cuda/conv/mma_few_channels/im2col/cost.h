/* cost.h - the modelled cost of conv_im2col's tiles, for im2col/plan.c. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_COST_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_COST_H

#include "kernels/cuda/conv/mma_few_channels/im2col/plan.h"

UF_BEGIN_DECLS

/* Elements of the first cell of a row that lie before the image. */
static inline int32_t uf_im2col_begin_at(const uf_im2col_conv *im2col) {
    const uf_direct_axis *columns = &im2col->conv.axis[1];
    return columns->out_shift - columns->out_step * columns->cell_first - im2col->skip;
}

/* Cycles of an H200: instructions, words of shared memory, MMAs, bytes or requests to write.
 * `size`: bytes of an element. */
double uf_im2col_cost(const uf_im2col_plan *plan, int64_t size, int32_t multiprocessors);

UF_END_DECLS

#endif
