/* activation_backward.c - the gradient of an activation as a value: grad * f'(source).
 *
 * Inputs: grad, and the activation's input or its output, whichever f' is made from. Forward is the
 * kernel with which the activation itself goes backward; going backward through it takes f''. */
#include "layers/activation.h"

#include <string.h>

enum { GRAD, SOURCE };

static uf_activation_kind kind_of(const void *attributes) {
    return ((const uf_activation_attributes *)attributes)->activation.kind;
}

static const char *title(const void *attributes) {
    static const char *const names[UF_ACTIVATION_COUNT] = {
#define UF_ACTIVATION(kind, name, forward, reads, derivative)                                      \
    [UF_ACTIVATION_##kind] = #name "_backward",
#include "kernels/activations.def"
#undef UF_ACTIVATION
    };
    return names[kind_of(attributes)];
}

static uf_status infer(uf_infer *infer) {
    infer->output = infer->inputs[GRAD];
    return UF_OK;
}

/* to (+)= from * f'(source) */
static uf_status derive(const uf_exec *exec, const uf_view *from, const uf_view *to,
                        uf_write_mode mode) {
    const uf_activation_attributes *attributes = exec->attributes;
    uf_activation_kernel_args args;
    memset(&args, 0, sizeof args);
    args.activation = attributes->activation;
    args.maximum = attributes->maximum;
    *(uf_activation_reads(kind_of(attributes)) == UF_READS_RESULT ? &args.output : &args.input) =
        exec->inputs[SOURCE];
    args.grad_output = *from;
    args.grad_input = *to;
    args.mode = mode;
    return exec->context->kernels->activation_backward(exec->context, &args);
}

/* The gradient of the source: (+)= grad_output * grad * f''(source) */
static uf_status derive_twice(const uf_exec *exec) {
    const uf_activation_attributes *attributes = exec->attributes;
    const uf_activation_double_kernel_args args = {
        .activation = attributes->activation,
        .source = exec->inputs[SOURCE],
        .grad_output = exec->grad_output,
        .grad = exec->inputs[GRAD],
        .grad_source = exec->grad_inputs[SOURCE],
        .mode = exec->grad_input_modes[SOURCE],
    };
    return exec->context->kernels->activation_double_backward(exec->context, &args);
}

static uf_status forward(const uf_exec *exec) {
    return derive(exec, &exec->inputs[GRAD], &exec->output, UF_OVERWRITE);
}

/* The gradient that the plan put over grad_output is made last. */
static uf_status backward(const uf_exec *exec) {
    const bool twice = exec->grad_inputs[SOURCE].data != NULL;
    const bool twice_last = twice && exec->grad_inputs[SOURCE].data == exec->grad_output.data;
    if (twice && !twice_last) {
        UF_TRY(derive_twice(exec));
    }
    if (exec->grad_inputs[GRAD].data != NULL) {
        UF_TRY(derive(exec, &exec->grad_output, &exec->grad_inputs[GRAD],
                      exec->grad_input_modes[GRAD]));
    }
    return twice_last ? derive_twice(exec) : UF_OK;
}

static uint32_t backward_reads(const void *attributes) {
    return uf_activation_is_curved(kind_of(attributes)) ? 1u << GRAD | 1u << SOURCE : 1u << SOURCE;
}

static uint32_t constant_inputs(const void *attributes) {
    return uf_activation_is_curved(kind_of(attributes)) ? 0 : 1u << SOURCE;
}

/* The layer is linear in grad. */
static uf_value gradient(const uf_gradient_rule *rule, int32_t input) {
    if (input == SOURCE) {
        return uf_graph_reject(rule->graph,
                               uf_fail(UF_ERROR_UNSUPPORTED,
                                       "uf_gradient: %s is between output and input, and its own "
                                       "derivative is not made of layers",
                                       title(rule->attributes)));
    }
    const uf_value inputs[2] = {rule->grad_output, rule->inputs[SOURCE]};
    return uf_graph_append(rule->graph, &uf_layer_activation_backward, rule->attributes,
                           sizeof(uf_activation_attributes), inputs, 2, NULL);
}

const uf_layer uf_layer_activation_backward = {
    .name = "activation_backward",
    .title = title,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .backward_reads = backward_reads,
    .constant_inputs = constant_inputs,
    .gradient = gradient,
    .overwrites_inputs = 1,
    .overwrites_gradient = true,
    .takes_gaps = true,
};

uf_value uf_activation_gradient(const uf_gradient_rule *rule, int32_t input) {
    const uf_activation_attributes *attributes = rule->attributes;
    const uf_activation_read source = uf_activation_source(attributes);
    if (source == UF_READS_NOTHING) { /* the identity, or a scale */
        return kind_of(attributes) == UF_ACTIVATION_IDENTITY
                   ? rule->grad_output
                   : uf_scale(rule->graph, rule->grad_output, attributes->activation.parameter);
    }
    const uf_value inputs[2] = {rule->grad_output,
                                source == UF_READS_INPUT ? rule->inputs[input] : rule->output};
    return uf_graph_append(rule->graph, &uf_layer_activation_backward, attributes,
                           sizeof *attributes, inputs, 2, NULL);
}
