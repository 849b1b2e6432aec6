/* conv.c - ConvTranspose2d, Conv2d, their 1-D forms and Linear: one geometry.
 *
 * Both layers are the same three kernels with the roles of the tensors exchanged (kernels.h calls
 * them by the convolution's sides: x large, y small):
 *                      forward      gradient of input   gradient of weight
 *   conv2d             fprop x->y   dgrad y->x          wgrad, x the input, y the gradient
 *   conv_transpose2d   dgrad y->x   fprop x->y          wgrad, y the input, x the gradient
 * A linear layer is a 1x1 convolution of 1x1 images, one for each position of the leading axes; one
 * axis less is a height of 1.
 *
 * Weight and bias are parameters of a store, or values of the graph: inputs 1 and 2.
 *
 * The gradient of a layer's input, as a value, is the other layer with the same weight and without
 * a bias. Its last input is the layer's own, whose shape is the one that it makes: the options
 * alone do not tell how far an image reached beyond the last window. */
#include "layers/conv.h"
#include "layers/field.h"

#include <inttypes.h>
#include <string.h>

enum { WEIGHT = 0, BIAS = UF_PARAM_BIAS };             /* parameters */
enum { WEIGHT_VALUE = 1, BIAS_VALUE = UF_INPUT_BIAS }; /* inputs */

const char *uf_conv_layer_name(const uf_conv_attributes *conv) {
    static const char *const names[2][3] = {
        {"linear", "conv1d", "conv2d"},
        {"linear_transpose", "conv_transpose1d", "conv_transpose2d"}};
    return names[conv->transposed][conv->axes];
}

static const char *title(const void *attributes) {
    return uf_conv_layer_name(attributes);
}

uf_shape uf_conv_layer_shape(int64_t a, int64_t b, const int64_t extent[2], int32_t axes) {
    const int64_t all[4] = {a, b, extent[axes == 2 ? 0 : 1], extent[1]};
    return uf_shape_from(all, 2 + axes);
}

/* The attributes, with what a weight that is a value says. */
static uf_status read_weight(const uf_infer *infer, uf_conv_attributes *conv) {
    *conv = *(const uf_conv_attributes *)infer->attributes;
    if (!conv->by_value) {
        return UF_OK;
    }
    const uf_shape *weight = &infer->inputs[WEIGHT_VALUE];
    char text[128];
    UF_CHECK_ARG(weight->rank == 2 + conv->axes, "%s: the weight is %s; it must have %d axes",
                 uf_conv_layer_name(conv), uf_shape_format(weight, text, sizeof text),
                 2 + (int)conv->axes);
    for (int32_t axis = 0; axis < conv->axes; ++axis) {
        conv->kernel[2 - conv->axes + axis] = weight->extent[2 + axis];
    }
    conv->out_channels = weight->extent[0];
    if (conv->transposed) {
        UF_CHECK_ARG(
            !__builtin_mul_overflow(weight->extent[1], conv->params.groups, &conv->out_channels),
            "%s: groups is %" PRId64 "; that many groups of %" PRId64 " channels overflow",
            uf_conv_layer_name(conv), conv->params.groups, weight->extent[1]);
    }
    return UF_OK;
}

/* The features of a linear layer's input or output are its last axis. */
static uf_status infer_linear(uf_infer *infer, const uf_conv_attributes *conv, uf_shape *weight) {
    const int32_t last = infer->inputs[0].rank - 1;
    UF_CHECK_ARG(last >= 0, "linear: the input is a scalar; (..., in_features) is needed");
    UF_CHECK_ARG(conv->out_channels >= 1,
                 "linear: out_features is %" PRId64 "; it must be 1 or more", conv->out_channels);
    infer->output = infer->inputs[0];
    infer->output.extent[last] = conv->out_channels;
    *weight = conv->transposed ? UF_SHAPE(infer->inputs[0].extent[last], conv->out_channels)
                               : UF_SHAPE(conv->out_channels, infer->inputs[0].extent[last]);
    return UF_OK;
}

