/* images.c - layers that change the size of images: upsampling. */
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
    {NULL, NULL, false, UF_TRAIN, NULL, NULL},
};
