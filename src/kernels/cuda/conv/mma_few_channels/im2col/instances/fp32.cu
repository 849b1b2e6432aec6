/* fp32.cu - the tiles of conv_im2col for f32 tensors in FP32. */
#include "kernels/cuda/conv/mma_few_channels/im2col/instances/launch.cuh"

extern "C" uf_status uf_im2col_launch_fp32(uf_context *context, const uf_im2col_plan *plan) {
#define UF_IM2COL_TILE(N, M)                                                                       \
    if (plan->n == N && plan->m == M) {                                                            \
        return im2col_launch_tile<float, UF_MMA_TF32X3, N, M>(context, *plan);                     \
    }
    UF_IM2COL_TILES_FP32
#undef UF_IM2COL_TILE
    return im2col_no_tile(*plan);
}
