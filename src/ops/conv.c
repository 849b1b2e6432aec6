/* conv.c - conv_transpose2d and conv2d: the user's words brought to the three kernels.
 *
 * conv2d's input is the kernels' large side x, conv_transpose2d's its small side y. */
#include "ops/conv.h"

#include <inttypes.h>
#include <string.h>

#include "kernels/check.h"

/* The tensors of one direction, in the user's roles: input and output, or their gradients. */
typedef struct conv_call {
    const char *name; /* the function's, for its workspace */
    bool transposed;
    uf_conv_direction direction;
    const char *input_name, *weight_name, *output_name;
    const uf_view *input, *weight, *output;
} conv_call;

static uf_status check_shapes(const char *op, const uf_conv2d_args *args, const conv_call *call) {
    const uf_view *input = call->input;
    const uf_view *weight = call->weight;
    const uf_view *output = call->output;
    const int64_t groups = args->params.groups;
    char text[128], other[128];
    UF_TRY(uf_conv_check_params(op, call->transposed, &args->params, &weight->extent[2]));
    const int64_t in_channels = input->extent[1];
    int64_t expected_in = weight->extent[0];
    UF_CHECK_ARG(in_channels >= 1 && in_channels % groups == 0,
                 "%s: the input has %" PRId64
                 " channels; they must be divisible by groups %" PRId64,
                 op, in_channels, groups);
    UF_CHECK_ARG(call->transposed || weight->extent[0] % groups == 0,
                 "%s: the weight has %" PRId64
                 " output channels; they must be divisible by groups %" PRId64,
                 op, weight->extent[0], groups);
    UF_CHECK_ARG(call->transposed || !uf_mul_overflows(weight->extent[1], groups, &expected_in),
                 "%s: weight is %s; with groups %" PRId64 " its channels overflow", op,
                 uf_ops_extents(weight, text, sizeof text), groups);
    if (expected_in != in_channels) {
        UF_FAIL(UF_ERROR_SHAPE,
                "%s: weight is %s, the input has %" PRId64 " channels; with groups %" PRId64
                " this weight takes %" PRId64,
                op, uf_ops_extents(weight, text, sizeof text), in_channels, groups, expected_in);
    }
    UF_CHECK_ARG(
        weight->extent[0] >= 1 && weight->extent[1] >= 1 &&
            weight->extent[1] <= (INT64_C(1) << 58) / groups,
        "%s: weight is %s; its extents must be 1 or more, and not so large that they overflow", op,
        uf_ops_extents(weight, text, sizeof text));
    const int64_t out_channels = call->transposed ? weight->extent[1] * groups : weight->extent[0];
    int64_t size[2];
    if (call->transposed) {
        UF_TRY(uf_conv_transpose2d_output_size(&args->params, &input->extent[2], &weight->extent[2],
                                               size));
    } else {
        UF_TRY(uf_conv2d_output_size(&args->params, &input->extent[2], &weight->extent[2], size));
    }
    if (output->extent[0] != input->extent[0] || output->extent[1] != out_channels ||
        output->extent[2] != size[0] || output->extent[3] != size[1]) {
        UF_FAIL(UF_ERROR_SHAPE,
                "%s: %s is %s; for an %s of %s it must be (%" PRId64 ", %" PRId64 ", %" PRId64
                ", %" PRId64 ")",
                op, call->output_name, uf_ops_extents(output, text, sizeof text), call->input_name,
                uf_ops_extents(input, other, sizeof other), input->extent[0], out_channels, size[0],
                size[1]);
    }
    return UF_OK;
}

static const char *op_name(bool transposed) {
    return transposed ? "conv_transpose2d" : "conv2d";
}

/* A direction's tensors. Called once the arguments are known to be there. */
typedef conv_call (*call_of)(const uf_conv2d_args *args, bool transposed);

/* The caller's arguments into `args`. */
static uf_status begin(uf_context *context, const uf_conv2d_args *given, bool transposed,
                       uf_conv2d_args *args) {
    *args = uf_conv2d_args_default();
    return uf_ops_begin(op_name(transposed), context, "uf_conv2d_args", given, args, sizeof *args);
}

/* Check one direction of a call and bring it to the kernel's arguments. `with_data` false: only
 * sizes are asked for. */
