/* fallback.c - the main loop patch_wgrad of wgmma_implicit_gemm: the patch wgrad in TF32 and FP32,
 * or register_a (wgmma_wgrad) where TMA cannot load the tensors. */
#include "kernels/cuda/conv/flatten.h"
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/launch.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/wgrad/plan.h"
#include "kernels/cuda/conv/wgmma_wgrad/register_a/plan.h"

/* The own plan is register_a's; addresses decide at the launch, so scratch is enough for both. */
bool uf_conv_plan_wgmma_patch_wgrad(const uf_conv_problem *problem, uf_conv_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    const bool any = uf_wgrad_rs_fits(args);
    uf_patch_wgrad_copies copies;
    if (!uf_wgrad_fits(args) ||
        !(any || (args->math != UF_MATH_BF16 && uf_patch_wgrad_copies_of(args, &copies)))) {
        return false;
    }
    const double cost = uf_patch_wgrad_cost(args);
    if (cost < 0.0 || (any && !uf_conv_plan_wgmma_wgrad_rs(problem, plan))) {
        return false;
    }
    const uf_conv_kernel_args flat = uf_conv_flat(args);
    const size_t other = any ? plan->workspace : 0;
    const size_t own = uf_view_count(&args->w) > 0 ? uf_patch_wgrad_workspace(&flat) : 0;
    plan->cost = uf_conv_is_empty(problem) ? 0.0 : cost;
    plan->workspace = own > other ? own : other;
    return true;
}

uf_status uf_conv_launch_wgmma_patch_wgrad(uf_context *context, const uf_conv_problem *problem,
                                           const uf_conv_plan *plan) {
    const uf_conv_kernel_args flat = uf_conv_flat(problem->args);
    return uf_patch_wgrad_takes(&flat) ? uf_patch_wgrad(context, &flat)
                                       : uf_conv_launch_wgmma_wgrad_rs(context, problem, plan);
}
