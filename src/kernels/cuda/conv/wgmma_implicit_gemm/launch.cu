/* launch.cu - conv_fprop and conv_dgrad on Hopper's `wgmma` (sm_90a).
 *
 * Both directions are one dense correlation per phase (geometry.h). A block makes WM x 64 written
 * channels by NT x 128 pixels of one phase; the MMAs' rows are channels and their columns
 * pixels, in runs of 8 neighbours of a row (or of the same place in several images, where rows are
 * short).
 *
 * Data path: a window is the part of the read side that a tile's taps see of 16 (TF32: 32, BF16:
 * 64) channels. In shared memory it is [plane of K][position][16 bytes], K-major as TF32 needs it.
 * Without swizzle a tile may begin at any position: a filter tap is an offset in a descriptor, and
 * nothing is gathered twice. Strided reads (fprop) have a window per class of taps. Windows come by
 * one TMA load each from a tensor that was rounded and rearranged before
 * (transform/channel_blocked.cuh), or are made here: lanes read neighbouring pixels of one channel,
 * round or split in registers, and write 16 bytes of channels; runs side by side then have their
 * columns to themselves. Weights are packed once per call in the order of use and come by
 * `cp.async.bulk` copies. Warps have roles: producer warps, producer warps, and consumers that
 * issue MMAs and nothing else until the tile is done.
 *
 * Where few channels are written, pixels are the rows: swap_ab/launch.cu; and so where taps are
 * apart: wgmma_patch_gemm/launch.cu.
 *
 * FP32: x = big + small, MMAs small*big + big*small + big*big; the tensor core's accumulator
 * truncates, so it goes to ordinary registers every 64 of K. A tile with a result that is not
 * finite is computed again by FFMAs. */
#define UF_MMA_SHARED(name) extern __shared__ __align__(128) uint32_t name[]

#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/flatten.h"
#include "kernels/cuda/conv/mma_implicit_gemm/pack.cuh"
#include "kernels/cuda/conv/mma_implicit_gemm/plan.cuh"
#include "kernels/cuda/conv/wgmma_implicit_gemm/instances/launch.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/launch.cuh"
#include "kernels/cuda/device/launch.cuh"

static uf_status launch_tile(uf_context *context, uf_conv_direction direction,
                             const uf_conv_kernel_args *args, const wgmma_conv &p, void *blocks) {
    const uf_mma_math math = uf_mma_math_of(args);
    wgmma_launch_type *const launch = args->x.dtype == UF_BF16 ? wgmma_launch_bf16
                                      : math == UF_MMA_BF16    ? wgmma_launch_f32_bf16
                                      : math == UF_MMA_TF32    ? wgmma_launch_tf32
                                                               : wgmma_launch_fp32;
    return launch(context, direction, args, p, blocks);
}

static uf_status launch_swap_ab(uf_context *context, const wgmma_conv &p, uf_dtype stored,
                                uf_mma_math math) {
    UF_TRY(wgmma_swap_ab_launch(context, p, stored, math));
    return math == UF_MMA_TF32X3 ? wgmma_launch_exact(context, p) : UF_OK;
}

extern "C" size_t uf_cuda_conv_wgmma_workspace(uf_conv_direction direction,
                                               const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    uf_patch_plan patch;
    uf_wgmma_geometry geometry;
    if (uf_patch_plan_of(direction, &canonical, &patch)) {
        return wgmma_patch_workspace(patch);
    }
    return uf_wgmma_geometry_of(direction, &canonical, &geometry)
               ? (size_t)(packed_bytes(geometry, args->groups) +
                          blocks_bytes(direction, &canonical, geometry) + stream_k_bytes(geometry) +
                          geometry.tiles * geometry.wm)
               : 0;
}

extern "C" uf_status uf_cuda_conv_wgmma(uf_context *context, uf_conv_direction direction,
                                        const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    uf_patch_plan patch;
    if (uf_patch_plan_of(direction, &canonical, &patch)) {
        const uf_conv_kernel_args flat = uf_conv_flat(&canonical);
        return wgmma_patch_launch(context, direction, &flat, patch,
                                  mma_plan_of(direction, &flat).conv);
    }
    wgmma_conv p;
    memset((void *)&p, 0, sizeof p);
    if (!uf_wgmma_geometry_of(direction, &canonical, &p)) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_wgmma was given a geometry that it does not take");
    }
    p.conv = mma_plan_of(direction, &canonical).conv;
    char *const blocks = (char *)args->workspace + packed_bytes(p, args->groups);
    char *const parts = blocks + blocks_bytes(direction, &canonical, p);
    p.parts = (float *)parts;
    p.part_done = (int32_t *)(parts + parts_bytes(p));
    p.unfinished = (uint8_t *)parts + stream_k_bytes(p);
    const uf_mma_math math = uf_mma_math_of(args);
    if (p.columns > 0) {
        return launch_swap_ab(context, p, args->x.dtype, math);
    }
    return launch_tile(context, direction, &canonical, p, blocks);
}

uf_status wgmma_fixup_launch(uf_context *context, uf_conv_direction direction,
                             const uf_conv_kernel_args *args, const wgmma_conv &p, void *blocks) {
    return launch_tile(context, direction, args, p, blocks);
}
