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

static const char *title(const void *attributes) {
    static const char *const names[UF_ACTIVATION_COUNT] = {
#define UF_ACTIVATION(kind, name, forward, reads, derivative) [UF_ACTIVATION_##kind] = #name,
#include "kernels/activations.def"
#undef UF_ACTIVATION
    };
    return names[kind_of(attributes).kind];
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

/* As activations.def says. The output, where it will do: fusion leaves no input, and the plan may
 * write the output over it. */
static uf_activation_read reads_of(const void *attributes) {
    const uf_activation activation = kind_of(attributes);
    const uf_activation_read reads = uf_activation_reads(activation.kind);
    if (reads == UF_READS_SIGN) {
        return activation.parameter >= 0.0 ? UF_READS_RESULT : UF_READS_INPUT;
    }
    return reads;
}

static uf_status backward(const uf_exec *exec) {
    uf_activation_kernel_args args = arguments(exec);
    if (uf_activation_reads(args.activation.kind) == UF_READS_SIGN &&
        reads_of(exec->attributes) == UF_READS_RESULT) {
        args.input = exec->output;
    }
    args.grad_output = exec->grad_output;
    args.grad_input = exec->grad_inputs[0];
    args.mode = exec->grad_input_modes[0];
    return exec->context->kernels->activation_backward(exec->context, &args);
}

static uint32_t backward_reads(const void *attributes) {
    static const uint32_t bits[] = {
        [UF_READS_NOTHING] = 0, [UF_READS_INPUT] = 1, [UF_READS_RESULT] = UF_READS_OUTPUT};
    return bits[reads_of(attributes)];
}

const uf_layer uf_layer_activation = {
    .name = "activation",
    .title = title,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .backward_reads = backward_reads,
    .overwrites_inputs = 1,
    .overwrites_gradient = true,
    .takes_gaps = true,
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