/* Height and width of the output. */
static uf_status output_size(const uf_conv_attributes *conv, const uf_infer *infer,
                             int64_t output[2]) {
    const uf_view image = uf_view_of(NULL, UF_F32, &infer->inputs[0]);
    if (conv->has_like) {
        const uf_view like = uf_view_of(NULL, UF_F32, &infer->inputs[infer->input_count - 1]);
        output[0] = like.extent[2];
        output[1] = like.extent[3];
        return UF_OK;
    }
    if (!conv->transposed) {
        return uf_conv2d_output_size(&conv->params, &image.extent[2], conv->kernel, output);
    }
    if (!conv->has_output_size) {
        return uf_conv_transpose2d_output_size(&conv->params, &image.extent[2], conv->kernel,
                                               output);
    }
    int64_t output_padding[2];
    output[0] = conv->output_size[0];
    output[1] = conv->output_size[1];
    return uf_conv_transpose2d_output_padding(&conv->params, &image.extent[2], conv->kernel, output,
                                              output_padding);
}

static uf_status infer_conv(uf_infer *infer, const uf_conv_attributes *conv, uf_shape *weight) {
    static const char *const expected[3] = {"", "(N, C, L)", "(N, C, H, W)"};
    const char *name = uf_conv_layer_name(conv);
    const uf_shape *input = &infer->inputs[0];
    char text[128];
    UF_CHECK_ARG(input->rank == 2 + conv->axes, "%s: the input is %s; %s is needed", name,
                 uf_shape_format(input, text, sizeof text), expected[conv->axes]);
    const int64_t in_channels = input->extent[1];
    const int64_t groups = conv->params.groups;
    UF_CHECK_ARG(conv->out_channels >= 1, "%s: out_channels is %" PRId64 "; it must be 1 or more",
                 name, conv->out_channels);
    UF_CHECK_ARG(groups >= 1, "%s: groups is %" PRId64 "; it must be 1 or more", name, groups);
    UF_CHECK_ARG(in_channels % groups == 0 && conv->out_channels % groups == 0,
                 "%s: in_channels %" PRId64 " and out_channels %" PRId64
                 " must both be divisible by groups %" PRId64,
                 name, in_channels, conv->out_channels, groups);
    int64_t output[2];
    const uf_status status = output_size(conv, infer, output);
    if (status != UF_OK) {
        if (conv->axes == 1) { /* the message has pairs */
            uf_error_prefix("%s, as a height of 1", name);
        }
        return status;
    }
    infer->output = uf_conv_layer_shape(input->extent[0], conv->out_channels, output, conv->axes);
    *weight = conv->transposed ? uf_conv_layer_shape(in_channels, conv->out_channels / groups,
                                                     conv->kernel, conv->axes)
                               : uf_conv_layer_shape(conv->out_channels, in_channels / groups,
                                                     conv->kernel, conv->axes);
    return UF_OK;
}

/* Does the input fit what the layer needs? */
static uf_status check_value(const uf_conv_attributes *conv, const char *what,
                             const uf_shape *given, const uf_shape *needed) {
    char text[128], other[128];
    if (!uf_shape_equal(given, needed)) {
        UF_FAIL(UF_ERROR_SHAPE, "%s: the %s is %s; %s is needed", uf_conv_layer_name(conv), what,
                uf_shape_format(given, text, sizeof text),
                uf_shape_format(needed, other, sizeof other));
    }
    return UF_OK;
}

static uf_status infer(uf_infer *infer) {
    uf_conv_attributes conv;
    uf_shape weight;
    UF_TRY(read_weight(infer, &conv));
    UF_TRY(conv.axes == 0 ? infer_linear(infer, &conv, &weight)
                          : infer_conv(infer, &conv, &weight));
    const uf_shape bias = UF_SHAPE(conv.out_channels);
    if (conv.by_value) {
        UF_TRY(check_value(&conv, "weight", &infer->inputs[WEIGHT_VALUE], &weight));
        return conv.bias ? check_value(&conv, "bias", &infer->inputs[BIAS_VALUE], &bias) : UF_OK;
    }
    infer->params[WEIGHT] = (uf_param_need){"weight", weight, UF_ROLE_PARAMETER, UF_INIT_KAIMING};
    infer->param_count = 1;
    if (conv.bias) {
        infer->params[BIAS] = (uf_param_need){"bias", bias, UF_ROLE_PARAMETER, UF_INIT_BIAS};
        infer->param_count = 2;
    }
    return UF_OK;
}

/* The input or output side as images: those of a linear layer of any other rank than 2 are the rows
 * of a contiguous view. */
static uf_view images(const uf_exec *exec, const uf_view *view, const uf_shape *shape) {
    const uf_conv_attributes *conv = exec->attributes;
    if (conv->axes != 0 || shape->rank == 2) {
        return *view;
    }
    const int64_t features = shape->extent[shape->rank - 1];
    return uf_view_nchw(view->data, view->dtype, uf_shape_count(shape) / features, features, 1, 1);
}

