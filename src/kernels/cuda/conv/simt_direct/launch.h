/* launch.h - conv_direct by the type of elements: an object each, for the sake of the compiler's
 * time. */
#ifndef UF_KERNELS_CUDA_CONV_SIMT_DIRECT_LAUNCH_H
#define UF_KERNELS_CUDA_CONV_SIMT_DIRECT_LAUNCH_H

#include "kernels/cuda/conv/simt_direct/plan.h"
#include "kernels/cuda/device/backend.h"

UF_BEGIN_DECLS

uf_status uf_direct_launch_f32(uf_context *context, const uf_direct_plan *plan);
uf_status uf_direct_launch_bf16(uf_context *context, const uf_direct_plan *plan);

UF_END_DECLS

#endif
