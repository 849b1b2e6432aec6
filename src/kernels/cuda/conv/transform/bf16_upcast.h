/* bf16_upcast.h - bf16 tensors for main loops that take f32. */
#ifndef UF_KERNELS_CUDA_CONV_TRANSFORM_BF16_UPCAST_H
#define UF_KERNELS_CUDA_CONV_TRANSFORM_BF16_UPCAST_H

#include "kernels/cuda/conv/plan.h"

UF_BEGIN_DECLS

/* The arguments with f32 tensors in the workspace, of which these take *used bytes; the
 * arguments as they are, and 0, where x is not bf16. */
uf_conv_kernel_args uf_conv_upcast_args(const uf_conv_kernel_args *args, size_t *used);

/* Launches the plan, which was made for those arguments, with tensors made f32, and rounds the
 * result once. Without a bf16 tensor it launches the plan as it is. */
uf_status uf_conv_upcast(uf_context *context, const uf_conv_problem *problem,
                         const uf_conv_plan *plan, uf_conv_launch_function *launch);

UF_END_DECLS

#endif
