/* launch.h - a way of the weight gradient that the variants `wgmma_channel_blocked` (BF16) and
 * `wgmma_implicit_gemm` (TF32, FP32) take where a row of a filter is as wide as its step, two or
 * one; and, after a copy of x, where a filter of 32 taps and more is as large as its steps. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_LAUNCH_H
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_WGRAD_LAUNCH_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

/* 0 where it is never taken: where tensors will be is not always known yet. */
size_t uf_patch_wgrad_workspace(const uf_conv_kernel_args *args);

/* Is it the way for these arguments, tensors and all? */
bool uf_patch_wgrad_takes(const uf_conv_kernel_args *args);

uf_status uf_patch_wgrad(uf_context *context, const uf_conv_kernel_args *args);

UF_END_DECLS

#endif
