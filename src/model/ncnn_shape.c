/* ncnn_shape.c - ncnn's layers that move elements: joining, cutting and turning. */
#include "model/ncnn.h"

#include <inttypes.h>

/* ---- joining ---- */

/* A layer joins at most UF_MAX_INPUTS values: the first ones become one. */
static void concat(uf_ncnn *net, uf_value *tops) {
    const int64_t given = uf_ncnn_integer(net, 0, 0);
    uf_value joined[UF_MAX_INPUTS];
    int32_t count = 0;
    const int32_t rank = uf_ncnn_shape(net, uf_ncnn_bottom(net, 0)).rank;
    const int32_t axis = uf_ncnn_axis(net, given, rank);
    for (int32_t i = 0; net->status == UF_OK && i < net->layer.bottom_count; ++i) {
        if (count == UF_MAX_INPUTS) {
            joined[0] = uf_concat_axis(net->graph, joined, count, axis);
            count = 1;
        }
        joined[count++] = uf_ncnn_bottom(net, i);
    }
    if (net->status == UF_OK) {
        tops[0] = count == 1  ? joined[0]
                  : axis == 1 ? uf_concat(net->graph, joined, count)
                              : uf_concat_axis(net->graph, joined, count, axis);
    }
}

/* A constant of the file, with a batch of 1. */
static void memory_data(uf_ncnn *net, uf_value *tops) {
    const int64_t extents[3] = {uf_ncnn_integer(net, 2, 0), uf_ncnn_integer(net, 1, 0),
                                uf_ncnn_integer(net, 0, 0)};
    const bool tagged = uf_ncnn_integer(net, 21, 1) == 0;
    uf_shape shape = UF_SHAPE(1);
    uf_ncnn_only(net, 11, "d", 0);
    for (int i = 0; i < 3; ++i) {
        if (extents[i] != 0 || shape.rank > 1) {
            shape.extent[shape.rank++] = extents[i];
        }
    }
    uf_ncnn_take(net, "data", uf_shape_count(&shape), tagged, (uf_ncnn_order){0});
    if (net->status == UF_OK) {
        tops[0] = uf_parameter(net->graph, uf_ncnn_scope(net), "data", shape);
    }
}

/* The input itself, under every name. */
static void same(uf_ncnn *net, uf_value *tops) {
    for (int32_t i = 0; i < net->layer.top_count; ++i) {
        tops[i] = uf_ncnn_bottom(net, net->layer.bottom_count == net->layer.top_count ? i : 0);
    }
}

static void dropout(uf_ncnn *net, uf_value *tops) {
    const double factor = uf_ncnn_number(net, 0, 1.0);
    const uf_value input = uf_ncnn_bottom(net, 0);
    tops[0] = factor == 1.0 ? input : uf_scale(net->graph, input, factor);
}

/* ---- cutting ---- */

static uf_value cut(uf_ncnn *net, uf_value value, int32_t axis, int64_t start, int64_t stop) {
    const int64_t extent = uf_ncnn_shape(net, value).extent[axis];
    if (start < 0 || stop <= start || stop > extent) {
        uf_ncnn_refuse(net, UF_ERROR_SHAPE,
                       "elements %" PRId64 " to %" PRId64 " of an axis with %" PRId64, start,
                       stop - 1, extent);
        return value;
    }
    /* Counted from the end, a cut is as wide whatever the extent. */
    return start == 0 && stop == extent ? value
                                        : uf_slice(net->graph, value, axis, start,
                                                   stop == extent ? INT64_MAX : stop - extent);
}

/* Pieces of one axis: their extents, or -233 for an equal share of the rest. */
static void slice(uf_ncnn *net, uf_value *tops) {
    int64_t extents[UF_NCNN_MOST_NUMBERS];
    const int32_t count = uf_ncnn_integers(net, 0, extents);
    const uf_value input = uf_ncnn_bottom(net, 0);
    const uf_shape shape = uf_ncnn_shape(net, input);
    const int32_t axis = uf_ncnn_axis(net, uf_ncnn_integer(net, 1, 0), shape.rank);
    int64_t start = 0;
    uf_ncnn_only(net, 2, "indices", 0);
    if (net->status == UF_OK && count != net->layer.top_count) {
        uf_ncnn_refuse(net, UF_ERROR_FORMAT, "%" PRId32 " extents for %" PRId32 " outputs", count,
                       net->layer.top_count);
    }
    net->fixed = net->fixed || axis > 1;
    for (int32_t i = 0; net->status == UF_OK && i < count; ++i) {
        const int64_t extent =
            extents[i] == UF_NCNN_ABSENT ? (shape.extent[axis] - start) / (count - i) : extents[i];
        tops[i] = cut(net, input, axis, start, start + extent);
        start += extent;
    }
}

