/* launch.h - conv_depthwise by the type of elements: an object each, for the sake of the compiler's
 * time. */
#ifndef UF_KERNELS_CUDA_CONV_DEPTHWISE_LAUNCH_H
#define UF_KERNELS_CUDA_CONV_DEPTHWISE_LAUNCH_H

#include "kernels/cuda/conv/depthwise/plan.h"
#include "kernels/cuda/device/backend.h"

UF_BEGIN_DECLS

uf_status uf_depthwise_launch_f32(uf_context *context, const uf_depthwise_plan *plan);
uf_status uf_depthwise_launch_bf16(uf_context *context, const uf_depthwise_plan *plan);

UF_END_DECLS

#endif
