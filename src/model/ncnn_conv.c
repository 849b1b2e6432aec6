/* ncnn_conv.c - ncnn's convolutions, transposed ones and InnerProduct.
 *
 * Weights lie as (out, in/groups, kH, kW), PyTorch's order. Those of transposed convolutions lie as
 * (groups, out/groups, in/groups, kH, kW), where PyTorch has (in, out/groups, kH, kW). */
#include "model/ncnn.h"

#include <inttypes.h>

/* Paddings that are no number: TensorFlow's SAME, the odd row at the end or at the beginning. */
enum { SAME_UPPER = -233, SAME_LOWER = -234 };

enum { MOST = 65535 }; /* of a kernel, a stride, a dilation */

/* One axis of a convolution: 0 is the height. */
typedef struct axis {
    int64_t kernel, stride, dilation;
    int64_t before, after; /* rows or columns that are padded, or cut */
    int64_t output_padding;
} axis;

typedef struct conv {
    axis axes[2];
    int64_t out, in, groups; /* channels */
    bool bias;
} conv;

static int64_t window(const axis *one) {
    return one->dilation * (one->kernel - 1) + 1;
}

/* ---- options ---- */

static void read_axes(uf_ncnn *net, conv *made) {
    axis *y = &made->axes[0], *x = &made->axes[1];
    x->kernel = uf_ncnn_integer(net, 1, 0);
    y->kernel = uf_ncnn_integer(net, 11, x->kernel);
    x->dilation = uf_ncnn_integer(net, 2, 1);
    y->dilation = uf_ncnn_integer(net, 12, x->dilation);
    x->stride = uf_ncnn_integer(net, 3, 1);
    y->stride = uf_ncnn_integer(net, 13, x->stride);
    x->before = uf_ncnn_integer(net, 4, 0);
    x->after = uf_ncnn_integer(net, 15, x->before);
    y->before = uf_ncnn_integer(net, 14, x->before);
    y->after = uf_ncnn_integer(net, 16, y->before);
    for (int i = 0; i < 2; ++i) {
        const axis *one = &made->axes[i];
        if (one->kernel < 1 || one->dilation < 1 || one->stride < 1 || one->kernel > MOST ||
            one->dilation > MOST || one->stride > MOST) {
            uf_ncnn_refuse(net, UF_ERROR_FORMAT,
                           "a kernel of %" PRId64 ", dilation of %" PRId64 ", stride of %" PRId64
                           "; each must be from 1 to %d",
                           one->kernel, one->dilation, one->stride, MOST);
        }
    }
}

/* Channels and weight of a layer whose input has `in` channels. `turned`: of a transposed
 * convolution. */
static void take_weights(uf_ncnn *net, conv *made, int64_t in, bool grouped, bool turned) {
    const int64_t size = uf_ncnn_integer(net, 6, 0);
    const int64_t kernel = made->axes[0].kernel * made->axes[1].kernel;
    made->out = uf_ncnn_integer(net, 0, 0);
    made->bias = uf_ncnn_integer(net, 5, 0) != 0;
    made->groups = grouped ? uf_ncnn_integer(net, 7, 1) : 1;
    made->in = in;
    if (net->status != UF_OK) {
        return;
    }
    if (made->out < 1 || made->groups < 1 || made->out % made->groups != 0 ||
        in % made->groups != 0) {
        uf_ncnn_refuse(net, UF_ERROR_FORMAT,
                       "%" PRId64 " to %" PRId64 " channels cannot be in %" PRId64 " groups", in,
                       made->out, made->groups);
        return;
    }
    const uf_shape shape = UF_SHAPE(made->out, in / made->groups, kernel);
    const int64_t count = uf_shape_count(&shape);
    if (count != size) {
        uf_ncnn_refuse(net, UF_ERROR_SHAPE,
                       "an input of %" PRId64 " channels takes %" PRId64
                       " weights; the line says %" PRId64,
                       in, count, size);
        return;
    }
    uf_ncnn_order order = {0};
    if (turned) {
        order = (uf_ncnn_order){made->groups, made->out / made->groups, in / made->groups, kernel};
    }
    uf_ncnn_take(net, "weight", count, true, order);
    if (made->bias) {
        uf_ncnn_take(net, "bias", made->out, false, (uf_ncnn_order){0});
    }
}

