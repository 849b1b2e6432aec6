/* wgrad_launch.cu - conv_wgrad on tensor cores: implicit GEMM with mma.sync (sm_80 and later),
 * any geometry, f32.
 *
 * M = k of a group, N = (c, r, s), K = pixels (n, p, q), which NCHW has consecutive in both
 * operands. A block has a tile of 64, 32 or 16 rows and 48 to 288 columns and walks its share of
 * the boxes of 32 pixels; shares follow from the shape, their sums go to the workspace and a second
 * kernel adds them in order and writes w.
 *
 * Data path: y by 16-byte (4-byte where rows are not aligned) cp.async into [k][pixel]. x by 4-byte
 * cp.async into [c][place]: each place that any tap of the box reads, once; strided places are
 * sorted by residue, so that a tap is a shift whatever the stride, and all taps are multiplied from
 * that one copy. A table in shared memory, made once, says what each lane copies. Where taps share
 * too little for that to fit, each fragment of eight columns has its own 32 pixels. Pitches of 4
 * mod 8 words: no fragment load meets a bank conflict, at any shift. 2 to 4 stages, one barrier per
 * box. Rounding to TF32 or bf16 is to nearest, in registers.
 *
 * FP32: x = big + small, MMAs small*big + big*small + big*big; the tensor core's accumulator
 * truncates, so it is added to ordinary registers every 8 pixels. Results that are not finite are
 * computed again by FFMAs.
 *
 * Bound by the tensor cores in FP32, by shared memory in BF16, by both in TF32. */
#define UF_WGRAD_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/transform/bf16_upcast.h"
#include "kernels/cuda/conv/reduce/split_k.cuh"
#include "kernels/cuda/conv/mma_implicit_gemm/wgrad_mainloop.cuh"
#include "kernels/cuda/device/launch.cuh"

template <typename Tile>
static uf_status launch(uf_context *context, const wgrad_plan &plan) {
    const uf_launch how = {dim3((unsigned)plan.tiles, (unsigned)plan.splits), Tile::THREADS,
                           (size_t)plan.shared_bytes, false, 0};
    UF_TRY(uf_cuda_launch(context, "conv_wgrad_mma", how, conv_wgrad_mma<Tile>, plan));
    return wgrad_add(context, plan, false);
}

template <uf_mma_math MATH>
static uf_status launch_tile(uf_context *context, const wgrad_plan &plan) {
    constexpr bool FP32 = MATH == UF_MMA_TF32X3;
#define UF_WGRAD_TILE(ID, ROWS, M32, N32, M, N, FRAGMENTS)                                         \
    if (plan.tile_id == ID) {                                                                      \
        return launch<wgrad_tile<MATH, ROWS, FP32 ? M32 : M, FP32 ? N32 : N, FRAGMENTS>>(context,  \
                                                                                         plan);    \
    }
    UF_WGRAD_TILES
#undef UF_WGRAD_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgrad_mma has no tile %d", plan.tile_id);
}

static uf_status launch_f32(uf_context *context, const uf_conv_problem *problem,
                            const uf_conv_plan *plan) {
    wgrad_plan own = *UF_CONV_CONST_PLAN_OF(wgrad_plan, plan);
    const uf_mma_math math = uf_mma_math_of(problem->args);
    uf_wgrad_bind(&own, problem->args);
    UF_DISPATCH_MATH(math, return launch_tile<MATH>(context, own));
    UF_FAIL(UF_ERROR_INTERNAL, "conv_wgrad_mma has no math %d", (int)math);
}

extern "C" uf_status uf_conv_launch_mma_implicit_gemm_wgrad(uf_context *context,
                                                            const uf_conv_problem *problem,
                                                            const uf_conv_plan *plan) {
    return uf_conv_upcast(context, problem, plan, launch_f32);
}
