/* launch.h - the tiles of conv_wgmma by type: an object each, so that no object of the library
 * takes minutes to compile. Each packs, runs the main kernel and, in FP32, the exact fix-up. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_INSTANCES_LAUNCH_H
#define UF_KERNELS_CUDA_CONV_WGMMA_IMPLICIT_GEMM_INSTANCES_LAUNCH_H

#include "kernels/cuda/conv/wgmma_implicit_gemm/pack.cuh"

typedef uf_status wgmma_launch_type(uf_context *context, uf_conv_direction direction,
                                    const uf_conv_kernel_args *args, const wgmma_conv &p,
                                    void *blocks, int processors);

wgmma_launch_type wgmma_launch_fp32, wgmma_launch_tf32;
wgmma_launch_type wgmma_launch_f32_bf16, wgmma_launch_bf16; /* f32 tensors in BF16, bf16 tensors */

/* FP32: packs if some range flag is set, by as many CTAs as run at once. */
uf_status wgmma_launch_pack_flagged(uf_context *context, const wgmma_conv &p,
                                    const wgmma_packing &packing, int64_t blocks, int processors);

/* FP32: the exact fix-up, whichever kernel flagged the tiles. */
uf_status wgmma_launch_exact(uf_context *context, const wgmma_conv &p, int processors);

#endif
