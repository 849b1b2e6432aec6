/* cost.h - modelled cycles of tiles, from the arguments alone; tile.c and plan.c choose by them. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_COST_H
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_COST_H

#include "kernels/cuda/conv/wgmma_implicit_gemm/phases.h"

UF_BEGIN_DECLS

enum {
    UF_WGMMA_MULTIPROCESSORS =
        132 /* of the largest GPU with wgmma; a shape has the same tiles on all of them */
};

/* Cycles of the main kernel, fitted to an H200 over layers of 32 to 1024 channels: within about 20
 * %. */
double uf_wgmma_cost(const uf_wgmma_job *job, const uf_wgmma_geometry *made);

/* Cycles of making the channel-blocked copy; -1 where positions or CTAs exceed 32 bits. */
double uf_wgmma_packing_cost(const uf_wgmma_job *job, const uf_wgmma_geometry *made);

/* Cycles of the range pass over both tensors. */
double uf_wgmma_range_cost(const uf_wgmma_job *job);

/* Cycles of swap-AB (swap_ab/launch.cu) with `taps` taps. */
double uf_wgmma_swap_ab_cost(const uf_wgmma_job *job, const uf_wgmma_geometry *made, double taps);

UF_END_DECLS

#endif
