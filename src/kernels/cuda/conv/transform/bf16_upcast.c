/* bf16_upcast.c - bf16 tensors for kernels that take f32: made f32 in the workspace, multiplied as
 * bf16, which is exact, and the result rounded once. It costs three passes over the tensors, far
 * less than plain loops do; for geometries that no bf16 kernel takes, and GPUs that have none. */
#include "kernels/cuda/conv/transform/bf16_upcast.h"

#include "kernels/cuda/device/backend.h"

static uf_status convert(uf_context *context, const uf_view *from, const uf_view *to,
                         uf_write_mode mode) {
    const uf_copy_kernel_args args = {.input = *from, .output = *to, .mode = mode};
    return from->dtype == to->dtype ? UF_OK : uf_cuda_convert(context, &args);
}

uf_status uf_conv_upcast(uf_context *context, const uf_conv_problem *problem,
                         const uf_conv_plan *plan, uf_conv_launch_function *launch) {
    const uf_conv_kernel_args *const args = problem->args;
    if (args->x.dtype != UF_BF16) {
        return launch(context, problem, plan);
    }
    size_t used;
    const uf_conv_kernel_args wide = uf_conv_upcast_args(args, &used);
    const uf_conv_problem inner = uf_conv_problem_of(problem->direction, &wide, problem->gpu);
    const uf_view *const bf16_tensor[] = {&args->x, &args->w, &args->y};
    const uf_view *const broad[] = {&wide.x, &wide.w, &wide.y};
    const int written = problem->direction == UF_CONV_DGRAD   ? 0
                        : problem->direction == UF_CONV_WGRAD ? 1
                                                              : 2;
    for (int i = 0; i < 3; ++i) {
        if (i != written) {
            UF_TRY(convert(context, bf16_tensor[i], broad[i], UF_OVERWRITE));
        }
    }
    UF_TRY(convert(context, &args->epilogue.scale, &wide.epilogue.scale, UF_OVERWRITE));
    UF_TRY(convert(context, &args->epilogue.shift, &wide.epilogue.shift, UF_OVERWRITE));
    UF_TRY(launch(context, &inner, plan));
    return convert(context, broad[written], bf16_tensor[written], args->mode);
}
