/* launch.cuh - the launch of one tile of conv_im2col. */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_INSTANCES_LAUNCH_CUH
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_INSTANCES_LAUNCH_CUH

#include "kernels/cuda/conv/mma_few_channels/im2col/instances/launch.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/instances/tiles.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/mainloop.cuh"
#include "kernels/cuda/device/launch.cuh"

static_assert(sizeof(uf_im2col_conv) <= 4000, "kernel parameters");

template <typename T, uf_mma_math MATH, int N, int M>
static uf_status im2col_launch_tile(uf_context *context, const uf_im2col_plan &plan) {
    typedef im2col_tile<T, MATH, N, M> Tile;
    const uf_launch how = {dim3((unsigned)plan.blocks), plan.threads, (size_t)plan.shared};
    return uf_cuda_launch(context, "conv_im2col", how, conv_im2col<Tile>, plan.im2col);
}

static inline uf_status im2col_no_tile(const uf_im2col_plan &plan) {
    UF_FAIL(UF_ERROR_INTERNAL, "conv_im2col has no tile of %d columns and %d cells",
            8 * (int)plan.n, 16 * (int)plan.m);
}

#endif
