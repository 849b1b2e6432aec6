/* launch.h - patch wgrad: a main loop of `wgmma_channel_blocked` (BF16) and `wgmma_implicit_gemm`
 * (TF32, FP32). It takes filters as wide as their stride, one or two columns. Larger filters of 32
 * taps and more that equal their stride are copied to pointwise form first. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_LAUNCH_H
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_LAUNCH_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

/* 0 where it never applies; the tensors' addresses may be unknown yet. */
size_t uf_patch_wgrad_workspace(const uf_conv_kernel_args *args);

/* True for these arguments at these addresses. */
bool uf_patch_wgrad_takes(const uf_conv_kernel_args *args);

uf_status uf_patch_wgrad(uf_context *context, const uf_conv_kernel_args *args);

UF_END_DECLS

#endif
