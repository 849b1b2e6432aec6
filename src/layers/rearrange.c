/* rearrange.c - layers whose output has elements of the input in another order, or some of them:
 * permute, slice, pixel_shuffle, pixel_unshuffle, crop_like. Each is a map from one index space to
 * both tensors; backward copies the other way. */
#include "layers/strided.h"

#include <inttypes.h>
#include <string.h>

#include "layers/field.h"
#include "layers/function.h"

typedef struct rearrangement {
    int32_t axes[UF_MAX_RANK]; /* permute: the input's axis behind each of the output's */
    int32_t axis_count;
    int32_t axis; /* slice */
    int64_t start, stop;
    int64_t factor; /* pixel_shuffle, pixel_unshuffle */
} rearrangement;

/* A tensor with the strides that it has in memory. */
typedef struct placed {
    const uf_shape *shape;
    int64_t stride[UF_MAX_RANK];
} placed;

/* The map: its index space, and the strides of the output and of the input over it. */
typedef struct map {
    uf_shape space;
    int64_t output[UF_MAX_RANK], input[UF_MAX_RANK];
    int64_t first; /* element of the input that belongs to index 0 */
    bool is_part;  /* the output lacks elements of the input */
} map;

typedef map map_function(const void *attributes, const placed *output, const placed *input);

/* ---- both directions ---- */

static placed place(const uf_view *view, const uf_shape *shape) {
    placed made = {.shape = shape};
    uf_layer_strides(view, shape, made.stride);
    return made;
}

static uf_status copy(const uf_exec *exec, const uf_view *output, const uf_view *input,
                      bool is_backward, map_function *make) {
    const placed to = place(output, exec->output_shape);
    const placed from = place(input, exec->input_shapes[0]);
    const map made = make(exec->attributes, &to, &from);
    const uf_write_mode mode = is_backward ? exec->grad_input_modes[0] : UF_OVERWRITE;
    uf_strided_kernel_args args = uf_layer_over(&made.space, output->dtype, mode);
    if (is_backward) {
        if (made.is_part && mode == UF_OVERWRITE) {
            const uf_fill_kernel_args fill = {.output = *input, .value = 0.0};
            UF_TRY(exec->context->kernels->fill(exec->context, &fill));
        }
        uf_layer_operand(&args, input->data, made.input);
        uf_layer_operand(&args, output->data, made.output);
    } else {
        uf_layer_operand(&args, output->data, made.output);
        uf_layer_operand(&args, input->data, made.input);
    }
    uf_layer_advance(&args, is_backward ? 0 : 1, made.first);
    return uf_layer_run_strided(exec, &args);
}

static uf_status copy_forward(const uf_exec *exec, map_function *make) {
    return copy(exec, &exec->output, &exec->inputs[0], false, make);
}

static uf_status copy_backward(const uf_exec *exec, map_function *make) {
    if (exec->grad_inputs[0].data == NULL) {
        return UF_OK;
    }
    return copy(exec, &exec->grad_output, &exec->grad_inputs[0], true, make);
}

/* The layer of a map. */
#define LAYER(name_, constant_inputs_, field_)                                                     \
    static uf_status name_##_forward(const uf_exec *exec) {                                        \
        return copy_forward(exec, name_##_map);                                                    \
    }                                                                                              \
    static uf_status name_##_backward(const uf_exec *exec) {                                       \
        return copy_backward(exec, name_##_map);                                                   \
    }                                                                                              \
    const uf_layer uf_layer_##name_ = {                                                            \
        .name = #name_,                                                                            \
        .functions = name_##_functions,                                                            \
        .infer = name_##_infer,                                                                    \
        .field = (field_),                                                                         \
        .forward = name_##_forward,                                                                \
        .backward = name_##_backward,                                                              \
        .constant_inputs = (constant_inputs_),                                                     \
        .gradient = uf_gradient_of_linear,                                                         \
        .takes_gaps = true,                                                                        \
    }

static uf_value append(uf_graph *graph, const uf_layer *layer, const rearrangement *attributes,
                       uf_value input) {
    return uf_graph_append(graph, layer, attributes, sizeof *attributes, &input, 1, NULL);
}

/* ---- permute ---- */

/* The input's axis behind each axis of the output. */
static uf_status axes_of(const rearrangement *permute, const uf_shape *input,
                         int32_t axes[UF_MAX_RANK]) {
    bool taken[UF_MAX_RANK] = {false};
    char text[128];
    if (permute->axis_count != input->rank) {
        UF_FAIL(UF_ERROR_INVALID_ARGUMENT,
                "permute: there are %" PRId32 " axes for %s, which has %" PRId32,
                permute->axis_count, uf_shape_format(input, text, sizeof text), input->rank);
    }
    for (int32_t i = 0; i < input->rank; ++i) {
        UF_TRY(uf_layer_axis("permute", permute->axes[i], input, &axes[i]));
        UF_CHECK_ARG(!taken[axes[i]], "permute: axis %" PRId32 " is there twice", axes[i]);
        taken[axes[i]] = true;
    }
    return UF_OK;
}

