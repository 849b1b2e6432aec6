/* launch.h - what conv_direct starts where groups have one channel or a few. */
#ifndef UF_KERNELS_CUDA_CONV_DEPTHWISE_LAUNCH_H
#define UF_KERNELS_CUDA_CONV_DEPTHWISE_LAUNCH_H

#include "kernels/cuda/conv/depthwise/plan.h"

UF_BEGIN_DECLS

/* By the type of elements. */
uf_status uf_cuda_conv_depthwise(uf_context *context, const uf_depthwise_plan *plan);
uf_status uf_cuda_conv_depthwise_bf16(uf_context *context, const uf_depthwise_plan *plan);

UF_END_DECLS

#endif
