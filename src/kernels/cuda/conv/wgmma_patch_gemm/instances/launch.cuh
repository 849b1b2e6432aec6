/* launch.cuh - packing and main kernel of one tile, and the choice among all tiles of a type. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_INSTANCES_LAUNCH_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_INSTANCES_LAUNCH_CUH

#define UF_MMA_SHARED(name) extern __shared__ __align__(128) uint32_t name[]

#include "kernels/cuda/conv/wgmma_patch_gemm/instances/launch.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/instances/tiles.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/mainloop.cuh"
#include "kernels/cuda/conv/wgmma_implicit_gemm/tile.cuh"
#include "kernels/cuda/device/launch.cuh"

#if UF_HAS_WGMMA
static_assert(sizeof(patch_barriers) <= UF_PATCH_BARRIERS, "what the plan counts on");
#endif

template <typename Tile>
static uf_status wgmma_patch_launch_tile(uf_context *context, const patch_conv &p,
                                         const CUtensorMap &map, uf_conv_packing packing,
                                         int processors) {
    if (p.plan.stage_bytes != Tile::STAGE_BYTES || p.plan.tile.planes != Tile::PLANES) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma_patch was given the plan of another tile");
    }
    const int64_t pieces =
        (int64_t)p.conv.groups * p.plan.column_tiles * p.plan.stages * Tile::PLANES * Tile::COLUMNS;
    if (pieces > INT32_MAX) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma_patch was given a filter too large to pack");
    }
    /* SIDE has its part in the channels of a stage alone, SPREAD and BRIEF have none. */
    typedef patch_tile<Tile::MATH, 1, 1, typename Tile::stored> Packed;
    static_assert(Packed::PLANES == Tile::PLANES && Packed::COLUMNS == Tile::COLUMNS &&
                      Packed::WEIGHT_BYTES == Tile::WEIGHT_BYTES,
                  "weights");
    const uf_launch pack = {dim3((unsigned)((pieces + UF_BLOCK - 1) / UF_BLOCK)), UF_BLOCK};
    if (packing != UF_CONV_PACKED) {
        UF_TRY(uf_cuda_launch(context, "conv_wgmma_patch_pack", pack, conv_wgmma_patch_pack<Packed>,
                              p, (int32_t)pieces, (int32_t)Tile::CHANNELS));
    }
    if (packing == UF_CONV_PACK_ONLY) {
        return UF_OK;
    }
    const int64_t all = p.plan.tiles * p.plan.splits;
    const int64_t blocks = all < processors || p.plan.splits > 1 ? all : processors;
    const uf_launch mma = {dim3((unsigned)blocks), Tile::THREADS, (size_t)p.plan.shared,
                           p.plan.splits};
    return uf_cuda_launch(context, "conv_wgmma_patch", mma, conv_wgmma_patch<Tile>, p, map);
}

template <uf_mma_math MATH, typename T, bool BRIEF = false>
static uf_status wgmma_patch_launch_tiles(uf_context *context, const patch_conv &p,
                                          const CUtensorMap &map, uf_conv_packing packing,
                                          int processors) {
#define UF_PATCH_TILE(SIDE, SPREAD)                                                                \
    if (p.plan.tile.side == SIDE && p.plan.tile.spread == SPREAD) {                                \
        return wgmma_patch_launch_tile<patch_tile<MATH, SIDE, SPREAD, T, BRIEF>>(                  \
            context, p, map, packing, processors);                                                 \
    }
    if constexpr (BRIEF) {
        UF_PATCH_TILES_BRIEF
    } else {
        UF_PATCH_TILES
    }
#undef UF_PATCH_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma_patch has no tile of %d columns to %d",
            (int)p.plan.tile.side, (int)p.plan.tile.spread);
}

#endif
