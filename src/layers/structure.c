/* structure.c - layers that move values without computing: concat, reshape, flatten, detach,
 * full_like. */
#include "layers/strided.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "layers/field.h"
#include "layers/function.h"

uf_status uf_layer_copy(const uf_exec *exec, const uf_view *input, const uf_view *output,
                        uf_write_mode mode) {
    if (mode == UF_OVERWRITE && input->data == output->data) {
        return UF_OK;
    }
    const uf_copy_kernel_args args = {.input = *input, .output = *output, .mode = mode};
    return exec->context->kernels->copy(exec->context, &args);
}

/* ---- concat ---- */

/* Join along an axis of the first input. `what` is counted along it. */
static uf_status join(uf_infer *infer, const char *name, int32_t axis, const char *what) {
    const uf_shape *first = &infer->inputs[0];
    int64_t *sum = &infer->output.extent[axis];
    infer->output = *first;
    *sum = 0;
    for (int32_t i = 0; i < infer->input_count; ++i) {
        char text[128], other[128];
        const int64_t extent = infer->inputs[i].extent[axis];
        uf_shape same = infer->inputs[i];
        same.extent[axis] = first->extent[axis];
        if (!uf_shape_equal(&same, first)) {
            UF_FAIL(UF_ERROR_SHAPE, "%s: input %d is %s and input 0 is %s; only %s may differ",
                    name, (int)i, uf_shape_format(&infer->inputs[i], text, sizeof text),
                    uf_shape_format(first, other, sizeof other), what);
        }
        UF_CHECK_ARG(!__builtin_add_overflow(*sum, extent, sum),
                     "%s: the %s of input %d, %" PRId64 ", and those before it overflow", name,
                     what, (int)i, extent);
    }
    return UF_OK;
}

static uf_status concat_infer(uf_infer *infer) {
    char text[128];
    UF_CHECK_ARG(infer->input_count >= 1, "concat: there is nothing to join");
    const uf_shape *first = &infer->inputs[0];
    UF_CHECK_ARG(first->rank >= 2 && first->rank <= 4,
                 "concat: an input is %s; 2 to 4 extents are needed, channels second",
                 uf_shape_format(first, text, sizeof text));
    return join(infer, "concat", 1, "channels");
}

/* The channels of `whole` that belong to an input of `channels`, beginning at `first`. */
static uf_view channels_of(const uf_view *whole, int64_t first, int64_t channels) {
    uf_view slice = *whole;
    slice.extent[1] = channels;
    slice.data =
        (char *)slice.data + (size_t)(first * whole->stride[1]) * uf_dtype_size(whole->dtype);
    return slice;
}

static uf_status concat_forward(const uf_exec *exec) {
    int64_t first = 0;
    for (int32_t i = 0; i < exec->input_count; ++i) {
        const uf_view slice = channels_of(&exec->output, first, exec->inputs[i].extent[1]);
        UF_TRY(uf_layer_copy(exec, &exec->inputs[i], &slice, UF_OVERWRITE));
        first += exec->inputs[i].extent[1];
    }
    return UF_OK;
}

static uf_status concat_backward(const uf_exec *exec) {
    int64_t first = 0;
    for (int32_t i = 0; i < exec->input_count; ++i) {
        const int64_t channels = exec->input_shapes[i]->extent[1];
        const uf_view slice = channels_of(&exec->grad_output, first, channels);
        if (exec->grad_inputs[i].data != NULL) {
            UF_TRY(uf_layer_copy(exec, &slice, &exec->grad_inputs[i], exec->grad_input_modes[i]));
        }
        first += channels;
    }
    return UF_OK;
}

static uf_value concat_gradient(const uf_gradient_rule *rule, int32_t input) {
    return uf_layer_append_concat_part(rule, input, 1);
}

static const uf_layer_function concat_functions[] = {
    {.name = "concat", .least_inputs = 1, .most_inputs = UF_MAX_INPUTS, .list = true}, {0}};

