/* images.c - layers that change the size of images: upsampling, pooling. */
#include <string.h>

#include "gradcheck/cases.h"

struct upsample {
    uf_value (*layer)(uf_graph *graph, uf_value input, const uf_upsample_options *options);
    int64_t size[2];
    double scale[2];
    bool align_corners;
};

static const struct upsample upsamples[] = {
    {uf_upsample_nearest, {0, 0}, {2, 2}, false},
    {uf_upsample_nearest, {0, 0}, {1.5, 3}, false},
    {uf_upsample_nearest, {3, 7}, {0, 0}, false},
    {uf_upsample_bilinear, {0, 0}, {2, 2}, false},
    {uf_upsample_bilinear, {3, 7}, {0, 0}, false},
    {uf_upsample_bilinear, {0, 0}, {1.5, 0.75}, false},
    {uf_upsample_bilinear, {0, 0}, {2, 2}, true},
    {uf_upsample_bilinear, {3, 11}, {0, 0}, true},
    {uf_upsample_bilinear, {1, 1}, {0, 0}, true},
    {uf_upsample_bilinear, {1, 9}, {0, 0}, false},
};

/* The input goes into two layers: the second gradient is added. */
static void build_upsample(uf_graph *graph, uf_store *store, const void *data) {
    const struct upsample *upsample = data;
    uf_upsample_options options = uf_upsample_options_default();
    (void)store;
    for (int axis = 0; axis < 2; axis++) {
        options.size[axis] = upsample->size[axis];
        options.scale[axis] = upsample->scale[axis];
    }
    options.align_corners = upsample->align_corners;
    const uf_value x = uf_input(graph, "input", UF_SHAPE(2, 3, 4, 5));
    uf_output(graph, "output", upsample->layer(graph, x, &options));
    uf_output(graph, "again", upsample->layer(graph, uf_tanh(graph, x), &options));
}

/* A value that lies in a concat is read, and the result lies in another one: several images with
 * gaps between them. */
static void build_joined(uf_graph *graph, uf_store *store, const void *data) {
    const struct upsample *upsample = data;
    uf_upsample_options options = uf_upsample_options_default();
    (void)store;
    const uf_value x = uf_tanh(graph, uf_input(graph, "input", UF_SHAPE(2, 3, 4, 5)));
    const uf_value beside = uf_tanh(graph, uf_input(graph, "beside", UF_SHAPE(2, 1, 4, 5)));
    const uf_value large = uf_tanh(graph, uf_input(graph, "large", UF_SHAPE(2, 2, 8, 10)));
    const uf_value inner[2] = {x, beside};
    uf_output(graph, "inner", uf_concat(graph, inner, 2));
    const uf_value outer[2] = {upsample->layer(graph, x, &options), large};
    uf_output(graph, "outer", uf_tanh(graph, uf_concat(graph, outer, 2)));
}

/* ---- pooling ---- */

struct pool {
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    bool ceil_mode, inside; /* inside: an average does not count the padding */
};

static const struct pool pools[] = {
    {{2, 2}, {0, 0}, {0, 0}, {1, 1}, false, false}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, false, true},
    {{3, 2}, {1, 1}, {1, 1}, {1, 1}, false, true},  {{2, 3}, {3, 2}, {1, 1}, {1, 1}, true, false},
    {{2, 3}, {3, 2}, {1, 1}, {1, 1}, true, true},   {{2, 2}, {1, 2}, {1, 1}, {2, 3}, false, false},
};

static uf_value max_pool(uf_graph *graph, uf_value input, const struct pool *pool) {
    uf_max_pool2d_options options = uf_max_pool2d_options_default();
    memcpy(options.kernel, pool->kernel, sizeof options.kernel);
    memcpy(options.stride, pool->stride, sizeof options.stride);
    memcpy(options.padding, pool->padding, sizeof options.padding);
    memcpy(options.dilation, pool->dilation, sizeof options.dilation);
    options.ceil_mode = pool->ceil_mode;
    return uf_max_pool2d(graph, input, &options);
}

