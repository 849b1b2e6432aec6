/* conv_plan.c - the plan of the patch GEMM as an object. */
#include "kernels/cuda/conv/wgmma_patch_gemm/conv_plan.h"

#include <string.h>

#include "kernels/cuda/conv/flatten.h"
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/layout.h"

uf_conv_kernel_args uf_patch_args_of(const uf_conv_problem *problem) {
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(problem->args);
    return uf_conv_flat(&canonical);
}

/* Without an element to write there are no tiles to divide by, and no launch. */
bool uf_patch_take(const uf_conv_problem *problem, uf_patch_conv_plan *plan) {
    const uf_conv_kernel_args *const args = problem->args;
    const uf_conv_kernel_args canonical = uf_wgmma_canonical(args);
    if ((args->x.dtype != UF_F32 && args->x.dtype != UF_BF16) ||
        !uf_conv_tiles_fit(problem->direction, args) ||
        !uf_patch_plan_of(problem->direction, &canonical, problem->tile, &plan->patch)) {
        return false;
    }
    memset(&plan->mma, 0, sizeof plan->mma);
    if (uf_view_count(uf_conv_written(problem)) > 0) {
        const uf_conv_kernel_args flat = uf_patch_args_of(problem);
        plan->mma = uf_mma_shape_of(problem->direction, &flat, UF_CONV_ANY_TILE);
    }
    return true;
}

bool uf_conv_plan_wgmma_patch_gemm(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_patch_conv_plan *const own = UF_CONV_PLAN_OF(uf_patch_conv_plan, plan);
    if (!uf_patch_take(problem, own)) {
        return false;
    }
    plan->tile = uf_patch_tile_number(&own->patch);
    plan->tiles = UF_PATCH_TILE_NUMBERS;
    plan->cost = uf_conv_is_empty(problem) ? 0.0 : own->patch.cost;
    plan->workspace =
        uf_view_count(uf_conv_written(problem)) == 0 ? 0 : uf_patch_workspace(&own->patch);
    if (plan->workspace > 0) {
        plan->packed = (size_t)own->patch.weight_bytes;
        plan->workspace_apart = plan->workspace - plan->packed;
    }
    return true;
}

uf_status uf_conv_launch_wgmma_patch_gemm(uf_context *context, const uf_conv_problem *problem,
                                          const uf_conv_plan *plan) {
    return uf_patch_run(context, problem, UF_CONV_CONST_PLAN_OF(uf_patch_conv_plan, plan));
}
