/* loss.c - losses: scalars, the mean over all elements of input and target. */
#include "layers/layer.h"

#include <string.h>

static const char *const names[UF_LOSS_COUNT] = {"bce_with_logits_loss", "bce_loss", "mse_loss",
                                                 "l1_loss"};

static uf_loss_kind kind_of(const void *attributes) {
    return *(const uf_loss_kind *)attributes;
}

static const char *title(const void *attributes) {
    return names[kind_of(attributes)];
}

static uf_status infer(uf_infer *infer) {
    char text[128], other[128];
    if (!uf_shape_equal(&infer->inputs[0], &infer->inputs[1])) {
        UF_FAIL(UF_ERROR_SHAPE, "%s: the input is %s and the target is %s; they must be equal",
                title(infer->attributes), uf_shape_format(&infer->inputs[0], text, sizeof text),
                uf_shape_format(&infer->inputs[1], other, sizeof other));
    }
    infer->output = UF_SCALAR;
    return UF_OK;
}

static uf_loss_kernel_args arguments(const uf_exec *exec) {
    uf_loss_kernel_args args;
    memset(&args, 0, sizeof args);
    args.kind = kind_of(exec->attributes);
    args.input = exec->inputs[0];
    args.target = exec->inputs[1];
    args.output = exec->output;
    args.grad_output = exec->grad_output;
    args.grad_input = exec->grad_inputs[0];
    args.mode = exec->grad_input_modes[0];
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
    (void)attributes;
    return 1u << 0 | 1u << 1;
}

const uf_layer uf_layer_loss = {
    .name = "loss",
    .title = title,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .workspace = workspace,
    .backward_reads = backward_reads,
    .makes_f32 = true,
};

static uf_value append(uf_graph *graph, uf_value input, uf_value target, uf_loss_kind kind) {
    /* Without the detach a target that depends on parameters would want a gradient. */
    const uf_value inputs[2] = {input, uf_detach(graph, target)};
    return uf_graph_append(graph, &uf_layer_loss, &kind, sizeof kind, inputs, 2, NULL);
}

uf_value uf_bce_with_logits_loss(uf_graph *graph, uf_value input, uf_value target) {
    return append(graph, input, target, UF_LOSS_BCE_WITH_LOGITS);
}

uf_value uf_bce_loss(uf_graph *graph, uf_value input, uf_value target) {
    return append(graph, input, target, UF_LOSS_BCE);
}

uf_value uf_mse_loss(uf_graph *graph, uf_value input, uf_value target) {
    return append(graph, input, target, UF_LOSS_MSE);
}

uf_value uf_l1_loss(uf_graph *graph, uf_value input, uf_value target) {
    return append(graph, input, target, UF_LOSS_L1);
}
