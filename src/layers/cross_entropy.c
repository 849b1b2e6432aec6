/* cross_entropy.c - the cross-entropy of logits with class indices. */
#include "layers/function.h"

#include <string.h>

static uf_reduction reduction_of(const void *attributes) {
    return *(const uf_reduction *)attributes;
}

static uf_status infer(uf_infer *infer) {
    const uf_shape *logits = &infer->inputs[0];
    const uf_shape *target = &infer->inputs[1];
    char text[128], other[128];
    uf_shape wanted = *logits;
    if (logits->rank >= 2) {
        wanted.rank -= 1;
        for (int32_t i = 1; i < wanted.rank; ++i) {
            wanted.extent[i] = logits->extent[i + 1];
        }
    }
    if (logits->rank < 2 || !uf_shape_equal(target, &wanted)) {
        UF_FAIL(UF_ERROR_SHAPE,
                "cross_entropy_loss: the input is %s and the target is %s; they must be "
                "(N, C, d1, ...) and (N, d1, ...)",
                uf_shape_format(logits, text, sizeof text),
                uf_shape_format(target, other, sizeof other));
    }
    infer->output = reduction_of(infer->attributes) == UF_REDUCTION_NONE ? *target : UF_SCALAR;
    return UF_OK;
}

static uf_cross_entropy_kernel_args arguments(const uf_exec *exec) {
    const uf_shape *logits = exec->input_shapes[0];
    uf_cross_entropy_kernel_args args;
    memset(&args, 0, sizeof args);
    args.reduction = reduction_of(exec->attributes);
    args.outer = logits->extent[0];
    args.classes = logits->extent[1];
    args.inner = uf_shape_count(logits) / (args.outer * args.classes);
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
    const uf_cross_entropy_kernel_args args = arguments(exec);
    return exec->context->kernels->cross_entropy_forward(exec->context, &args);
}

static uf_status backward(const uf_exec *exec) {
    const uf_cross_entropy_kernel_args args = arguments(exec);
    return exec->context->kernels->cross_entropy_backward(exec->context, &args);
}

static uf_status workspace(const uf_exec *exec, bool of_backward, size_t *size) {
    const uf_cross_entropy_kernel_args args = arguments(exec);
    *size = of_backward ? 0 : uf_cross_entropy_workspace(&args);
    return UF_OK;
}

static uint32_t backward_reads(const void *attributes) {
    (void)attributes;
    return 1u << 0 | 1u << 1;
}

static const uf_option table[] = {{.name = "reduction",
                                   .kind = UF_OPTION_CHOICE,
                                   .place = UF_PLACE_FIELD,
                                   .words = uf_reduction_words}};
static const uf_layer_function functions[] = {
    {.name = "cross_entropy_loss",
     .size = sizeof(uf_reduction),
     .least_inputs = 2,
     .most_inputs = 2,
     .options = "uf_loss_options",
     UF_TABLE(table)},
    {0},
};

const uf_layer uf_layer_cross_entropy = {
    .name = "cross_entropy",
    .functions = functions,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .workspace = workspace,
    .backward_reads = backward_reads,
    .i64_inputs = 1u << 1,
    .makes_f32 = true,
};

uf_value uf_cross_entropy_loss(uf_graph *graph, uf_value input, uf_value target,
                               const uf_loss_options *given) {
    uf_loss_options options = uf_loss_options_default();
    if (!uf_graph_options(graph, "uf_loss_options", given, &options, sizeof options)) {
        return (uf_value){0};
    }
    if ((unsigned)options.reduction > UF_REDUCTION_NONE) {
        return uf_graph_reject(graph, uf_fail(UF_ERROR_INVALID_ARGUMENT,
                                              "cross_entropy_loss: %d is no uf_reduction",
                                              (int)options.reduction));
    }
    const uf_value inputs[2] = {input, target};
    return uf_graph_append(graph, &uf_layer_cross_entropy, &options.reduction,
                           sizeof options.reduction, inputs, 2, NULL);
}
