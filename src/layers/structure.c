/* structure.c - layers that move values without computing: concat, reshape, detach, full_like. */
#include "layers/layer.h"

#include <inttypes.h>
#include <string.h>

/* In place, where the plan gave both one memory, there is nothing to overwrite. */
static uf_status copy(const uf_exec *exec, const uf_view *input, const uf_view *output,
                      uf_write_mode mode) {
    if (mode == UF_OVERWRITE && input->data == output->data) {
        return UF_OK;
    }
    const uf_copy_kernel_args args = {.input = *input, .output = *output, .mode = mode};
    return exec->context->kernels->copy(exec->context, &args);
}

/* ---- concat ---- */

static uf_status concat_infer(uf_infer *infer) {
    char text[128], other[128];
    UF_CHECK_ARG(infer->input_count >= 1, "concat: there is nothing to join");
    const uf_shape *first = &infer->inputs[0];
    UF_CHECK_ARG(first->rank >= 2 && first->rank <= 4,
                 "concat: an input is %s; 2 to 4 extents are needed, channels second",
                 uf_shape_format(first, text, sizeof text));
    infer->output = *first;
    infer->output.extent[1] = 0;
    for (int32_t i = 0; i < infer->input_count; ++i) {
        uf_shape same = infer->inputs[i];
        const int64_t channels = same.rank >= 2 ? same.extent[1] : 0;
        same.extent[1] = first->extent[1];
        if (!uf_shape_equal(&same, first)) {
            UF_FAIL(UF_ERROR_SHAPE,
                    "concat: input %d is %s and input 0 is %s; only channels may differ", (int)i,
                    uf_shape_format(&infer->inputs[i], text, sizeof text),
                    uf_shape_format(first, other, sizeof other));
        }
        UF_CHECK_ARG(
            !__builtin_add_overflow(infer->output.extent[1], channels, &infer->output.extent[1]),
            "concat: %" PRId64 " channels of input %d and those before it overflow", channels,
            (int)i);
    }
    return UF_OK;
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
        UF_TRY(copy(exec, &exec->inputs[i], &slice, UF_OVERWRITE));
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
            UF_TRY(copy(exec, &slice, &exec->grad_inputs[i], exec->grad_input_modes[i]));
        }
        first += channels;
    }
    return UF_OK;
}

const uf_layer uf_layer_concat = {
    .name = "concat",
    .infer = concat_infer,
    .forward = concat_forward,
    .backward = concat_backward,
    .joins_inputs = true,
    .takes_gaps = true,
};

uf_value uf_concat(uf_graph *graph, const uf_value *inputs, int32_t count) {
    return uf_graph_append(graph, &uf_layer_concat, NULL, 0, inputs, count, NULL);
}

/* ---- reshape and detach: the input's memory under another shape ---- */

static uf_status reshape_infer(uf_infer *infer) {
    const uf_shape *wanted = infer->attributes;
    char text[128], other[128];
    const int64_t count = uf_shape_count(&infer->inputs[0]);
    int64_t known = 1;
    int32_t open = -1;
    UF_CHECK_ARG(wanted->rank >= 0 && wanted->rank <= UF_MAX_RANK, "reshape: at most %d extents",
                 UF_MAX_RANK);
    infer->output = *wanted;
    for (int32_t i = 0; i < wanted->rank; ++i) {
        if (wanted->extent[i] == -1 && open < 0) {
            open = i;
        } else {
            UF_CHECK_ARG(wanted->extent[i] > 0 &&
                             !uf_mul_overflows(known, wanted->extent[i], &known),
                         "reshape: shape %s is not legal: extents are positive, and one may be -1",
                         uf_shape_format(wanted, text, sizeof text));
        }
    }
    if (open >= 0 && count % known == 0) {
        infer->output.extent[open] = count / known;
        known = count;
    }
    if (known != count) {
        UF_FAIL(UF_ERROR_SHAPE, "reshape: %s has %" PRId64 " elements and cannot become %s",
                uf_shape_format(&infer->inputs[0], text, sizeof text), count,
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
    return copy(exec, &from, &to, exec->grad_input_modes[0]);
}

const uf_layer uf_layer_reshape = {
    .name = "reshape",
    .infer = reshape_infer,
    .forward = nothing,
    .backward = reshape_backward,
    .overwrites_gradient = true,
    .shares_input = true,
};

uf_value uf_reshape(uf_graph *graph, uf_value input, uf_shape shape) {
    return uf_graph_append(graph, &uf_layer_reshape, &shape, sizeof shape, &input, 1, NULL);
}

static uf_status same_shape(uf_infer *infer) {
    infer->output = infer->inputs[0];
    return UF_OK;
}

const uf_layer uf_layer_detach = {
    .name = "detach",
    .infer = same_shape,
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

const uf_layer uf_layer_full_like = {
    .name = "full_like",
    .infer = same_shape,
    .forward = full_forward,
    .takes_gaps = true,
};

uf_value uf_full_like(uf_graph *graph, uf_value like, double number) {
    return uf_graph_append(graph, &uf_layer_full_like, &number, sizeof number, &like, 1, NULL);
}
