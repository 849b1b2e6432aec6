/* fallback.c - the main loop patch_wgrad of wgmma_implicit_gemm: the patch wgrad in TF32 and FP32,
 * or register_a (wgmma_wgrad) where TMA cannot load the tensors. Its plan then stands in place of
 * the own one. */
#include "kernels/cuda/conv/flatten.h"
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/launch.h"
#include "kernels/cuda/conv/wgmma_wgrad/register_a/plan.h"

static const char other_name[] = "wgrad_rs";

/* Without copies the workspace is enough for both main loops, wherever tensors begin. */
bool uf_conv_plan_wgmma_patch_wgrad(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_patch_wgrad_conv_plan own;
    if (!uf_wgrad_fits(problem->args) || !uf_patch_wgrad_conv_plan_of(problem->args, &own)) {
        return false;
    }
    const uf_conv_problem fallback = uf_conv_any_tile(problem);
    const bool other = uf_conv_plan_wgmma_wgrad_rs(&fallback, plan);
    plan->tile = 0; /* the fallback's number is none of this main loop's */
    plan->tiles = 1;
    if (!other && !own.copied) {
        return false;
    }
    const size_t bytes = uf_patch_wgrad_workspace(&own);
    plan->workspace = other && plan->workspace > bytes ? plan->workspace : bytes;
    plan->cost = own.cost;
    if (uf_patch_wgrad_ready(problem->args, &own)) {
        *UF_CONV_PLAN_OF(uf_patch_wgrad_conv_plan, plan) = own;
    } else {
        plan->loop_name = other_name;
    }
    return true;
}

uf_status uf_conv_launch_wgmma_patch_wgrad(uf_context *context, const uf_conv_problem *problem,
                                           const uf_conv_plan *plan) {
    if (plan->loop_name == other_name) {
        return uf_conv_launch_wgmma_wgrad_rs(context, problem, plan);
    }
    const uf_conv_kernel_args flat = uf_conv_flat(problem->args);
    return uf_patch_wgrad(context, &flat, UF_CONV_CONST_PLAN_OF(uf_patch_wgrad_conv_plan, plan));
}
