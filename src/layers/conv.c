/* conv.c - ConvTranspose2d and Conv2d: two layers, one geometry. */
#include "layers/layer.h"

#include <inttypes.h>
#include <string.h>


/* What both layers keep: the tensors' extents follow from the inputs. */
typedef struct conv_attributes {
    uf_conv2d_params params;
    int64_t kernel[2];
    int64_t out_channels;
    int64_t output_size[2];
    bool bias, has_output_size;
} conv_attributes;

enum { WEIGHT = 0, BIAS = 1 };

static uf_status infer(uf_infer *infer, bool transposed) {
    const char *name = transposed ? "conv_transpose2d" : "conv2d";
    const conv_attributes *conv = infer->attributes;
    const uf_shape *input = &infer->inputs[0];
    char text[128];
    UF_CHECK_ARG(input->rank == 4, "%s: the input is %s; (N, C, H, W) is needed", name,
                 uf_shape_format(input, text, sizeof text));
    const int64_t in_channels = input->extent[1];
    const int64_t groups = conv->params.groups;
    UF_CHECK_ARG(conv->out_channels >= 1, "%s: out_channels is %" PRId64 "; it must be 1 or more", name,
                 conv->out_channels);
    UF_CHECK_ARG(groups >= 1, "%s: groups is %" PRId64 "; it must be 1 or more", name, groups);
    UF_CHECK_ARG(in_channels % groups == 0 && conv->out_channels % groups == 0,
                 "%s: in_channels %" PRId64 " and out_channels %" PRId64
                 " must both be divisible by groups %" PRId64,
                 name, in_channels, conv->out_channels, groups);
    int64_t output[2];
    if (transposed) {
        uf_conv2d_params params = conv->params;
        if (conv->has_output_size) {
            UF_TRY(uf_conv_transpose2d_output_padding(&params, &input->extent[2], conv->kernel,
                                                      conv->output_size, params.output_padding));
            output[0] = conv->output_size[0];
            output[1] = conv->output_size[1];
        } else {
            UF_TRY(uf_conv_transpose2d_output_size(&params, &input->extent[2], conv->kernel, output));
        }
        infer->params[WEIGHT].shape =
            UF_SHAPE(in_channels, conv->out_channels / groups, conv->kernel[0], conv->kernel[1]);
    } else {
        UF_TRY(uf_conv2d_output_size(&conv->params, &input->extent[2], conv->kernel, output));
        infer->params[WEIGHT].shape =
            UF_SHAPE(conv->out_channels, in_channels / groups, conv->kernel[0], conv->kernel[1]);
    }
    infer->output = UF_SHAPE(input->extent[0], conv->out_channels, output[0], output[1]);
    infer->params[WEIGHT].name = "weight";
    infer->params[WEIGHT].role = UF_ROLE_PARAMETER;
    infer->param_count = 1;
    if (conv->bias) {
        infer->params[BIAS].name = "bias";
        infer->params[BIAS].shape = UF_SHAPE(conv->out_channels);
        infer->params[BIAS].role = UF_ROLE_PARAMETER;
        infer->param_count = 2;
    }
    return UF_OK;
}

static uf_status infer_transposed(uf_infer *call) {
    return infer(call, true);
}

static uf_status infer_conv(uf_infer *call) {
    return infer(call, false);
}

/* The plain door's arguments for this run. The views carry the output's extents, so output_padding
 * (which output_size may have replaced) need not be repeated. */
static uf_conv_kernel_args forward_args(const uf_exec *exec, bool transposed) {
    const conv_attributes *conv = exec->attributes;
    uf_conv_kernel_args args;
    memset(&args, 0, sizeof args);
    args.x = transposed ? exec->output : exec->inputs[0];
    args.y = transposed ? exec->inputs[0] : exec->output;
    args.w = exec->params[WEIGHT];
    for (int axis = 0; axis < 2; ++axis) {
        args.stride[axis] = conv->params.stride[axis];
        args.padding[axis] = conv->params.padding[axis];
        args.dilation[axis] = conv->params.dilation[axis];
    }
    args.groups = conv->params.groups;
    args.epilogue = exec->epilogue;
    if (args.epilogue.shift.data == NULL && conv->bias) {
        args.epilogue.shift = exec->params[BIAS]; /* a folded shift has the bias in it already */
    }
    args.math = exec->math;
    args.workspace = exec->workspace;
    args.workspace_size = exec->workspace_size;
    return args;
}

