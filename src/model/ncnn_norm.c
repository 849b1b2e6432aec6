/* ncnn_norm.c - ncnn's layers with a number for each channel: Scale, Bias, BatchNorm, PReLU,
 * InstanceNorm and GroupNorm. Their tensors are f32, without a tag. */
#include "model/ncnn.h"

#include <inttypes.h>

/* The extent of ncnn's first axis; refuses another number than the line's. */
static bool need_channels(uf_ncnn *net, uf_value input, int64_t given, int64_t *channels) {
    const uf_shape shape = uf_ncnn_shape(net, input);
    *channels = shape.rank >= 2 ? shape.extent[1] : 0;
    if (*channels < 1 || given != *channels) {
        uf_ncnn_refuse(net, UF_ERROR_SHAPE,
                       "the line has %" PRId64 " numbers and the input %" PRId64 " channels", given,
                       *channels);
    }
    return net->status == UF_OK;
}

/* One number for each channel, which broadcasts over a value of `rank` axes. */
static uf_value channel_parameter(uf_ncnn *net, const char *name, int64_t channels, int32_t rank) {
    uf_shape shape = UF_SHAPE(1);
    shape.rank = rank - 1;
    for (int32_t i = 0; i < shape.rank; ++i) {
        shape.extent[i] = i == 0 ? channels : 1;
    }
    return uf_ncnn_take_parameter(net, name, shape);
}

/* A value of one axis, with more axes behind it. */
static uf_value along_channels(uf_ncnn *net, uf_value value, int32_t rank) {
    uf_shape shape = uf_ncnn_shape(net, value);
    if (!uf_ncnn_need_rank(net, value, 2) || rank == 2) {
        return value;
    }
    shape.extent[0] = -1;
    for (shape.rank = 2; shape.rank < rank; ++shape.rank) {
        shape.extent[shape.rank] = 1;
    }
    return uf_reshape(net->graph, value, shape);
}

static void scale(uf_ncnn *net, uf_value *tops) {
    const uf_value input = uf_ncnn_bottom(net, 0);
    const int32_t rank = uf_ncnn_shape(net, input).rank;
    const int64_t given = uf_ncnn_integer(net, 0, 0);
    const bool bias = uf_ncnn_integer(net, 1, 0) != 0;
    int64_t channels;
    if ((given == UF_NCNN_ABSENT) != (net->layer.bottom_count == 2) ||
        (given == UF_NCNN_ABSENT && bias)) {
        uf_ncnn_refuse(net, UF_ERROR_FORMAT,
                       "scale_data_size (option 0) is -233 where a second input has the factors, "
                       "and then without a bias");
        return;
    }
    if (given == UF_NCNN_ABSENT) {
        const uf_value factors = along_channels(net, uf_ncnn_bottom(net, 1), rank);
        tops[0] = uf_mul(net->graph, input, factors);
        return;
    }
    if (!need_channels(net, input, given, &channels)) {
        return;
    }
    tops[0] = uf_mul(net->graph, input, channel_parameter(net, "weight", channels, rank));
    if (bias) {
        tops[0] = uf_add(net->graph, tops[0], channel_parameter(net, "bias", channels, rank));
    }
}

static void bias(uf_ncnn *net, uf_value *tops) {
    const uf_value input = uf_ncnn_bottom(net, 0);
    int64_t channels;
    if (need_channels(net, input, uf_ncnn_integer(net, 0, 0), &channels)) {
        const int32_t rank = uf_ncnn_shape(net, input).rank;
        tops[0] = uf_add(net->graph, input, channel_parameter(net, "bias", channels, rank));
    }
}

static void prelu(uf_ncnn *net, uf_value *tops) {
    const uf_value input = uf_ncnn_bottom(net, 0);
    const int64_t given = uf_ncnn_integer(net, 0, 0);
    int64_t channels = given;
    if (given != 1 && !need_channels(net, input, given, &channels)) {
        return;
    }
    uf_ncnn_take(net, "weight", given, false, (uf_ncnn_order){0});
    if (net->status == UF_OK) {
        tops[0] = uf_prelu(net->graph, input, uf_ncnn_scope(net), given);
    }
}

static void batch_norm(uf_ncnn *net, uf_value *tops) {
    static const char *const names[] = {"weight", "running_mean", "running_var", "bias"};
    const uf_value input = uf_ncnn_bottom(net, 0);
    uf_batch_norm2d_options options = uf_batch_norm2d_options_default();
    int64_t channels;
    options.eps = uf_ncnn_number(net, 1, 0.0);
    if (!need_channels(net, input, uf_ncnn_integer(net, 0, 0), &channels)) {
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        uf_ncnn_take(net, names[i], channels, false, (uf_ncnn_order){0});
    }
    if (net->status == UF_OK) {
        const bool image = uf_ncnn_shape(net, input).rank == 4;
        tops[0] = image ? uf_batch_norm2d(net->graph, input, uf_ncnn_scope(net), &options)
                        : uf_batch_norm1d(net->graph, input, uf_ncnn_scope(net), &options);
    }
}

static bool take_affine(uf_ncnn *net, int64_t channels, bool affine) {
    if (affine) {
        uf_ncnn_take(net, "weight", channels, false, (uf_ncnn_order){0});
        uf_ncnn_take(net, "bias", channels, false, (uf_ncnn_order){0});
    }
    return net->status == UF_OK;
}

static void instance_norm(uf_ncnn *net, uf_value *tops) {
    const uf_value input = uf_ncnn_bottom(net, 0);
    uf_instance_norm_options options = uf_instance_norm_options_default();
    int64_t channels;
    const int64_t given = uf_ncnn_integer(net, 0, 0);
    options.eps = uf_ncnn_number(net, 1, 0.001);
    options.affine = uf_ncnn_integer(net, 2, 1) != 0;
    if (uf_ncnn_need_rank(net, input, 4) &&
        (!options.affine || need_channels(net, input, given, &channels)) &&
        take_affine(net, given, options.affine)) {
        tops[0] = uf_instance_norm2d(net->graph, input, uf_ncnn_scope(net), &options);
    }
}

static void group_norm(uf_ncnn *net, uf_value *tops) {
    const uf_value input = uf_ncnn_bottom(net, 0);
    uf_group_norm_options options = uf_group_norm_options_default();
    int64_t channels;
    const int64_t groups = uf_ncnn_integer(net, 0, 1), given = uf_ncnn_integer(net, 1, 0);
    options.eps = uf_ncnn_number(net, 2, 0.001);
    options.affine = uf_ncnn_integer(net, 3, 1) != 0;
    if (need_channels(net, input, given, &channels) && take_affine(net, channels, options.affine)) {
        tops[0] = uf_group_norm(net->graph, input, uf_ncnn_scope(net), groups, &options);
    }
}

const uf_ncnn_kind uf_ncnn_norm_kinds[] = {
    {"Scale", scale, 1, 2, 1},
    {"Bias", bias, 1, 1, 1},
    {"PReLU", prelu, 1, 1, 1},
    {"BatchNorm", batch_norm, 1, 1, 1},
    {"InstanceNorm", instance_norm, 1, 1, 1},
    {"GroupNorm", group_norm, 1, 1, 1},
    {NULL, NULL, 0, 0, 0},
};
