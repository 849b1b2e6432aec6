/* tf32.cu - the tiles of wgmma_implicit_gemm/launch.cu for f32 tensors in TF32. */
#include "kernels/cuda/conv/wgmma_implicit_gemm/instances/launch.cuh"

uf_status wgmma_launch_tf32(uf_context *context, uf_conv_direction direction,
                            const uf_conv_kernel_args *args, const wgmma_conv &p, void *blocks,
                            int processors) {
    UF_WGMMA_TILES_TF32
    return wgmma_no_tile(p, "f32 tensors in TF32");
}
