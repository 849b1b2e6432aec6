/* launch.cu - conv_fprop and conv_dgrad of bf16 tensors with the filter in registers (sm_90a).
 *
 * Computes: fprop and dgrad where each written element is one sum over read channels.
 *
 * Shapes and limits: 1 x 1 in both directions; in dgrad also filters two columns wide with kernel =
 * stride. At most 512 read channels, no groups, no accumulation. Tensors begin at 16 bytes.
 *
 * GEMM mapping (M, N, K): 64 written channels times taps; 128 pixels; read channels.
 *
 * Data path: weights are A, in registers for the life of the CTA. Pixels are B, MN-major as they
 * lie in memory. One lane brings stages of 64 channels by 128 pixels by TMA; in a cluster of two
 * CTAs each brings half for both. Two consumer warpgroups have rows of their own: one stores while
 * the other multiplies. Results leave from registers, 16 bytes a lane, 64 of four neighbours.
 * Nothing is packed, no workspace is needed.
 *
 * Precision: BF16 MMAs, f32 sums, one rounding.
 *
 * Split and order of sums: none.
 *
 * Bound by: memory, or the second-level cache.
 *
 * Chosen when: the shape allows it and the modelled cycles are below the others'. */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/filter_stationary/mainloop.cuh"
#include "kernels/cuda/device/launch.cuh"

static_assert(sizeof(uf_filter_stationary_plan) + 2 * sizeof(CUtensorMap) <= 4000,
              "kernel parameters");

/* Planes as rows; a box is 64 pixels of 64 channels. */
static uf_status map_pixels(uf_context *context, const uf_view &read, CUtensorMap *map) {
    uf_view planes = read;
    planes.extent[2] = 1;
    planes.extent[3] = read.extent[2] * read.extent[3];
    planes.stride[2] = planes.extent[3];
    planes.stride[3] = 1;
    return uf_cuda_view_map(context, planes, 64, 1, UF_FILTER_STATIONARY_CHANNELS,
                            CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, map);
}

/* A channel of y is a row. */
static uf_status map_weights(uf_context *context, const uf_view &w, CUtensorMap *map) {
    uf_view rows = w;
    rows.extent[0] = rows.extent[1] = 1;
    rows.extent[2] = w.extent[0];
    rows.extent[3] = w.extent[1] * w.extent[2] * w.extent[3];
    rows.stride[2] = w.stride[0];
    rows.stride[3] = 1;
    return uf_cuda_view_map(context, rows, 64, 64, 1, CU_TENSOR_MAP_SWIZZLE_128B,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, map);
}

template <int WIDE, int CHUNKS, bool PAIR>
static uf_status launch(uf_context *context, const uf_filter_stationary_plan &plan,
                        const CUtensorMap &pixels, const CUtensorMap &weights) {
    typedef filter_stationary_tile<WIDE, CHUNKS, PAIR> Tile;
    const uf_launch how = {dim3((unsigned)plan.blocks), Tile::THREADS, UF_FILTER_STATIONARY_SHARED,
                           PAIR ? 2 : 0};
    return uf_cuda_launch(context, "conv_filter_stationary", how, conv_filter_stationary<Tile>,
                          pixels, weights, plan);
}

template <int WIDE>
static uf_status launch_chunks(uf_context *context, const uf_filter_stationary_plan &plan,
                               const CUtensorMap &pixels, const CUtensorMap &weights) {
    switch (plan.chunks) {
#define UF_FILTER_STATIONARY_TILE(CHUNKS)                                                          \
    case CHUNKS:                                                                                   \
        return plan.pair ? launch<WIDE, CHUNKS, true>(context, plan, pixels, weights)              \
                         : launch<WIDE, CHUNKS, false>(context, plan, pixels, weights);
        UF_FILTER_STATIONARY_TILES
#undef UF_FILTER_STATIONARY_TILE
    default:
        UF_FAIL(UF_ERROR_INTERNAL, "conv_filter_stationary has no tile of %d chunks",
                (int)plan.chunks);
    }
}

extern "C" uf_status uf_filter_stationary_run(uf_context *context, const uf_conv_problem *problem,
                                              const uf_filter_stationary_plan *plan) {
    CUtensorMap pixels, weights;
    UF_TRY(map_pixels(context, *uf_conv_read(problem), &pixels));
    memset((void *)&weights, 0, sizeof weights);
    if (!plan->gathered) {
        UF_TRY(map_weights(context, problem->args->w, &weights));
    }
    return plan->wide == 2 ? launch_chunks<2>(context, *plan, pixels, weights)
                           : launch_chunks<1>(context, *plan, pixels, weights);
}
