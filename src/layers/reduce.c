/* reduce.c - sums and means over some axes. */
#include "layers/strided.h"

#include <inttypes.h>
#include <string.h>

#include "layers/field.h"
#include "layers/function.h"

typedef struct reduce_attributes {
    int32_t axes[UF_MAX_RANK]; /* as the caller gave them */
    int32_t count;             /* 0: all axes */
    bool keepdim, is_mean;
} reduce_attributes;

static const char *title(const void *attributes) {
    return ((const reduce_attributes *)attributes)->is_mean ? "mean" : "sum";
}

/* Mark the axes that are summed over; -1 is the last one. */
static uf_status mark(const reduce_attributes *reduce, const uf_shape *input,
                      bool summed[UF_MAX_RANK]) {
    const char *name = title(reduce);
    for (int32_t axis = 0; axis < UF_MAX_RANK; ++axis) {
        summed[axis] = reduce->count == 0;
    }
    for (int32_t i = 0; i < reduce->count; ++i) {
        int32_t place;
        UF_TRY(uf_layer_axis(name, reduce->axes[i], input, &place));
        UF_CHECK_ARG(!summed[place], "%s: axis %" PRId32 " is there twice", name, place);
        summed[place] = true;
    }
    return UF_OK;
}

/* The output's shape, its summed axes kept with an extent of 1 or gone. */
static uf_shape shape_of(const uf_shape *input, const bool summed[UF_MAX_RANK], bool keepdim) {
    uf_shape made;
    memset(&made, 0, sizeof made);
    for (int32_t axis = 0; axis < input->rank; ++axis) {
        if (!summed[axis] || keepdim) {
            made.extent[made.rank++] = summed[axis] ? 1 : input->extent[axis];
        }
    }
    return made;
}

static uf_status infer(uf_infer *infer) {
    const reduce_attributes *reduce = infer->attributes;
    bool summed[UF_MAX_RANK];
    UF_TRY(mark(reduce, &infer->inputs[0], summed));
    infer->output = shape_of(&infer->inputs[0], summed, reduce->keepdim);
    return UF_OK;
}

/* The call in either direction. */
static uf_status call_of(const uf_exec *exec, bool is_backward, uf_strided_kernel_args *args) {
    const reduce_attributes *reduce = exec->attributes;
    const uf_shape *space = exec->input_shapes[0];
    bool summed[UF_MAX_RANK];
    UF_TRY(mark(reduce, space, summed));
    const uf_shape kept = shape_of(space, summed, true);
    const uf_view *made = is_backward ? &exec->grad_output : &exec->output;
    const uf_view sum = uf_view_of(made->data, made->dtype, &kept); /* as with keepdim */
    if (is_backward) {
        *args = uf_layer_written(space, &exec->grad_inputs[0], space, exec->grad_input_modes[0]);
        uf_layer_reads(args, space, &sum, &kept);
    } else {
        *args = uf_layer_written(space, &sum, &kept, UF_OVERWRITE);
        uf_layer_reads(args, space, &exec->inputs[0], space);
    }
    const double terms = (double)uf_shape_count(space) / (double)uf_shape_count(&kept);
    args->factor = reduce->is_mean ? 1.0 / terms : 1.0;
    return UF_OK;
}

static uf_status forward(const uf_exec *exec) {
    uf_strided_kernel_args args;
    UF_TRY(call_of(exec, false, &args));
    return uf_layer_run_strided(exec, &args);
}

static uf_status backward(const uf_exec *exec) {
    uf_strided_kernel_args args;
    UF_TRY(call_of(exec, true, &args));
    return uf_layer_run_strided(exec, &args);
}

static uf_status workspace(const uf_exec *exec, bool is_backward, size_t *size) {
    if (!is_backward) {
        uf_strided_kernel_args args;
        UF_TRY(call_of(exec, false, &args));
        uf_layer_strided_workspace(exec, &args, size);
    }
    return UF_OK;
}

#define OPTIONS(is_mean_)                                                                          \
    UF_FIXED(FLAG, reduce_attributes, is_mean, is_mean_),                                          \
        {.name = "axes",                                                                           \
         .kind = UF_OPTION_AXES,                                                                   \
         .offset = offsetof(reduce_attributes, axes),                                              \
         .count = offsetof(reduce_attributes, count)},                                             \
        UF_ARGUMENT(FLAG, "keepdim", reduce_attributes, keepdim, 0)
static const uf_option sum[] = {OPTIONS(0)}, mean[] = {OPTIONS(1)};
#define FUNCTION(name_)                                                                            \
    {                                                                                              \
        .name = #name_, .size = sizeof(reduce_attributes), .least_inputs = 1, .most_inputs = 1,    \
        UF_TABLE(name_)                                                                            \
    }
static const uf_layer_function functions[] = {FUNCTION(sum), FUNCTION(mean), {0}};

/* Sums over other axes, which stay as an extent of 1. */
static bool field(const uf_field_query *query, uf_field *field) {
    const reduce_attributes *reduce = query->attributes;
    bool within = reduce->count == 0 || !reduce->keepdim;
    for (int32_t i = 0; i < reduce->count; ++i) {
        within = within || uf_field_is_axis(query, reduce->axes[i]);
    }
    return !within && uf_field_point(query, field);
}

static bool sums_image(const void *attributes, const uf_shape *input, int32_t axes, bool *is_mean) {
    bool summed[UF_MAX_RANK];
    *is_mean = ((const reduce_attributes *)attributes)->is_mean;
    bool sums = mark(attributes, input, summed) == UF_OK;
    for (int32_t axis = input->rank - axes; axis < input->rank; ++axis) {
        sums = sums && summed[axis];
    }
    return sums;
}

const uf_layer uf_layer_reduce = {
    .name = "reduce",
    .functions = functions,
    .title = title,
    .infer = infer,
    .field = field,
    .sums_image = sums_image,
    .forward = forward,
    .backward = backward,
    .gradient = uf_gradient_of_linear,
    .workspace = workspace,
};

static uf_value append(uf_graph *graph, uf_value input, const int32_t *axes, int32_t count,
                       bool keepdim, bool is_mean) {
    reduce_attributes reduce;
    memset(&reduce, 0, sizeof reduce);
    if (graph != NULL && (count < 0 || count > UF_MAX_RANK || (count > 0 && axes == NULL))) {
        return uf_graph_reject(graph, uf_fail(UF_ERROR_INVALID_ARGUMENT,
                                              "%s: there are %" PRId32
                                              " axes%s; there may be 1 to %d, or 0 for all",
                                              is_mean ? "mean" : "sum", count,
                                              axes == NULL ? ", which are NULL" : "", UF_MAX_RANK));
    }
    if (graph != NULL && count > 0) {
        memcpy(reduce.axes, axes, (size_t)count * sizeof *axes);
    }
    reduce.count = count;
    reduce.keepdim = keepdim;
    reduce.is_mean = is_mean;
    return uf_graph_append(graph, &uf_layer_reduce, &reduce, sizeof reduce, &input, 1, NULL);
}

uf_value uf_sum(uf_graph *graph, uf_value input, const int32_t *axes, int32_t count, bool keepdim) {
    return append(graph, input, axes, count, keepdim, false);
}

uf_value uf_mean(uf_graph *graph, uf_value input, const int32_t *axes, int32_t count,
                 bool keepdim) {
    return append(graph, input, axes, count, keepdim, true);
}

uf_value uf_global_avg_pool2d(uf_graph *graph, uf_value input) {
    const int32_t axes[2] = {-2, -1};
    return uf_mean(graph, input, axes, 2, true);
}