static uf_status prepare(const uf_conv2d_args *args, const conv_call *call, bool with_data,
                         uf_conv_kernel_args *kernel) {
    const char *op = op_name(call->transposed);
    UF_TRY(check_shapes(op, args, call));
    memset(kernel, 0, sizeof *kernel);
    kernel->x = call->transposed ? *call->output : *call->input;
    kernel->y = call->transposed ? *call->input : *call->output;
    kernel->w = *call->weight;
    memcpy(kernel->stride, args->params.stride, sizeof kernel->stride);
    memcpy(kernel->padding, args->params.padding, sizeof kernel->padding);
    memcpy(kernel->dilation, args->params.dilation, sizeof kernel->dilation);
    kernel->groups = args->params.groups;
    kernel->mode = args->mode;
    kernel->math = args->math;
    kernel->workspace = args->workspace;
    kernel->workspace_size = args->workspace_size;
    kernel->variant = args->variant;
    if (call->output == &args->output) { /* forward */
        UF_CHECK_ARG(
            args->mode == UF_OVERWRITE ||
                (args->bias.data == NULL && args->activation.kind == UF_ACTIVATION_IDENTITY),
            "%s: mode ACCUMULATE takes neither a bias nor an activation", op);
        kernel->epilogue.activation = args->activation;
        UF_TRY(uf_ops_channels(op, "bias", &args->bias,
                               call->transposed ? kernel->x.extent[1] : kernel->y.extent[1],
                               &kernel->epilogue.shift));
        if (args->bias.data != NULL && args->bias.dtype != args->input.dtype) {
            UF_FAIL(UF_ERROR_INVALID_ARGUMENT,
                    "%s: bias is %s, input is %s; they must have one type", op,
                    uf_dtype_name(args->bias.dtype), uf_dtype_name(args->input.dtype));
        }
    }
    if (with_data) {
        UF_TRY(uf_ops_require(op, call->input_name, call->input));
        UF_TRY(uf_ops_require(op, call->weight_name, call->weight));
        UF_TRY(uf_ops_require(op, call->output_name, call->output));
    }
    const uf_status status = uf_conv_check(call->direction, kernel);
    if (status != UF_OK) {
        /* The kernel's words for its tensors, in the user's. */
        uf_error_prefix("%s (x is its %s, y its %s, w its %s)", op,
                        call->transposed ? call->output_name : call->input_name,
                        call->transposed ? call->input_name : call->output_name, call->weight_name);
    }
    return status;
}

/* The sum that backward_weight makes for grad_bias, in the same workspace after the convolution; no
 * output where it is not asked for. */
static uf_status bias_sum_of(const uf_conv2d_args *args, const conv_call *call,
                             uf_channel_sum_kernel_args *sum) {
    const char *op = op_name(call->transposed);
    memset(sum, 0, sizeof *sum);
    if (call->weight != &args->grad_weight || args->grad_bias.data == NULL) {
        return UF_OK;
    }
    sum->input = args->grad_output;
    sum->mode = args->mode;
    sum->workspace = args->workspace;
    sum->workspace_size = args->workspace_size;
    UF_TRY(uf_check_parameter_type(op, "grad_bias", &args->grad_bias, "grad_output",
                                   &args->grad_output));
    return uf_ops_channels(op, "grad_bias", &args->grad_bias, args->grad_output.extent[1],
                           &sum->output);
}

static uf_status check_sum(const uf_channel_sum_kernel_args *sum) {
    return sum->output.data != NULL ? uf_channel_sum_check(sum) : UF_OK;
}

static size_t workspace_size(uf_context *context, uf_conv_direction direction,
                             const uf_conv_kernel_args *kernel,
                             const uf_channel_sum_kernel_args *sum) {
    const struct uf_kernels *kernels = context->kernels;
    size_t of_conv = 0, of_sum = 0;
    switch (direction) {
    case UF_CONV_FPROP:
        return kernels->conv_fprop_workspace(context, kernel);
    case UF_CONV_DGRAD:
        return kernels->conv_dgrad_workspace(context, kernel);
    case UF_CONV_WGRAD:
        break;
    }
    of_conv = kernels->conv_wgrad_workspace(context, kernel);
    of_sum = sum->output.data != NULL ? kernels->channel_sum_workspace(context, sum) : 0;
    return of_conv > of_sum ? of_conv : of_sum;
}

static uf_status run(uf_context *context, const uf_conv2d_args *given, bool transposed,
                     call_of make) {
    uf_conv2d_args args;
    uf_conv_kernel_args kernel;
    uf_channel_sum_kernel_args sum;
    UF_TRY(begin(context, given, transposed, &args));
    const conv_call call = make(&args, transposed);
    UF_TRY(bias_sum_of(&args, &call, &sum));
    UF_TRY(prepare(&args, &call, true, &kernel));
    UF_TRY(check_sum(&sum));
    UF_TRY(uf_ops_workspace(call.name, args.workspace, args.workspace_size,
                            workspace_size(context, call.direction, &kernel, &sum)));
    switch (call.direction) {
    case UF_CONV_FPROP:
        return context->kernels->conv_fprop(context, &kernel);
    case UF_CONV_DGRAD:
        return context->kernels->conv_dgrad(context, &kernel);
    case UF_CONV_WGRAD:
        break;
    }
    UF_TRY(context->kernels->conv_wgrad(context, &kernel));
    return sum.output.data == NULL ? UF_OK : context->kernels->channel_sum(context, &sum);
}

