/* cost.h - what tiles of conv_im2col cost: for im2col/plan.c, which chooses among
 * them. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_COST_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_COST_H

#include "kernels/cuda/conv/mma_few_channels/im2col/plan.h"

UF_BEGIN_DECLS

/* Elements before the image that the first cell of a row has. */
static inline int32_t uf_im2col_begin_at(const uf_im2col_conv *im2col) {
    const uf_direct_axis *columns = &im2col->conv.axis[1];
    return columns->out_shift - columns->out_step * columns->cell_first - im2col->skip;
}

/* Cycles of an H200, from what the parts of a multiprocessor have to do: instructions of warps,
 * words of shared memory, MMAs, bytes or requests to write. `size`: bytes of an element. */
double uf_im2col_cost(const uf_im2col_plan *plan, int64_t size);

UF_END_DECLS

#endif