static uf_value avg_pool(uf_graph *graph, uf_value input, const struct pool *pool) {
    uf_avg_pool2d_options options = uf_avg_pool2d_options_default();
    memcpy(options.kernel, pool->kernel, sizeof options.kernel);
    memcpy(options.stride, pool->stride, sizeof options.stride);
    memcpy(options.padding, pool->padding, sizeof options.padding);
    options.ceil_mode = pool->ceil_mode;
    options.count_include_pad = !pool->inside;
    return uf_avg_pool2d(graph, input, &options);
}

static void build_max_pool(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    const uf_value x = uf_input(graph, "input", UF_SHAPE(2, 3, 5, 6));
    uf_output(graph, "output", max_pool(graph, x, data));
    uf_output(graph, "again", max_pool(graph, uf_tanh(graph, x), data));
}

static void build_avg_pool(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    const uf_value x = uf_input(graph, "input", UF_SHAPE(2, 3, 5, 6));
    uf_output(graph, "output", avg_pool(graph, x, data));
    uf_output(graph, "again", avg_pool(graph, uf_tanh(graph, x), data));
}

static void build_joined_pools(uf_graph *graph, uf_store *store, const void *data) {
    (void)store;
    const uf_value x = uf_tanh(graph, uf_input(graph, "input", UF_SHAPE(2, 3, 4, 6)));
    const uf_value beside = uf_tanh(graph, uf_input(graph, "beside", UF_SHAPE(2, 1, 4, 6)));
    const uf_value inner[2] = {x, beside};
    uf_output(graph, "inner", uf_concat(graph, inner, 2));
    const uf_value outer[2] = {max_pool(graph, x, data), avg_pool(graph, x, data)};
    uf_output(graph, "outer", uf_tanh(graph, uf_concat(graph, outer, 2)));
}

#define MAX_POOL(i, text)                                                                          \
    { "pool2d", "max, " text, false, UF_TRAIN, build_max_pool, &pools[i] }
#define AVG_POOL(i, text)                                                                          \
    { "pool2d", "avg, " text, true, UF_TRAIN, build_avg_pool, &pools[i] }
#define UPSAMPLE(i, text)                                                                          \
    { "upsample", text, true, UF_TRAIN, build_upsample, &upsamples[i] }

const gradcheck_case gradcheck_images[] = {
    UPSAMPLE(0, "nearest by 2"),
    UPSAMPLE(1, "nearest by 1.5 and 3"),
    UPSAMPLE(2, "nearest to 3x7"),
    UPSAMPLE(3, "bilinear by 2"),
    UPSAMPLE(4, "bilinear to 3x7"),
    UPSAMPLE(5, "bilinear by 1.5 and 0.75"),
    UPSAMPLE(6, "bilinear by 2, corners aligned"),
    UPSAMPLE(7, "bilinear to 3x11, corners aligned"),
    UPSAMPLE(8, "bilinear to 1x1, corners aligned"),
    UPSAMPLE(9, "bilinear to 1x9"),
    {"upsample", "nearest, between concats", true, UF_TRAIN, build_joined, &upsamples[0]},
    {"upsample", "bilinear, between concats", true, UF_TRAIN, build_joined, &upsamples[3]},
    MAX_POOL(0, "k2"),
    MAX_POOL(1, "k3 s2 p1"),
    MAX_POOL(2, "k3x2 p1"),
    MAX_POOL(3, "k2x3 s3x2 p1, rounded up"),
    MAX_POOL(5, "k2 s1x2 p1, dilated"),
    AVG_POOL(0, "k2"),
    AVG_POOL(1, "k3 s2 p1, without the padding"),
    AVG_POOL(2, "k3x2 p1, without the padding"),
    AVG_POOL(3, "k2x3 s3x2 p1, rounded up"),
    AVG_POOL(4, "k2x3 s3x2 p1, rounded up, without the padding"),
    {"pool2d", "between concats", false, UF_TRAIN, build_joined_pools, &pools[0]},
    {NULL, NULL, false, UF_TRAIN, NULL, NULL},
};
