/* ncnn_image.c - ncnn's layers of height and width: pooling, interpolation, PixelShuffle, Padding,
 * and Softmax. */
#include "model/ncnn.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { HEIGHT, WIDTH };

/* ---- pooling ---- */

enum { POOL_MAX, POOL_AVERAGE };
enum { PAD_FULL, PAD_VALID };

typedef struct pool {
    int64_t kernel[2], stride[2], before[2], after[2];
    bool ceil_mode, count_include_pad;
    int64_t kind;
} pool;

static uf_value pooled(uf_ncnn *net, uf_value input, const pool *made) {
    if (made->kind == POOL_MAX) {
        uf_max_pool2d_options options = uf_max_pool2d_options_default();
        memcpy(options.kernel, made->kernel, sizeof options.kernel);
        memcpy(options.stride, made->stride, sizeof options.stride);
        memcpy(options.padding, made->before, sizeof options.padding);
        options.ceil_mode = made->ceil_mode;
        return uf_max_pool2d(net->graph, input, &options);
    }
    uf_avg_pool2d_options options = uf_avg_pool2d_options_default();
    memcpy(options.kernel, made->kernel, sizeof options.kernel);
    memcpy(options.stride, made->stride, sizeof options.stride);
    memcpy(options.padding, made->before, sizeof options.padding);
    options.ceil_mode = made->ceil_mode;
    options.count_include_pad = made->count_include_pad;
    return uf_avg_pool2d(net->graph, input, &options);
}

/* One number for each channel: ncnn's value has one axis. */
static uf_value global_pool(uf_ncnn *net, uf_value input, int64_t kind) {
    const int32_t axes[] = {2, 3};
    if (kind == POOL_AVERAGE) {
        return uf_mean(net->graph, input, axes, 2, false);
    }
    const uf_shape shape = uf_ncnn_shape(net, input);
    pool made = {.kind = kind};
    memcpy(made.kernel, &shape.extent[2], sizeof made.kernel);
    memcpy(made.stride, made.kernel, sizeof made.stride);
    net->fixed = true;
    return uf_flatten(net->graph, pooled(net, input, &made), 1, -1);
}

/* To a fixed size, which divides the extents. */
static uf_value adaptive_pool(uf_ncnn *net, uf_value input, int64_t kind) {
    const int32_t axes[] = {2, 3};
    const uf_shape shape = uf_ncnn_shape(net, input);
    const int64_t width = uf_ncnn_integer(net, 8, 0), height = uf_ncnn_integer(net, 18, width);
    const int64_t out[2] = {height, width};
    pool made = {.kind = kind};
    if (kind == POOL_AVERAGE && height == 1 && width == 1) {
        return uf_mean(net->graph, input, axes, 2, true);
    }
    for (int i = 0; i < 2; ++i) {
        const int64_t in = shape.extent[2 + i];
        const int64_t to = out[i] == UF_NCNN_ABSENT ? in : out[i];
        if (to < 1 || in % to != 0) {
            uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED,
                           "adaptive pooling of %" PRId64 " rows or columns to %" PRId64
                           "; unfurl has it where the second divides the first",
                           in, to);
            return input;
        }
        made.kernel[i] = made.stride[i] = in / to;
    }
    net->fixed = true;
    return pooled(net, input, &made);
}

static void read_pool(uf_ncnn *net, pool *made) {
    made->kernel[WIDTH] = uf_ncnn_integer(net, 1, 0);
    made->kernel[HEIGHT] = uf_ncnn_integer(net, 11, made->kernel[WIDTH]);
    made->stride[WIDTH] = uf_ncnn_integer(net, 2, 1);
    made->stride[HEIGHT] = uf_ncnn_integer(net, 12, made->stride[WIDTH]);
    made->before[WIDTH] = uf_ncnn_integer(net, 3, 0);
    made->after[WIDTH] = uf_ncnn_integer(net, 14, made->before[WIDTH]);
    made->before[HEIGHT] = uf_ncnn_integer(net, 13, made->before[WIDTH]);
    made->after[HEIGHT] = uf_ncnn_integer(net, 15, made->before[HEIGHT]);
    made->count_include_pad = uf_ncnn_integer(net, 6, 0) != 0;
}

/* ncnn's full padding fills up the last window: PyTorch's ceil_mode, but for windows that begin
 * behind the image, and for averages that count the fill. */
