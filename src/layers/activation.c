/* activation.c - every elementwise activation: one layer with a kind. */
#include "layers/activation.h"

#include <string.h>

#include "layers/field.h"
#include "layers/function.h"
static uf_activation kind_of(const void *attributes) {
    return ((const uf_activation_attributes *)attributes)->activation;
}

static uf_status infer(uf_infer *infer) {
    const uf_activation activation = kind_of(infer->attributes);
    const double maximum = ((const uf_activation_attributes *)infer->attributes)->maximum;
    UF_CHECK_ARG(!uf_activation_has_maximum(activation.kind) || activation.parameter <= maximum,
                 "%s: the minimum is %g, the maximum %g; the minimum must not be above it",
                 activation.kind == UF_ACTIVATION_CLAMP ? "clamp" : "hardtanh",
                 activation.parameter, maximum);
    UF_CHECK_ARG(activation.kind != UF_ACTIVATION_SOFTPLUS || activation.parameter > 0.0,
                 "softplus: beta is %g; it must be above 0", activation.parameter);
    infer->output = infer->inputs[0];
    return UF_OK;
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
    args.maximum = ((const uf_activation_attributes *)exec->attributes)->maximum;
    args.input = exec->inputs[0];
    args.output = exec->output;
    return args;
}

static uf_status forward(const uf_exec *exec) {
    const uf_activation_kernel_args args = arguments(exec);
    return exec->context->kernels->activation_forward(exec->context, &args);
}

uf_activation_read uf_activation_source(const void *attributes) {
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
        uf_activation_source(exec->attributes) == UF_READS_RESULT) {
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
    return bits[uf_activation_source(attributes)];
}

/* ---- the functions, for models ---- */