static uf_status permute_infer(uf_infer *infer) {
    const uf_shape *input = &infer->inputs[0];
    int32_t axes[UF_MAX_RANK];
    UF_TRY(axes_of(infer->attributes, input, axes));
    infer->output = *input;
    for (int32_t i = 0; i < input->rank; ++i) {
        infer->output.extent[i] = input->extent[axes[i]];
    }
    return UF_OK;
}

static map permute_map(const void *attributes, const placed *output, const placed *input) {
    const rearrangement *permute = attributes;
    map made = {.space = *output->shape};
    for (int32_t i = 0; i < output->shape->rank; ++i) {
        const int32_t axis = permute->axes[i];
        made.output[i] = output->stride[i];
        made.input[i] = input->stride[axis < 0 ? axis + input->shape->rank : axis];
    }
    return made;
}

static const uf_option permute_table[] = {
    {.name = "axes",
     .kind = UF_OPTION_AXES,
     .required = true,
     .offset = offsetof(rearrangement, axes),
     .count = offsetof(rearrangement, axis_count)},
};
static const uf_layer_function permute_functions[] = {
    {.name = "permute",
     .size = sizeof(rearrangement),
     .least_inputs = 1,
     .most_inputs = 1,
     UF_TABLE(permute_table)},
    {0},
};

LAYER(permute, NULL, NULL);

uf_value uf_permute(uf_graph *graph, uf_value input, const int32_t *axes, int32_t count) {
    rearrangement permute;
    memset(&permute, 0, sizeof permute);
    if (graph != NULL && (count < 0 || count > UF_MAX_RANK || (count > 0 && axes == NULL))) {
        return uf_graph_reject(
            graph, uf_fail(UF_ERROR_INVALID_ARGUMENT,
                           "permute: there are %" PRId32 " axes%s; there may be 0 to %d", count,
                           axes == NULL ? ", which are NULL" : "", UF_MAX_RANK));
    }
    if (graph != NULL && count > 0) {
        memcpy(permute.axes, axes, (size_t)count * sizeof *axes);
    }
    permute.axis_count = count;
    return append(graph, &uf_layer_permute, &permute, input);
}

/* ---- slice ---- */

/* As Python: from the end where negative, and no further than the ends. */
static int64_t clamp_index(int64_t index, int64_t extent) {
    if (index < 0) {
        return index < -extent ? 0 : index + extent;
    }
    return index < extent ? index : extent;
}

static uf_status slice_infer(uf_infer *infer) {
    const rearrangement *slice = infer->attributes;
    const uf_shape *input = &infer->inputs[0];
    int32_t axis;
    char text[128];
    UF_TRY(uf_layer_axis("slice", slice->axis, input, &axis));
    const int64_t start = clamp_index(slice->start, input->extent[axis]);
    const int64_t stop = clamp_index(slice->stop, input->extent[axis]);
    if (start >= stop) {
        UF_FAIL(UF_ERROR_SHAPE,
                "slice: %" PRId64 " to %" PRId64 " of axis %" PRId32 " of %s is empty",
                slice->start, slice->stop, axis, uf_shape_format(input, text, sizeof text));
    }
    infer->output = *input;
    infer->output.extent[axis] = stop - start;
    return UF_OK;
}

/* A box of the input that begins at `first`. */
static map box_of(const placed *output, const placed *input, int64_t first) {
    map made = {.space = *output->shape, .first = first};
    memcpy(made.output, output->stride, sizeof made.output);
    memcpy(made.input, input->stride, sizeof made.input);
    made.is_part = uf_shape_count(output->shape) < uf_shape_count(input->shape);
    return made;
}

static map slice_map(const void *attributes, const placed *output, const placed *input) {
    const rearrangement *slice = attributes;
    const int32_t axis = slice->axis < 0 ? slice->axis + input->shape->rank : slice->axis;
    const int64_t start = clamp_index(slice->start, input->shape->extent[axis]);
    return box_of(output, input, start * input->stride[axis]);
}

