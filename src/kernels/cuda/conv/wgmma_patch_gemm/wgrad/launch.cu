/* launch.cu - conv_wgrad where the filter is as wide as its stride (sm_90a): patch wgrad.
 *
 * Computes: wgrad; a main loop of wgmma_implicit_gemm (TF32, FP32) and wgmma_channel_blocked
 * (BF16).
 *
 * Shapes and limits: width = stride, 1 or 2; no higher than its stride. Rows, and padding across,
 * are multiples of 16 bytes. Pointwise layers are one row per image (conv/flatten.h). Filters of 32
 * taps and more that equal their stride are copied to pointwise form first (pack.cuh).
 *
 * GEMM mapping (M, N, K): 64 channels of x times two taps, or 128 times one; 64 or 128 channels of
 * y; pixels. D[(c, tap)][k] sums x[c][pixel at that tap] * y[k][pixel]. A CTA has two filter rows
 * or blocks of channels, one per warpgroup.
 *
 * Data path: one lane loads runs of pixels by TMA, in eight stages (four of long runs); padding is
 * zeros outside the box. y is B as it lies in memory, swizzled by TMA. x is A through registers: a
 * lane loads two pixels of both taps, and a byte permutation (BF16) makes the fragments of each
 * tap. With one tap x comes by ldmatrix. In TF32 two spare warps round y in place, in FP32 they
 * split it. Two CTAs of a cluster may share x.
 *
 * Precision: 3xTF32, promoted every 16 pixels; TF32; BF16.
 *
 * Split and order of sums: shares of runs, by shape, of at most 16384 pixels because the tensor
 * core truncates. conv_wgrad_channel_blocked_add adds them in order.
 *
 * Bound by: arrivals from the second-level cache or memory, and the sums of the shares.
 *
 * Chosen when: the shape allows it and 40 % of the MMAs are wanted (FP32: 60 %). */
#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/launch.h"

#include "kernels/cuda/conv/flatten.h"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/reduce.cuh"
#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/mainloop.cuh"
#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/pack.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/arch/sm90_tma.cuh"

static_assert(sizeof(patch_wgrad) <= 4000, "kernel parameters");

template <typename Tile>
static uf_status launch(uf_context *context, const patch_wgrad &mma) {
    const uf_launch how = {dim3((unsigned)mma.plan.blocks), Tile::THREADS, (size_t)mma.plan.shared,
                           Tile::PAIR ? 2 : 0};
    return uf_cuda_launch(context, "conv_patch_wgrad", how, conv_patch_wgrad<Tile>, mma);
}

template <uf_mma_math MATH, int WIDE, int WIDTH, int Y_ROW>
static uf_status launch_pair(uf_context *context, const patch_wgrad &mma) {
    if constexpr (MATH == UF_MMA_TF32) {
        if (mma.plan.pair) {
            return launch<patch_wgrad_tile<MATH, WIDE, WIDTH, Y_ROW, true>>(context, mma);
        }
    }
    return launch<patch_wgrad_tile<MATH, WIDE, WIDTH, Y_ROW, false>>(context, mma);
}

template <uf_mma_math MATH, int WIDE, int WIDTH>
static uf_status launch_row(uf_context *context, const patch_wgrad &mma) {
    return mma.plan.y_row == 128 ? launch_pair<MATH, WIDE, WIDTH, 128>(context, mma)
                                 : launch_pair<MATH, WIDE, WIDTH, 64>(context, mma);
}

template <uf_mma_math MATH, int WIDE>
static uf_status launch_width(uf_context *context, const patch_wgrad &mma) {
    if constexpr (MATH != UF_MMA_TF32X3) {
        if (mma.plan.width == 128) {
            return launch_row<MATH, WIDE, 128>(context, mma);
        }
    }
    return launch_row<MATH, WIDE, 64>(context, mma);
}

template <uf_mma_math MATH>
static uf_status launch_wide(uf_context *context, const patch_wgrad &mma) {
    return mma.plan.wide == 2 ? launch_width<MATH, 2>(context, mma)
                              : launch_width<MATH, 1>(context, mma);
}

static uf_status run(uf_context *context, const uf_conv_kernel_args *args,
                     const uf_patch_wgrad_conv_plan &plan) {
    patch_wgrad mma;
    memset((void *)&mma, 0, sizeof mma);
    mma.plan = plan.tiles;
    const uf_patch_wgrad_plan &p = mma.plan;
    const uf_conv_kernel_args flat = uf_conv_flat(args);
    const channel_blocked_sums sums =
        channel_blocked_sums_of(args, plan.reduction, (float *)args->workspace);
    mma.partial = sums.partial;
    mma.sum_rows = sums.rows;
    mma.row_tiles = sums.tiles_m;
    mma.columns = sums.columns;
    const int32_t x_row = p.wide * p.y_row < 128 ? p.wide * p.y_row : 128;
    UF_TRY(uf_cuda_view_map(context, flat.x, p.pixels * x_row / p.y_row, 1, p.channels,
                            x_row == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_128B, &mma.x));
    UF_TRY(uf_cuda_view_map(context, flat.y, p.pixels, 1, p.width,
                            p.y_row == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_128B, &mma.y));
    if (args->math == UF_MATH_BF16) {
        UF_TRY(launch_wide<UF_MMA_BF16>(context, mma));
        return channel_blocked_add<uf_bf16>(context, sums);
    }
    UF_TRY(args->math == UF_MATH_TF32 ? launch_wide<UF_MMA_TF32>(context, mma)
                                      : launch_wide<UF_MMA_TF32X3>(context, mma));
    return channel_blocked_add<float>(context, sums);
}

/* x, and where it must be y, is copied to the begin of the workspace. */
template <typename T>
static uf_status copy_and_run(uf_context *context, const uf_conv_kernel_args *args,
                              const uf_patch_wgrad_conv_plan &plan) {
    const uf_patch_wgrad_copies &copies = plan.copies;
    uf_conv_kernel_args made = uf_patch_wgrad_copied(args, &copies);
    char *at = (char *)args->workspace;
    UF_TRY(patch_wgrad_pack<T>(context, args->x, args->w.extent[2], args->w.extent[3], copies.pitch,
                               at));
    made.x.data = at;
    at += uf_align_up(copies.x_bytes);
    if (copies.y) {
        UF_TRY(patch_wgrad_pack<T>(context, args->y, 1, 1, copies.pitch, at));
        made.y.data = at;
        at += uf_align_up(copies.y_bytes);
    }
    made.workspace = at;
    return run(context, &made, plan);
}

extern "C" uf_status uf_patch_wgrad(uf_context *context, const uf_conv_kernel_args *args,
                                    const uf_patch_wgrad_conv_plan *plan) {
    if (!plan->copied) {
        return run(context, args, *plan);
    }
    return args->x.dtype == UF_BF16 ? copy_and_run<uf_bf16>(context, args, *plan)
                                    : copy_and_run<float>(context, args, *plan);
}
