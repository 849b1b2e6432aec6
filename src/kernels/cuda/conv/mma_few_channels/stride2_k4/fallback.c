/* fallback.c - the main loops of stride2_k4 as objects. TMA loads tensors that are aligned to 16
 * bytes; a call with others runs simt_direct's main loops, whose plan then stands in place of the
 * own one. */
#include "kernels/cuda/conv/mma_few_channels/stride2_k4/plan.h"
#include "kernels/cuda/conv/registry.h"

static const char depthwise_name[] = "depthwise", direct_name[] = "direct";

/* The fallback's tile is none of these main loops'. */
static bool clear_tile(uf_conv_plan *plan) {
    plan->tile = 0;
    plan->tiles = 1;
    return true;
}

/* simt_direct's plan, by the order of its main loops in registry.def. */
static bool plan_direct(const uf_conv_problem *problem, uf_conv_plan *plan, const char **name) {
    const uf_conv_problem any = uf_conv_any_tile(problem);
    *name = depthwise_name;
    if (uf_conv_plan_simt_depthwise(&any, plan)) {
        return clear_tile(plan);
    }
    *name = direct_name;
    return uf_conv_plan_simt_direct(&any, plan) && clear_tile(plan);
}

/* A problem that simt_direct does not take has no plan even where its tensors are aligned:
 * addresses must not change the variants that a layer has. Its plan takes long, so it is asked
 * last. */
bool uf_conv_plan_mma_stride2_k4(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_stride2_k4_plan own;
    const char *name;
    if (!uf_stride2_k4_plan_of(problem, &own) || !plan_direct(problem, plan, &name)) {
        return false;
    }
    if (uf_stride2_k4_is_aligned(problem)) {
        uf_direct_clear_addresses(&own.conv);
        *UF_CONV_PLAN_OF(uf_stride2_k4_plan, plan) = own;
        plan->workspace = 0;
    } else {
        plan->loop_name = name;
    }
    plan->cost = own.cost;
    return true;
}

uf_status uf_conv_launch_mma_stride2_k4(uf_context *context, const uf_conv_problem *problem,
                                        const uf_conv_plan *plan) {
    if (uf_stride2_k4_is_aligned(problem)) {
        return uf_stride2_k4_launch(context, problem,
                                    UF_CONV_CONST_PLAN_OF(uf_stride2_k4_plan, plan));
    }
    return plan->loop_name == depthwise_name ? uf_conv_launch_simt_depthwise(context, problem, plan)
                                             : uf_conv_launch_simt_direct(context, problem, plan);
}

/* The workspace is enough for both main loops, wherever tensors begin. */
bool uf_conv_plan_mma_stride2_k4_wgrad(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_stride2_k4_plan own;
    const uf_conv_problem any = uf_conv_any_tile(problem);
    if (!uf_stride2_k4_plan_of(problem, &own) || !uf_conv_plan_simt_direct_wgrad(&any, plan)) {
        return false;
    }
    (void)clear_tile(plan);
    const size_t bytes = uf_stride2_k4_wgrad_bytes(&own);
    plan->workspace = bytes > plan->workspace ? bytes : plan->workspace;
    plan->cost = own.cost;
    if (uf_stride2_k4_is_aligned(problem)) {
        uf_direct_clear_addresses(&own.conv);
        *UF_CONV_PLAN_OF(uf_stride2_k4_plan, plan) = own;
    } else {
        plan->loop_name = direct_name;
    }
    return true;
}

uf_status uf_conv_launch_mma_stride2_k4_wgrad(uf_context *context, const uf_conv_problem *problem,
                                              const uf_conv_plan *plan) {
    return uf_stride2_k4_is_aligned(problem)
               ? uf_stride2_k4_launch_wgrad(context, problem,
                                            UF_CONV_CONST_PLAN_OF(uf_stride2_k4_plan, plan))
               : uf_conv_launch_simt_direct_wgrad(context, problem, plan);
}
