/* pad.c - pad2d, the plain door. */
#include "ops/ops.h"

#include <string.h>

static uf_pad_kernel_args kernel_args(const uf_pad2d_args *args) {
    uf_pad_kernel_args kernel;
    memset(&kernel, 0, sizeof kernel);
    kernel.pad_mode = args->pad_mode;
    kernel.left = args->left;
    kernel.right = args->right;
    kernel.top = args->top;
    kernel.bottom = args->bottom;
    kernel.mode = args->mode;
    return kernel;
}

uf_status uf_pad2d_forward(uf_context *context, const uf_pad2d_args *given) {
    const char *op = "pad2d";
    uf_pad2d_args known = uf_pad2d_args_default();
    const uf_pad2d_args *args = &known;
    UF_TRY(uf_ops_begin(op, context, "uf_pad2d_args", given, &known, sizeof known));
    uf_pad_kernel_args kernel = kernel_args(args);
    kernel.input = args->input;
    kernel.output = args->output;
    UF_TRY(uf_pad_check(&kernel, false));
    if (uf_view_count(&args->output) == 0) {
        return UF_OK;
    }
    UF_TRY(uf_ops_require(op, "input", &args->input));
    UF_TRY(uf_ops_require(op, "output", &args->output));
    return context->kernels->pad_forward(context, &kernel);
}

uf_status uf_pad2d_backward(uf_context *context, const uf_pad2d_args *given) {
    const char *op = "pad2d";
    uf_pad2d_args known = uf_pad2d_args_default();
    const uf_pad2d_args *args = &known;
    UF_TRY(uf_ops_begin(op, context, "uf_pad2d_args", given, &known, sizeof known));
    uf_pad_kernel_args kernel = kernel_args(args);
    kernel.grad_output = args->grad_output;
    kernel.grad_input = args->grad_input;
    UF_TRY(uf_pad_check(&kernel, true));
    if (uf_view_count(&args->grad_input) == 0) {
        return UF_OK;
    }
    UF_TRY(uf_ops_require(op, "grad_output", &args->grad_output));
    UF_TRY(uf_ops_require(op, "grad_input", &args->grad_input));
    return context->kernels->pad_backward(context, &kernel);
}
