/* inner.c - the plan of space-to-depth with that of its inner convolution. It needs every main
 * loop; plan.c needs none. */
#include "core/context.h"
#include "kernels/cuda/conv/select/choose.h"
#include "kernels/cuda/conv/transform/space_to_depth/plan.h"

/* The choice takes y for aligned, so that a layer's variant does not depend on its address. Plans
 * do ask for its alignment: where y is not aligned, the chosen variant plans once more. */
static void plan_for_address(const uf_conv_problem *problem, const uf_conv_kernel_args *chosen,
                             uf_conv_plan *plan) {
    if ((uintptr_t)problem->args->y.data % UF_ALIGNMENT == 0) {
        return;
    }
    uf_conv_kernel_args args = *chosen;
    args.y.data = problem->args->y.data;
    const uf_conv_problem inner = uf_conv_problem_of(problem->direction, &args, problem->gpu);
    if (!uf_conv_plan_variant(&inner, (uf_cuda_conv_variant)plan->variant, plan)) {
        uf_conv_plan_inner(&inner, plan);
    }
}

/* plan->inner is the plan of the inner convolution. */
bool uf_conv_plan_space_to_depth(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_space_to_depth_plan *const own = UF_CONV_PLAN_OF(uf_space_to_depth_plan, plan);
    if (plan->inner == NULL || !uf_conv_positions_fit(problem->args) ||
        !uf_space_to_depth_plan_of(problem, own)) {
        return false;
    }
    const uf_conv_problem inner = uf_conv_problem_of(problem->direction, &own->inner, problem->gpu);
    uf_conv_plan_inner(&inner, plan->inner);
    plan->cost = own->cost + plan->inner->microseconds * problem->gpu->cycles_per_microsecond;
    plan->workspace = own->bytes + plan->inner->workspace;
    plan_for_address(problem, &own->inner, plan->inner);
    if (own->bytes + plan->inner->workspace > plan->workspace) {
        plan->workspace = own->bytes + plan->inner->workspace;
    }
    return true;
}

bool uf_conv_plan_space_to_depth_wgrad(const uf_conv_problem *problem, uf_conv_plan *plan) {
    return uf_conv_plan_space_to_depth(problem, plan);
}
