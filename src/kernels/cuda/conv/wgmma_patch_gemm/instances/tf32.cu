/* tf32.cu - the tiles of wgmma_patch_gemm/launch.cu for f32 tensors in TF32. */
#include "kernels/cuda/conv/wgmma_patch_gemm/instances/launch.cuh"

uf_status wgmma_patch_launch_tf32(uf_context *context, const patch_conv &p, const CUtensorMap &map,
                                  uf_conv_packing packing, int processors) {
    return wgmma_patch_launch_tiles<UF_MMA_TF32, float>(context, p, map, packing, processors);
}
