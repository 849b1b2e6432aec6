/* adjoint.c - the gradient of a linear layer as a value: its backward step as a layer of its own,
 * whose backward step is the linear layer's forward.
 *
 * Inputs: the gradient of the linear layer's output, and its input, which is there for its shape.
 * One that also has a second input for its shape gets the first of these as that. */
#include "layers/layer.h"

#include <stdio.h>
#include <string.h>

typedef struct adjoint_attributes {
    const uf_layer *layer;
    char title[32];
    /* The linear layer's. */
    union {
        unsigned char bytes[UF_ATTRIBUTES_SIZE - 40];
        double align;
    } own;
} adjoint_attributes;

static const char *title(const void *attributes) {
    return ((const adjoint_attributes *)attributes)->title;
}

static uf_status infer(uf_infer *infer) {
    infer->output = infer->inputs[1];
    return UF_OK;
}

/* The linear layer's run without its operands: its input has the shape of our output. */
static uf_exec inner(const uf_exec *exec) {
    const adjoint_attributes *adjoint = exec->attributes;
    uf_exec run;
    memset(&run, 0, sizeof run);
    run.context = exec->context;
    run.attributes = adjoint->own.bytes;
    run.math = exec->math;
    run.training = exec->training;
    run.input_count = 1;
    run.input_shapes[0] = exec->output_shape;
    run.output_shape = exec->input_shapes[0];
    run.workspace = exec->workspace;
    run.workspace_size = exec->workspace_size;
    return run;
}

static uf_exec forward_run(const uf_exec *exec) {
    uf_exec run = inner(exec);
    run.grad_output = exec->inputs[0];
    run.grad_inputs[0] = exec->output;
    run.grad_input_modes[0] = UF_OVERWRITE;
    return run;
}

/* Into `output`. */
static uf_exec backward_run(const uf_exec *exec, const uf_view *output) {
    uf_exec run = inner(exec);
    run.inputs[0] = exec->grad_output;
    run.output = *output;
    return run;
}

/* The linear layer's scratch; behind it is room for a result that is to be added. */
static uf_status own_workspace(const uf_exec *exec, const uf_exec *run, bool is_backward,
                               size_t *size) {
    const uf_layer *layer = ((const adjoint_attributes *)exec->attributes)->layer;
    *size = 0;
    return layer->workspace != NULL ? layer->workspace(run, is_backward, size) : UF_OK;
}

static uf_status forward(const uf_exec *exec) {
    const uf_exec run = forward_run(exec);
    return ((const adjoint_attributes *)exec->attributes)->layer->backward(&run);
}

static uf_status backward(const uf_exec *exec) {
    const uf_layer *layer = ((const adjoint_attributes *)exec->attributes)->layer;
    uf_exec run = backward_run(exec, &exec->grad_inputs[0]);
    if (exec->grad_input_modes[0] == UF_OVERWRITE) {
        return layer->forward(&run);
    }
    size_t size;
    UF_TRY(own_workspace(exec, &run, false, &size));
    run.output = uf_view_of((char *)exec->workspace + uf_align_up(size), exec->grad_inputs[0].dtype,
                            exec->input_shapes[0]);
    UF_TRY(layer->forward(&run));
    const uf_copy_kernel_args args = {
        .input = run.output, .output = exec->grad_inputs[0], .mode = UF_ACCUMULATE};
    return exec->context->kernels->copy(exec->context, &args);
}

static uf_status workspace(const uf_exec *exec, bool is_backward, size_t *size) {
    const uf_exec run = is_backward ? backward_run(exec, &exec->grad_inputs[0]) : forward_run(exec);
    UF_TRY(own_workspace(exec, &run, !is_backward, size));
    if (is_backward && exec->grad_input_modes[0] == UF_ACCUMULATE) {
        *size = uf_align_up(*size) + (size_t)uf_shape_count(exec->input_shapes[0]) *
                                         uf_dtype_size(exec->grad_inputs[0].dtype);
    }
    return UF_OK;
}

static uint32_t constant_inputs(const void *attributes) {
    (void)attributes;
    return 1u << 1;
}

/* The linear layer again. */
static uf_value gradient(const uf_gradient_rule *rule, int32_t input) {
    const adjoint_attributes *adjoint = rule->attributes;
    const uf_value inputs[2] = {rule->grad_output, rule->inputs[input]};
    return uf_graph_append(rule->graph, adjoint->layer, adjoint->own.bytes,
                           sizeof adjoint->own.bytes, inputs,
                           adjoint->layer->constant_inputs != NULL ? 2 : 1, NULL);
}

const uf_layer uf_layer_adjoint = {
    .name = "adjoint",
    .title = title,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .workspace = workspace,
    .constant_inputs = constant_inputs,
    .gradient = gradient,
};

uf_value uf_gradient_of_linear(const uf_gradient_rule *rule, int32_t input) {
    adjoint_attributes adjoint;
    const uf_value inputs[2] = {rule->grad_output, rule->inputs[input]};
    static const unsigned char zeros[UF_ATTRIBUTES_SIZE];
    memset(&adjoint, 0, sizeof adjoint);
    adjoint.layer = rule->layer;
    (void)snprintf(adjoint.title, sizeof adjoint.title, "%s_backward",
                   uf_layer_title(rule->layer, rule->attributes));
    memcpy(adjoint.own.bytes, rule->attributes, sizeof adjoint.own.bytes);
    const size_t room = sizeof adjoint.own.bytes;
    if (memcmp((const unsigned char *)rule->attributes + room, zeros, UF_ATTRIBUTES_SIZE - room) !=
        0) {
        return uf_graph_reject(rule->graph,
                               uf_fail(UF_ERROR_INTERNAL, "%s: attributes of more than %zu bytes",
                                       adjoint.title, room));
    }
    return uf_graph_append(rule->graph, &uf_layer_adjoint, &adjoint, sizeof adjoint, inputs, 2,
                           NULL);
}