const uf_layer uf_layer_concat = {
    .name = "concat",
    .functions = concat_functions,
    .infer = concat_infer,
    .field = uf_field_point,
    .forward = concat_forward,
    .backward = concat_backward,
    .gradient = concat_gradient,
    .joins_inputs = true,
    .takes_gaps = true,
};

uf_value uf_concat(uf_graph *graph, const uf_value *inputs, int32_t count) {
    return uf_graph_append(graph, &uf_layer_concat, NULL, 0, inputs, count, NULL);
}

/* ---- concat_axis: copies along any axis ---- */

static uf_status concat_axis_infer(uf_infer *infer) {
    int32_t axis;
    char what[32];
    UF_CHECK_ARG(infer->input_count >= 1, "concat_axis: there is nothing to join");
    UF_TRY(uf_layer_axis("concat_axis", *(const int32_t *)infer->attributes, &infer->inputs[0],
                         &axis));
    snprintf(what, sizeof what, "extents of axis %d", (int)axis);
    return join(infer, "concat_axis", axis, what);
}

/* Copy every input to its part of the output, or each part of the gradient back. */
static uf_status copy_parts(const uf_exec *exec, bool is_backward) {
    const uf_view *whole = is_backward ? &exec->grad_output : &exec->output;
    const uf_view *parts = is_backward ? exec->grad_inputs : exec->inputs;
    int64_t stride[UF_MAX_RANK], first = 0;
    int32_t axis;
    UF_TRY(uf_layer_axis("concat_axis", *(const int32_t *)exec->attributes, exec->output_shape,
                         &axis));
    uf_layer_strides(whole, exec->output_shape, stride);
    for (int32_t i = 0; i < exec->input_count; ++i) {
        const uf_shape *part = exec->input_shapes[i];
        uf_strided_kernel_args args;
        if (is_backward) {
            args = uf_layer_written(part, &parts[i], part, exec->grad_input_modes[i]);
            uf_layer_reads(&args, part, whole, exec->output_shape);
        } else {
            args = uf_layer_written(part, whole, exec->output_shape, UF_OVERWRITE);
            uf_layer_reads(&args, part, &parts[i], part);
        }
        if (parts[i].data != NULL) {
            uf_layer_advance(&args, is_backward ? 1 : 0, first * stride[axis]);
            UF_TRY(uf_layer_run_strided(exec, &args));
        }
        first += part->extent[axis];
    }
    return UF_OK;
}

static uf_status concat_axis_forward(const uf_exec *exec) {
    return copy_parts(exec, false);
}

static uf_status concat_axis_backward(const uf_exec *exec) {
    return copy_parts(exec, true);
}

static uf_value concat_axis_gradient(const uf_gradient_rule *rule, int32_t input) {
    return uf_layer_append_concat_part(rule, input, *(const int32_t *)rule->attributes);
}

static const uf_option concat_axis_table[] = {
    {.name = "axis", .kind = UF_OPTION_SMALL, .required = true}};
static const uf_layer_function concat_axis_functions[] = {
    {.name = "concat_axis",
     .size = sizeof(int32_t),
     .least_inputs = 1,
     .most_inputs = UF_MAX_INPUTS,
     .list = true,
     UF_TABLE(concat_axis_table)},
    {0},
};

static bool concat_axis_field(const uf_field_query *query, uf_field *field) {
    return !uf_field_is_axis(query, *(const int32_t *)query->attributes) &&
           uf_field_point(query, field);
}

const uf_layer uf_layer_concat_axis = {
    .name = "concat_axis",
    .functions = concat_axis_functions,
    .infer = concat_axis_infer,
    .field = concat_axis_field,
    .forward = concat_axis_forward,
    .backward = concat_axis_backward,
    .gradient = concat_axis_gradient,
    .takes_gaps = true,
};

