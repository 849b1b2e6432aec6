/* conv_wgmma_clocks.h - what tiles of conv_wgmma.cu cost, from the arguments alone: for
 * conv_wgmma_tile.c and conv_wgmma_geometry.c, which choose among them. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_CLOCKS_H
#define UF_KERNELS_CUDA_CONV_WGMMA_CLOCKS_H

#include "kernels/cuda/conv/wgmma_implicit_gemm/conv_wgmma_job.h"

UF_BEGIN_DECLS

enum {
    UF_WGMMA_MULTIPROCESSORS = 132 /* of the GPUs that have wgmma: the largest. A shape's tiles are
                                      the same on all of them. */
};

/* Clocks of the product, from what was measured on an H200 over layers of 32 to 1024 channels
 * (docs/kernels-gpu.md): good to about 20 %, which is enough to choose. */
double uf_wgmma_clocks(const uf_wgmma_job *job, const uf_wgmma_geometry *made);

/* Of making the blocks, -1 where that kernel cannot: it counts positions and blocks in 32 bits. */
double uf_wgmma_packing_clocks(const uf_wgmma_job *job, const uf_wgmma_geometry *made);

/* Of the pass over both tensors that f16 halves want. */
double uf_wgmma_range_clocks(const uf_wgmma_job *job);

/* Of the product where pixels are the rows (conv_wgmma_narrow.cu), of `taps` taps. */
double uf_wgmma_narrow_clocks(const uf_wgmma_job *job, const uf_wgmma_geometry *made, double taps);

UF_END_DECLS

#endif
