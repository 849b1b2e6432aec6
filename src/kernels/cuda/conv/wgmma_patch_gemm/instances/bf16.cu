/* bf16.cu - the tiles of wgmma_patch_gemm/launch.cu for bf16 tensors. */
#include "kernels/cuda/conv/wgmma_patch_gemm/instances/launch.cuh"

uf_status wgmma_patch_launch_bf16(uf_context *context, const patch_conv &p, const CUtensorMap &map,
                                  uf_conv_packing packing, int processors) {
    return wgmma_patch_launch_tiles<UF_MMA_BF16, uf_bf16>(context, p, map, packing, processors);
}