/* Channels are joined by uf_concat, which need not copy. */
uf_value uf_concat_axis(uf_graph *graph, const uf_value *inputs, int32_t count, int32_t axis) {
    const int32_t rank =
        inputs != NULL && count >= 1 ? uf_value_shape(graph, inputs[0]).rank : INT32_C(0);
    if (rank >= 2 && rank <= 4 && (axis == 1 || axis == 1 - rank)) {
        return uf_concat(graph, inputs, count);
    }
    return uf_graph_append(graph, &uf_layer_concat_axis, &axis, sizeof axis, inputs, count, NULL);
}

/* ---- reshape: the input's memory under another shape ---- */

/* A second input is there for its shape, which stands in place of the attributes'. An extent of 0
 * is the input's at the same place. */
static uf_status reshape_infer(uf_infer *infer) {
    const uf_shape *wanted =
        infer->input_count > 1 ? &infer->inputs[1] : (const uf_shape *)infer->attributes;
    char text[128], other[128];
    const uf_shape *before = &infer->inputs[0];
    const int64_t count = uf_shape_count(before);
    int64_t known = 1;
    int32_t open = -1;
    UF_CHECK_ARG(wanted->rank >= 0 && wanted->rank <= UF_MAX_RANK, "reshape: at most %d extents",
                 UF_MAX_RANK);
    infer->output = *wanted;
    for (int32_t i = 0; i < wanted->rank; ++i) {
        int64_t *extent = &infer->output.extent[i];
        if (*extent == 0 && i < before->rank) {
            *extent = before->extent[i];
        }
        if (*extent == -1 && open < 0) {
            open = i;
        } else {
            UF_CHECK_ARG(*extent > 0 && !uf_mul_overflows(known, *extent, &known),
                         "reshape: shape %s is not legal: extents are positive, one may be -1, and "
                         "0 is the input's at that place",
                         uf_shape_format(wanted, text, sizeof text));
        }
    }
    if (open >= 0 && count % known == 0) {
        infer->output.extent[open] = count / known;
        known = count;
    }
    if (known != count) {
        UF_FAIL(UF_ERROR_SHAPE, "reshape: %s has %" PRId64 " elements and cannot become %s",
                uf_shape_format(before, text, sizeof text), count,
                uf_shape_format(wanted, other, sizeof other));
    }
    return UF_OK;
}

static uf_status nothing(const uf_exec *exec) {
    (void)exec;
    return UF_OK;
}

/* The same memory order, so the gradient is the same numbers in a row. */
static uf_view in_a_row(const uf_view *view) {
    return uf_view_nchw(view->data, view->dtype, 1, 1, 1, uf_view_count(view));
}

static uf_status reshape_backward(const uf_exec *exec) {
    const uf_view from = in_a_row(&exec->grad_output);
    const uf_view to = in_a_row(&exec->grad_inputs[0]);
    return uf_layer_copy(exec, &from, &to, exec->grad_input_modes[0]);
}

static uint32_t reshape_constant_inputs(const void *attributes) {
    (void)attributes;
    return 1u << 1;
}

static uf_value reshape_gradient(const uf_gradient_rule *rule, int32_t input) {
    const uf_value inputs[2] = {rule->grad_output, rule->inputs[input]};
    return uf_graph_append(rule->graph, &uf_layer_reshape, NULL, 0, inputs, 2, NULL);
}

static const uf_option reshape_table[] = {
    {.name = "shape", .kind = UF_OPTION_SHAPE, .required = true}};
static const uf_layer_function reshape_functions[] = {
    {.name = "reshape",
     .size = sizeof(uf_shape),
     .least_inputs = 1,
     .most_inputs = 1,
     UF_TABLE(reshape_table)},
    {0},
};

const uf_layer uf_layer_reshape = {
    .name = "reshape",
    .functions = reshape_functions,
    .infer = reshape_infer,
    .forward = nothing,
    .backward = reshape_backward,
    .constant_inputs = reshape_constant_inputs,
    .gradient = reshape_gradient,
    .overwrites_gradient = true,
    .shares_input = true,
};

