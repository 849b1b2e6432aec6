/* fallback.c - the plan of wgmma_filter_stationary as an object. Addresses may not change a
 * layer's plan, so that it holds a fallback for tensors that TMA cannot load. */
#include <string.h>

#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/plan.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/conv_plan.h"
#include "kernels/cuda/conv/wgmma_patch_gemm/filter_stationary/plan.h"

typedef struct filter_stationary_choice {
    uf_filter_stationary_plan plan; /* without `conv`, which a launch describes */
    bool is_patch;                  /* kind of the fallback */
    union {
        uf_patch_conv_plan patch;
        uf_wgmma_plan general;
    } fallback;
} filter_stationary_choice;

bool uf_conv_plan_wgmma_filter_stationary(const uf_conv_problem *problem, uf_conv_plan *plan) {
    filter_stationary_choice *const choice = UF_CONV_PLAN_OF(filter_stationary_choice, plan);
    if (!uf_filter_stationary_plan_of(problem->direction, problem->args, &choice->plan)) {
        return false;
    }
    const uf_conv_problem any = uf_conv_any_tile(problem);
    choice->is_patch = uf_patch_take(&any, &choice->fallback.patch);
    if (!choice->is_patch && !uf_wgmma_take(&any, &choice->fallback.general)) {
        return false;
    }
    memset(&choice->plan.conv, 0, sizeof choice->plan.conv);
    plan->cost = choice->plan.cost;
    if (choice->is_patch) {
        plan->workspace = uf_patch_workspace(&choice->fallback.patch.patch);
    } else {
        const uf_conv_kernel_args canonical = uf_wgmma_canonical(problem->args);
        plan->workspace =
            uf_wgmma_workspace(problem->direction, &canonical, &choice->fallback.general.geometry);
    }
    return true;
}

uf_status uf_conv_launch_wgmma_filter_stationary(uf_context *context,
                                                 const uf_conv_problem *problem,
                                                 const uf_conv_plan *plan) {
    const filter_stationary_choice *const choice =
        UF_CONV_CONST_PLAN_OF(filter_stationary_choice, plan);
    if (!uf_filter_stationary_is_aligned(problem->args)) {
        return choice->is_patch ? uf_patch_run(context, problem, &choice->fallback.patch)
                                : uf_wgmma_run(context, problem, &choice->fallback.general);
    }
    uf_filter_stationary_plan own = choice->plan;
    uf_direct_describe(&own.conv, problem->args, problem->direction == UF_CONV_DGRAD);
    return uf_filter_stationary_run(context, problem, &own);
}
