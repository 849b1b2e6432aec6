/* conv.c - conv_fprop, conv_dgrad, conv_wgrad on a GPU: the plan of a problem, made once, and its
 * launch. */
#include "kernels/cuda/conv/conv.h"

#include <string.h>

uf_status uf_cuda_conv_untuned(const uf_context *context, uf_conv_direction direction,
                               const uf_conv_kernel_args *args, uf_conv_plan *plan) {
    const uf_conv_problem problem = uf_conv_problem_of(direction, args, uf_cuda_gpu(context));
    return uf_conv_choose(&problem, plan);
}

uf_status uf_cuda_conv_chosen(const uf_context *context, uf_conv_direction direction,
                              const uf_conv_kernel_args *args, uf_conv_plan *plan) {
    uf_cuda_state *state = (uf_cuda_state *)context->state;
    if (args->variant == NULL) {
        uf_conv_problem problem = uf_conv_problem_of(direction, args, &state->gpu);
        const uf_conv_key key = uf_conv_key_of(direction, args);
        const uf_conv_tuned *tuned = uf_conv_tuning_find(&state->tuning, &key);
        state->tuning.used = true;
        plan[0].inner = &plan[1];
        plan[1].inner = NULL;
        if (tuned != NULL) {
            problem.tile = tuned->tile;
            if (uf_conv_plan_variant(&problem, tuned->variant, plan)) {
                return UF_OK;
            }
            problem = uf_conv_any_tile(&problem);
            if (tuned->tile != UF_CONV_ANY_TILE &&
                uf_conv_plan_variant(&problem, tuned->variant, plan)) {
                uf_context_log(context, UF_LOG_INFO,
                               "tile %d of a tuned convolution is not used: %s, main loop %s, does "
                               "not have it for these tensors, and takes tile %d",
                               tuned->tile, uf_cuda_conv_variant_name(tuned->variant),
                               plan->loop_name, plan->tile);
                return UF_OK;
            }
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
        const uf_conv_kernel_args of = uf_conv_plan_cache_args(args);
        UF_TRY(uf_cuda_conv_chosen(context, direction, &of, made));
        uf_conv_plan_cache_keep(row, made);
    }
    *plan = row->plan != NULL ? row->plan : made;
    return UF_OK;
}

/* The arguments with all tensors of one type, which plans are made for. Main loops whose plan does
 * not say writes_f32 store a weight gradient in the type of its factors: an f32 one of bf16 factors
 * is made in bf16, in *used bytes at the beginning of the workspace, and then upcast. *used is 0
 * for other arguments, which stay as they are. */
static uf_conv_kernel_args with_one_type(uf_conv_direction direction,
                                         const uf_conv_kernel_args *args, size_t *used) {
    uf_conv_kernel_args made = *args;
    char *const workspace = args->workspace;
    *used = 0;
    if (direction == UF_CONV_WGRAD && args->w.dtype != args->x.dtype) {
        const int64_t *extent = args->w.extent;
        made.w = uf_view_nchw(workspace, args->x.dtype, extent[0], extent[1], extent[2], extent[3]);
        *used = uf_align_up((size_t)uf_view_count(&made.w) * uf_dtype_size(made.w.dtype));
        made.mode = UF_OVERWRITE;
        made.workspace = workspace != NULL ? workspace + *used : NULL;
        made.workspace_size = args->workspace_size > *used ? args->workspace_size - *used : 0;
    }
    return made;
}

static size_t plan_workspace(const uf_conv_kernel_args *args, const uf_conv_plan *plan) {
    return args->packing == UF_CONV_PACK_IN_CALL ? plan->workspace : plan->workspace_apart;
}

static size_t workspace(const uf_context *context, uf_conv_direction direction,
                        const uf_conv_kernel_args *args) {
    uf_conv_plan made[2];
    const uf_conv_plan *plan;
    size_t used;
    const uf_conv_kernel_args inner = with_one_type(direction, args, &used);
    if (plan_of(context, direction, &inner, made, &plan) != UF_OK) {
        return 0; /* the call itself reports an unknown variant */
    }
    return (plan->writes_f32 ? 0 : used) + plan_workspace(args, plan);
}

static size_t packed_bytes(const uf_context *context, uf_conv_direction direction,
                           const uf_conv_kernel_args *args) {
    uf_conv_plan made[2];
    const uf_conv_plan *plan;
    if (plan_of(context, direction, args, made, &plan) != UF_OK ||
        (plan->packs_alone && args->packing == UF_CONV_PACK_APART)) {
        return 0;
    }
    return plan->packed;
}

static uf_status run(uf_context *context, uf_conv_direction direction,
                     const uf_conv_kernel_args *args) {
    size_t used;
    uf_conv_kernel_args inner = with_one_type(direction, args, &used);
    const uf_conv_problem problem = uf_conv_problem_of(direction, &inner, uf_cuda_gpu(context));
    uf_conv_plan made[2];
    const uf_conv_plan *plan;
    UF_TRY(uf_cuda_enter(context));
    UF_TRY(plan_of(context, direction, &inner, made, &plan));
    if (plan->writes_f32) {
        inner = *args;
        used = 0;
    }
    if (uf_view_count(uf_conv_written(&problem)) == 0) {
        return UF_OK;
    }
    const size_t needed = used + plan_workspace(args, plan);
    if (args->workspace_size < needed) {
        UF_FAIL(UF_ERROR_INTERNAL, "convolution was given %zu bytes of workspace and needs %zu",
                args->workspace_size, needed);
    }
    if (args->packing != UF_CONV_PACK_IN_CALL &&
        (plan->packed == 0 || args->packed == NULL ||
         (plan->packs_alone && args->packing == UF_CONV_PACK_APART))) {
        UF_FAIL(UF_ERROR_INTERNAL, "convolution by %s was to keep a packed form of %zu bytes",
                plan->loop_name, plan->packed);
    }
    UF_TRY(plan->loop->launch(context, &problem, plan));
    const uf_copy_kernel_args upcast = {.input = inner.w, .output = args->w, .mode = args->mode};
    return used == 0 ? UF_OK : uf_cuda_convert(context, &upcast);
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

size_t uf_cuda_conv_fprop_packed_bytes(uf_context *context, const uf_conv_kernel_args *args) {
    return packed_bytes(context, UF_CONV_FPROP, args);
}

size_t uf_cuda_conv_dgrad_packed_bytes(uf_context *context, const uf_conv_kernel_args *args) {
    return packed_bytes(context, UF_CONV_DGRAD, args);
}
