/* bf16.cu - the tiles of conv_im2col in BF16, for f32 and for bf16 tensors. */
#include "kernels/cuda/conv/mma_few_channels/im2col/instances/launch.cuh"

extern "C" uf_status uf_im2col_launch_f32_bf16(uf_context *context, const uf_im2col_plan *plan) {
#define UF_IM2COL_TILE(N, M)                                                                       \
    if (plan->n == N && plan->m == M) {                                                            \
        return im2col_launch_tile<float, UF_MMA_BF16, N, M>(context, *plan);                       \
    }
    UF_IM2COL_TILES
#undef UF_IM2COL_TILE
    return im2col_no_tile(*plan);
}

extern "C" uf_status uf_im2col_launch_bf16(uf_context *context, const uf_im2col_plan *plan) {
#define UF_IM2COL_TILE(N, M)                                                                       \
    if (plan->n == N && plan->m == M) {                                                            \
        return im2col_launch_tile<uf_bf16, UF_MMA_BF16, N, M>(context, *plan);                     \
    }
    UF_IM2COL_TILES
#undef UF_IM2COL_TILE
    return im2col_no_tile(*plan);
}