/* The padding that SAME is for an axis of `extent` elements. With a stride it depends on them. */
static void resolve_same(uf_ncnn *net, axis *one, int64_t extent) {
    if (one->before != SAME_UPPER && one->before != SAME_LOWER) {
        if (one->before < 0 || one->after < 0) {
            uf_ncnn_refuse(net, UF_ERROR_FORMAT,
                           "a padding of %" PRId64 " and %" PRId64 "; each must be 0 or more",
                           one->before, one->after);
        }
        return;
    }
    const bool upper = one->before == SAME_UPPER;
    const int64_t needed = window(one) + (extent - 1) / one->stride * one->stride - extent;
    const int64_t sum = needed > 0 ? needed : 0;
    one->before = upper ? sum / 2 : sum - sum / 2;
    one->after = sum - one->before;
    net->fixed = net->fixed || one->stride > 1;
}

/* ---- convolutions ---- */

/* (N, C) and a kernel of 1 x 1: ncnn takes the values for channels. */
static uf_value flat_conv(uf_ncnn *net, uf_value input, const uf_shape *shape, bool grouped) {
    conv made = {.axes = {{.kernel = 1}, {.kernel = 1}}};
    take_weights(net, &made, shape->extent[1], grouped, false);
    if (made.groups > 1) {
        uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED, "groups of an input without height and width");
    }
    return net->status == UF_OK
               ? uf_linear(net->graph, input, uf_ncnn_scope(net), made.out, made.bias)
               : (uf_value){0};
}

static uf_value conv_of(uf_ncnn *net, bool grouped) {
    uf_value input = uf_ncnn_bottom(net, 0);
    const uf_shape shape = uf_ncnn_shape(net, input);
    uf_conv2d_options options = uf_conv2d_options_default();
    conv made = {0};
    read_axes(net, &made);
    uf_ncnn_only(net, 8, "int8_scale_term", 0);
    uf_ncnn_only(net, 18, "pad_value", 0);
    uf_ncnn_only(net, 19, "dynamic_weight", 0);
    uf_ncnn_ignore(net, (const int32_t[]){17, -1}); /* ncnn's choice of a kernel */
    if (shape.rank == 2 && made.axes[0].kernel == 1 && made.axes[1].kernel == 1) {
        return flat_conv(net, input, &shape, grouped);
    }
    if (!uf_ncnn_need_rank(net, input, 4)) {
        return input;
    }
    for (int i = 0; net->status == UF_OK && i < 2; ++i) {
        resolve_same(net, &made.axes[i], shape.extent[2 + i]);
    }
    take_weights(net, &made, shape.extent[1], grouped, false);
    if (net->status != UF_OK) {
        return input;
    }
    axis *y = &made.axes[0], *x = &made.axes[1];
    if (y->before != y->after || x->before != x->after) {
        input = uf_pad2d(net->graph, input, UF_PAD_ZERO, x->before, x->after, y->before, y->after);
        y->before = x->before = 0;
    }
    for (int i = 0; i < 2; ++i) {
        options.kernel[i] = made.axes[i].kernel;
        options.stride[i] = made.axes[i].stride;
        options.dilation[i] = made.axes[i].dilation;
        options.padding[i] = made.axes[i].before;
    }
    options.groups = made.groups;
    options.bias = made.bias;
    return uf_conv2d(net->graph, input, uf_ncnn_scope(net), made.out, &options);
}

static void convolution(uf_ncnn *net, uf_value *tops) {
    tops[0] = uf_ncnn_activation(net, conv_of(net, false));
}

static void grouped_convolution(uf_ncnn *net, uf_value *tops) {
    tops[0] = uf_ncnn_activation(net, conv_of(net, true));
}

/* ---- transposed convolutions ---- */

/* ncnn makes the whole output, and cuts it: by the padding, or to a size that SAME is to give. */
static void resolve_cut(uf_ncnn *net, axis *one, int64_t extent, int64_t size) {
    const bool same = one->before == SAME_UPPER || one->before == SAME_LOWER;
    if (same && size > 0) {
        const bool upper = one->before == SAME_UPPER;
        const int64_t cut = (extent - 1) * one->stride + window(one) + one->output_padding - size;
        one->before = upper ? cut / 2 : cut - cut / 2;
        one->after = cut - one->before;
        net->fixed = true;
    } else if (same) {
        one->before = one->after = 0;
    } else if (size > 0) {
        uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED,
                       "an output size (options 20, 21) without "
                       "pad_left=-233 or -234");
    }
    if (one->before < 0 || one->after < 0 || one->output_padding < 0) {
        uf_ncnn_refuse(net, UF_ERROR_FORMAT,
                       "a cut of %" PRId64 " and %" PRId64 " with an output_pad of %" PRId64
                       "; each must be 0 or more",
                       one->before, one->after, one->output_padding);
    }
}

