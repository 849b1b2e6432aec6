/* bf16_upcast.c - bf16 tensors for kernels that take f32: made f32 in the workspace, multiplied as
 * bf16, which is exact, and the result rounded once. It costs three passes over the tensors, far
 * less than plain loops do; for geometries that no bf16 kernel takes, and GPUs that have none. */
#include "kernels/cuda/conv/conv.h"

/* A contiguous f32 view in the workspace for `view`, from *used on; as it is where there is none.
 */
static uf_view upcast_view(const uf_view *view, char *workspace, size_t *used) {
    if (view->dtype != UF_BF16 || uf_view_count(view) == 0) {
        return *view;
    }
    char *const at = workspace != NULL ? workspace + *used : NULL;
    *used += uf_align_up((size_t)uf_view_count(view) * sizeof(float));
    return uf_view_nchw(at, UF_F32, view->extent[0], view->extent[1], view->extent[2],
                        view->extent[3]);
}

/* The arguments with f32 tensors in the workspace, of which these take *used bytes. */
static uf_conv_kernel_args upcast_args(const uf_conv_kernel_args *args, size_t *used) {
    char *const workspace = args->workspace;
    uf_conv_kernel_args wide = *args;
    *used = 0;
    wide.x = upcast_view(&args->x, workspace, used);
    wide.w = upcast_view(&args->w, workspace, used);
    wide.y = upcast_view(&args->y, workspace, used);
    wide.epilogue.scale = upcast_view(&args->epilogue.scale, workspace, used);
    wide.epilogue.shift = upcast_view(&args->epilogue.shift, workspace, used);
    wide.math = UF_MATH_BF16;
    wide.mode = UF_OVERWRITE;
    wide.workspace = workspace != NULL ? workspace + *used : NULL;
    wide.workspace_size = args->workspace_size > *used ? args->workspace_size - *used : 0;
    return wide;
}

size_t uf_cuda_conv_upcast_workspace(uf_conv_direction direction, const uf_conv_kernel_args *args,
                                     uf_cuda_conv_workspace *of) {
    size_t used;
    const uf_conv_kernel_args wide = upcast_args(args, &used);
    return used + of(direction, &wide);
}

static uf_status convert(uf_context *context, const uf_view *from, const uf_view *to,
                         uf_write_mode mode) {
    const uf_copy_kernel_args args = {.input = *from, .output = *to, .mode = mode};
    return from->dtype == to->dtype ? UF_OK : uf_cuda_convert(context, &args);
}

uf_status uf_cuda_conv_upcast(uf_context *context, uf_conv_direction direction,
                              const uf_conv_kernel_args *args, uf_cuda_conv_run *run) {
    size_t used;
    const uf_conv_kernel_args wide = upcast_args(args, &used);
    const uf_view *const bf16_tensor[] = {&args->x, &args->w, &args->y};
    const uf_view *const broad[] = {&wide.x, &wide.w, &wide.y};
    const int written = direction == UF_CONV_DGRAD ? 0 : direction == UF_CONV_WGRAD ? 1 : 2;
    for (int i = 0; i < 3; ++i) {
        if (i != written) {
            UF_TRY(convert(context, bf16_tensor[i], broad[i], UF_OVERWRITE));
        }
    }
    UF_TRY(convert(context, &args->epilogue.scale, &wide.epilogue.scale, UF_OVERWRITE));
    UF_TRY(convert(context, &args->epilogue.shift, &wide.epilogue.shift, UF_OVERWRITE));
    UF_TRY(run(context, direction, &wide));
    return convert(context, broad[written], bf16_tensor[written], args->mode);
}