static const uf_option slice_table[] = {
    UF_REQUIRED(SMALL, "axis", rearrangement, axis),
    UF_ARGUMENT(INTEGER, "start", rearrangement, start, 0),
    UF_ARGUMENT(INTEGER, "stop", rearrangement, stop, 0x1p63), /* to the end */
};
static const uf_layer_function slice_functions[] = {
    {.name = "slice",
     .size = sizeof(rearrangement),
     .least_inputs = 1,
     .most_inputs = 1,
     UF_TABLE(slice_table)},
    {0},
};

/* Along the image: so many elements less at either end. */
static bool slice_field(const uf_field_query *query, uf_field *field) {
    const rearrangement *slice = query->attributes;
    const bool to_the_end =
        slice->stop >=
        query->inputs[0]
            .extent[slice->axis < 0 ? slice->axis + query->inputs[0].rank : slice->axis];
    *field = (uf_field){1, 1, 0, 0};
    if (uf_field_is_axis(query, slice->axis)) {
        field->low = slice->start;
        field->high = to_the_end ? slice->start : slice->start - slice->stop;
        return slice->start >= 0 && (to_the_end || slice->stop < 0);
    }
    return true;
}

LAYER(slice, NULL, slice_field);

uf_value uf_slice(uf_graph *graph, uf_value input, int32_t axis, int64_t start, int64_t stop) {
    const rearrangement slice = {.axis = axis, .start = start, .stop = stop};
    return append(graph, &uf_layer_slice, &slice, input);
}

/* ---- crop_like ---- */

static uf_status crop_like_infer(uf_infer *infer) {
    const uf_shape *input = &infer->inputs[0], *like = &infer->inputs[1];
    infer->output = *input;
    bool fits = input->rank >= 2 && like->rank >= 2;
    for (int32_t back = 1; fits && back <= 2; ++back) {
        const int64_t wanted = like->extent[like->rank - back];
        fits = wanted <= input->extent[input->rank - back];
        infer->output.extent[input->rank - back] = wanted;
    }
    if (!fits) {
        char text[128], other[128];
        UF_FAIL(UF_ERROR_SHAPE,
                "crop_like: the input is %s and what it is cut to %s; both need a height and a "
                "width, and those of the input must be as large or larger",
                uf_shape_format(input, text, sizeof text),
                uf_shape_format(like, other, sizeof other));
    }
    return UF_OK;
}

static map crop_like_map(const void *attributes, const placed *output, const placed *input) {
    const uf_shape *whole = input->shape;
    int64_t first = 0;
    (void)attributes;
    for (int32_t axis = whole->rank - 2; axis < whole->rank; ++axis) {
        first += (whole->extent[axis] - output->shape->extent[axis]) / 2 * input->stride[axis];
    }
    return box_of(output, input, first);
}

static uint32_t constant_like(const void *attributes) {
    (void)attributes;
    return 1u << 1;
}

static const uf_layer_function crop_like_functions[] = {
    {.name = "crop_like", .least_inputs = 2, .most_inputs = 2}, {0}};

LAYER(crop_like, constant_like, NULL);

uf_value uf_crop_like(uf_graph *graph, uf_value input, uf_value like) {
    const uf_value inputs[2] = {input, uf_detach(graph, like)}; /* only its shape matters */
    return uf_graph_append(graph, &uf_layer_crop_like, NULL, 0, inputs, 2, NULL);
}

/* ---- pixel_shuffle, pixel_unshuffle ---- */

/* A packed value is (..., C r r, H, W), a spread one (..., C, H r, W r), and the space of both
 * (..., C, H, r, W, r). */
static map shuffle_map_of(int64_t factor, const placed *output, const placed *input,
                          bool is_spread) {
    const placed *packed = is_spread ? input : output, *spread = is_spread ? output : input;
    const int64_t *small = packed->stride, *large = spread->stride;
    const int32_t c = packed->shape->rank - 3, h = c + 1, w = c + 2;
    const struct {
        int64_t extent, packed, spread;
    } tail[5] = {
        {spread->shape->extent[c], factor * factor * small[c], large[c]},
        {packed->shape->extent[h], small[h], factor * large[h]},
        {factor, factor * small[c], large[h]},
        {packed->shape->extent[w], small[w], factor * large[w]},
        {factor, small[c], large[w]},
    };
    map made = {.space = *packed->shape};
    memcpy(made.output, output->stride, (size_t)c * sizeof *made.output);
    memcpy(made.input, input->stride, (size_t)c * sizeof *made.input);
    for (int32_t i = 0; i < 5; ++i) {
        made.space.extent[c + i] = tail[i].extent;
        made.output[c + i] = is_spread ? tail[i].spread : tail[i].packed;
        made.input[c + i] = is_spread ? tail[i].packed : tail[i].spread;
    }
    made.space.rank += 2;
    return made;
}