static uf_value cut_axis(uf_ncnn *net, uf_value value, int32_t number, int64_t before,
                         int64_t after) {
    return before == 0 && after == 0
               ? value
               : uf_slice(net->graph, value, number, before, after == 0 ? INT64_MAX : -after);
}

static uf_value transposed_of(uf_ncnn *net, bool grouped) {
    const uf_value input = uf_ncnn_bottom(net, 0);
    const uf_shape shape = uf_ncnn_shape(net, input);
    uf_conv_transpose2d_options options = uf_conv_transpose2d_options_default();
    conv made = {0};
    read_axes(net, &made);
    made.axes[1].output_padding = uf_ncnn_integer(net, 18, 0);
    made.axes[0].output_padding = uf_ncnn_integer(net, 19, made.axes[1].output_padding);
    const int64_t width = uf_ncnn_integer(net, 20, 0), height = uf_ncnn_integer(net, 21, width);
    uf_ncnn_only(net, 28, "dynamic_weight", 0);
    if (!uf_ncnn_need_rank(net, input, 4) || net->status != UF_OK) {
        return input;
    }
    resolve_cut(net, &made.axes[0], shape.extent[2], height);
    resolve_cut(net, &made.axes[1], shape.extent[3], width);
    take_weights(net, &made, shape.extent[1], grouped, true);
    if (net->status != UF_OK) {
        return input;
    }
    for (int i = 0; i < 2; ++i) {
        axis *one = &made.axes[i];
        const int64_t both = one->before < one->after ? one->before : one->after;
        options.kernel[i] = one->kernel;
        options.stride[i] = one->stride;
        options.dilation[i] = one->dilation;
        options.padding[i] = both;
        options.output_padding[i] = one->output_padding;
        one->before -= both;
        one->after -= both;
    }
    options.groups = made.groups;
    options.bias = made.bias;
    uf_value value = uf_conv_transpose2d(net->graph, input, uf_ncnn_scope(net), made.out, &options);
    for (int i = 0; i < 2; ++i) {
        value = cut_axis(net, value, 2 + i, made.axes[i].before, made.axes[i].after);
    }
    return value;
}

static void deconvolution(uf_ncnn *net, uf_value *tops) {
    tops[0] = uf_ncnn_activation(net, transposed_of(net, false));
}

static void grouped_deconvolution(uf_ncnn *net, uf_value *tops) {
    tops[0] = uf_ncnn_activation(net, transposed_of(net, true));
}

/* ---- InnerProduct ---- */

/* Over the last axis of rows of the weight's length; everything else is one row. */
static void inner_product(uf_ncnn *net, uf_value *tops) {
    uf_value input = uf_ncnn_bottom(net, 0);
    uf_shape shape = uf_ncnn_shape(net, input);
    const int64_t out = uf_ncnn_integer(net, 0, 0);
    const bool bias = uf_ncnn_integer(net, 1, 0) != 0;
    const int64_t size = uf_ncnn_integer(net, 2, 0);
    uf_ncnn_only(net, 8, "int8_scale_term", 0);
    if (net->status == UF_OK && (out < 1 || size < 1 || size % out != 0)) {
        uf_ncnn_refuse(net, UF_ERROR_FORMAT,
                       "%" PRId64 " weights cannot be those of %" PRId64 " outputs", size, out);
    }
    if (net->status != UF_OK) {
        return;
    }
    const bool rows = shape.rank == 3 && shape.extent[2] == size / out;
    if (!rows && shape.rank > 2) {
        input = uf_flatten(net->graph, input, 1, -1);
        shape = uf_ncnn_shape(net, input);
    }
    const int64_t in = shape.extent[shape.rank - 1];
    if (in != size / out) {
        uf_ncnn_refuse(net, UF_ERROR_SHAPE,
                       "an input of %" PRId64 " values with %" PRId64 " weights for each output",
                       in, size / out);
        return;
    }
    uf_ncnn_take(net, "weight", size, true, (uf_ncnn_order){0});
    if (bias) {
        uf_ncnn_take(net, "bias", out, false, (uf_ncnn_order){0});
    }
    if (net->status == UF_OK) {
        tops[0] =
            uf_ncnn_activation(net, uf_linear(net->graph, input, uf_ncnn_scope(net), out, bias));
    }
}

const uf_ncnn_kind uf_ncnn_conv_kinds[] = {
    {"Convolution", convolution, 1, 1, 1},
    {"ConvolutionDepthWise", grouped_convolution, 1, 1, 1},
    {"Deconvolution", deconvolution, 1, 1, 1},
    {"DeconvolutionDepthWise", grouped_deconvolution, 1, 1, 1},
    {"InnerProduct", inner_product, 1, 1, 1},
    {NULL, NULL, 0, 0, 0},
};