static void resolve_full(uf_ncnn *net, const uf_shape *shape, pool *made) {
    for (int i = 0; net->status == UF_OK && i < 2; ++i) {
        const int64_t kernel = made->kernel[i], stride = made->stride[i];
        const int64_t padded = shape->extent[2 + i] + made->before[i] + made->after[i];
        const bool tail = padded >= kernel && (padded - kernel) % stride != 0;
        const bool other = stride > kernel - made->before[i] ||
                           (made->kind == POOL_AVERAGE && made->count_include_pad);
        if (tail && other) {
            uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED,
                           "pad_mode 0 (option 5) of %" PRId64 " rows or columns with a kernel of "
                           "%" PRId64 " and a stride of %" PRId64
                           ", whose last window is not whole",
                           padded, kernel, stride);
        }
        net->fixed = net->fixed || (other && stride > 1);
        made->ceil_mode = made->ceil_mode || !other;
    }
}

static void pooling(uf_ncnn *net, uf_value *tops) {
    const uf_value input = uf_ncnn_bottom(net, 0);
    pool made = {.kind = uf_ncnn_integer(net, 0, POOL_MAX)};
    const bool global = uf_ncnn_integer(net, 4, 0) != 0, adaptive = uf_ncnn_integer(net, 7, 0) != 0;
    const int64_t mode = uf_ncnn_integer(net, 5, PAD_FULL);
    read_pool(net, &made);
    uf_ncnn_ignore(net, (const int32_t[]){8, 18, -1});
    if (made.kind != POOL_MAX && made.kind != POOL_AVERAGE) {
        uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED,
                       "pooling_type (option 0) is %" PRId64 "; unfurl has 0 (max) and 1 (average)",
                       made.kind);
    }
    if (!uf_ncnn_need_rank(net, input, 4) || net->status != UF_OK) {
        return;
    }
    if (global || adaptive) {
        tops[0] =
            global ? global_pool(net, input, made.kind) : adaptive_pool(net, input, made.kind);
        return;
    }
    for (int i = 0; i < 2; ++i) {
        if (made.kernel[i] < 1 || made.stride[i] < 1 || made.before[i] < 0 || made.after[i] < 0) {
            uf_ncnn_refuse(net, UF_ERROR_FORMAT,
                           "a kernel of %" PRId64 ", stride of %" PRId64 ", padding of %" PRId64
                           " and %" PRId64,
                           made.kernel[i], made.stride[i], made.before[i], made.after[i]);
        }
    }
    if ((mode != PAD_FULL && mode != PAD_VALID) || made.before[0] != made.after[0] ||
        made.before[1] != made.after[1]) {
        uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED,
                       "pad_mode (option 5) is %" PRId64
                       "; unfurl has 0 and 1 with the same padding on both sides",
                       mode);
    }
    const uf_shape shape = uf_ncnn_shape(net, input);
    if (mode == PAD_FULL) {
        resolve_full(net, &shape, &made);
    }
    if (net->status == UF_OK) {
        tops[0] = pooled(net, input, &made);
    }
}

/* ---- interpolation ---- */

enum { NEAREST = 1, BILINEAR = 2, BICUBIC = 3 };

/* Outputs for so many inputs. */
typedef struct ratio {
    int64_t out, in;
} ratio;

enum { MOST_RATIO = 16 };     /* of both */
enum { MOST_MADE = 1 << 22 }; /* elements of the weights of all bicubic layers */

/* The fraction that a scale is. false: none with small numbers. */
static bool find_ratio(double scale, ratio *made) {
    for (made->in = 1; made->in <= MOST_RATIO; ++made->in) {
        made->out = llround(scale * (double)made->in);
        if (made->out >= 1 && fabs(scale - (double)made->out / (double)made->in) < 1e-6) {
            return true;
        }
    }
    return false;
}

/* ncnn's and PyTorch's cubic, of A = -0.75, at `at` between the second and the third of four. */
static void cubic(double at, double taps[4]) {
    const double a = -0.75;
    for (int i = 0; i < 4; ++i) {
        const double d = fabs(at + 1.0 - i);
        taps[i] = d <= 1.0 ? ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
                           : ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a;
    }
}

/* Where output `o` of ratio.out lies among the inputs. */
static double place_of(const ratio *r, int64_t o) {
    return ((double)o + 0.5) * (double)r->in / (double)r->out - 0.5;
}