static uf_view in_images(const uf_exec *exec, const uf_view *view) {
    return images(exec, view, exec->input_shapes[0]);
}

static uf_view out_images(const uf_exec *exec, const uf_view *view) {
    return images(exec, view, exec->output_shape);
}

/* Each element of the small side meets a whole filter. */
static double multiply_adds(const uf_infer *infer) {
    const uf_conv_attributes *conv = infer->attributes;
    const uf_shape *small = conv->transposed ? &infer->inputs[0] : &infer->output;
    const uf_shape *weight =
        conv->by_value ? &infer->inputs[WEIGHT_VALUE] : &infer->params[WEIGHT].shape;
    return (double)uf_shape_count(small) * (double)uf_shape_count(weight) /
           (double)weight->extent[0];
}

/* Weight, bias and their gradients, wherever they are. */
static bool by_value(const uf_exec *exec) {
    return ((const uf_conv_attributes *)exec->attributes)->by_value;
}

static const uf_view *weight_of(const uf_exec *exec) {
    return by_value(exec) ? &exec->inputs[WEIGHT_VALUE] : &exec->params[WEIGHT];
}

static const uf_view *bias_of(const uf_exec *exec) {
    return by_value(exec) ? &exec->inputs[BIAS_VALUE] : &exec->params[BIAS];
}

static const uf_view *weight_gradient(const uf_exec *exec) {
    return by_value(exec) ? &exec->grad_inputs[WEIGHT_VALUE] : &exec->grad_params[WEIGHT];
}

static const uf_view *bias_gradient(const uf_exec *exec) {
    return by_value(exec) ? &exec->grad_inputs[BIAS_VALUE] : &exec->grad_params[BIAS];
}

/* `in` and `out` are the layer's input and output side, whichever of them is the large one. The
 * views carry the extents, so output_padding (which output_size may have replaced) need not be
 * repeated. */
static uf_conv_kernel_args kernel_args(const uf_exec *exec, const uf_view *in, const uf_view *out,
                                       const uf_view *weight) {
    const uf_conv_attributes *conv = exec->attributes;
    uf_conv_kernel_args args;
    memset(&args, 0, sizeof args);
    args.x = conv->transposed ? out_images(exec, out) : in_images(exec, in);
    args.y = conv->transposed ? in_images(exec, in) : out_images(exec, out);
    args.w = *weight;
    for (int axis = 0; axis < 2; ++axis) {
        args.stride[axis] = conv->params.stride[axis];
        args.padding[axis] = conv->params.padding[axis];
        args.dilation[axis] = conv->params.dilation[axis];
    }
    args.groups = conv->params.groups;
    args.math = exec->math;
    args.workspace = exec->workspace;
    args.workspace_size = exec->workspace_size;
    return args;
}

static uf_conv_direction forward_direction(const uf_exec *exec) {
    return ((const uf_conv_attributes *)exec->attributes)->transposed ? UF_CONV_DGRAD
                                                                      : UF_CONV_FPROP;
}

static uf_conv_direction input_direction(const uf_exec *exec) {
    return ((const uf_conv_attributes *)exec->attributes)->transposed ? UF_CONV_FPROP
                                                                      : UF_CONV_DGRAD;
}

/* Those of a convolution that reads the weight. */
static uf_conv_kernel_args reading_args(const uf_exec *exec, const uf_view *in,
                                        const uf_view *out) {
    uf_conv_kernel_args args = kernel_args(exec, in, out, weight_of(exec));
    args.packing = exec->packing;
    args.packed = exec->packed;
    return args;
}

static uf_conv_kernel_args forward_args(const uf_exec *exec) {
    const uf_conv_attributes *conv = exec->attributes;
    uf_conv_kernel_args args = reading_args(exec, &exec->inputs[0], &exec->output);
    args.epilogue = exec->epilogue;
    if (args.epilogue.shift.data == NULL && conv->bias) {
        args.epilogue.shift = *bias_of(exec); /* a folded shift has the bias in it already */
    }
    return args;
}

static uf_conv_kernel_args input_args(const uf_exec *exec) {
    uf_conv_kernel_args args = reading_args(exec, &exec->grad_inputs[0], &exec->grad_output);
    args.mode = exec->grad_input_modes[0];
    return args;
}