uf_value uf_reshape(uf_graph *graph, uf_value input, uf_shape shape) {
    return uf_graph_append(graph, &uf_layer_reshape, &shape, sizeof shape, &input, 1, NULL);
}

/* ---- flatten ---- */

typedef struct flatten_axes {
    int32_t first, last;
} flatten_axes;

static uf_status flatten_infer(uf_infer *infer) {
    const flatten_axes *axes = infer->attributes;
    const uf_shape *input = &infer->inputs[0];
    int32_t first, last;
    UF_TRY(uf_layer_axis("flatten", axes->first, input, &first));
    UF_TRY(uf_layer_axis("flatten", axes->last, input, &last));
    UF_CHECK_ARG(first <= last, "flatten: axis %d comes after axis %d", (int)first, (int)last);
    infer->output.rank = input->rank - (last - first);
    for (int32_t axis = 0; axis < infer->output.rank; ++axis) {
        infer->output.extent[axis] = input->extent[axis <= first ? axis : axis + last - first];
    }
    for (int32_t axis = first + 1; axis <= last; ++axis) {
        infer->output.extent[first] *= input->extent[axis]; /* no more than the input's elements */
    }
    return UF_OK;
}

static const uf_option flatten_table[] = {UF_ARGUMENT(SMALL, "start", flatten_axes, first, 0),
                                          UF_ARGUMENT(SMALL, "end", flatten_axes, last, -1)};
static const uf_layer_function flatten_functions[] = {
    {.name = "flatten",
     .size = sizeof(flatten_axes),
     .least_inputs = 1,
     .most_inputs = 1,
     UF_TABLE(flatten_table)},
    {0},
};

const uf_layer uf_layer_flatten = {
    .name = "flatten",
    .functions = flatten_functions,
    .infer = flatten_infer,
    .forward = nothing,
    .backward = reshape_backward,
    .gradient = reshape_gradient,
    .overwrites_gradient = true,
    .shares_input = true,
};

uf_value uf_flatten(uf_graph *graph, uf_value input, int32_t start, int32_t end) {
    const flatten_axes axes = {start, end};
    return uf_graph_append(graph, &uf_layer_flatten, &axes, sizeof axes, &input, 1, NULL);
}

/* ---- detach ---- */

static uf_status same_shape(uf_infer *infer) {
    infer->output = infer->inputs[0];
    return UF_OK;
}

static const uf_layer_function detach_functions[] = {
    {.name = "detach", .least_inputs = 1, .most_inputs = 1}, {0}};

const uf_layer uf_layer_detach = {
    .name = "detach",
    .functions = detach_functions,
    .infer = same_shape,
    .field = uf_field_point,
    .forward = nothing,
    .takes_gaps = true,
    .shares_input = true,
};

uf_value uf_detach(uf_graph *graph, uf_value input) {
    return uf_graph_append(graph, &uf_layer_detach, NULL, 0, &input, 1, NULL);
}

/* ---- full_like ---- */

static uf_status full_forward(const uf_exec *exec) {
    const uf_fill_kernel_args args = {
        .output = exec->output,
        .value = *(const double *)exec->attributes,
    };
    return exec->context->kernels->fill(exec->context, &args);
}

static const uf_option full_like_table[] = {
    {.name = "number", .kind = UF_OPTION_NUMBER, .required = true}};
static const uf_layer_function full_like_functions[] = {
    {.name = "full_like",
     .size = sizeof(double),
     .least_inputs = 1,
     .most_inputs = 1,
     UF_TABLE(full_like_table)},
    {0},
};

const uf_layer uf_layer_full_like = {
    .name = "full_like",
    .functions = full_like_functions,
    .infer = same_shape,
    .field = uf_field_point,
    .forward = full_forward,
    .takes_gaps = true,
};

uf_value uf_full_like(uf_graph *graph, uf_value like, double number) {
    return uf_graph_append(graph, &uf_layer_full_like, &number, sizeof number, &like, 1, NULL);
}
