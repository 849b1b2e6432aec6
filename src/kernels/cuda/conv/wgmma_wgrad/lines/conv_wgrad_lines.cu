/* conv_wgrad_lines.cu - conv_wgrad on Hopper's warpgroup products (sm_90a), x through registers;
 * f32, filters of which 32 pixels read at most LINES_ENTRIES elements of a channel.
 *
 * M = columns (c, r, s), 64 to a product; N = k of a group, 32, 64 or 128; K = pixels, in boxes
 * of 32. A block has up to 10 products of N = 64 (FP32: 4; 12 of 32, 4 of 128) in two warpgroups
 * and walks its share of the boxes of a tile, or of those of all tiles (wgrad_sums_of); shares
 * follow from the shape in whole waves of one block per multiprocessor, their sums go to the
 * workspace and are added in order.
 *
 * Data path: x is copied once per box as lines that all taps share (conv_wgrad_mma_plan.cuh): by
 * cp.async of 16 or 8 bytes where rows of x are aligned, stride included, else of 4. Consumers load
 * fragments at the tap's offset, round or split them in registers and multiply: a tap costs loads,
 * but no copy. y comes by cp.async of 16 bytes to where the thread that copied it then writes its
 * rounded (FP32: split) words: planes of [k][16 bytes], which products read without swizzle.
 *
 * Eight warps copy. Where eight stages fit, each fills a stage of its own: a box costs its warp
 * hundreds of instructions beside the copies, one after another, and only chains of different boxes
 * overlap. Otherwise two or four share a stage.
 *
 * FP32: three TF32 products; 16 pixels are summed in the tensor core, small products first, and
 * then in ordinary registers. Results that are not finite are computed again by FFMAs. Rounding is
 * to nearest.
 *
 * Bound in FP32 by additions and splits, which wait for the registers that products read: tiles of
 * up to 64 rows overlap them with products, tiles of 128 use a split twice. In TF32 and BF16 by the
 * warps that copy, and with few taps by the second-level cache. */
#define UF_WGRAD_SHARED(name) extern __shared__ __align__(128) unsigned char name[]

#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/select/conv_estimate.h"
#include "kernels/cuda/conv/conv_flat.h"
#include "kernels/cuda/conv/reduce/conv_wgrad_add.cuh"
#include "kernels/cuda/conv/wgmma_wgrad/lines/conv_wgrad_lines.cuh"
#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/conv_wgrad_straight.h"
#include "kernels/cuda/device/launch.cuh"

template <typename Tile>
static uf_status launch(uf_context *context, const lines_plan &plan) {
    const wgrad_plan &p = plan.sums;
    const dim3 grid(p.share > 0 ? (unsigned)wgrad_shares(p) : (unsigned)p.tiles,
                    p.share > 0 ? 1u : (unsigned)p.splits);
    const uf_launch how = {grid, Tile::THREADS, (size_t)p.shared_bytes, false, 0};
    UF_TRY(uf_cuda_launch(context, "conv_wgrad_lines", how, conv_wgrad_lines<Tile>, plan));
    return wgrad_add(context, p, true);
}

extern "C" size_t uf_cuda_conv_wgrad_lines_workspace(uf_conv_direction,
                                                     const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args one = uf_conv_flat(args);
    const size_t bytes = wgrad_workspace(lines_plan_of(&one).sums);
    const size_t straight = uf_wgrad_straight_workspace(&one);
    return bytes > straight ? bytes : straight;
}

extern "C" double uf_cuda_conv_wgrad_lines_clocks(const uf_conv_kernel_args *args) {
    return lines_plan_of(args).clocks;
}

template <uf_math MATH>
static uf_status launch_tile(uf_context *context, const lines_plan &plan) {
    constexpr bool FP32 = MATH == UF_MATH_FP32;
#define UF_LINES_TILE(ROWS, PART, MOST32, MOST)                                                    \
    if (plan.sums.rows == ROWS) {                                                                  \
        return launch<lines_tile<MATH, ROWS, FP32 ? MOST32 : MOST, PART>>(context, plan);          \
    }
    UF_LINES_TILES
#undef UF_LINES_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgrad_lines has no tile of %d rows", plan.sums.rows);
}

extern "C" uf_status uf_cuda_conv_wgrad_lines_again(uf_context *context,
                                                    const uf_conv_kernel_args *args,
                                                    const uf_wgrad_again *again) {
    const uf_conv_kernel_args one = uf_conv_flat(args);
    lines_plan plan = lines_plan_at(&one);
    plan.sums.again = *again;
    return launch_tile<UF_MATH_FP32>(context, plan);
}

extern "C" uf_status uf_cuda_conv_wgrad_lines(uf_context *context, uf_conv_direction,
                                              const uf_conv_kernel_args *args) {
    const uf_conv_kernel_args one = uf_conv_flat(args);
    if (uf_wgrad_straight_takes(&one)) {
        return uf_wgrad_straight(context, &one);
    }
    const lines_plan plan = lines_plan_at(&one);
    UF_DISPATCH_MATH(args->math, return launch_tile<MATH>(context, plan));
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgrad_lines has no math %d", (int)args->math);
}
