/* launch.h - the tiles of conv_im2col by type: an object each, for the sake of the compiler's time.
 */
#ifndef UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_INSTANCES_LAUNCH_H
#define UF_KERNELS_CUDA_CONV_MMA_FEW_CHANNELS_IM2COL_INSTANCES_LAUNCH_H

#include "kernels/cuda/conv/mma_few_channels/im2col/plan.h"
#include "kernels/cuda/device/backend.h"

UF_BEGIN_DECLS

typedef uf_status uf_im2col_launch_type(uf_context *context, const uf_im2col_plan *plan);

uf_im2col_launch_type uf_im2col_launch_fp32, uf_im2col_launch_tf32;
uf_im2col_launch_type uf_im2col_launch_f32_bf16, uf_im2col_launch_bf16; /* f32, bf16 tensors */

UF_END_DECLS

#endif
