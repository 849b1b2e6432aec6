/* tile.h - one of the ways to make tiles of wgmma_implicit_gemm/launch.cu, laid out: for
 * wgmma_implicit_gemm/plan.c, which tries them all. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_TILE_H
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_TILE_H

#include "kernels/cuda/conv/wgmma_implicit_gemm/phases.h"

UF_BEGIN_DECLS

enum {
    UF_WGMMA_WIDE_RUNS_LOG = 3,
    UF_WGMMA_SHARED_WHOLE = 232448 /* bytes for one block of a multiprocessor */
};

/* One of the ways to make a tile: warpgroups, MMAs, how these lie beside each other, where
 * windows come from. */
typedef struct uf_wgmma_tile_candidate {
    int32_t wm, nt;
    int beside;
    int runs_log;
    bool packed, stacked, line;
} uf_wgmma_tile_candidate;

/* Cycles, or -1 where it does not fit. The lists of taps are left to uf_wgmma_list_taps. */
double uf_wgmma_try_tile(const uf_wgmma_job *job, const uf_wgmma_tile_candidate *candidate,
                         uf_wgmma_geometry *made);

/* Taps whose weights stay until all their MMAs are done: those with a small half come first. */
int32_t uf_wgmma_resident_taps(const uf_wgmma_geometry *made);

UF_END_DECLS

#endif