/* Its space has two axes more than the input. */
static uf_status check_shuffle(const char *name, const rearrangement *shuffle,
                               const uf_shape *input) {
    char text[128];
    UF_CHECK_ARG(shuffle->factor >= 1 && shuffle->factor <= INT32_MAX,
                 "%s: the factor is %" PRId64 "; it must be 1 to %d", name, shuffle->factor,
                 INT32_MAX);
    UF_CHECK_ARG(input->rank >= 3 && input->rank <= UF_MAX_RANK - 2,
                 "%s: the input is %s; 3 to %d extents are needed, the last ones (C, H, W)", name,
                 uf_shape_format(input, text, sizeof text), UF_MAX_RANK - 2);
    return UF_OK;
}

static uf_status pixel_shuffle_infer(uf_infer *infer) {
    const rearrangement *shuffle = infer->attributes;
    const uf_shape *input = &infer->inputs[0];
    UF_TRY(check_shuffle("pixel_shuffle", shuffle, input));
    const int32_t c = input->rank - 3;
    const int64_t r = shuffle->factor;
    int64_t *extent = infer->output.extent;
    char text[128];
    infer->output = *input;
    if (input->extent[c] % (r * r) != 0) {
        UF_FAIL(UF_ERROR_SHAPE,
                "pixel_shuffle: %s has %" PRId64 " channels, no multiple of %" PRId64 " squared",
                uf_shape_format(input, text, sizeof text), input->extent[c], r);
    }
    extent[c] = input->extent[c] / (r * r);
    extent[c + 1] *= r; /* no overflow: the output has as many elements as the input */
    extent[c + 2] *= r;
    return UF_OK;
}

static map pixel_shuffle_map(const void *attributes, const placed *output, const placed *input) {
    const rearrangement *shuffle = attributes;
    return shuffle_map_of(shuffle->factor, output, input, true);
}

static const uf_option factor_table[] = {UF_REQUIRED(INTEGER, "factor", rearrangement, factor)};
static const uf_layer_function pixel_shuffle_functions[] = {
    {.name = "pixel_shuffle",
     .size = sizeof(rearrangement),
     .least_inputs = 1,
     .most_inputs = 1,
     UF_TABLE(factor_table)},
    {0},
};

static bool shuffle_field(const uf_field_query *query, uf_field *field) {
    *field = (uf_field){((const rearrangement *)query->attributes)->factor, 1, 0, 0};
    return true;
}

LAYER(pixel_shuffle, NULL, shuffle_field);

uf_value uf_pixel_shuffle(uf_graph *graph, uf_value input, int64_t factor) {
    const rearrangement shuffle = {.factor = factor};
    return append(graph, &uf_layer_pixel_shuffle, &shuffle, input);
}

static uf_status pixel_unshuffle_infer(uf_infer *infer) {
    const rearrangement *shuffle = infer->attributes;
    const uf_shape *input = &infer->inputs[0];
    UF_TRY(check_shuffle("pixel_unshuffle", shuffle, input));
    const int32_t c = input->rank - 3;
    const int64_t r = shuffle->factor;
    int64_t *extent = infer->output.extent;
    char text[128];
    infer->output = *input;
    for (int32_t axis = c + 1; axis < input->rank; ++axis) {
        if (input->extent[axis] % r != 0) {
            UF_FAIL(UF_ERROR_SHAPE,
                    "pixel_unshuffle: height and width of %s must be multiples of %" PRId64,
                    uf_shape_format(input, text, sizeof text), r);
        }
        extent[axis] = input->extent[axis] / r;
    }
    extent[c] *= r * r; /* as many elements as before */
    return UF_OK;
}

static map pixel_unshuffle_map(const void *attributes, const placed *output, const placed *input) {
    const rearrangement *shuffle = attributes;
    return shuffle_map_of(shuffle->factor, output, input, false);
}

static const uf_layer_function pixel_unshuffle_functions[] = {
    {.name = "pixel_unshuffle",
     .size = sizeof(rearrangement),
     .least_inputs = 1,
     .most_inputs = 1,
     UF_TABLE(factor_table)},
    {0},
};

static bool unshuffle_field(const uf_field_query *query, uf_field *field) {
    const int64_t factor = ((const rearrangement *)query->attributes)->factor;
    *field = (uf_field){1, factor, 0, factor - 1};
    return true;
}

LAYER(pixel_unshuffle, NULL, unshuffle_field);

uf_value uf_pixel_unshuffle(uf_graph *graph, uf_value input, int64_t factor) {
    const rearrangement shuffle = {.factor = factor};
    return append(graph, &uf_layer_pixel_unshuffle, &shuffle, input);
}
