/* plan.h - the plan of split_f16/launch.cu: that of channel_blocked, and the workspace around it.
 * Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_SPLIT_F16_PLAN_H
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_SPLIT_F16_PLAN_H

#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/plan.h"

UF_BEGIN_DECLS

enum { UF_SPLIT_F16_STATE_BYTES = 256 /* of workspace, at its begin */ };

/* Workspace: the state, a byte for each span of w (its mark), and from this byte on the copies and
 * sums, whose room the fix-up uses again. */
size_t uf_split_f16_marks_end(const uf_conv_kernel_args *args, const uf_channel_blocked_plan *plan);

UF_END_DECLS

#endif