static uf_conv_kernel_args weight_args(const uf_exec *exec) {
    uf_conv_kernel_args args =
        kernel_args(exec, &exec->inputs[0], &exec->grad_output, weight_gradient(exec));
    args.mode =
        by_value(exec) ? exec->grad_input_modes[WEIGHT_VALUE] : exec->grad_param_modes[WEIGHT];
    return args;
}

static uf_channel_sum_kernel_args bias_args(const uf_exec *exec) {
    uf_channel_sum_kernel_args args;
    memset(&args, 0, sizeof args);
    args.input = out_images(exec, &exec->grad_output);
    args.output = *bias_gradient(exec);
    args.mode = by_value(exec) ? exec->grad_input_modes[BIAS_VALUE] : exec->grad_param_modes[BIAS];
    args.workspace = exec->workspace;
    args.workspace_size = exec->workspace_size;
    return args;
}

uf_status uf_conv_layer_run(const uf_exec *exec, uf_conv_direction direction,
                            const uf_conv_kernel_args *args) {
    const struct uf_kernels *kernels = exec->context->kernels;
    switch (direction) {
    case UF_CONV_FPROP:
        return kernels->conv_fprop(exec->context, args);
    case UF_CONV_DGRAD:
        return kernels->conv_dgrad(exec->context, args);
    case UF_CONV_WGRAD:
        return kernels->conv_wgrad(exec->context, args);
    }
    return uf_fail(UF_ERROR_INTERNAL, "conv: direction %d", (int)direction);
}

uf_status uf_conv_layer_need(const uf_exec *exec, uf_conv_direction direction,
                             const uf_conv_kernel_args *args, size_t *size) {
    const struct uf_kernels *kernels = exec->context->kernels;
    UF_TRY(uf_conv_check(direction, args));
    const size_t bytes =
        direction == UF_CONV_FPROP   ? kernels->conv_fprop_workspace(exec->context, args)
        : direction == UF_CONV_DGRAD ? kernels->conv_dgrad_workspace(exec->context, args)
                                     : kernels->conv_wgrad_workspace(exec->context, args);
    *size = bytes > *size ? bytes : *size;
    return UF_OK;
}

static uf_status forward(const uf_exec *exec) {
    const uf_conv_kernel_args args = forward_args(exec);
    return uf_conv_layer_run(exec, forward_direction(exec), &args);
}

static uf_status backward(const uf_exec *exec) {
    if (exec->grad_inputs[0].data != NULL) {
        const uf_conv_kernel_args args = input_args(exec);
        UF_TRY(uf_conv_layer_run(exec, input_direction(exec), &args));
    }
    if (weight_gradient(exec)->data != NULL) {
        const uf_conv_kernel_args args = weight_args(exec);
        UF_TRY(uf_conv_layer_run(exec, UF_CONV_WGRAD, &args));
    }
    if (bias_gradient(exec)->data != NULL) {
        const uf_channel_sum_kernel_args args = bias_args(exec);
        UF_TRY(exec->context->kernels->channel_sum(exec->context, &args));
    }
    return UF_OK;
}

static bool packed_conv(const uf_exec *exec, bool of_backward, uf_conv_direction *direction,
                        uf_conv_kernel_args *args) {
    if (by_value(exec) || (of_backward && exec->grad_inputs[0].data == NULL)) {
        return false;
    }
    *direction = of_backward ? input_direction(exec) : forward_direction(exec);
    *args = of_backward ? input_args(exec) : forward_args(exec);
    return true;
}

static uf_status workspace(const uf_exec *exec, bool of_backward, size_t *size) {
    *size = 0;
    if (!of_backward) {
        const uf_conv_kernel_args args = forward_args(exec);
        return uf_conv_layer_need(exec, forward_direction(exec), &args, size);
    }
    if (exec->grad_inputs[0].data != NULL) {
        const uf_conv_kernel_args args = input_args(exec);
        UF_TRY(uf_conv_layer_need(exec, input_direction(exec), &args, size));
    }
    if (weight_gradient(exec)->data != NULL) {
        const uf_conv_kernel_args args = weight_args(exec);
        UF_TRY(uf_conv_layer_need(exec, UF_CONV_WGRAD, &args, size));
    }
    if (bias_gradient(exec)->data != NULL) {
        const uf_channel_sum_kernel_args args = bias_args(exec);
        const size_t bytes = exec->context->kernels->channel_sum_workspace(exec->context, &args);
        *size = bytes > *size ? bytes : *size;
    }
    return UF_OK;
}

