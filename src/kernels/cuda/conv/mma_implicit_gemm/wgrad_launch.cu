/* wgrad_launch.cu - the weight gradient on tensor cores by mma.sync (sm_80 and later): the general
 * kernel.
 *
 * Computes: conv_wgrad.
 * Shapes and limits: any geometry whose pixels and columns fit 30 bits and whose tiles fit 22. bf16
 *   tensors are made f32 first (transform/bf16_upcast.h).
 * GEMM mapping: M = k of a group; N = columns (c, r, s); K = pixels (n, p, q), which NCHW has
 *   consecutive in both operands. A block has 64, 32 or 16 rows and 48 to 288 columns, and walks
 *   its share of the boxes of 32 pixels.
 * Data path: y comes by 16-byte cp.async (4-byte where rows are not aligned) into [k][pixel]. x
 *   comes by 4-byte cp.async into [c][entry], each element that some tap of the box reads once.
 *   Lines (wgrad_problem.h) make a tap a shift for any stride. A table in shared memory holds what
 *   each lane copies. Taps that share too little have their own 32 pixels for each fragment of
 *   eight columns. Pitches of 4 mod 8 words avoid bank conflicts at any shift. There are 2 to 4
 *   stages, and one barrier per box.
 * Precision: FP32 is 3xTF32, promoted every 8 pixels because the tensor core truncates. TF32 and
 *   BF16 round to nearest in registers. FFMAs compute results again that are not finite.
 * Split and order of sums: the shape alone splits the boxes; conv_wgrad_mma_add adds the splits in
 *   order and writes w.
 * Bound by: the tensor cores in FP32, shared memory in BF16, both in TF32.
 * Chosen when: no kernel of Hopper takes the problem, or the GPU is older.
 */
#define UF_WGRAD_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/transform/bf16_upcast.h"
#include "kernels/cuda/conv/reduce/split_k.cuh"
#include "kernels/cuda/conv/mma_implicit_gemm/wgrad_mainloop.cuh"
#include "kernels/cuda/device/launch.cuh"

template <int WIDTH, int REPEAT>
static uf_status wgrad_add_width(uf_context *context, const wgrad_plan &p) {
    const int32_t block = UF_BLOCK / p.adders * WIDTH * REPEAT;
    const int32_t per_tile = (p.rows * p.columns + block - 1) / block;
    const uf_launch how = {dim3((unsigned)(p.tiles * per_tile)), UF_BLOCK};
    return uf_cuda_launch(context, "conv_wgrad_mma_add", how, conv_wgrad_mma_add<WIDTH, REPEAT>, p,
                          per_tile);
}

uf_status wgrad_add(uf_context *context, const wgrad_plan &p) {
    constexpr int32_t ROWS = 4;
    const int32_t block = UF_BLOCK * 4;
    if (p.channels % 4 != 0) {
        return wgrad_add_width<1, 1>(context, p);
    }
    /* Few splits of many elements, and blocks are left to fill the GPU. */
    return p.adders == 1 && p.splits <= 4 && block % p.columns == 0 &&
                   p.rows * p.columns % (block * ROWS) == 0 &&
                   (int64_t)p.tiles * p.rows * p.columns >= (int64_t)block * ROWS * WGRAD_BLOCKS
               ? wgrad_add_width<4, ROWS>(context, p)
               : wgrad_add_width<4, 1>(context, p);
}

template <typename Tile>
static uf_status launch(uf_context *context, const wgrad_plan &plan) {
    const uf_launch how = {dim3((unsigned)plan.tiles, (unsigned)plan.splits), Tile::THREADS,
                           (size_t)plan.shared_bytes};
    UF_TRY(uf_cuda_launch(context, "conv_wgrad_mma", how, conv_wgrad_mma<Tile>, plan));
    return wgrad_add(context, plan);
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
