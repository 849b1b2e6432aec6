/* bf16_upcast_args.c - see bf16_upcast.h. Needs no GPU and no toolkit. */
#include "kernels/cuda/conv/transform/bf16_upcast.h"

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

uf_conv_kernel_args uf_conv_upcast_args(const uf_conv_kernel_args *args, size_t *used) {
    char *const workspace = args->workspace;
    uf_conv_kernel_args wide = *args;
    *used = 0;
    if (args->x.dtype != UF_BF16) {
        return wide;
    }
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
