/* patch_wgrad.c - the main loop patch_wgrad of wgmma_channel_blocked: the patch wgrad in BF16
 * (wgmma_patch_gemm/wgrad), or the main loop channel_blocked where tensors are not aligned. */
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/launch.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/plan.h"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/plan.h"

/* Without copies the addresses decide at the launch, which needs the other plan and its scratch. */
bool uf_conv_plan_wgmma_bf16_patch_wgrad(const uf_conv_problem *problem, uf_conv_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    uf_channel_blocked_plans *const own = UF_CONV_PLAN_OF(uf_channel_blocked_plans, plan);
    if (uf_mma_math_of(args) != UF_MMA_BF16 || !uf_channel_blocked_fits(args)) {
        return false;
    }
    const bool other = uf_channel_blocked_plans_of(args, own);
    uf_patch_wgrad_copies copies;
    if (!other && !(args->x.dtype == UF_BF16 && uf_patch_wgrad_copies_of(args, &copies))) {
        return false;
    }
    const double cost = uf_patch_wgrad_cost(args);
    if (cost < 0.0) {
        return false;
    }
    plan->cost = uf_conv_is_empty(problem) ? 0.0 : cost;
    const size_t patch = uf_patch_wgrad_workspace(args);
    const size_t bytes = other ? uf_channel_blocked_workspace_bytes(args, own) : 0;
    plan->workspace = patch > bytes ? patch : bytes;
    return true;
}

uf_status uf_conv_launch_wgmma_bf16_patch_wgrad(uf_context *context, const uf_conv_problem *problem,
                                                const uf_conv_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    return uf_patch_wgrad_takes(args)
               ? uf_patch_wgrad(context, args)
               : uf_channel_blocked_launch(context, args,
                                           UF_CONV_CONST_PLAN_OF(uf_channel_blocked_plans, plan));
}
