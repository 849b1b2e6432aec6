/* plan.c - see split_f16/plan.h. */
#include "kernels/cuda/conv/wgmma_wgrad/split_f16/plan.h"

#include "kernels/cuda/conv/registry.h"

size_t uf_split_f16_marks_end(const uf_conv_kernel_args *args,
                              const uf_channel_blocked_plan *plan) {
    const uf_channel_blocked_reduction reduction =
        uf_channel_blocked_reduction_of(args, plan->width, plan->splits);
    return UF_SPLIT_F16_STATE_BYTES + (size_t)uf_round_up(reduction.items, 256);
}

/* Bytes of one plan, with a fix-up that needs `fixup` of them. */
static size_t bytes_of(const uf_conv_kernel_args *args, const uf_channel_blocked_plan *plan,
                       size_t fixup) {
    const size_t begin = uf_split_f16_marks_end(args, plan);
    const size_t end = uf_channel_blocked_workspace_of(args, plan, begin).end;
    return end > begin + fixup ? end : begin + fixup;
}

/* The larger of both: scratch that was asked for must be enough wherever y begins. */
bool uf_conv_plan_wgmma_split_f16_wgrad(const uf_conv_problem *problem, uf_conv_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    uf_split_f16_wgrad_plan *const own = UF_CONV_PLAN_OF(uf_split_f16_wgrad_plan, plan);
    if (args->math != UF_MATH_FP32 || !uf_wgrad_fits(args) || !uf_wgrad_rs_fits(args) ||
        !uf_channel_blocked_plans_of(args, problem->tile, &own->mma)) {
        return false;
    }
    plan->tile = own->mma.aligned.tile_id;
    plan->tiles = UF_SPLIT_F16_IDS;
    own->fixup = uf_wgrad_rs_unbound(args, UF_CONV_ANY_TILE);
    const size_t fixup = uf_wgrad_workspace(&own->fixup.sums);
    const size_t aligned = bytes_of(args, &own->mma.aligned, fixup);
    const size_t any = bytes_of(args, &own->mma.any, fixup);
    plan->cost = uf_conv_is_empty(problem) ? 0.0 : own->mma.aligned.cost;
    plan->workspace = aligned > any ? aligned : any;
    return true;
}
