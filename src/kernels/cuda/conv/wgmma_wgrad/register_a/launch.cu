/* launch.cu - the weight gradient on Hopper's `wgmma` (sm_90a) with operand A, x, in registers.
 *
 * Computes: conv_wgrad of f32 tensors; and the fix-up of the weight gradient in 3xF16.
 * Shapes and limits: 32 pixels read at most WGRAD_RS_ENTRIES elements of a channel, and
 *   uf_wgrad_fits.
 * GEMM mapping: M = columns (c, r, s), 64 to an MMA; N = k of a group, 32, 64 or 128; K = pixels,
 *   in boxes of 32. A block has up to 10 MMAs of N = 64 (FP32: 4; 12 of N = 32, 4 of N = 128) in
 *   two consumer warpgroups.
 * Data path: eight producer warps copy x once per box as lines that all taps share
 *   (wgrad_problem.h), by cp.async of 16 or 8 bytes where rows are aligned, stride included, else
 *   of 4. Consumers load fragments at the tap's offset and round or split them: a tap costs loads,
 *   but no copy. y comes by cp.async of 16 bytes; the thread that copied it writes its rounded
 *   (FP32: split) words into planes of [k][16 bytes], which MMAs read without swizzle. Where eight
 *   stages fit, each producer warp fills a stage of its own, because only chains of different boxes
 *   overlap. Otherwise two or four warps share a stage.
 * Precision: FP32 is 3xTF32, small MMAs first, promoted every 16 pixels. Rounding is to nearest.
 *   FFMAs compute results again that are not finite.
 * Split and order of sums: a block walks a share of the boxes of a tile, or of all tiles
 *   (wgrad_sums_of). The shape alone decides the shares, in whole waves of one block per
 *   multiprocessor; conv_wgrad_mma_add adds them in order.
 * Bound by: splits and additions in FP32, which wait for the registers that MMAs read (tiles of up
 *   to 64 rows overlap them with MMAs, tiles of 128 use a split twice); in TF32 and BF16 the
 *   producers, and with few taps the second-level cache.
 * Chosen when: its modelled cost is the least, mostly for many channels and small filters.
 */
#define UF_WGRAD_SHARED(name) extern __shared__ __align__(128) unsigned char name[]

#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/flatten.h"
#include "kernels/cuda/conv/reduce/split_k.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/register_a/mainloop.cuh"
#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/launch.h"
#include "kernels/cuda/device/launch.cuh"

template <typename Tile>
static uf_status launch(uf_context *context, const wgrad_rs_plan &plan) {
    const wgrad_plan &p = plan.sums;
    const dim3 grid(p.share > 0 ? (unsigned)wgrad_shares(&p) : (unsigned)p.tiles,
                    p.share > 0 ? 1u : (unsigned)p.splits);
    const uf_launch how = {grid, Tile::THREADS, (size_t)p.shared_bytes};
    UF_TRY(uf_cuda_launch(context, "conv_wgrad_rs", how, conv_wgrad_rs<Tile>, plan));
    return wgrad_add(context, p);
}

template <uf_mma_math MATH>
static uf_status launch_tile(uf_context *context, const wgrad_rs_plan &plan) {
    constexpr bool FP32 = MATH == UF_MMA_TF32X3;
#define UF_WGRAD_RS_TILE(ROWS, PART, MOST32, MOST)                                                 \
    if (plan.sums.rows == ROWS) {                                                                  \
        return launch<wgrad_rs_tile<MATH, ROWS, FP32 ? MOST32 : MOST, PART>>(context, plan);       \
    }
    UF_WGRAD_RS_TILES
#undef UF_WGRAD_RS_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgrad_rs has no tile of %d rows", plan.sums.rows);
}

extern "C" uf_status uf_cuda_conv_wgrad_rs_fixup(uf_context *context,
                                                 const uf_conv_kernel_args *args,
                                                 const wgrad_rs_plan *plan,
                                                 const uf_wgrad_fixup *fixup) {
    const uf_conv_kernel_args one = uf_conv_flat(args);
    wgrad_rs_plan own = *plan;
    uf_wgrad_bind(&own.sums, &one);
    own.sums.fixup = *fixup;
    return launch_tile<UF_MMA_TF32X3>(context, own);
}

extern "C" uf_status uf_conv_launch_wgmma_wgrad_rs(uf_context *context,
                                                   const uf_conv_problem *problem,
                                                   const uf_conv_plan *plan) {
    const uf_conv_kernel_args one = uf_conv_flat(problem->args);
    const uf_mma_math math = uf_mma_math_of(problem->args);
    wgrad_rs_plan own = *UF_CONV_CONST_PLAN_OF(wgrad_rs_plan, plan);
    uf_wgrad_bind(&own.sums, &one);
    UF_DISPATCH_MATH(math, return launch_tile<MATH>(context, own));
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgrad_rs has no math %d", (int)math);
}
