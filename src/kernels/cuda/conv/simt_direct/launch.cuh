/* launch.cuh - the launch of conv_direct, by tile, for one type of element. */
#ifndef UF_KERNELS_CUDA_CONV_SIMT_DIRECT_LAUNCH_CUH
#define UF_KERNELS_CUDA_CONV_SIMT_DIRECT_LAUNCH_CUH

#include "kernels/cuda/conv/simt_direct/launch.h"
#include "kernels/cuda/conv/simt_direct/mainloop.cuh"
#include "kernels/cuda/device/launch.cuh"

static_assert(sizeof(uf_direct_conv) <= 4000, "kernel parameters");

template <typename Tile>
static uf_status direct_launch_tile(uf_context *context, const uf_direct_plan &plan) {
    static_assert(Tile::STEP >= Tile::C, "weights");
    const uf_launch how = {dim3((unsigned)plan.blocks), plan.threads, (size_t)plan.shared};
    return uf_cuda_launch(context, "conv_direct", how, conv_direct<Tile>, plan.conv);
}

template <typename T>
static uf_status direct_launch(uf_context *context, const uf_direct_plan &plan) {
#define UF_DIRECT_TILE(L, C, P)                                                                    \
    if (plan.phases == L && plan.channels == C && plan.cells == P) {                               \
        return direct_launch_tile<direct_tile<T, L, C, P>>(context, plan);                         \
    }
    UF_DIRECT_TILES
#undef UF_DIRECT_TILE
    UF_FAIL(UF_ERROR_INTERNAL, "conv_direct has no tile of %d phases, %d channels, %d cells",
            plan.phases, plan.channels, plan.cells);
}

#endif