static uf_status forward_transposed(const uf_exec *exec) {
    const uf_conv_kernel_args args = forward_args(exec, true);
    return exec->context->kernels->conv_dgrad(exec->context, &args);
}

static uf_status forward_conv(const uf_exec *exec) {
    const uf_conv_kernel_args args = forward_args(exec, false);
    return exec->context->kernels->conv_fprop(exec->context, &args);
}

static uf_status workspace_transposed(const uf_exec *exec, bool backward, size_t *size) {
    (void)backward;
    const uf_conv_kernel_args args = forward_args(exec, true);
    UF_TRY(uf_conv_check(UF_CONV_DGRAD, &args));
    *size = exec->context->kernels->conv_dgrad_workspace(exec->context, &args);
    return UF_OK;
}

static uf_status workspace_conv(const uf_exec *exec, bool backward, size_t *size) {
    (void)backward;
    const uf_conv_kernel_args args = forward_args(exec, false);
    UF_TRY(uf_conv_check(UF_CONV_FPROP, &args));
    *size = exec->context->kernels->conv_fprop_workspace(exec->context, &args);
    return UF_OK;
}

const uf_layer uf_layer_conv_transpose2d = {
    .name = "conv_transpose2d",
    .infer = infer_transposed,
    .forward = forward_transposed,
    .workspace = workspace_transposed,
    .fusion = UF_FUSION_HEAD,
};

const uf_layer uf_layer_conv2d = {
    .name = "conv2d",
    .infer = infer_conv,
    .forward = forward_conv,
    .workspace = workspace_conv,
    .fusion = UF_FUSION_HEAD,
};

uf_conv_transpose2d_options uf_conv_transpose2d_options_default(void) {
    uf_conv_transpose2d_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.kernel[0] = options.kernel[1] = 3;
    options.stride[0] = options.stride[1] = 1;
    options.dilation[0] = options.dilation[1] = 1;
    options.groups = 1;
    options.bias = true;
    return options;
}

uf_conv2d_options uf_conv2d_options_default(void) {
    uf_conv2d_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.kernel[0] = options.kernel[1] = 3;
    options.stride[0] = options.stride[1] = 1;
    options.dilation[0] = options.dilation[1] = 1;
    options.groups = 1;
    options.bias = true;
    return options;
}

uf_value uf_conv_transpose2d(uf_graph *graph, uf_value input, uf_scope scope, int64_t out_channels,
                             const uf_conv_transpose2d_options *options) {
    const uf_conv_transpose2d_options defaults = uf_conv_transpose2d_options_default();
    options = uf_graph_options(graph, "uf_conv_transpose2d_options", options, &defaults,
                               sizeof defaults);
    if (options == NULL) {
        return (uf_value){0};
    }
    conv_attributes conv;
    memset(&conv, 0, sizeof conv);
    for (int axis = 0; axis < 2; ++axis) {
        conv.kernel[axis] = options->kernel[axis];
        conv.params.stride[axis] = options->stride[axis];
        conv.params.padding[axis] = options->padding[axis];
        conv.params.output_padding[axis] = options->output_padding[axis];
        conv.params.dilation[axis] = options->dilation[axis];
        conv.output_size[axis] = options->output_size[axis];
    }
    conv.params.groups = options->groups;
    conv.out_channels = out_channels;
    conv.bias = options->bias;
    conv.has_output_size = options->has_output_size;
    return uf_graph_append(graph, &uf_layer_conv_transpose2d, &conv, sizeof conv, &input, 1, &scope);
}

uf_value uf_conv2d(uf_graph *graph, uf_value input, uf_scope scope, int64_t out_channels,
                   const uf_conv2d_options *options) {
    const uf_conv2d_options defaults = uf_conv2d_options_default();
    options = uf_graph_options(graph, "uf_conv2d_options", options, &defaults, sizeof defaults);
    if (options == NULL) {
        return (uf_value){0};
    }
    conv_attributes conv;
    memset(&conv, 0, sizeof conv);
    for (int axis = 0; axis < 2; ++axis) {
        conv.kernel[axis] = options->kernel[axis];
        conv.params.stride[axis] = options->stride[axis];
        conv.params.padding[axis] = options->padding[axis];
        conv.params.dilation[axis] = options->dilation[axis];
    }
    conv.params.groups = options->groups;
    conv.out_channels = out_channels;
    conv.bias = options->bias;
    return uf_graph_append(graph, &uf_layer_conv2d, &conv, sizeof conv, &input, 1, &scope);
}
