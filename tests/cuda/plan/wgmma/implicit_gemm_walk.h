/* implicit_gemm_walk.h - the tiles of wgmma_implicit_gemm and of its other loops, as their kernels
 * walk them: windows, taps, splits and stream-K. A plan is a uf_wgmma_geometry. */
#ifndef TEST_CUDA_PLAN_WGMMA_IMPLICIT_GEMM_WALK_H
#define TEST_CUDA_PLAN_WGMMA_IMPLICIT_GEMM_WALK_H

#include "cuda/plan/walk.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/plan.h"

/* Channels of a chunk: planes of 16 bytes; big and small halves are of the same ones. */
int64_t wgmma_chunk_channels(const plan_layer *layer, const uf_wgmma_geometry *g);

void wgmma_walk_tiles(plan_walk *walk, const plan_layer *layer, const void *plan);

/* The first tile, one in the middle, and any. */
void wgmma_walk_some(plan_walk *walk, const plan_layer *layer, const void *plan,
                     test_random *random);

#endif
