/* plan.h - tiles, windows and taps from the arguments alone. Plain C: the choice of a variant and
 * tests without a GPU call it. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_PLAN_H
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_PLAN_H

#include "kernels/cuda/conv/mma_implicit_gemm/plan.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/layout.h"

UF_BEGIN_DECLS

/* Tiles: 4 * UF_WGMMA_..._WINDOWS + 2 * (MMAs of pixels - 1) + (warpgroups of channels - 1), and
 * swap-AB, which 3xF16 does not have. */
enum {
    UF_WGMMA_MADE_WINDOWS,   /* producer warps make them */
    UF_WGMMA_PACKED_WINDOWS, /* TMA loads them from the channel-blocked copy */
    UF_WGMMA_LINE_WINDOWS,   /* the same, of tiles along one line */
    UF_WGMMA_SWAP_AB_TILE = 12,
    UF_WGMMA_SPLIT_F16_TILES = 12,
    UF_WGMMA_TILES = 13
};

static inline int uf_wgmma_tile_number(int32_t wm, int32_t nt, bool packed, bool line) {
    return 4 * (line     ? UF_WGMMA_LINE_WINDOWS
                : packed ? UF_WGMMA_PACKED_WINDOWS
                         : UF_WGMMA_MADE_WINDOWS) +
           2 * (nt - 1) + (wm - 1);
}

static inline int uf_wgmma_tile_of(const uf_wgmma_geometry *geometry) {
    return geometry->columns > 0 ? UF_WGMMA_SWAP_AB_TILE
                                 : uf_wgmma_tile_number(geometry->wm, geometry->nt,
                                                        geometry->packed, geometry->line > 0);
}

/* False with too many taps or phases, a window beyond shared memory, or where `tile` does not fit.
 * `args` are canonical. */
bool uf_wgmma_geometry_of(uf_conv_direction direction, const uf_conv_kernel_args *args, int tile,
                          uf_wgmma_geometry *made);

/* The same in 3xF16 for f32 tensors in FP32 (arch/split_f16.h). A chunk is 32 channels; 16 of them
 * are two planes of large parts and two of small ones. False for short sums too. */
bool uf_wgmma_split_f16_of(uf_conv_direction direction, const uf_conv_kernel_args *args, int tile,
                           uf_wgmma_geometry *made);

/* The same tiles in 3xTF32, for tiles whose range flag is set. For large tensors producer warps
 * make the windows, if they can: a packed copy would take twice the space for a rare case. */
uf_wgmma_geometry uf_wgmma_fixup(uf_conv_direction direction, const uf_conv_kernel_args *args,
                                 const uf_wgmma_geometry *split_f16);

/* The same in swap-AB, cheap or not. False where that is impossible. */
bool uf_wgmma_swap_ab_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                         uf_wgmma_geometry *made);

/* The CTAs of a tile: one; a cluster; stream-K shares; or one whose rows are two phases. Merged
 * tiles have kernels of their own: in the others, their epilogue slowed FP32 layers of single
 * windows by 7 to 10 %. */
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

/* The first chunk of split `split`: a multiple of depth. */
static inline UF_HD int32_t uf_wgmma_split_begin(const uf_wgmma_geometry *geometry, int32_t split) {
    return geometry->chunks / geometry->depth * split / geometry->splits * geometry->depth;
}

/* The first tile and chunk of a stream-K CTA's share; the share of the CTA before it ends there. */
typedef struct uf_wgmma_cut {
    int32_t tile, chunk;
} uf_wgmma_cut;

static inline UF_HD uf_wgmma_cut uf_wgmma_cut_of(const uf_wgmma_geometry *geometry, int32_t block) {
    const int32_t steps = geometry->chunks / geometry->depth;
    const int32_t tiles = geometry->coords * geometry->together; /* tiles of a turn */
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

typedef struct uf_wgmma_plan {
    uf_wgmma_geometry geometry;
    mma_plan mma; /* the convolution as kernels see it; a launch binds it */
} uf_wgmma_plan;

/* 3xF16 tiles, and the same tiles in 3xTF32 for those whose range flag is set. */
typedef struct uf_wgmma_split_f16_plan {
    uf_wgmma_geometry geometry, fixup;
    mma_plan mma; /* as in uf_wgmma_plan */
} uf_wgmma_split_f16_plan;

/* False where the main loop does not take the problem: types, 32-bit positions and tiles, geometry.
 */
bool uf_wgmma_take(const uf_conv_problem *problem, uf_wgmma_plan *plan);

/* Packed weights of 3xF16 that outlive a call begin with their range, as two elements that have it.
 */
enum { UF_WGMMA_SPLIT_F16_RANGE_BYTES = 256 };

/* launch.cu and launch_split_f16.cu; `apart`: packed weights outlive the call; `canonical` as from
 * uf_wgmma_canonical. */
size_t uf_wgmma_workspace(uf_conv_direction direction, const uf_conv_kernel_args *canonical,
                          const uf_wgmma_geometry *geometry);
size_t uf_wgmma_split_f16_workspace(uf_conv_direction direction,
                                    const uf_conv_kernel_args *canonical,
                                    const uf_wgmma_split_f16_plan *plan, bool apart);

/* launch.cu. */
uf_status uf_wgmma_run(uf_context *context, const uf_conv_problem *problem,
                       const uf_wgmma_plan *plan);

UF_END_DECLS

#endif