static uf_status query(uf_context *context, const uf_conv2d_args *given, bool transposed,
                       call_of make, size_t *size) {
    UF_CHECK_ARG(size != NULL, "%s: the workspace query's size is NULL", op_name(transposed));
    *size = 0;
    uf_conv2d_args args;
    uf_conv_kernel_args kernel;
    uf_channel_sum_kernel_args sum;
    UF_TRY(begin(context, given, transposed, &args));
    const conv_call call = make(&args, transposed);
    UF_TRY(bias_sum_of(&args, &call, &sum));
    UF_TRY(prepare(&args, &call, false, &kernel));
    UF_TRY(check_sum(&sum));
    *size = workspace_size(context, call.direction, &kernel, &sum);
    return UF_OK;
}

static conv_call forward_call(const uf_conv2d_args *args, bool transposed) {
    const conv_call call = {
        .name = transposed ? "uf_conv_transpose2d_forward" : "uf_conv2d_forward",
        .transposed = transposed,
        .direction = transposed ? UF_CONV_DGRAD : UF_CONV_FPROP,
        .input_name = "input",
        .weight_name = "weight",
        .output_name = "output",
        .input = &args->input,
        .weight = &args->weight,
        .output = &args->output,
    };
    return call;
}

static conv_call backward_input_call(const uf_conv2d_args *args, bool transposed) {
    const conv_call call = {
        .name = transposed ? "uf_conv_transpose2d_backward_input" : "uf_conv2d_backward_input",
        .transposed = transposed,
        .direction = transposed ? UF_CONV_FPROP : UF_CONV_DGRAD,
        .input_name = "grad_input",
        .weight_name = "weight",
        .output_name = "grad_output",
        .input = &args->grad_input,
        .weight = &args->weight,
        .output = &args->grad_output,
    };
    return call;
}

static conv_call backward_weight_call(const uf_conv2d_args *args, bool transposed) {
    const conv_call call = {
        .name = transposed ? "uf_conv_transpose2d_backward_weight" : "uf_conv2d_backward_weight",
        .transposed = transposed,
        .direction = UF_CONV_WGRAD,
        .input_name = "input",
        .weight_name = "grad_weight",
        .output_name = "grad_output",
        .input = &args->input,
        .weight = &args->grad_weight,
        .output = &args->grad_output,
    };
    return call;
}

#define UF_CONV_OP(name, transposed)                                                               \
    uf_status uf_##name##_forward(uf_context *context, const uf_conv2d_args *args) {               \
        return run(context, args, transposed, forward_call);                                       \
    }                                                                                              \
    uf_status uf_##name##_forward_workspace(uf_context *context, const uf_conv2d_args *args,       \
                                            size_t *size) {                                        \
        return query(context, args, transposed, forward_call, size);                               \
    }                                                                                              \
    uf_status uf_##name##_backward_input(uf_context *context, const uf_conv2d_args *args) {        \
        return run(context, args, transposed, backward_input_call);                                \
    }                                                                                              \
    uf_status uf_##name##_backward_input_workspace(uf_context *context,                            \
                                                   const uf_conv2d_args *args, size_t *size) {     \
        return query(context, args, transposed, backward_input_call, size);                        \
    }                                                                                              \
    uf_status uf_##name##_backward_weight(uf_context *context, const uf_conv2d_args *args) {       \
        return run(context, args, transposed, backward_weight_call);                               \
    }                                                                                              \
    uf_status uf_##name##_backward_weight_workspace(uf_context *context,                           \
                                                    const uf_conv2d_args *args, size_t *size) {    \
        return query(context, args, transposed, backward_weight_call, size);                       \
    }

UF_CONV_OP(conv_transpose2d, true)
UF_CONV_OP(conv2d, false)

uf_status uf_conv_kernel_of(uf_context *context, uf_conv2d_operation operation,
                            const uf_conv2d_args *given, uf_conv_direction *direction,
                            uf_conv_kernel_args *kernel) {
    static const call_of calls[] = {forward_call, backward_input_call, backward_weight_call};
    const int of = (int)operation;
    UF_CHECK_ARG(of >= 0 && of < UF_OPERATION_COUNT,
                 "operation is %d, which is no uf_conv2d_operation", of);
    const bool transposed = of < UF_OPERATION_CONV2D_FORWARD;
    uf_conv2d_args args;
    UF_TRY(begin(context, given, transposed, &args));
    const conv_call call =
        calls[transposed ? of : of - UF_OPERATION_CONV2D_FORWARD](&args, transposed);
    UF_TRY(prepare(&args, &call, false, kernel));
    *direction = call.direction;
    return UF_OK;
}