/* As x[start:stop] in Python, but an end of 0 or below counts from the end, and -233 is the end. */
static void crop_axes(uf_ncnn *net, uf_value *tops) {
    int64_t starts[UF_NCNN_MOST_NUMBERS], ends[UF_NCNN_MOST_NUMBERS], axes[UF_NCNN_MOST_NUMBERS];
    const int32_t count = uf_ncnn_integers(net, 9, starts);
    const int32_t end_count = uf_ncnn_integers(net, 10, ends);
    const int32_t axis_count = uf_ncnn_integers(net, 11, axes);
    uf_value value = uf_ncnn_bottom(net, 0);
    const uf_shape shape = uf_ncnn_shape(net, value);
    if (count != end_count || (axis_count != 0 && axis_count != count) ||
        (axis_count == 0 && count != shape.rank - 1)) {
        uf_ncnn_refuse(net, UF_ERROR_FORMAT,
                       "%" PRId32 " starts, %" PRId32 " ends and %" PRId32 " axes", count,
                       end_count, axis_count);
    }
    for (int32_t i = 0; net->status == UF_OK && i < count; ++i) {
        const int32_t axis = uf_ncnn_axis(net, axis_count == 0 ? i : axes[i], shape.rank);
        const int64_t extent = net->status == UF_OK ? shape.extent[axis] : 0;
        int64_t start = starts[i], stop = ends[i];
        start = start == UF_NCNN_ABSENT ? 0 : start < 0 ? extent + start : start;
        stop = stop == UF_NCNN_ABSENT ? extent : stop <= 0 ? extent + stop : stop;
        /* Counted from the beginning, it is so many elements and not all but so many. */
        net->fixed = net->fixed || (axis > 1 && (starts[i] < 0 || (ends[i] > 0 && stop < extent)));
        if (net->status == UF_OK) {
            value = cut(net, value, axis, start, stop < extent ? stop : extent);
        }
    }
    tops[0] = value;
}

typedef struct crop {
    int64_t offset, size, after; /* the options of one axis */
} crop;

/* `after` elements are left out at the end, and no more than `size` taken. */
static uf_value crop_axis(uf_ncnn *net, uf_value value, int32_t axis, const crop *one) {
    const int64_t extent = uf_ncnn_shape(net, value).extent[axis];
    int64_t stop = extent - one->after;
    if (one->size > 0 && one->offset + one->size < stop) {
        stop = one->offset + one->size;
        net->fixed = net->fixed || axis > 1;
    }
    return net->status == UF_OK ? cut(net, value, axis, one->offset, stop) : value;
}

/* As large as a second value. */
static void crop_like(uf_ncnn *net, const crop *crops, uf_value *tops) {
    uf_value value = uf_ncnn_bottom(net, 0);
    const uf_shape shape = uf_ncnn_shape(net, value);
    const uf_shape like = uf_ncnn_shape(net, uf_ncnn_bottom(net, 1));
    if (!uf_ncnn_need_rank(net, uf_ncnn_bottom(net, 1), shape.rank)) {
        return;
    }
    for (int32_t axis = 1; axis < shape.rank; ++axis) {
        const int64_t offset = crops[axis - 1 + 4 - shape.rank].offset;
        value = net->status == UF_OK ? cut(net, value, axis, offset, offset + like.extent[axis])
                                     : value;
    }
    tops[0] = value;
}

/* Offsets and sizes of channels, height and width; a value of one axis takes the width's. */
static void crop_layer(uf_ncnn *net, uf_value *tops) {
    const crop crops[3] = {
        {uf_ncnn_integer(net, 2, 0), uf_ncnn_integer(net, 5, 0), uf_ncnn_integer(net, 8, 0)},
        {uf_ncnn_integer(net, 1, 0), uf_ncnn_integer(net, 4, 0), uf_ncnn_integer(net, 7, 0)},
        {uf_ncnn_integer(net, 0, 0), uf_ncnn_integer(net, 3, 0), uf_ncnn_integer(net, 6, 0)},
    };
    const int32_t rank = uf_ncnn_shape(net, uf_ncnn_bottom(net, 0)).rank;
    uf_ncnn_only(net, 13, "doffset", 0);
    uf_ncnn_only(net, 14, "outd", 0);
    uf_ncnn_only(net, 15, "doffset2", 0);
    if (rank < 2 || rank > 4) {
        uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED, "an input of %" PRId32 " axes", rank - 1);
    }
    if (net->status != UF_OK) {
        return;
    }
    if (uf_ncnn_has(net, 9) || uf_ncnn_has(net, 10)) {
        crop_axes(net, tops);
        return;
    }
    if (net->layer.bottom_count == 2) {
        crop_like(net, crops, tops);
        return;
    }
    const int32_t first = 4 - rank; /* of the three that the value has */
    tops[0] = uf_ncnn_bottom(net, 0);
    for (int32_t i = first; net->status == UF_OK && i < 3; ++i) {
        tops[0] = crop_axis(net, tops[0], i - first + 1, &crops[i]);
    }
}

