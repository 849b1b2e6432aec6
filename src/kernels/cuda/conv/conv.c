/* conv.c - conv_fprop, conv_dgrad, conv_wgrad on a GPU: the plan of a problem, made once, and its
 * launch. */
#include "kernels/cuda/conv/conv.h"

#include <string.h>

uf_status uf_cuda_conv_untuned(const uf_context *context, uf_conv_direction direction,
                               const uf_conv_kernel_args *args, uf_conv_plan *plan) {
    const uf_conv_problem problem = {direction, args, uf_cuda_gpu(context)};
    return uf_conv_choose(&problem, plan);
}

uf_status uf_cuda_conv_chosen(const uf_context *context, uf_conv_direction direction,
                              const uf_conv_kernel_args *args, uf_conv_plan *plan) {
    uf_cuda_state *state = (uf_cuda_state *)context->state;
    if (args->variant == NULL) {
        const uf_conv_problem problem = {direction, args, &state->gpu};
        const uf_conv_key key = uf_conv_key_of(direction, args);
        const uf_conv_tuned *tuned = uf_conv_tuning_find(&state->tuning, &key);
        state->tuning.used = true;
        plan[0].inner = &plan[1];
        plan[1].inner = NULL;
        if (tuned != NULL && uf_conv_plan_variant(&problem, tuned->variant, plan)) {
            return UF_OK;
        }
    }
    return uf_cuda_conv_untuned(context, direction, args, plan);
}

/* The plan, from the cache where it has one. `made` has room for one that the cache cannot keep. */
static uf_status plan_of(const uf_context *context, uf_conv_direction direction,
                         const uf_conv_kernel_args *args, uf_conv_plan *made,
                         const uf_conv_plan **plan) {
    uf_cuda_state *state = (uf_cuda_state *)context->state;
    uf_conv_plan_cache_row *row = uf_conv_plan_cache_row_of(&state->plan_cache, direction, args);
    if (row->plan == NULL) {
        UF_TRY(uf_cuda_conv_chosen(context, direction, args, made));
        uf_conv_plan_cache_keep(row, made);
    }
    *plan = row->plan != NULL ? row->plan : made;
    return UF_OK;
}

static size_t workspace(const uf_context *context, uf_conv_direction direction,
                        const uf_conv_kernel_args *args) {
    uf_conv_plan made[2];
    const uf_conv_plan *plan;
    /* The call itself reports an unknown variant. */
    return plan_of(context, direction, args, made, &plan) == UF_OK ? plan->workspace : 0;
}

static uf_status run(uf_context *context, uf_conv_direction direction,
                     const uf_conv_kernel_args *args) {
    const uf_conv_problem problem = {direction, args, uf_cuda_gpu(context)};
    uf_conv_plan made[2];
    const uf_conv_plan *plan;
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(plan_of(context, direction, args, made, &plan));
    if (uf_view_count(uf_conv_written(&problem)) == 0) {
        return UF_OK;
    }
    if (args->workspace_size < plan->workspace) {
        UF_FAIL(UF_ERROR_INTERNAL, "convolution was given %zu bytes of workspace and needs %zu",
                args->workspace_size, plan->workspace);
    }
    return plan->loop->launch(context, &problem, plan);
}

uf_status uf_cuda_conv_fprop(uf_context *context, const uf_conv_kernel_args *args) {
    return run(context, UF_CONV_FPROP, args);
}

uf_status uf_cuda_conv_dgrad(uf_context *context, const uf_conv_kernel_args *args) {
    return run(context, UF_CONV_DGRAD, args);
}

uf_status uf_cuda_conv_wgrad(uf_context *context, const uf_conv_kernel_args *args) {
    return run(context, UF_CONV_WGRAD, args);
}

size_t uf_cuda_conv_fprop_workspace(uf_context *context, const uf_conv_kernel_args *args) {
    return workspace(context, UF_CONV_FPROP, args);
}

size_t uf_cuda_conv_dgrad_workspace(uf_context *context, const uf_conv_kernel_args *args) {
    return workspace(context, UF_CONV_DGRAD, args);
}

size_t uf_cuda_conv_wgrad_workspace(uf_context *context, const uf_conv_kernel_args *args) {
    return workspace(context, UF_CONV_WGRAD, args);
}
