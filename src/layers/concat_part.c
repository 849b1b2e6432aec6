/* concat_part.c - the gradient of one input of a concat as a value: its part of the whole's.
 *
 * Inputs: the whole, the concat's input, and those before it; or those behind it, where they are
 * fewer. All but the whole are there for their shapes, which say where the part begins. */
#include "layers/strided.h"

#include <inttypes.h>

typedef struct part_attributes {
    int32_t axis;
    bool from_end; /* the inputs behind it are given */
} part_attributes;

static const char name[] = "concat_part";

static uf_status infer(uf_infer *infer) {
    const part_attributes *part = infer->attributes;
    const uf_shape *whole = &infer->inputs[0], *own = &infer->inputs[1];
    int32_t axis;
    UF_TRY(uf_layer_axis(name, part->axis, whole, &axis));
    uf_shape same = *own;
    int64_t reached = 0;
    for (int32_t i = 1; i < infer->input_count; ++i) {
        reached += infer->inputs[i].extent[axis]; /* of inputs of a concat: no overflow */
    }
    same.extent[axis] = whole->extent[axis];
    if (!uf_shape_equal(&same, whole) || reached > whole->extent[axis]) {
        char text[128], other[128];
        UF_FAIL(UF_ERROR_SHAPE,
                "concat_part: %s is no part of %s that ends at %" PRId64 " of axis %" PRId32,
                uf_shape_format(own, text, sizeof text),
                uf_shape_format(whole, other, sizeof other), reached, axis);
    }
    infer->output = *own;
    return UF_OK;
}

/* Let operand `operand`, which has the whole's strides, begin where the part does. */
static uf_status advance(const uf_exec *exec, const uf_view *whole, uf_strided_kernel_args *args,
                         int32_t operand) {
    const part_attributes *part = exec->attributes;
    const uf_shape *shape = exec->input_shapes[0];
    int64_t stride[UF_MAX_RANK], first = 0;
    int32_t axis;
    UF_TRY(uf_layer_axis(name, part->axis, shape, &axis));
    for (int32_t i = 2; i < exec->input_count; ++i) {
        first += exec->input_shapes[i]->extent[axis];
    }
    if (part->from_end) {
        first = shape->extent[axis] - first - exec->output_shape->extent[axis];
    }
    uf_layer_strides(whole, shape, stride);
    uf_layer_advance(args, operand, first * stride[axis]);
    return UF_OK;
}

static uf_status forward(const uf_exec *exec) {
    const uf_shape *own = exec->output_shape;
    uf_strided_kernel_args args = uf_layer_written(own, &exec->output, own, UF_OVERWRITE);
    uf_layer_reads(&args, own, &exec->inputs[0], exec->input_shapes[0]);
    UF_TRY(advance(exec, &exec->inputs[0], &args, 1));
    return uf_layer_run_strided(exec, &args);
}

/* Zero outside of the part. */
static uf_status backward(const uf_exec *exec) {
    const uf_shape *own = exec->output_shape;
    const uf_write_mode mode = exec->grad_input_modes[0];
    if (mode == UF_OVERWRITE) {
        const uf_fill_kernel_args zeros = {.output = exec->grad_inputs[0], .value = 0.0};
        UF_TRY(exec->context->kernels->fill(exec->context, &zeros));
    }
    uf_strided_kernel_args args =
        uf_layer_written(own, &exec->grad_inputs[0], exec->input_shapes[0], mode);
    uf_layer_reads(&args, own, &exec->grad_output, own);
    UF_TRY(advance(exec, &exec->grad_inputs[0], &args, 0));
    return uf_layer_run_strided(exec, &args);
}

static uint32_t constant_inputs(const void *attributes) {
    (void)attributes;
    return ~UINT32_C(1);
}

const uf_layer uf_layer_concat_part = {
    .name = "concat_part",
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .constant_inputs = constant_inputs,
    .takes_gaps = true,
};

uf_value uf_layer_append_concat_part(const uf_gradient_rule *rule, int32_t input, int32_t axis) {
    const int32_t behind = rule->input_count - 1 - input;
    const part_attributes part = {.axis = axis, .from_end = behind < input};
    uf_value inputs[UF_MAX_INPUTS] = {rule->grad_output, rule->inputs[input]};
    int32_t count = 2;
    const int32_t first = part.from_end ? input + 1 : 0;
    for (int32_t i = 0; i < (part.from_end ? behind : input); ++i) {
        inputs[count++] = rule->inputs[first + i];
    }
    return uf_graph_append(rule->graph, &uf_layer_concat_part, &part, sizeof part, inputs, count,
                           NULL);
}
