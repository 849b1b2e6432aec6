/* sum_to_size.c - the gradient of what broadcasting repeats, as a value: the sum over the
 * repetitions, as torch.Tensor.sum_to_size. Equal shapes: the same value.
 *
 * The second input is there for its shape: which axes repeat is decided by the shapes of a program,
 * not by those of the graph. */
#include "layers/strided.h"

static uf_status infer(uf_infer *infer) {
    const uf_shape *whole = &infer->inputs[0], *like = &infer->inputs[1];
    const int32_t missing = whole->rank - like->rank;
    bool fits = missing >= 0;
    for (int32_t axis = 0; fits && axis < like->rank; ++axis) {
        fits = like->extent[axis] == 1 || like->extent[axis] == whole->extent[axis + missing];
    }
    if (!fits) {
        char text[128], other[128];
        UF_FAIL(
            UF_ERROR_SHAPE, "sum_to_size: %s is what nothing of shape %s becomes by repeating it",
            uf_shape_format(whole, text, sizeof text), uf_shape_format(like, other, sizeof other));
    }
    infer->output = *like;
    return UF_OK;
}

static uf_strided_kernel_args forward_call(const uf_exec *exec) {
    const uf_shape *space = exec->input_shapes[0];
    uf_strided_kernel_args args =
        uf_layer_written(space, &exec->output, exec->output_shape, UF_OVERWRITE);
    uf_layer_reads(&args, space, &exec->inputs[0], space);
    return args;
}

static uf_status forward(const uf_exec *exec) {
    uf_strided_kernel_args args = forward_call(exec);
    return uf_layer_run_strided(exec, &args);
}

static uf_status backward(const uf_exec *exec) {
    const uf_shape *space = exec->input_shapes[0];
    uf_strided_kernel_args args =
        uf_layer_written(space, &exec->grad_inputs[0], space, exec->grad_input_modes[0]);
    uf_layer_reads(&args, space, &exec->grad_output, exec->output_shape);
    return uf_layer_run_strided(exec, &args);
}

static uf_status workspace(const uf_exec *exec, bool is_backward, size_t *size) {
    if (!is_backward) {
        const uf_strided_kernel_args args = forward_call(exec);
        uf_layer_strided_workspace(exec, &args, size);
    }
    return UF_OK;
}

static uint32_t constant_inputs(const void *attributes) {
    (void)attributes;
    return 1u << 1;
}

const uf_layer uf_layer_sum_to_size = {
    .name = "sum_to_size",
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .workspace = workspace,
    .constant_inputs = constant_inputs,
    .gradient = uf_gradient_of_linear,
    .overwrites_inputs = 1,
    .overwrites_gradient = true,
    .takes_gaps = true,
};

uf_value uf_layer_append_sum_to_size(uf_graph *graph, uf_value value, uf_value like) {
    const uf_value inputs[2] = {value, like};
    return uf_graph_append(graph, &uf_layer_sum_to_size, NULL, 0, inputs, 2, NULL);
}
