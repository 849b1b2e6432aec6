/* launch.h - the tiles of conv_wgmma_patch by type: an object each, so that no object of the
 * library takes minutes to compile. Each packs weights and runs the main kernel. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_INSTANCES_LAUNCH_H
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_INSTANCES_LAUNCH_H

#include <cuda.h>

#include "kernels/cuda/conv/wgmma_patch_gemm/tile.cuh"

typedef uf_status wgmma_patch_launch_type(uf_context *context, const patch_conv &p,
                                          const CUtensorMap &map, uf_conv_packing packing,
                                          int processors);

/* FP32, and with brief sums; f32 tensors in BF16, bf16 tensors. */
wgmma_patch_launch_type wgmma_patch_launch_fp32, wgmma_patch_launch_fp32_brief;
wgmma_patch_launch_type wgmma_patch_launch_tf32;
wgmma_patch_launch_type wgmma_patch_launch_f32_bf16, wgmma_patch_launch_bf16;

/* FP32: the exact fix-up, whichever kernel flagged the tiles. */
uf_status wgmma_patch_launch_exact(uf_context *context, const patch_conv &p, int processors);

#endif
