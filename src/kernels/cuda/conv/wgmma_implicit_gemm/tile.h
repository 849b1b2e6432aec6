/* tile.h - one candidate of a tile, laid out and priced; plan.c tries them all. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_TILE_H
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_TILE_H

#include "kernels/cuda/conv/wgmma_implicit_gemm/phases.h"

UF_BEGIN_DECLS

enum {
    UF_WGMMA_WIDE_RUNS_LOG = 3,
    UF_WGMMA_SHARED_WHOLE = 232448 /* bytes of shared memory for the one CTA of a multiprocessor */
};

/* A candidate: warpgroups, MMAs, how these lie beside each other, where windows come from. */
typedef struct uf_wgmma_tile_candidate {
    int32_t wm, nt;
    int beside;
    int runs_log;
    bool packed, stacked, line;
} uf_wgmma_tile_candidate;

/* Modelled cycles, or -1 where it does not fit. Leaves out the lists of taps: see
 * uf_wgmma_list_taps. */
double uf_wgmma_try_tile(const uf_wgmma_job *job, const uf_wgmma_tile_candidate *candidate,
                         uf_wgmma_geometry *made);

/* Taps whose weights stay in their stages until both passes, small parts first, are done. */
int32_t uf_wgmma_resident_taps(const uf_wgmma_geometry *made);

UF_END_DECLS

#endif
