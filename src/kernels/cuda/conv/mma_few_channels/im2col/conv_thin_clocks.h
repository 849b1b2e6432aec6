/* conv_thin_clocks.h - what tiles of conv_thin cost: for conv_thin_plan.c, which chooses among
 * them. */
#ifndef UF_KERNELS_CUDA_CONV_THIN_CLOCKS_H
#define UF_KERNELS_CUDA_CONV_THIN_CLOCKS_H

#include "kernels/cuda/conv/mma_few_channels/im2col/conv_thin_plan.h"

UF_BEGIN_DECLS

/* Elements before the image that the first cell of a row has. */
static inline int32_t uf_thin_begin_at(const uf_thin_conv *thin) {
    const uf_direct_axis *columns = &thin->conv.axis[1];
    return columns->out_shift - columns->out_step * columns->cell_first - thin->skip;
}

/* Clocks of an H200, from what the parts of a multiprocessor have to do: instructions of warps,
 * words of shared memory, products, bytes or requests to write. `size`: bytes of an element. */
double uf_thin_clocks(const uf_thin_plan *plan, int64_t size);

UF_END_DECLS

#endif