/* The weight's gradient needs the input, the input's the weight. */
static uint32_t backward_reads(const void *attributes) {
    const uf_conv_attributes *conv = attributes;
    return conv->by_value ? 1u << 0 | 1u << WEIGHT_VALUE : 1u << 0;
}

static uint32_t constant_inputs(const void *attributes) {
    const uf_conv_attributes *conv = attributes;
    return !conv->has_like ? 0 : conv->by_value ? 1u << (WEIGHT_VALUE + 1) : 1u << 1;
}

static uf_value gradient(const uf_gradient_rule *rule, int32_t input) {
    const uf_conv_attributes *conv = rule->attributes;
    if (input != 0) {
        return uf_graph_reject(rule->graph,
                               uf_fail(UF_ERROR_UNSUPPORTED,
                                       "uf_gradient: the weight or bias of %s depends on the "
                                       "input; only the gradient of its image is made of layers",
                                       uf_conv_layer_name(conv)));
    }
    const uf_shape shape = uf_value_shape(rule->graph, rule->inputs[0]);
    uf_value inputs[3] = {rule->grad_output};
    int32_t count = 1;
    uf_conv_attributes made = *conv;
    made.transposed = !conv->transposed;
    made.out_channels = shape.extent[conv->axes == 0 ? shape.rank - 1 : 1];
    made.bias = made.has_output_size = false;
    made.has_like = conv->axes != 0;
    if (conv->by_value) {
        inputs[count++] = rule->inputs[WEIGHT_VALUE];
    }
    if (made.has_like) {
        inputs[count++] = rule->inputs[0];
    }
    const uf_layer *layer = conv->axes == 0   ? &uf_layer_linear
                            : made.transposed ? &uf_layer_conv_transpose2d
                                              : &uf_layer_conv2d;
    return uf_graph_append(rule->graph, layer, &made, sizeof made, inputs, count, rule->scope);
}

/* In a transposed convolution element o lies under the filters of the inputs from
 * (o + padding - span) / stride to (o + padding) / stride. */
static bool field(const uf_field_query *query, uf_field *field) {
    const uf_conv_attributes *conv = query->attributes;
    if (conv->axes < query->back || conv->has_output_size || conv->has_like || query->tiled != 1) {
        return false;
    }
    const int axis = 2 - query->back;
    const uf_conv2d_params *params = &conv->params;
    int64_t kernel = conv->kernel[axis];
    if (conv->by_value) {
        const uf_shape *weight = &query->inputs[1];
        kernel = weight->extent[weight->rank - query->back];
    }
    const int64_t stride = params->stride[axis], padding = params->padding[axis];
    const int64_t span = (kernel - 1) * params->dilation[axis];
    *field = uf_field_window(kernel, stride, padding, params->dilation[axis]);
    if (conv->transposed) {
        const int64_t last = 2 * padding - span - params->output_padding[axis] + stride - 1;
        *field = (uf_field){stride, 1, padding - span, last > padding ? last : padding};
    }
    return true;
}

#define CONV_LAYER(layer, last)                                                                    \
    const uf_layer uf_layer_##layer = {                                                            \
        .name = #layer,                                                                            \
        .functions = uf_##layer##_functions,                                                       \
        .title = title,                                                                            \
        .multiply_adds = multiply_adds,                                                            \
        .infer = infer,                                                                            \
        .field = field,                                                                            \
        .forward = forward,                                                                        \
        .backward = backward,                                                                      \
        .packed_conv = packed_conv,                                                                \
        .workspace = workspace,                                                                    \
        .backward_reads = backward_reads,                                                          \
        .constant_inputs = constant_inputs,                                                        \
        .gradient = gradient,                                                                      \
        .takes_gaps = true,                                                                        \
        .whole_inputs = 1u << WEIGHT_VALUE | 1u << BIAS_VALUE,                                     \
        .channels_last = last,                                                                     \
        .stored_params = 1u << WEIGHT | 1u << BIAS,                                                \
        .backward_stored_params = 1u << WEIGHT,                                                    \
        .channel_biases = 1u << BIAS,                                                              \
        .fusion = UF_FUSION_HEAD,                                                                  \
    }

CONV_LAYER(conv_transpose2d, false);
CONV_LAYER(conv2d, false);
CONV_LAYER(linear, true);
