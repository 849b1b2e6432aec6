/* launch.cu - conv_fprop and conv_dgrad on tensor cores: implicit GEMM with mma.sync (sm_80 and
 * later).
 *
 * Both directions are one dense correlation per phase (geometry.h): M = the written pixels of a
 * phase, N = the written channels of a group, K = the read channels of a group times the taps of
 * the phase; no MMA with an inserted zero is made. A block computes 128 pixels x N in {32, 64,
 * 128} channels with 4 or 8 warps.
 *
 * Data path: a k-tile is 16 (bf16: 32) channels of one tap. Pixels come by 4-byte cp.async (their
 * alignment changes with the tap; zeros where the tap reads outside) into [k][pixel] with a pitch
 * of 8 mod 32 words, so that fragment loads meet no bank conflict. Weights are packed once per call
 * into the order in which lanes read them and come by 16-byte cp.async. 3 or 4 stages, one barrier
 * per k-tile. Rounding to TF32 or bf16 is to nearest, in registers.
 *
 * FP32: x = big + small, MMAs small*big + big*small + big*big; the tensor core's accumulator
 * truncates, so each 8 of K are summed alone and added in ordinary registers. Results that are not
 * finite are computed again by FFMAs.
 *
 * Few tiles and a long K: K is split by shape alone, the splits are added in order by a second
 * kernel. Bound by the load units and shared memory in TF32 and BF16, by the tensor cores in FP32.
 */
#define UF_MMA_SHARED(name) extern __shared__ __align__(16) uint32_t name[]

#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/transform/bf16_upcast.h"
#include "kernels/cuda/conv/mma_implicit_gemm/mainloop.cuh"
#include "kernels/cuda/conv/mma_implicit_gemm/pack.cuh"
#include "kernels/cuda/conv/mma_implicit_gemm/plan.h"
#include "kernels/cuda/device/launch.cuh"

template <typename Tile>
static uf_status launch(uf_context *context, const mma_plan &plan) {
    const cudaStream_t stream = uf_cuda_stream(context);
    if (plan.pack_warps > 0) {
        const dim3 grid((unsigned)((plan.pack_warps + UF_BLOCK / 32 - 1) / (UF_BLOCK / 32)),
                        (unsigned)plan.pack_rows);
        conv_mma_pack<Tile><<<grid, UF_BLOCK, 0, stream>>>(plan.conv, plan.pack_warps);
        UF_TRY(uf_cuda_launched(context, "conv_mma_pack"));
    }
    const uf_launch how = {dim3((unsigned)plan.blocks, (unsigned)plan.conv.splits), Tile::THREADS,
                           Tile::SHARED, false, 0};
    UF_TRY(uf_cuda_launch(context, "conv_mma", how, conv_mma<Tile>, plan.conv));
    if (plan.conv.splits == 1) {
        return UF_OK;
    }
    conv_mma_add<float>
        <<<dim3((unsigned)uf_div_up(plan.add_pixels, UF_BLOCK), (unsigned)plan.add_rows), UF_BLOCK,
           0, stream>>>(plan.conv);
    return uf_cuda_launched(context, "conv_mma_add");
}

static uf_status launch_f32(uf_context *context, const uf_conv_problem *problem,
                            const uf_conv_plan *plan) {
    mma_plan own = *UF_CONV_CONST_PLAN_OF(mma_plan, plan);
    const uf_mma_math math = uf_mma_math_of(problem->args);
    uf_mma_bind(&own, problem->direction, problem->args);
#define UF_MMA_TILE(MATH, N, WARPS, BLOCKS)                                                        \
    if (math == MATH && own.tile_n == N) {                                                         \
        return launch<mma_tile<MATH, N, WARPS, BLOCKS>>(context, own);                             \
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
