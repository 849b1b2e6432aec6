/* tile.h - one candidate of a tile, laid out (tile.c) and priced (cost.c); plan.c tries them all.
 */
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