/* ---- other shapes ---- */

/* Extents behind the batch. */
static uf_value reshape(uf_ncnn *net, uf_value input, const int64_t *extents, int32_t count) {
    uf_shape shape = UF_SHAPE(-1);
    const uf_shape from = uf_ncnn_shape(net, input);
    int64_t left = 1;
    int32_t open = -1;
    for (int32_t i = 1; i < from.rank; ++i) {
        left *= from.extent[i];
    }
    const int64_t whole = left;
    for (shape.rank = 1; shape.rank <= count; ++shape.rank) {
        const int64_t extent = extents[shape.rank - 1];
        const bool wrong = extent < -1 || extent == 0 || (extent == -1 && open >= 0) ||
                           (extent > 0 && left % extent != 0);
        if (wrong) {
            char text[128];
            uf_ncnn_refuse(net, UF_ERROR_SHAPE,
                           "an extent of %" PRId64 " does not divide what is left of %s", extent,
                           uf_shape_format(&from, text, sizeof text));
            return input;
        }
        shape.extent[shape.rank] = extent;
        left = extent > 0 ? left / extent : left;
        open = extent == -1 ? shape.rank : open;
    }
    if (open >= 0) {
        shape.extent[open] = left;
    } else if (left != 1) { /* the rest would go to the batch */
        char text[128];
        uf_ncnn_refuse(net, UF_ERROR_SHAPE,
                       "the output has %" PRId64 " elements where %s has %" PRId64, whole / left,
                       uf_shape_format(&from, text, sizeof text), whole);
        return input;
    }
    /* Another height or width would go to the batch. */
    net->fixed = net->fixed || from.rank > 2;
    return uf_reshape(net->graph, input, shape);
}

static void reshape_layer(uf_ncnn *net, uf_value *tops) {
    static const int32_t keys[] = {2, 1, 0}; /* c, h, w */
    const uf_value input = uf_ncnn_bottom(net, 0);
    const uf_shape from = uf_ncnn_shape(net, input);
    int64_t extents[3];
    int32_t count = 0;
    uf_ncnn_only(net, 3, "permute", 0);
    uf_ncnn_only(net, 11, "d", UF_NCNN_ABSENT);
    for (int i = 0; i < 3; ++i) {
        const int64_t extent = uf_ncnn_integer(net, keys[i], UF_NCNN_ABSENT);
        if (extent == UF_NCNN_ABSENT) {
            continue;
        }
        /* 0 is the input's: counted from the last axis, as keys are. */
        const int32_t axis = from.rank - 1 - keys[i];
        extents[count++] = extent != 0 ? extent : axis >= 1 ? from.extent[axis] : 1;
    }
    if (count == 0) {
        uf_ncnn_refuse(net, UF_ERROR_FORMAT, "no extent is given");
    }
    if (net->status == UF_OK) {
        tops[0] = reshape(net, input, extents, count);
    }
}

static void flatten(uf_ncnn *net, uf_value *tops) {
    const uf_value input = uf_ncnn_bottom(net, 0);
    tops[0] = uf_ncnn_shape(net, input).rank > 2 ? uf_flatten(net->graph, input, 1, -1) : input;
}

static void permute(uf_ncnn *net, uf_value *tops) {
    /* ncnn names the orders by the last axis first: 1 is "h w c". */
    static const int32_t of_three[][4] = {{0, 1, 2, 3}, {0, 1, 3, 2}, {0, 2, 1, 3},
                                          {0, 2, 3, 1}, {0, 3, 1, 2}, {0, 3, 2, 1}};
    static const int32_t of_two[][3] = {{0, 1, 2}, {0, 2, 1}};
    const uf_value input = uf_ncnn_bottom(net, 0);
    const int32_t rank = uf_ncnn_shape(net, input).rank;
    const int64_t order = uf_ncnn_integer(net, 0, 0);
    if (order < 0 || order > 5 || (rank == 3 && order > 1) || rank < 3 || rank > 4) {
        uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED,
                       "order_type (option 0) is %" PRId64 " of a value with %" PRId32 " axes",
                       order, rank - 1);
        return;
    }
    tops[0] = order == 0 ? input
                         : uf_permute(net->graph, input,
                                      rank == 3 ? of_two[order] : of_three[order], rank);
}

