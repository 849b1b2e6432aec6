/* bf16.cu - the tiles of wgmma_implicit_gemm/launch.cu for bf16 tensors. */
#include "kernels/cuda/conv/wgmma_implicit_gemm/instances/launch.cuh"

uf_status wgmma_launch_bf16(uf_context *context, uf_conv_direction direction,
                            const uf_conv_kernel_args *args, const wgmma_conv &p, void *blocks,
                            int processors) {
    UF_WGMMA_TILES_BF16(UF_BF16, uf_bf16)
    return wgmma_no_tile(p, "bf16 tensors");
}