/* The taps of each output of a group, one row each: (out, kernel). */
static void fill_taps(const ratio *r, int64_t first, int64_t kernel, double *rows) {
    for (int64_t o = 0; o < r->out; ++o) {
        double taps[4];
        const double at = place_of(r, o), below = floor(at);
        cubic(at - below, taps);
        for (int64_t k = 0; k < kernel; ++k) {
            const int64_t tap = k + first - (int64_t)below + 1;
            rows[o * kernel + k] = tap >= 0 && tap < 4 ? taps[tap] : 0.0;
        }
    }
}

/* The outputs of `in` rows and columns repeat their taps: a grouped convolution of that stride
 * makes out * out channels of each, and PixelShuffle puts them in their places. */
static uf_value bicubic(uf_ncnn *net, uf_value input, const ratio *r) {
    const int64_t channels = uf_ncnn_shape(net, input).extent[1];
    const int64_t first_tap = (int64_t)floor(place_of(r, 0)) - 1;
    const int64_t last_tap = (int64_t)floor(place_of(r, r->out - 1)) + 2;
    const int64_t first = first_tap < 0 ? first_tap : 0;
    const int64_t last = last_tap > r->in - 1 ? last_tap : r->in - 1;
    const int64_t kernel = last - first + 1;
    const int64_t each = r->out * r->out * kernel * kernel;
    const uf_shape shape = UF_SHAPE(channels, each);
    /* The text alone says how much memory these take. */
    if (uf_shape_count(&shape) > MOST_MADE - net->made) {
        uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED,
                       "bicubic layers whose weights have %" PRId64 " elements and more; there may "
                       "be %d",
                       net->made, MOST_MADE);
        return input;
    }
    net->made += channels * each;
    double rows[MOST_RATIO * (MOST_RATIO + 4)];
    double *weight = malloc((size_t)(channels * each) * sizeof *weight), *to = weight;
    fill_taps(r, first, kernel, rows);
    for (int64_t c = 0; weight != NULL && c < channels; ++c) {
        for (int64_t i = 0; i < each; ++i) {
            const int64_t x = i % kernel, y = i / kernel % kernel, o = i / kernel / kernel;
            *to++ = rows[o / r->out * kernel + y] * rows[o % r->out * kernel + x];
        }
    }
    uf_ncnn_give(net, "weight", channels * each, weight);
    if (net->status != UF_OK) {
        return input;
    }
    uf_conv2d_options options = uf_conv2d_options_square(kernel, r->in, 0, false);
    options.groups = channels;
    const int64_t after = last - (r->in - 1);
    input = uf_pad2d(net->graph, input, UF_PAD_REPLICATE, -first, after, -first, after);
    input = uf_conv2d(net->graph, input, uf_ncnn_scope(net), channels * r->out * r->out, &options);
    return r->out == 1 ? input : uf_pixel_shuffle(net->graph, input, r->out);
}

static void interp(uf_ncnn *net, uf_value *tops) {
    const uf_value input = uf_ncnn_bottom(net, 0);
    const int64_t kind = uf_ncnn_integer(net, 0, 0);
    const double scale[2] = {uf_ncnn_number(net, 1, 1.0), uf_ncnn_number(net, 2, 1.0)};
    int64_t size[2] = {uf_ncnn_integer(net, 3, 0), uf_ncnn_integer(net, 4, 0)};
    uf_upsample_options options = uf_upsample_options_default();
    options.align_corners = uf_ncnn_integer(net, 6, 0) != 0;
    uf_ncnn_only(net, 5, "dynamic_target_size", 0);
    if (!uf_ncnn_need_rank(net, input, 4)) {
        return;
    }
    const bool sized = size[0] != 0 || size[1] != 0;
    if (kind < NEAREST || kind > BICUBIC || size[0] < 0 || size[1] < 0 ||
        (sized && (size[0] == 0 || size[1] == 0)) || (kind == BICUBIC && options.align_corners)) {
        uf_ncnn_refuse(
            net, UF_ERROR_UNSUPPORTED,
            "resize_type (option 0) is %" PRId64 ", output %" PRId64 "x%" PRId64
            ", align_corner %d; unfurl has nearest (1), bilinear (2) and bicubic (3, not "
            "with align_corner), by scales or to both extents",
            kind, size[0], size[1], options.align_corners);
        return;
    }
    const uf_shape shape = uf_ncnn_shape(net, input);
    ratio ratios[2];
    for (int i = 0; net->status == UF_OK && i < 2; ++i) {
        const double one = sized ? (double)size[i] / (double)shape.extent[2 + i] : scale[i];
        const bool found = one > 0.0 && one <= MOST_RATIO && find_ratio(one, &ratios[i]);
        const bool whole = found && shape.extent[2 + i] % ratios[i].in == 0;
        /* ncnn takes the ratio of the extents, which is the scale where nothing is rounded. */
        if (!sized && found && !uf_ncnn_is_multiple(net, 0, ratios[i].in)) {
            net->fixed = true;
        }
        if ((kind == BICUBIC || !sized) && (!found || !whole)) {
            uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED,
                           "a scale of %g for %" PRId64
                           " rows or columns; unfurl has fractions of numbers up to %d that make a "
                           "whole number of them",
                           one, shape.extent[2 + i], MOST_RATIO);
        }
        options.scale[i] = one;
        options.size[i] = size[i];
    }
    if (net->status != UF_OK) {
        return;
    }
    if (kind == BICUBIC) {
        net->fixed = net->fixed || sized;
        if (ratios[0].out * ratios[1].in != ratios[1].out * ratios[0].in) {
            uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED, "bicubic by two scales");
            return;
        }
        tops[0] = bicubic(net, input, &ratios[0]);
    } else {
        tops[0] = kind == NEAREST ? uf_upsample_nearest(net->graph, input, &options)
                                  : uf_upsample_bilinear(net->graph, input, &options);
    }
}

