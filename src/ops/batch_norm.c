/* batch_norm.c - batch_norm2d, the plain door. */
#include "ops/ops.h"

#include <string.h>

/* The caller's arguments into `args`, and from them the kernel's. */
static uf_status prepare(uf_context *context, const uf_batch_norm2d_args *given, bool backward,
                         uf_batch_norm2d_args *args, uf_batch_norm_kernel_args *kernel) {
    const char *op = "batch_norm2d";
    *args = uf_batch_norm2d_args_default();
    UF_TRY(uf_ops_begin(op, context, "uf_batch_norm2d_args", given, args, sizeof *args));
    memset(kernel, 0, sizeof *kernel);
    kernel->input = args->input;
    kernel->output = args->output;
    kernel->num_batches_tracked = args->num_batches_tracked;
    kernel->eps = args->eps;
    kernel->momentum = args->momentum;
    kernel->training = args->training;
    kernel->activation = args->activation;
    kernel->grad_output = args->grad_output;
    kernel->grad_input = args->grad_input;
    kernel->grad_input_mode = args->grad_input_mode;
    kernel->grad_param_mode = args->grad_param_mode;
    kernel->workspace = args->workspace;
    kernel->workspace_size = args->workspace_size;
    const struct {
        const char *name;
        const uf_view *from;
        uf_view *to;
    } per_channel[] = {
        {"weight", &args->weight, &kernel->weight},
        {"bias", &args->bias, &kernel->bias},
        {"running_mean", &args->running_mean, &kernel->running_mean},
        {"running_var", &args->running_var, &kernel->running_var},
        {"save_mean", &args->save_mean, &kernel->save_mean},
        {"save_invstd", &args->save_invstd, &kernel->save_invstd},
        {"grad_weight", &args->grad_weight, &kernel->grad_weight},
        {"grad_bias", &args->grad_bias, &kernel->grad_bias},
    };
    for (size_t i = 0; i < sizeof per_channel / sizeof per_channel[0]; ++i) {
        UF_TRY(uf_ops_channels(op, per_channel[i].name, per_channel[i].from, args->input.extent[1],
                               per_channel[i].to));
    }
    return uf_batch_norm_check(kernel, backward);
}

uf_status uf_batch_norm2d_forward(uf_context *context, const uf_batch_norm2d_args *given) {
    uf_batch_norm2d_args args;
    uf_batch_norm_kernel_args kernel;
    UF_TRY(prepare(context, given, false, &args, &kernel));
    if (uf_view_count(&args.input) == 0) {
        return UF_OK;
    }
    UF_TRY(uf_ops_require("batch_norm2d", "input", &args.input));
    UF_TRY(uf_ops_require("batch_norm2d", "output", &args.output));
    UF_TRY(uf_ops_workspace("uf_batch_norm2d_forward", args.workspace, args.workspace_size,
                            context->kernels->batch_norm_forward_workspace(context, &kernel)));
    return context->kernels->batch_norm_forward(context, &kernel);
}

static uf_status workspace(uf_context *context, const uf_batch_norm2d_args *given, bool backward,
                           size_t *size) {
    uf_batch_norm2d_args args;
    uf_batch_norm_kernel_args kernel;
    *size = 0;
    UF_TRY(prepare(context, given, backward, &args, &kernel));
    *size = backward ? context->kernels->batch_norm_backward_workspace(context, &kernel)
                     : context->kernels->batch_norm_forward_workspace(context, &kernel);
    return UF_OK;
}

uf_status uf_batch_norm2d_forward_workspace(uf_context *context, const uf_batch_norm2d_args *given,
                                            size_t *size) {
    UF_CHECK_ARG(size != NULL, "uf_batch_norm2d_forward_workspace: size is NULL");
    return workspace(context, given, false, size);
}

uf_status uf_batch_norm2d_backward_workspace(uf_context *context, const uf_batch_norm2d_args *given,
                                             size_t *size) {
    UF_CHECK_ARG(size != NULL, "uf_batch_norm2d_backward_workspace: size is NULL");
    return workspace(context, given, true, size);
}

uf_status uf_batch_norm2d_backward(uf_context *context, const uf_batch_norm2d_args *given) {
    uf_batch_norm2d_args args;
    uf_batch_norm_kernel_args kernel;
    UF_TRY(prepare(context, given, true, &args, &kernel));
    if (uf_view_count(&args.input) == 0) {
        return UF_OK;
    }
    UF_TRY(uf_ops_require("batch_norm2d", "input", &args.input));
    UF_TRY(uf_ops_require("batch_norm2d", "grad_output", &args.grad_output));
    /* Older programs bring none, or that of forward: the kernel does without what is too small. */
    const size_t wanted = context->kernels->batch_norm_backward_workspace(context, &kernel);
    if (args.workspace != NULL && args.workspace_size >= wanted) {
        UF_TRY(uf_ops_workspace("uf_batch_norm2d_backward", args.workspace, args.workspace_size,
                                wanted));
    } else {
        kernel.workspace_size = 0;
    }
    return context->kernels->batch_norm_backward(context, &kernel);
}
