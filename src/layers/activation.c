/* activation.c - every elementwise activation: one layer with a kind. */
#include "layers/layer.h"

#include <string.h>

static uf_status infer(uf_infer *infer) {
    infer->output = infer->inputs[0];
    return UF_OK;
}

static uf_activation kind_of(const void *attributes) {
    return *(const uf_activation *)attributes;
}

static uf_activation_kernel_args arguments(const uf_exec *exec) {
    uf_activation_kernel_args args;
    memset(&args, 0, sizeof args);
    args.activation = kind_of(exec->attributes);
    args.input = exec->inputs[0];
    args.output = exec->output;
    return args;
}

static uf_status forward(const uf_exec *exec) {
    const uf_activation_kernel_args args = arguments(exec);
    return exec->context->kernels->activation_forward(exec->context, &args);
}

static uf_status backward(const uf_exec *exec) {
    uf_activation_kernel_args args = arguments(exec);
    args.grad_output = exec->grad_output;
    args.grad_input = exec->grad_inputs[0];
    args.mode = exec->grad_input_modes[0];
    return exec->context->kernels->activation_backward(exec->context, &args);
}

/* As activations.def says. */
static uint32_t backward_reads(const void *attributes) {
    enum { NOTHING = 0, INPUT = 1 };
    static const uint32_t reads[UF_ACTIVATION_COUNT] = {
#define RESULT UF_READS_OUTPUT
#define UF_ACTIVATION(kind, name, forward, reads, derivative) [UF_ACTIVATION_##kind] = reads,
#include "kernels/activations.def"
#undef UF_ACTIVATION
#undef RESULT
    };
    return reads[kind_of(attributes).kind];
}

const uf_layer uf_layer_activation = {
    .name = "activation",
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .backward_reads = backward_reads,
    .may_overwrite_input = true,
    .fusion = UF_FUSION_ACTIVATION,
    .activation = kind_of,
};

static uf_value append(uf_graph *graph, uf_value input, uf_activation_kind kind, double parameter) {
    uf_activation activation;
    memset(&activation, 0, sizeof activation);
    activation.kind = kind;
    activation.parameter = parameter;
    return uf_graph_append(graph, &uf_layer_activation, &activation, sizeof activation, &input, 1,
                           NULL);
}

uf_value uf_relu(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_RELU, 0.0);
}

uf_value uf_leaky_relu(uf_graph *graph, uf_value input, double negative_slope) {
    return append(graph, input, UF_ACTIVATION_LEAKY_RELU, negative_slope);
}

uf_value uf_tanh(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_TANH, 0.0);
}

uf_value uf_sigmoid(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_SIGMOID, 0.0);
}