/* ---- others ---- */

static void pixel_shuffle(uf_ncnn *net, uf_value *tops) {
    const int64_t factor = uf_ncnn_integer(net, 0, 1);
    uf_ncnn_only(net, 1, "mode", 0);
    if (uf_ncnn_need_rank(net, uf_ncnn_bottom(net, 0), 4)) {
        tops[0] = uf_pixel_shuffle(net->graph, uf_ncnn_bottom(net, 0), factor);
    }
}

static void reorg(uf_ncnn *net, uf_value *tops) {
    const int64_t factor = uf_ncnn_integer(net, 0, 1);
    uf_ncnn_only(net, 1, "mode", 0);
    if (uf_ncnn_need_rank(net, uf_ncnn_bottom(net, 0), 4)) {
        tops[0] = uf_pixel_unshuffle(net->graph, uf_ncnn_bottom(net, 0), factor);
    }
}

static void padding(uf_ncnn *net, uf_value *tops) {
    static const uf_pad_mode modes[] = {UF_PAD_ZERO, UF_PAD_REPLICATE, UF_PAD_REFLECT};
    const int64_t top = uf_ncnn_integer(net, 0, 0), bottom = uf_ncnn_integer(net, 1, 0);
    const int64_t left = uf_ncnn_integer(net, 2, 0), right = uf_ncnn_integer(net, 3, 0);
    const int64_t mode = uf_ncnn_integer(net, 4, 0);
    const double value = uf_ncnn_number(net, 5, 0.0);
    uf_ncnn_only(net, 6, "per_channel_pad_data_size", 0);
    uf_ncnn_only(net, 7, "front", 0);
    uf_ncnn_only(net, 8, "behind", 0);
    if (mode < 0 || mode > 2 || (mode == 0 && value != 0.0)) {
        uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED,
                       "type (option 4) is %" PRId64
                       " and value (option 5) %g; unfurl pads by 0, by the border and by "
                       "reflection",
                       mode, value);
    }
    if (uf_ncnn_need_rank(net, uf_ncnn_bottom(net, 0), 4) && net->status == UF_OK) {
        tops[0] =
            uf_pad2d(net->graph, uf_ncnn_bottom(net, 0), modes[mode], left, right, top, bottom);
    }
}

static void softmax(uf_ncnn *net, uf_value *tops) {
    const uf_value input = uf_ncnn_bottom(net, 0);
    const int64_t axis = uf_ncnn_integer(net, 0, 0);
    uf_ncnn_ignore(net, (const int32_t[]){1, -1}); /* written by a version that means it so */
    const int32_t number = uf_ncnn_axis(net, axis, uf_ncnn_shape(net, input).rank);
    if (net->status == UF_OK) {
        tops[0] = uf_softmax(net->graph, input, number);
    }
}

const uf_ncnn_kind uf_ncnn_image_kinds[] = {
    {"Pooling", pooling, 1, 1, 1},
    {"Interp", interp, 1, 1, 1},
    {"PixelShuffle", pixel_shuffle, 1, 1, 1},
    {"Reorg", reorg, 1, 1, 1},
    {"Padding", padding, 1, 1, 1},
    {"Softmax", softmax, 1, 1, 1},
    {NULL, NULL, 0, 0, 0},
};
