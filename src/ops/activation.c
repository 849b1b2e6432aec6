/* activation.c - elementwise activations, the plain door. */
#include "ops/ops.h"

#include <string.h>

uf_status uf_activation_forward(uf_context *context, const uf_activation_args *given) {
    const char *op = "activation";
    uf_activation_args known = uf_activation_args_default();
    const uf_activation_args *args = &known;
    UF_TRY(uf_ops_begin(op, context, "uf_activation_args", given, &known, sizeof known));
    uf_activation_kernel_args kernel;
    memset(&kernel, 0, sizeof kernel);
    kernel.activation = args->activation;
    kernel.maximum = args->maximum;
    kernel.input = args->input;
    kernel.output = args->output;
    UF_TRY(uf_activation_check(&kernel, false));
    if (uf_view_count(&args->input) == 0) {
        return UF_OK;
    }
    UF_TRY(uf_ops_require(op, "input", &args->input));
    UF_TRY(uf_ops_require(op, "output", &args->output));
    return context->kernels->activation_forward(context, &kernel);
}

uf_status uf_activation_backward(uf_context *context, const uf_activation_args *given) {
    const char *op = "activation";
    uf_activation_args known = uf_activation_args_default();
    const uf_activation_args *args = &known;
    UF_TRY(uf_ops_begin(op, context, "uf_activation_args", given, &known, sizeof known));
    uf_activation_kernel_args kernel;
    memset(&kernel, 0, sizeof kernel);
    kernel.activation = args->activation;
    kernel.maximum = args->maximum;
    kernel.input = args->input;
    kernel.output = args->output;
    kernel.grad_output = args->grad_output;
    kernel.grad_input = args->grad_input;
    kernel.mode = args->mode;
    UF_TRY(uf_activation_check(&kernel, true));
    if (uf_view_count(&args->grad_output) == 0) {
        return UF_OK;
    }
    UF_TRY(uf_ops_require(op, "grad_output", &args->grad_output));
    UF_TRY(uf_ops_require(op, "grad_input", &args->grad_input));
    const uf_activation_read reads = uf_activation_reads(args->activation.kind);
    if (reads == UF_READS_INPUT || reads == UF_READS_SIGN) {
        UF_TRY(uf_ops_require(op, "input", &args->input));
    } else if (reads == UF_READS_RESULT) {
        UF_TRY(uf_ops_require(op, "output", &args->output));
    }
    return context->kernels->activation_backward(context, &kernel);
}
