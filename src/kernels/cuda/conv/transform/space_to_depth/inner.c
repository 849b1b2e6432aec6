/* inner.c - the plan of space-to-depth together with the plan of the convolution that it makes:
 * apart from plan.c, which needs no other main loop. */
#include "kernels/cuda/conv/select/choose.h"
#include "kernels/cuda/conv/transform/space_to_depth/plan.h"

/* The plan of what it makes follows in plan->inner; its y counts as well placed, wherever it is. */
bool uf_conv_plan_space_to_depth(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_space_to_depth_plan *const own = UF_CONV_PLAN_OF(uf_space_to_depth_plan, plan);
    if (plan->inner == NULL || !uf_conv_positions_fit(problem->args) ||
        !uf_space_to_depth_plan_of(problem->direction, problem->args, own)) {
        return false;
    }
    const uf_conv_problem inner = {problem->direction, &own->inner, problem->gpu};
    uf_conv_plan_inner(&inner, plan->inner);
    plan->cost = own->cost + plan->inner->microseconds * problem->gpu->cycles_per_microsecond;
    plan->workspace = own->bytes + plan->inner->workspace;
    return true;
}

bool uf_conv_plan_space_to_depth_wgrad(const uf_conv_problem *problem, uf_conv_plan *plan) {
    return uf_conv_plan_space_to_depth(problem, plan);
}
