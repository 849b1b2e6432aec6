/* loss.c - losses of elements: their mean, their sum or themselves. */
#include "layers/function.h"

#include <math.h>
#include <string.h>

typedef struct loss_attributes {
    uf_loss_kind kind;
    uf_reduction reduction;
    double beta;
} loss_attributes;

static const char *name_of(uf_loss_kind kind) {
    static const char *const names[] = {
#define UF_LOSS(name, text, second, value, derivative, other_derivative) #text,
#include "kernels/losses.def"
#undef UF_LOSS
    };
    return names[kind];
}

static const char *title(const void *attributes) {
    return name_of(((const loss_attributes *)attributes)->kind);
}

static uf_status infer(uf_infer *infer) {
    const loss_attributes *attributes = infer->attributes;
    const char *name = name_of(attributes->kind);
    char text[128], other[128];
    const int32_t inputs = uf_loss_second(attributes->kind) == UF_LOSS_ALONE ? 1 : 2;
    UF_CHECK_ARG(infer->input_count == inputs, "%s takes %d values, not %d", name, (int)inputs,
                 (int)infer->input_count);
    UF_CHECK_ARG(isfinite(attributes->beta) && attributes->beta >= 0.0,
                 "%s: beta is %g; it must be 0 or more", name, attributes->beta);
    if (infer->input_count > 1 && !uf_shape_equal(&infer->inputs[0], &infer->inputs[1])) {
        UF_FAIL(UF_ERROR_SHAPE, "%s: the input is %s and the target is %s; they must be equal",
                name, uf_shape_format(&infer->inputs[0], text, sizeof text),
                uf_shape_format(&infer->inputs[1], other, sizeof other));
    }
    if (attributes->kind == UF_LOSS_KL_NORMAL && infer->inputs[0].rank < 2) {
        UF_FAIL(UF_ERROR_SHAPE, "%s: the input is %s; it needs an axis 1 to be summed over", name,
                uf_shape_format(&infer->inputs[0], text, sizeof text));
    }
    infer->output = attributes->reduction == UF_REDUCTION_NONE ? infer->inputs[0] : UF_SCALAR;
    return UF_OK;
}

static uf_loss_kernel_args arguments(const uf_exec *exec) {
    const loss_attributes *attributes = exec->attributes;
    uf_loss_kernel_args args;
    memset(&args, 0, sizeof args);
    args.kind = attributes->kind;
    args.reduction = attributes->reduction;
    args.beta = attributes->beta;
    if (attributes->kind == UF_LOSS_KL_NORMAL) {
        args.divisor = uf_shape_count(exec->input_shapes[0]) / exec->input_shapes[0]->extent[1];
    }
    args.input = exec->inputs[0];
    args.output = exec->output;
    args.grad_output = exec->grad_output;
    args.grad_input = exec->grad_inputs[0];
    args.mode = exec->grad_input_modes[0];
    if (exec->input_count > 1) {
        args.target = exec->inputs[1];
        args.grad_target = exec->grad_inputs[1];
        args.grad_target_mode = exec->grad_input_modes[1];
    }
    args.workspace = exec->workspace;
    args.workspace_size = exec->workspace_size;
    return args;
}

static uf_status forward(const uf_exec *exec) {
    const uf_loss_kernel_args args = arguments(exec);
    return exec->context->kernels->loss_forward(exec->context, &args);
}

static uf_status backward(const uf_exec *exec) {
    const uf_loss_kernel_args args = arguments(exec);
    return exec->context->kernels->loss_backward(exec->context, &args);
}

static uf_status workspace(const uf_exec *exec, bool of_backward, size_t *size) {
    const uf_loss_kernel_args args = arguments(exec);
    *size = of_backward ? 0 : exec->context->kernels->loss_workspace(exec->context, &args);
    return UF_OK;
}

static uint32_t backward_reads(const void *attributes) {
    const loss_attributes *read = attributes;
    return uf_loss_second(read->kind) == UF_LOSS_ALONE ? 1u << 0 : 1u << 0 | 1u << 1;
}

static const uf_option_word kinds[] = {
#define UF_LOSS(name, text, second, value, derivative, other_derivative) {#text, "UF_LOSS_" #name},
#include "kernels/losses.def"
#undef UF_LOSS
    {NULL, NULL}};
const uf_option_word uf_reduction_words[] = {{"mean", "UF_REDUCTION_MEAN"},
                                             {"sum", "UF_REDUCTION_SUM"},
                                             {"none", "UF_REDUCTION_NONE"},
                                             {NULL, NULL}};
static const uf_option table[] = {
    {.name = "kind",
     .kind = UF_OPTION_CHOICE,
     .place = UF_PLACE_FIRST,
     .required = true,
     .offset = offsetof(loss_attributes, kind),
     .words = kinds},
    {.name = "reduction",
     .kind = UF_OPTION_CHOICE,
     .place = UF_PLACE_FIELD,
     .offset = offsetof(loss_attributes, reduction),
     .words = uf_reduction_words},
    UF_FIELD(NUMBER, "beta", loss_attributes, beta, 1),
};
static const uf_layer_function functions[] = {
    {.name = "loss",
     .size = sizeof(loss_attributes),
     .least_inputs = 1,
     .most_inputs = 2,
     .options = "uf_loss_options",
     UF_TABLE(table)},
    {0},
};

const uf_layer uf_layer_loss = {
    .name = "loss",
    .functions = functions,
    .title = title,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .workspace = workspace,
    .backward_reads = backward_reads,
    .makes_f32 = true,
};

static uf_status check(uf_loss_kind kind, const uf_loss_options *options) {
    UF_CHECK_ARG((unsigned)kind < UF_LOSS_COUNT, "uf_loss: %d is no uf_loss_kind", (int)kind);
    UF_CHECK_ARG((unsigned)options->reduction <= UF_REDUCTION_NONE, "%s: %d is no uf_reduction",
                 name_of(kind), (int)options->reduction);
    return UF_OK;
}

uf_value uf_loss(uf_graph *graph, uf_loss_kind kind, uf_value input, uf_value target,
                 const uf_loss_options *given) {
    uf_loss_options options = uf_loss_options_default();
    if (!uf_graph_options(graph, "uf_loss_options", given, &options, sizeof options)) {
        return (uf_value){0};
    }
    const uf_status status = check(kind, &options);
    if (status != UF_OK) {
        return uf_graph_reject(graph, status);
    }
    const loss_attributes attributes = {kind, options.reduction, options.beta};
    const uf_loss_operand second = uf_loss_second(kind);
    /* Without the detach a target that depends on parameters would want a gradient. */
    const uf_value inputs[2] = {input,
                                second == UF_LOSS_TARGET ? uf_detach(graph, target) : target};
    return uf_graph_append(graph, &uf_layer_loss, &attributes, sizeof attributes, inputs,
                           second == UF_LOSS_ALONE ? 1 : 2, NULL);
}

uf_value uf_bce_with_logits_loss(uf_graph *graph, uf_value input, uf_value target) {
    return uf_loss(graph, UF_LOSS_BCE_WITH_LOGITS, input, target, NULL);
}

uf_value uf_bce_loss(uf_graph *graph, uf_value input, uf_value target) {
    return uf_loss(graph, UF_LOSS_BCE, input, target, NULL);
}

uf_value uf_mse_loss(uf_graph *graph, uf_value input, uf_value target) {
    return uf_loss(graph, UF_LOSS_MSE, input, target, NULL);
}

uf_value uf_l1_loss(uf_graph *graph, uf_value input, uf_value target) {
    return uf_loss(graph, UF_LOSS_L1, input, target, NULL);
}