/* ---- axes of one element ---- */

/* Axes by flags for w, h and c, or by numbers in option 3; `rank` is the value's that has them.
 * Bit i: ncnn's axis i. */
static uint32_t read_axes(uf_ncnn *net, int32_t rank) {
    int64_t axes[UF_NCNN_MOST_NUMBERS];
    uint32_t chosen = 0;
    uf_ncnn_only(net, 11, "d", 0);
    for (int32_t i = 0; i < 3; ++i) {
        if (uf_ncnn_integer(net, i, 0) != 0 && rank - 2 - i >= 0) {
            chosen |= UINT32_C(1) << (rank - 2 - i);
        }
    }
    const int32_t count = uf_ncnn_integers(net, 3, axes);
    for (int32_t i = 0; net->status == UF_OK && i < count; ++i) {
        const int32_t axis = uf_ncnn_axis(net, axes[i], rank);
        chosen |= net->status == UF_OK ? UINT32_C(1) << (axis - 1) : 0;
    }
    return chosen;
}

static void squeeze(uf_ncnn *net, uf_value *tops) {
    const uf_value input = uf_ncnn_bottom(net, 0);
    const uf_shape shape = uf_ncnn_shape(net, input);
    const uint32_t chosen = read_axes(net, shape.rank);
    int64_t extents[UF_MAX_RANK];
    int32_t count = 0;
    for (int32_t i = 1; i < shape.rank; ++i) {
        if ((chosen >> (i - 1) & 1) == 0 || shape.extent[i] != 1) {
            extents[count++] = shape.extent[i];
        }
    }
    if (count == 0) { /* ncnn keeps one axis */
        extents[count++] = 1;
    }
    tops[0] = net->status != UF_OK || count == shape.rank - 1 ? input
                                                              : reshape(net, input, extents, count);
}

static void expand_dims(uf_ncnn *net, uf_value *tops) {
    const uf_value input = uf_ncnn_bottom(net, 0);
    const uf_shape shape = uf_ncnn_shape(net, input);
    int64_t extents[3], axes[UF_NCNN_MOST_NUMBERS];
    int32_t added = uf_ncnn_integers(net, 3, axes), from = 1;
    for (int32_t i = 0; i < 3 && uf_ncnn_has(net, i); ++i) {
        added += uf_ncnn_integer(net, i, 0) != 0;
    }
    const int32_t rank = shape.rank + added;
    if (rank > 4) {
        uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED, "the output would have %" PRId32 " axes",
                       rank - 1);
        return;
    }
    const uint32_t chosen = read_axes(net, rank);
    for (int32_t i = 0; i < rank - 1; ++i) {
        const bool new = (chosen >> i & 1) != 0;
        if (!new &&from >= shape.rank) {
            uf_ncnn_refuse(net, UF_ERROR_FORMAT, "an axis is named twice");
            return;
        }
        extents[i] = new ? 1 : shape.extent[from++];
    }
    tops[0] = net->status != UF_OK || added == 0 ? input : reshape(net, input, extents, rank - 1);
}

const uf_ncnn_kind uf_ncnn_shape_kinds[] = {
    {"Concat", concat, 1, UF_NCNN_MOST_BLOBS, 1},
    {"Split", same, 1, 1, UF_NCNN_MOST_BLOBS},
    {"MemoryData", memory_data, 0, 0, 1},
    {"Noop", same, 1, UF_NCNN_MOST_BLOBS, UF_NCNN_MOST_BLOBS},
    {"Dropout", dropout, 1, 1, 1},
    {"Slice", slice, 1, 1, UF_NCNN_MOST_BLOBS},
    {"Crop", crop_layer, 1, 2, 1},
    {"Reshape", reshape_layer, 1, 1, 1},
    {"Flatten", flatten, 1, 1, 1},
    {"Permute", permute, 1, 1, 1},
    {"Squeeze", squeeze, 1, 1, 1},
    {"ExpandDims", expand_dims, 1, 1, 1},
    {NULL, NULL, 0, 0, 0},
};
