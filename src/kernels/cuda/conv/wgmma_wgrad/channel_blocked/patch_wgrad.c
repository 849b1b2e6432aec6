/* patch_wgrad.c - the main loop patch_wgrad of wgmma_channel_blocked: the patch wgrad in BF16
 * (wgmma_patch_gemm/wgrad), or the main loop channel_blocked where tensors are not aligned. Its
 * plan then stands in place of the own one. */
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/launch.h"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/plan.h"

static const char other_name[] = "channel_blocked";

/* Without copies the workspace is enough for both main loops, wherever tensors begin. */
bool uf_conv_plan_wgmma_bf16_patch_wgrad(const uf_conv_problem *problem, uf_conv_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    uf_patch_wgrad_conv_plan own;
    if (uf_mma_math_of(args) != UF_MMA_BF16 || !uf_channel_blocked_fits(args) ||
        !uf_patch_wgrad_conv_plan_of(args, &own)) {
        return false;
    }
    uf_channel_blocked_plans *const others = UF_CONV_PLAN_OF(uf_channel_blocked_plans, plan);
    const bool other = uf_channel_blocked_plans_of(args, UF_CONV_ANY_TILE, others);
    if (!other && !own.copied) {
        return false;
    }
    const size_t patch = uf_patch_wgrad_workspace(&own);
    const size_t bytes = other ? uf_channel_blocked_workspace_bytes(args, others) : 0;
    plan->workspace = patch > bytes ? patch : bytes;
    plan->cost = own.cost;
    plan->writes_f32 = uf_patch_wgrad_any_strides(&own);
    if (uf_patch_wgrad_ready(args, &own)) {
        *UF_CONV_PLAN_OF(uf_patch_wgrad_conv_plan, plan) = own;
    } else {
        plan->loop_name = other_name;
    }
    return true;
}

uf_status uf_conv_launch_wgmma_bf16_patch_wgrad(uf_context *context, const uf_conv_problem *problem,
                                                const uf_conv_plan *plan) {
    if (plan->loop_name == other_name) {
        return uf_channel_blocked_launch(context, problem->args,
                                         UF_CONV_CONST_PLAN_OF(uf_channel_blocked_plans, plan));
    }
    return uf_patch_wgrad(context, problem->args,
                          UF_CONV_CONST_PLAN_OF(uf_patch_wgrad_conv_plan, plan));
}
