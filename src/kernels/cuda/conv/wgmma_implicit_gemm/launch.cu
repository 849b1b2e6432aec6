/* launch.cu - conv_fprop and conv_dgrad on Hopper's `wgmma` (sm_90a): the general kernel.
 *
 * Computes: fprop and dgrad as one dense correlation per phase (geometry.h). Swap-AB
 * (swap_ab/launch.cu) is launched from here too.
 *
 * Shapes and limits: at most 64 taps, 64 phases and 64 classes; positions below 2^28 on an axis,
 * tiles below 2^30. Any strides: producer warps load single elements.
 *
 * GEMM mapping (M, N, K): 64 written channels; 128 pixels of a phase; read channels times taps. A
 * CTA has one or two consumer warpgroups (WM) with one or two such MMAs each (NT). Pixels are 16
 * runs of 8 neighbours of a row, or of one position in several images where rows are short. In
 * dgrad of stride 2 two column phases may share the 64 rows (merged) or be two warpgroups (paired).
 *
 * Data path: a window holds the part of 16 (TF32: 32, BF16: 64) channels that a tile's taps read.
 * It is [plane of K][position][16 bytes]: K-major, as TF32 needs it. Without swizzle a tile may
 * begin at any position, so that a tap is an offset in a descriptor. Strided reads (fprop) have a
 * window per class of taps. Windows come by TMA from a copy that was rounded and rearranged before
 * (transform/channel_blocked.cuh). Or producer warps make them: lanes read neighbouring pixels of a
 * channel, round or split them and store 16 bytes of channels. Weights are packed before it in
 * the order of use and come by `cp.async.bulk`.
 *
 * Precision: 3xTF32 (small*large + large*small + large*large), promoted every 64 of K because the
 * tensor core truncates; TF32; BF16. FFMAs compute FP32 tiles again that are not finite.
 *
 * Split and order of sums: few tiles: a cluster of 2 or 4 CTAs shares a tile. A partial last wave:
 * stream-K. Either way the owner adds the others' sums in the order of chunks.
 *
 * Bound by: the tensor cores in FP32, else packing and stores.
 *
 * Chosen when: channels fill a tile, in TF32 and BF16; in FP32 where 3xF16 lacks the tile. */
#define UF_MMA_SHARED(name) extern __shared__ __align__(128) uint32_t name[]

#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/mma_implicit_gemm/pack.cuh"
#include "kernels/cuda/conv/wgmma_implicit_gemm/plan.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/instances/launch.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/launch.cuh"
#include "kernels/cuda/device/launch.cuh"

static uf_status launch_tile(uf_context *context, uf_conv_direction direction,
                             const uf_conv_kernel_args *args, const wgmma_conv &p, void *blocks,
                             int processors) {
    const uf_mma_math math = uf_mma_math_of(args);
    wgmma_launch_type *const launch = args->x.dtype == UF_BF16 ? wgmma_launch_bf16
                                      : math == UF_MMA_BF16    ? wgmma_launch_f32_bf16
                                      : math == UF_MMA_TF32    ? wgmma_launch_tf32
                                                               : wgmma_launch_fp32;
    return launch(context, direction, args, p, blocks, processors);
}

extern "C" size_t uf_wgmma_workspace(uf_conv_direction direction,
                                     const uf_conv_kernel_args *canonical,
                                     const uf_wgmma_geometry *geometry) {
    return (size_t)(uf_wgmma_packed_bytes(geometry, canonical->groups) +
                    blocks_bytes(direction, canonical, *geometry) + stream_k_bytes(*geometry) +
                    geometry->tiles * geometry->wm);
}

extern "C" uf_status uf_wgmma_run(uf_context *context, const uf_conv_problem *problem,
                                  const uf_wgmma_plan *plan) {
    const uf_conv_direction direction = problem->direction;
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(problem->args);
    const int processors = problem->gpu->multiprocessors;
    wgmma_conv p;
    memset((void *)&p, 0, sizeof p);
    *(uf_wgmma_geometry *)&p = plan->geometry;
    p.conv = uf_mma_bound(&plan->mma, direction, &canonical);
    char *const blocks =
        uf_conv_behind_packed(&canonical, uf_wgmma_packed_bytes(&p, canonical.groups));
    char *const parts = blocks + blocks_bytes(direction, &canonical, p);
    p.parts = (float *)parts;
    p.part_done = (int32_t *)(parts + parts_bytes(p));
    p.unfinished = (uint8_t *)parts + stream_k_bytes(p);
    if (p.columns > 0) {
        const uf_mma_math math = uf_mma_math_of(&canonical);
        UF_TRY(wgmma_swap_ab_launch(context, p, canonical.x.dtype, math, canonical.packing,
                                    processors));
        return math == UF_MMA_TF32X3 && canonical.packing != UF_CONV_PACK_ONLY
                   ? wgmma_launch_exact(context, p, processors)
                   : UF_OK;
    }
    return launch_tile(context, direction, &canonical, p, blocks, processors);
}

extern "C" uf_status uf_conv_launch_wgmma_implicit_gemm(uf_context *context,
                                                        const uf_conv_problem *problem,
                                                        const uf_conv_plan *plan) {
    return uf_wgmma_run(context, problem, UF_CONV_CONST_PLAN_OF(uf_wgmma_plan, plan));
}

uf_status wgmma_fixup_launch(uf_context *context, uf_conv_direction direction,
                             const uf_conv_kernel_args *args, const wgmma_conv &p, void *blocks,
                             int processors) {
    return launch_tile(context, direction, args, p, blocks, processors);
}
