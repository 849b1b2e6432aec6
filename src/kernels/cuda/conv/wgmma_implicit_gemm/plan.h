/* plan.h - tiles, windows and taps of wgmma_implicit_gemm/launch.cu, from the arguments alone.
 * Plain C: the choice of a variant asks too, and a test needs no GPU. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_PLAN_H
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_PLAN_H

#include "kernels/cuda/conv/wgmma_implicit_gemm/layout.h"

UF_BEGIN_DECLS

/* False where the kernel does not compute this: too many taps or phases, a window beyond shared
 * memory. `args` are canonical. */
bool uf_wgmma_geometry_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                          uf_wgmma_geometry *made);

/* The same for f32 tensors in FP32 by split f16 (arch/split_f16.h): chunks are 32 channels, each 16
 * of which are two planes of big halves and two of small ones. False for brief sums too. */
bool uf_wgmma_split_f16_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                           uf_wgmma_geometry *made);

/* The same tiles by TF32 halves, for those that f16 was too narrow for: their windows by producer
 * warps where these make such tiles alone and the tensor that is read is large, because it would,
 * packed, take twice its size in the workspace, for what is rare. */
uf_wgmma_geometry uf_wgmma_fixup(uf_conv_direction direction, const uf_conv_kernel_args *args,
                                 const uf_wgmma_geometry *split_f16);

/* The same with pixels as rows of MMAs, cheap or not: false where it cannot be. */
bool uf_wgmma_swap_ab_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                         uf_wgmma_geometry *made);

/* Who makes a tile: a block, the blocks of a cluster, or blocks whose shares begin and end
 * anywhere; or a block whose rows are two phases: in the others' kernels its epilogue would be code
 * for nothing, by which FP32 layers of single windows became 7 to 10 % slower. */
typedef enum wgmma_scheduler {
    WGMMA_ALONE,
    WGMMA_CLUSTERS,
    WGMMA_STREAM_K,
    WGMMA_MERGED
} wgmma_scheduler;

static inline wgmma_scheduler uf_wgmma_scheduler_of(const uf_wgmma_geometry *geometry) {
    return geometry->merged         ? WGMMA_MERGED
           : geometry->stream_k > 0 ? WGMMA_STREAM_K
           : geometry->splits > 1   ? WGMMA_CLUSTERS
                                    : WGMMA_ALONE;
}

/* The chunks of split `split`: whole windows, from this one to that of the next split. */
static inline UF_HD int32_t uf_wgmma_split_begin(const uf_wgmma_geometry *geometry, int32_t split) {
    return geometry->chunks / geometry->depth * split / geometry->splits * geometry->depth;
}

/* Where the share of block `block` begins, and that of the block before it ends. */
typedef struct uf_wgmma_cut {
    int32_t tile, chunk;
} uf_wgmma_cut;

static inline UF_HD uf_wgmma_cut uf_wgmma_cut_of(const uf_wgmma_geometry *geometry, int32_t block) {
    const int32_t steps = geometry->chunks / geometry->depth;
    const int32_t tiles = geometry->coords * geometry->together; /* of a turn */
    int64_t left = geometry->work * block / geometry->stream_k;
    uf_wgmma_cut cut = {0, 0};
    for (int32_t turn = 0; cut.tile < (int32_t)geometry->tiles; ++turn) {
        const int32_t of_tile = geometry->turn_taps[turn] * steps;
        if (left < (int64_t)of_tile * tiles) {
            const int32_t tile = (int32_t)(left / of_tile);
            cut.tile += tile;
            cut.chunk = (int32_t)(left - (int64_t)tile * of_tile) / geometry->turn_taps[turn] *
                        geometry->depth;
            break;
        }
        left -= (int64_t)of_tile * tiles;
        cut.tile += tiles;
    }
    return cut;
}

/* Positions of a line up to the end of the last window. */
int64_t uf_wgmma_line_end(const uf_wgmma_geometry *geometry);

UF_END_DECLS

#endif
