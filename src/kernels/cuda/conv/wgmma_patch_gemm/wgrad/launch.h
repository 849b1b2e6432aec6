/* launch.h - patch wgrad: a main loop of `wgmma_channel_blocked` (BF16) and `wgmma_implicit_gemm`
 * (TF32, FP32). It takes filters as wide as their stride, one or two columns. Larger filters of 32
 * taps and more that equal their stride are copied to pointwise form first. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_LAUNCH_H
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_LAUNCH_H

#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/plan.h"

UF_BEGIN_DECLS

/* `plan` is of these arguments, and ready. */
uf_status uf_patch_wgrad(uf_context *context, const uf_conv_kernel_args *args,
                         const uf_patch_wgrad_conv_plan *plan);

UF_END_DECLS

#endif
