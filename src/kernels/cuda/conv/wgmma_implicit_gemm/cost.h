/* cost.h - what tiles of wgmma_implicit_gemm/launch.cu cost, from the arguments alone: for
 * wgmma_implicit_gemm/tile.c and wgmma_implicit_gemm/plan.c, which choose among them. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_COST_H
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_COST_H

#include "kernels/cuda/conv/wgmma_implicit_gemm/phases.h"

UF_BEGIN_DECLS

enum {
    UF_WGMMA_MULTIPROCESSORS = 132 /* of the GPUs that have wgmma: the largest. A shape's tiles are
                                      the same on all of them. */
};

/* Cycles of the product, from what was measured on an H200 over layers of 32 to 1024 channels
 * (docs/kernels-gpu.md): good to about 20 %, which is enough to choose. */
double uf_wgmma_cost(const uf_wgmma_job *job, const uf_wgmma_geometry *made);

/* Of making the blocks, -1 where that kernel cannot: it counts positions and blocks in 32 bits. */
double uf_wgmma_packing_cost(const uf_wgmma_job *job, const uf_wgmma_geometry *made);

/* Of the pass over both tensors that split f16 want. */
double uf_wgmma_range_cost(const uf_wgmma_job *job);

/* Of the product where pixels are the rows (swap_ab/launch.cu), of `taps` taps. */
double uf_wgmma_swap_ab_cost(const uf_wgmma_job *job, const uf_wgmma_geometry *made, double taps);

UF_END_DECLS

#endif
