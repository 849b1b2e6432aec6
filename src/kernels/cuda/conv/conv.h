/* conv.h - the convolution kernels of the CUDA backend whose plans are not objects yet
 * (select/adapters.c), and the choice for a context (conv.c). */
#ifndef UF_KERNELS_CUDA_CONV_H
#define UF_KERNELS_CUDA_CONV_H

#include "kernels/cuda/device/backend.h"
#include "kernels/cuda/conv/select/choose.h"

UF_BEGIN_DECLS

/* A kernel's scratch, and its launch. The kernel takes the arguments. */
typedef size_t uf_cuda_conv_workspace(uf_conv_direction direction, const uf_conv_kernel_args *args);
typedef uf_status uf_cuda_conv_run(uf_context *context, uf_conv_direction direction,
                                   const uf_conv_kernel_args *args);

/* The plan for the context's GPU and this build; plan has two elements, as for uf_conv_choose. */
uf_status uf_cuda_conv_untuned(const uf_context *context, uf_conv_direction direction,
                               const uf_conv_kernel_args *args, uf_conv_plan *plan);

/* The same, or the plan of the context's table of tuned convolutions, which is fixed from then on.
 */
uf_status uf_cuda_conv_chosen(const uf_context *context, uf_conv_direction direction,
                              const uf_conv_kernel_args *args, uf_conv_plan *plan);

/* Every direction; simt_gemm where y has one pixel. */
uf_cuda_conv_workspace uf_cuda_conv_naive_workspace, uf_cuda_conv_gemm_workspace;
uf_cuda_conv_run uf_cuda_conv_naive, uf_cuda_conv_gemm;

/* fprop and dgrad; direct without a workspace. */
uf_cuda_conv_run uf_cuda_conv_direct;

/* wgrad; register_a's scratch, for fix-ups behind other main loops. */
uf_cuda_conv_workspace uf_cuda_conv_wgrad_rs_workspace, uf_cuda_conv_wgrad_direct_workspace;
uf_cuda_conv_run uf_cuda_conv_wgrad_direct;

/* w = the sum over `splits` partial weight gradients in `partial`, each in C order with w's element
 * type; honours the strides of w and the write mode. */
uf_status uf_cuda_conv_add_splits(uf_context *context, const uf_conv_kernel_args *args,
                                  const void *partial, int64_t splits);

UF_END_DECLS

#endif
