/* prelu.c - PReLU, by the kernels of strided arithmetic: the weight repeats along all axes but the
 * channels'. */
#include "layers/layer.h"

#include "layers/field.h"
#include "layers/function.h"
#include <inttypes.h>
#include <string.h>

typedef struct prelu_attributes {
    int64_t num_parameters;
} prelu_attributes;

static uf_status infer(uf_infer *infer) {
    const prelu_attributes *prelu = infer->attributes;
    const uf_shape *input = &infer->inputs[0];
    char text[128];
    UF_CHECK_ARG(prelu->num_parameters == 1 ||
                     (input->rank >= 2 && input->extent[1] == prelu->num_parameters),
                 "prelu: num_parameters is %" PRId64 " and the input is %s; it must be 1 or the "
                 "number of channels, extent 1",
                 prelu->num_parameters, uf_shape_format(input, text, sizeof text));
    infer->output = *input;
    infer->params[0] = (uf_param_need){"weight", UF_SHAPE(prelu->num_parameters), UF_ROLE_PARAMETER,
                                       UF_INIT_QUARTER};
    infer->param_count = 1;
    return UF_OK;
}

/* The indices of (images, channels, elements of a channel). */
static uf_strided space_of(const uf_exec *exec) {
    const prelu_attributes *prelu = exec->attributes;
    const int64_t channels = prelu->num_parameters;
    const int64_t images = channels == 1 ? 1 : exec->output_shape->extent[0];
    const int64_t count = uf_shape_count(exec->output_shape);
    const uf_shape shape = UF_SHAPE(images, channels, count / (images * channels));
    return uf_strided_of(&shape);
}

/* Add an operand: one that has every element, or the weight. */
static void add_operand(uf_strided_kernel_args *args, const uf_view *view, bool is_weight) {
    const int32_t k = args->space.operands++;
    args->data[k] = view->data;
    memcpy(args->space.stride[k], args->space.stride[0], sizeof args->space.stride[k]);
    if (is_weight) {
        memset(args->space.stride[k], 0, sizeof args->space.stride[k]);
        args->space.stride[k][1] = 1;
    }
}

static uf_strided_kernel_args arguments(const uf_exec *exec, uf_term term, const uf_view *output,
                                        uf_dtype dtype) {
    uf_strided_kernel_args args;
    memset(&args, 0, sizeof args);
    args.term = term;
    args.dtype = dtype;
    args.space = space_of(exec);
    args.data[0] = output->data;
    args.factor = 1.0;
    return args;
}

static uf_status forward(const uf_exec *exec) {
    uf_strided_kernel_args args = arguments(exec, UF_TERM_PRELU, &exec->output, exec->output.dtype);
    add_operand(&args, &exec->inputs[0], false);
    add_operand(&args, &exec->params[0], true);
    return exec->context->kernels->broadcast(exec->context, &args);
}

static uf_strided_kernel_args weight_arguments(const uf_exec *exec) {
    uf_strided_kernel_args args =
        arguments(exec, UF_TERM_PRELU_WEIGHT, &exec->grad_params[0], exec->grad_output.dtype);
    args.makes_f32 = exec->grad_output.dtype == UF_BF16;
    args.mode = exec->grad_param_modes[0];
    args.workspace = exec->workspace;
    args.workspace_size = exec->workspace_size;
    add_operand(&args, &exec->grad_output, false);
    add_operand(&args, &exec->inputs[0], false);
    memset(args.space.stride[0], 0, sizeof args.space.stride[0]);
    args.space.stride[0][1] = 1;
    return args;
}

/* The weight's gradient first: the input's may be written over grad_output. */
static uf_status backward(const uf_exec *exec) {
    if (exec->grad_params[0].data != NULL) {
        const uf_strided_kernel_args args = weight_arguments(exec);
        UF_TRY(exec->context->kernels->reduce(exec->context, &args));
    }
    if (exec->grad_inputs[0].data != NULL) {
        uf_strided_kernel_args args =
            arguments(exec, UF_TERM_PRELU_INPUT, &exec->grad_inputs[0], exec->grad_output.dtype);
        args.mode = exec->grad_input_modes[0];
        add_operand(&args, &exec->grad_output, false);
        add_operand(&args, &exec->inputs[0], false);
        add_operand(&args, &exec->params[0], true);
        UF_TRY(exec->context->kernels->broadcast(exec->context, &args));
    }
    return UF_OK;
}

static uf_status workspace(const uf_exec *exec, bool of_backward, size_t *size) {
    *size = 0;
    if (of_backward && exec->grad_params[0].data != NULL) {
        const uf_strided_kernel_args args = weight_arguments(exec);
        *size = exec->context->kernels->reduce_workspace(exec->context, &args);
    }
    return UF_OK;
}

static uint32_t backward_reads(const void *attributes) {
    (void)attributes;
    return 1u << 0;
}

static const uf_option table[] = {
    UF_ARGUMENT(INTEGER, "num_parameters", prelu_attributes, num_parameters, 1)};
static const uf_layer_function functions[] = {
    {.name = "prelu",
     .size = sizeof(prelu_attributes),
     .least_inputs = 1,
     .most_inputs = 1,
     .scope = true,
     UF_TABLE(table)},
    {0},
};

const uf_layer uf_layer_prelu = {
    .name = "prelu",
    .functions = functions,
    .infer = infer,
    .field = uf_field_point,
    .forward = forward,
    .backward = backward,
    .workspace = workspace,
    .backward_reads = backward_reads,
    .stored_params = 1u << 0,
    .backward_stored_params = 1u << 0,
    .overwrites_inputs = 1,
    .overwrites_gradient = true,
};

uf_value uf_prelu(uf_graph *graph, uf_value input, uf_scope scope, int64_t num_parameters) {
    prelu_attributes prelu;
    memset(&prelu, 0, sizeof prelu);
    prelu.num_parameters = num_parameters;
    return uf_graph_append(graph, &uf_layer_prelu, &prelu, sizeof prelu, &input, 1, &scope);
}
