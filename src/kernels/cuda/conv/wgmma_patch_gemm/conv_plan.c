/* conv_plan.c - the plan of the patch GEMM as an object. */
#include "kernels/cuda/conv/wgmma_patch_gemm/conv_plan.h"

#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/layout.h"

bool uf_patch_take(const uf_conv_problem *problem, uf_patch_plan *patch) {
    const uf_conv_kernel_args *const args = problem->args;
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    return (args->x.dtype == UF_F32 || args->x.dtype == UF_BF16) &&
           uf_conv_tiles_fit(problem->direction, args) &&
           uf_patch_plan_of(problem->direction, &canonical, patch);
}

bool uf_conv_plan_wgmma_patch_gemm(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_patch_plan *const patch = UF_CONV_PLAN_OF(uf_patch_plan, plan);
    if (!uf_patch_take(problem, patch)) {
        return false;
    }
    plan->cost = uf_conv_is_empty(problem) ? 0.0 : patch->cost;
    plan->workspace = uf_view_count(uf_conv_written(problem)) == 0 ? 0 : uf_patch_workspace(patch);
    return true;
}

uf_status uf_conv_launch_wgmma_patch_gemm(uf_context *context, const uf_conv_problem *problem,
                                          const uf_conv_plan *plan) {
    return uf_patch_run(context, problem, UF_CONV_CONST_PLAN_OF(uf_patch_plan, plan));
}
