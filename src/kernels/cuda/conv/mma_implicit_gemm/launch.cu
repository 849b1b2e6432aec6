/* launch.cu - convolution on tensor cores by mma.sync (sm_80 and later): the general kernel.
 *
 * Computes: conv_fprop and conv_dgrad, as one dense correlation per phase (geometry.h).
 * Shapes and limits: any geometry whose positions fit 28 bits and whose tiles fit 30. bf16 tensors
 *   are made f32 first (transform/bf16_upcast.h).
 * GEMM mapping: M = the written pixels of a phase; N = the written channels of a group; K = the
 *   read channels of a group times the taps of the phase. No MMA multiplies an inserted zero. A
 *   block has 128 pixels and 32, 64 or 128 channels, in 4 or 8 warps.
 * Data path: a k-tile is 16 (BF16: 32) channels of one tap. Pixels come by 4-byte cp.async into
 *   [k][pixel], because their alignment changes with the tap. The pitch of 8 mod 32 words keeps
 *   fragment loads free of bank conflicts. Weights are packed before it in the order in which
 *   lanes read them, and come by 16-byte cp.async. There are 3 or 4 stages, and one barrier per
 *   k-tile.
 * Precision: FP32 is 3xTF32, promoted every 8 of K because the tensor core truncates. TF32 and BF16
 *   round to nearest in registers. FFMAs compute results again that are not finite.
 * Split and order of sums: few tiles with a long K split K by the shape alone; conv_mma_add adds
 *   the splits in order.
 * Bound by: the tensor cores in FP32; load units and shared memory in TF32 and BF16.
 * Chosen when: no kernel of Hopper takes the problem, or the GPU is older.
 */
#define UF_MMA_SHARED(name) extern __shared__ __align__(16) uint32_t name[]

#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/transform/bf16_upcast.h"
#include "kernels/cuda/conv/mma_implicit_gemm/mainloop.cuh"
#include "kernels/cuda/conv/mma_implicit_gemm/pack.cuh"
#include "kernels/cuda/conv/mma_implicit_gemm/plan.h"
#include "kernels/cuda/device/launch.cuh"

template <typename Tile>
static uf_status launch(uf_context *context, const mma_plan &plan, uf_conv_packing packing) {
    if (plan.pack_warps > 0 && packing != UF_CONV_PACKED) {
        const dim3 grid((unsigned)((plan.pack_warps + UF_BLOCK / 32 - 1) / (UF_BLOCK / 32)),
                        (unsigned)plan.pack_rows);
        UF_TRY(uf_cuda_launch(context, "conv_mma_pack", {grid, UF_BLOCK}, conv_mma_pack<Tile>,
                              plan.conv, plan.pack_warps));
    }
    if (packing == UF_CONV_PACK_ONLY) {
        return UF_OK;
    }
    const uf_launch how = {dim3((unsigned)plan.blocks, (unsigned)plan.conv.splits), Tile::THREADS,
                           Tile::SHARED};
    UF_TRY(uf_cuda_launch(context, "conv_mma", how, conv_mma<Tile>, plan.conv));
    if (plan.conv.splits == 1) {
        return UF_OK;
    }
    const uf_launch add = {
        dim3((unsigned)uf_div_up(plan.add_pixels, UF_BLOCK), (unsigned)plan.add_rows), UF_BLOCK};
    return uf_cuda_launch(context, "conv_mma_add", add, conv_mma_add<float>, plan.conv);
}

static uf_status launch_f32(uf_context *context, const uf_conv_problem *problem,
                            const uf_conv_plan *plan) {
    mma_plan own = *UF_CONV_CONST_PLAN_OF(mma_plan, plan);
    const uf_mma_math math = uf_mma_math_of(problem->args);
    uf_mma_bind(&own, problem->direction, problem->args);
#define UF_MMA_TILE(MATH, N, WARPS, BLOCKS)                                                        \
    if (math == MATH && own.tile_n == N) {                                                         \
        return launch<mma_tile<MATH, N, WARPS, BLOCKS>>(context, own, problem->args->packing);     \
    }
    UF_MMA_TILES
#undef UF_MMA_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_mma has no tile of %d channels for math %d", own.tile_n,
            (int)math);
}

extern "C" uf_status uf_conv_launch_mma_implicit_gemm(uf_context *context,
                                                      const uf_conv_problem *problem,
                                                      const uf_conv_plan *plan) {
    return uf_conv_upcast(context, problem, plan, launch_f32);
}
