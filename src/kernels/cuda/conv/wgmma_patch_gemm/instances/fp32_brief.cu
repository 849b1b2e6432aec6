/* fp32_brief.cu - the tiles of wgmma_patch_gemm/launch.cu for FP32 with brief sums. */
#include "kernels/cuda/conv/wgmma_patch_gemm/instances/launch.cuh"

uf_status wgmma_patch_launch_fp32_brief(uf_context *context, const patch_conv &p,
                                        const CUtensorMap &map, uf_conv_packing packing,
                                        int processors) {
    return wgmma_patch_launch_tiles<UF_MMA_TF32X3, float, true>(context, p, map, packing,
                                                                processors);
}