#define KIND(kind_)                                                                                \
    UF_FIXED(SMALL, uf_activation_attributes, activation.kind, UF_ACTIVATION_##kind_)
#define MAXIMUM(name, fallback)                                                                    \
    UF_ARGUMENT(NUMBER, name, uf_activation_attributes, maximum, fallback)
#define PARAMETER(name, fallback)                                                                  \
    UF_ARGUMENT(NUMBER, name, uf_activation_attributes, activation.parameter, fallback)
#define REQUIRED(name, member) UF_REQUIRED(NUMBER, name, uf_activation_attributes, member)

/* Functions without options, then the rest. */
/* clang-format off */
#define PLAIN(ROW)                                                                                 \
    ROW(RELU, relu) ROW(TANH, tanh) ROW(SIGMOID, sigmoid) ROW(SELU, selu) ROW(GELU, gelu)          \
    ROW(GELU_TANH, gelu_tanh) ROW(SILU, silu) ROW(MISH, mish) ROW(SOFTSIGN, softsign)              \
    ROW(LOG_SIGMOID, log_sigmoid) ROW(RELU6, relu6) ROW(HARDSIGMOID, hardsigmoid)                  \
    ROW(HARDSWISH, hardswish) ROW(ABS, abs) ROW(SQUARE, square) ROW(EXP, exp) ROW(LOG, log)        \
    ROW(SQRT, sqrt)
/* clang-format on */
#define PLAIN_TABLE(kind_, name_) static const uf_option name_##_table[] = {KIND(kind_)};
PLAIN(PLAIN_TABLE)

static const uf_option leaky_relu_table[] = {KIND(LEAKY_RELU), PARAMETER("negative_slope", 0.01)};
static const uf_option elu_table[] = {KIND(ELU), PARAMETER("alpha", 1.0)};
static const uf_option softplus_table[] = {KIND(SOFTPLUS), PARAMETER("beta", 1.0)};
static const uf_option hardtanh_table[] = {KIND(HARDTANH), PARAMETER("minimum", -1.0),
                                           MAXIMUM("maximum", 1.0)};
static const uf_option clamp_table[] = {KIND(CLAMP), REQUIRED("minimum", activation.parameter),
                                        REQUIRED("maximum", maximum)};
static const uf_option scale_table[] = {KIND(SCALE), REQUIRED("factor", activation.parameter)};
static const uf_option neg_table[] = {
    KIND(SCALE), UF_FIXED(NUMBER, uf_activation_attributes, activation.parameter, -1.0)};

#define FUNCTION(kind_, name_)                                                                     \
    {.name = #name_,                                                                               \
     .size = sizeof(uf_activation_attributes),                                                     \
     .least_inputs = 1,                                                                            \
     .most_inputs = 1,                                                                             \
     UF_TABLE(name_##_table)},
/* clang-format off */
/* neg before scale: the first that fits names a node. */
static const uf_layer_function functions[] = {
    PLAIN(FUNCTION)
    FUNCTION(LEAKY_RELU, leaky_relu)
    FUNCTION(ELU, elu)
    FUNCTION(SOFTPLUS, softplus)
    FUNCTION(HARDTANH, hardtanh)
    FUNCTION(CLAMP, clamp)
    FUNCTION(SCALE, neg)
    FUNCTION(SCALE, scale)
    {0},
};
/* clang-format on */

const uf_layer uf_layer_activation = {
    .name = "activation",
    .functions = functions,
    .title = title,
    .infer = infer,
    .field = uf_field_point,
    .forward = forward,
    .backward = backward,
    .backward_reads = backward_reads,
    .gradient = uf_activation_gradient,
    .overwrites_inputs = 1,
    .overwrites_gradient = true,
    .takes_gaps = true,
    .fusion = UF_FUSION_ACTIVATION,
    .activation = kind_of,
};

static uf_value append_between(uf_graph *graph, uf_value input, uf_activation_kind kind,
                               double parameter, double maximum) {
    uf_activation_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.activation.kind = kind;
    attributes.activation.parameter = parameter;
    attributes.maximum = maximum;
    return uf_graph_append(graph, &uf_layer_activation, &attributes, sizeof attributes, &input, 1,
                           NULL);
}

static uf_value append(uf_graph *graph, uf_value input, uf_activation_kind kind, double parameter) {
    return append_between(graph, input, kind, parameter, 0.0);
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

uf_value uf_elu(uf_graph *graph, uf_value input, double alpha) {
    return append(graph, input, UF_ACTIVATION_ELU, alpha);
}

uf_value uf_selu(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_SELU, 0.0);
}

uf_value uf_gelu(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_GELU, 0.0);
}

uf_value uf_gelu_tanh(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_GELU_TANH, 0.0);
}

uf_value uf_silu(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_SILU, 0.0);
}

uf_value uf_mish(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_MISH, 0.0);
}

uf_value uf_softplus(uf_graph *graph, uf_value input, double beta) {
    return append(graph, input, UF_ACTIVATION_SOFTPLUS, beta);
}

uf_value uf_softsign(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_SOFTSIGN, 0.0);
}

uf_value uf_log_sigmoid(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_LOG_SIGMOID, 0.0);
}

uf_value uf_relu6(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_RELU6, 0.0);
}

uf_value uf_hardsigmoid(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_HARDSIGMOID, 0.0);
}

uf_value uf_hardswish(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_HARDSWISH, 0.0);
}

uf_value uf_hardtanh(uf_graph *graph, uf_value input, double minimum, double maximum) {
    return append_between(graph, input, UF_ACTIVATION_HARDTANH, minimum, maximum);
}

uf_value uf_clamp(uf_graph *graph, uf_value input, double minimum, double maximum) {
    return append_between(graph, input, UF_ACTIVATION_CLAMP, minimum, maximum);
}

uf_value uf_abs(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_ABS, 0.0);
}

uf_value uf_neg(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_SCALE, -1.0);
}

uf_value uf_scale(uf_graph *graph, uf_value input, double factor) {
    return append(graph, input, UF_ACTIVATION_SCALE, factor);
}

uf_value uf_square(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_SQUARE, 0.0);
}

uf_value uf_exp(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_EXP, 0.0);
}

uf_value uf_log(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_LOG, 0.0);
}

uf_value uf_sqrt(uf_graph *graph, uf_value input) {
    return append(graph, input, UF_ACTIVATION_SQRT, 0.0);
}
