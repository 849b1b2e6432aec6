/* softmax.c - Softmax. */
#include "layers/layer.h"

#include "layers/field.h"
#include "layers/function.h"
#include <inttypes.h>
#include <string.h>

typedef struct softmax_attributes {
    int32_t axis; /* below 0: counted from the last one */
} softmax_attributes;

static uf_status infer(uf_infer *infer) {
    const softmax_attributes *softmax = infer->attributes;
    const uf_shape *input = &infer->inputs[0];
    char text[128];
    UF_CHECK_ARG(softmax->axis >= -input->rank && softmax->axis < input->rank,
                 "softmax: axis is %d; the input %s has %d axes", (int)softmax->axis,
                 uf_shape_format(input, text, sizeof text), (int)input->rank);
    infer->output = *input;
    return UF_OK;
}

static uf_softmax_kernel_args arguments(const uf_exec *exec) {
    const softmax_attributes *softmax = exec->attributes;
    const uf_shape *shape = exec->output_shape;
    const int32_t axis = softmax->axis < 0 ? softmax->axis + shape->rank : softmax->axis;
    uf_softmax_kernel_args args;
    memset(&args, 0, sizeof args);
    args.outer = args.inner = 1;
    args.extent = shape->extent[axis];
    for (int32_t i = 0; i < shape->rank; ++i) {
        args.outer *= i < axis ? shape->extent[i] : 1;
        args.inner *= i > axis ? shape->extent[i] : 1;
    }
    args.input = exec->inputs[0];
    args.output = exec->output;
    args.grad_output = exec->grad_output;
    args.grad_input = exec->grad_inputs[0];
    return args;
}

static uf_status forward(const uf_exec *exec) {
    const uf_softmax_kernel_args args = arguments(exec);
    return exec->context->kernels->softmax_forward(exec->context, &args);
}

static uf_status backward(const uf_exec *exec) {
    uf_softmax_kernel_args args = arguments(exec);
    args.mode = exec->grad_input_modes[0];
    return exec->context->kernels->softmax_backward(exec->context, &args);
}

static uint32_t backward_reads(const void *attributes) {
    (void)attributes;
    return UF_READS_OUTPUT;
}

/* With s the output: s (g - sum of g s). */
static uf_value gradient(const uf_gradient_rule *rule, int32_t input) {
    const softmax_attributes *softmax = rule->attributes;
    const uf_value product = uf_mul(rule->graph, rule->grad_output, rule->output);
    const uf_value sum = uf_sum(rule->graph, product, &softmax->axis, 1, true);
    (void)input;
    return uf_sub(rule->graph, product, uf_mul(rule->graph, rule->output, sum));
}

static const uf_option table[] = {UF_REQUIRED(SMALL, "axis", softmax_attributes, axis)};
static const uf_layer_function functions[] = {
    {.name = "softmax",
     .size = sizeof(softmax_attributes),
     .least_inputs = 1,
     .most_inputs = 1,
     UF_TABLE(table)},
    {0},
};

static bool field(const uf_field_query *query, uf_field *field) {
    const softmax_attributes *softmax = query->attributes;
    return !uf_field_is_axis(query, softmax->axis) && uf_field_point(query, field);
}

const uf_layer uf_layer_softmax = {
    .name = "softmax",
    .functions = functions,
    .infer = infer,
    .field = field,
    .forward = forward,
    .backward = backward,
    .backward_reads = backward_reads,
    .gradient = gradient,
    .overwrites_inputs = 1,
    .overwrites_gradient = true,
};

uf_value uf_softmax(uf_graph *graph, uf_value input, int32_t axis) {
    softmax_attributes softmax;
    memset(&softmax, 0, sizeof softmax);
    softmax.axis = axis;
    return uf_graph_append(graph, &uf_layer_softmax, &softmax, sizeof softmax, &input, 1, NULL);
}
