/* launch.cuh - the launch of conv_depthwise, by tile, for one type of element. */
#ifndef UF_KERNELS_CUDA_CONV_DEPTHWISE_LAUNCH_CUH
#define UF_KERNELS_CUDA_CONV_DEPTHWISE_LAUNCH_CUH

#include "kernels/cuda/conv/depthwise/launch.h"
#include "kernels/cuda/conv/depthwise/mainloop.cuh"

static_assert(sizeof(uf_depthwise_conv) <= 4000, "kernel parameters");

template <typename Tile>
static uf_status depthwise_launch_tile(uf_context *context, const uf_depthwise_plan &plan) {
    /* Sums while an activation is applied, or results on their epilogue from where a line begins.
     */
    const bool plain = plan.depthwise.conv.activation == UF_ACTIVATION_IDENTITY;
    const size_t results = (size_t)(Tile::ROWS * Tile::RUN * UF_DEPTHWISE_THREADS);
    const size_t shared = !plain                 ? results * sizeof(float)
                          : plan.depthwise.whole ? results * sizeof(typename Tile::T)
                                                 : 0;
    const uf_launch how = {dim3((unsigned)plan.blocks), (int)plan.threads, shared + 128};
    return uf_cuda_launch(context, "conv_depthwise", how, conv_depthwise<Tile>, plan.depthwise);
}

template <typename T>
static uf_status depthwise_launch(uf_context *context, const uf_depthwise_plan &plan) {
#define UF_DEPTHWISE_TILE(OUT, IN, FILTER, ROWS, RUN, VECTOR)                                      \
    if (plan.out_step == OUT && plan.in_step == IN && plan.filter == FILTER &&                     \
        plan.rows == ROWS && plan.run == RUN && plan.vector == VECTOR) {                           \
        return depthwise_launch_tile<depthwise_tile<T, OUT, IN, FILTER, ROWS, RUN, VECTOR>>(       \
            context, plan);                                                                        \
    }
    if constexpr (sizeof(T) == 2) {
        UF_DEPTHWISE_TILES_BF16
    }
    UF_DEPTHWISE_TILES
#undef UF_DEPTHWISE_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_depthwise has no tile of filter %d, %d rows of %d",
            plan.filter, plan.rows, plan.run);
}

#endif
