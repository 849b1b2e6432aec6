/* launch.cuh - packing and main kernel of one tile, and the choice among those of a list. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_INSTANCES_LAUNCH_CUH
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_INSTANCES_LAUNCH_CUH

#define UF_MMA_SHARED(name) extern __shared__ __align__(128) uint32_t name[]

#include "kernels/cuda/conv/wgmma_implicit_gemm/instances/launch.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/instances/tiles.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/launch.cuh"
#include "kernels/cuda/device/launch.cuh"

template <typename Tile>
static uf_status wgmma_launch_pack(uf_context *context, const wgmma_conv &p,
                                   const wgmma_packing &packing, int64_t blocks) {
    if (blocks == 0) {
        return UF_OK;
    }
    return uf_cuda_launch(context, "conv_wgmma_pack", {dim3((unsigned)blocks), UF_BLOCK},
                          conv_wgmma_pack<Tile::MATH, typename Tile::stored>, p, packing);
}

template <typename Tile>
static uf_status wgmma_launch_tile(uf_context *context, uf_conv_direction direction,
                                   const uf_conv_kernel_args *args, const wgmma_conv &p,
                                   void *blocks, int processors) {
    CUtensorMap map;
    wgmma_packing packing;
    int64_t pack_blocks;
    UF_TRY(
        prepare_packing<Tile>(context, direction, args, p, blocks, &packing, &map, &pack_blocks));
    if (args->packing == UF_CONV_PACK_ONLY) {
        return wgmma_launch_pack<Tile>(context, p, packing, pack_blocks);
    }
    UF_TRY(Tile::FP32 && p.flagged != nullptr
               ? wgmma_launch_pack_flagged(context, p, packing, pack_blocks, processors)
               : wgmma_launch_pack<Tile>(context, p, packing, pack_blocks));
    UF_TRY(launch_mma<Tile>(context, p, map, processors));
    return Tile::FP32 ? wgmma_launch_exact(context, p, processors) : UF_OK;
}

/* The body of a wgmma_launch_type. */
#define UF_WGMMA_TILE(MATH, WM, NT, PACKED, WIDE, SCHEDULER, DTYPE, STORED)                        \
    if (p.wm == WM && p.nt == NT && p.packed == PACKED && (p.packed && p.runs_log > 0) == WIDE &&  \
        uf_wgmma_scheduler_of(&p) == SCHEDULER) {                                                  \
        typedef wgmma_tile<MATH, WM, NT, PACKED, WIDE, SCHEDULER, STORED> Tile;                    \
        return wgmma_launch_tile<Tile>(context, direction, args, p, blocks, processors);           \
    }

static inline uf_status wgmma_no_tile(const wgmma_conv &p, const char *type) {
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma has no tile of %d x %d for %s", (int)p.wm, (int)p.nt,
            type);
}

#endif
