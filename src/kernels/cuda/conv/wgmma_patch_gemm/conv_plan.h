/* conv_plan.h - the patch GEMM by a plan that is made already, for fallbacks. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_CONV_PLAN_H
#define UF_KERNELS_CUDA_CONV_WGMMA_PATCH_GEMM_CONV_PLAN_H

#include "kernels/cuda/conv/mma_implicit_gemm/plan.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/plan.h"

UF_BEGIN_DECLS

typedef struct uf_patch_conv_plan {
    uf_patch_plan patch;
    mma_plan mma; /* the convolution as kernels see it; a launch binds it */
} uf_patch_conv_plan;

/* The arguments that the plan is of: canonical and flat. */
uf_conv_kernel_args uf_patch_args_of(const uf_conv_problem *problem);

/* False where the main loop does not take the problem: types, 32-bit positions and tiles, plan. */
bool uf_patch_take(const uf_conv_problem *problem, uf_patch_conv_plan *plan);

/* Bytes of packed weights and flags. */
static inline size_t uf_patch_workspace(const uf_patch_plan *patch) {
    return (size_t)(patch->weight_bytes + patch->tiles * patch->splits * UF_PATCH_GROUPS);
}

/* launch.cu. */
uf_status uf_patch_run(uf_context *context, const uf_conv_problem *problem,
                       const uf_patch_conv_plan *plan);

UF_END_DECLS

#endif
