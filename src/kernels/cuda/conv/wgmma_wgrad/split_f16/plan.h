/* plan.h - the plan of split_f16/launch.cu: that of channel_blocked, that of the fix-up, and the
 * workspace around them. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_SPLIT_F16_PLAN_H
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_SPLIT_F16_PLAN_H

#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/plan.h"
#include "kernels/cuda/conv/wgmma_wgrad/register_a/plan.h"

UF_BEGIN_DECLS

enum { UF_SPLIT_F16_STATE_BYTES = 256 /* of workspace, at its begin */ };

typedef struct uf_split_f16_wgrad_plan {
    uf_channel_blocked_plans mma;
    wgrad_rs_plan fixup; /* of marked spans, by 3xTF32 */
} uf_split_f16_wgrad_plan;

/* Workspace: the state, a byte for each span of w (its mark), and from this byte on the copies and
 * sums, whose room the fix-up uses again. */
size_t uf_split_f16_marks_end(const uf_conv_kernel_args *args, const uf_channel_blocked_plan *plan);

UF_END_DECLS

#endif
