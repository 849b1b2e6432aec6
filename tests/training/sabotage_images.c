/* sabotage_images.c - defects of the gradients of layers that change the size of images. */
#include <stddef.h>
#include <stdlib.h>

#include <unfurl/layers.h>

#include "sabotage.h"

/* ---- resample_backward ---- */

/* The input goes into two layers: the second gradient is added. */
static void build_upsample(uf_graph *graph, uf_store *store) {
    uf_upsample_options options = uf_upsample_options_default();
    (void)store;
    options.scale[1] = 1.5;
    const uf_value x = uf_input(graph, "x", UF_SHAPE(2, 3, 4, 6));
    uf_output(graph, "y", uf_upsample_bilinear(graph, x, &options));
    uf_output(graph, "z", uf_upsample_nearest(graph, x, &options));
}

static uf_status real_resample(uf_context *context, const uf_resample_kernel_args *args) {
    sabotage_hit();
    return context->device->kernels->resample_backward(context, args);
}

static uf_status resample_sign(uf_context *context, const uf_resample_kernel_args *args) {
    const uf_status status = real_resample(context, args);
    sabotage_scale(&args->grad_input, -1.0);
    return status;
}

static uf_status resample_other(uf_context *context, const uf_resample_kernel_args *args) {
    uf_resample_kernel_args bad = *args;
    bad.blend = !args->blend;
    return real_resample(context, &bad);
}

static uf_status resample_shifted(uf_context *context, const uf_resample_kernel_args *args) {
    uf_resample_kernel_args bad = *args;
    bad.axis[0].shift = 0.5 - args->axis[0].shift;
    return real_resample(context, &bad);
}

/* Corners aligned. */
static uf_status resample_aligned(uf_context *context, const uf_resample_kernel_args *args) {
    uf_resample_kernel_args bad = *args;
    for (int i = 0; i < 2; ++i) {
        bad.axis[i] =
            uf_resample_axis_of(args->axis[i].in, args->axis[i].out, (double)(args->axis[i].in - 1),
                                (double)(args->axis[i].out - 1), 0.0);
    }
    return real_resample(context, &bad);
}

static uf_status resample_no_column(uf_context *context, const uf_resample_kernel_args *args) {
    const uf_status status = real_resample(context, args);
    sabotage_alter(&args->grad_input, NO_COLUMN);
    return status;
}

static uf_status resample_no_image(uf_context *context, const uf_resample_kernel_args *args) {
    const uf_status status = real_resample(context, args);
    sabotage_alter(&args->grad_input, NO_IMAGE);
    return status;
}

static uf_status resample_nudged(uf_context *context, const uf_resample_kernel_args *args) {
    const uf_status status = real_resample(context, args);
    sabotage_nudge(&args->grad_input);
    return status;
}

static uf_status resample_overwrites(uf_context *context, const uf_resample_kernel_args *args) {
    uf_resample_kernel_args bad = *args;
    bad.mode = UF_OVERWRITE;
    return real_resample(context, &bad);
}

#define RESAMPLE(text, defect)                                                                     \
    {                                                                                              \
        .name = "resample_backward: " text, .build = build_upsample,                               \
        .slot = offsetof(struct uf_kernels, resample_backward),                                    \
        .function = (void (*)(void))(defect),                                                      \
    }

/* ---- pool_backward ---- */

/* Windows overlap and reach into the padding; the input goes into two layers. */
static void build_pool(uf_graph *graph, uf_store *store) {
    uf_max_pool2d_options most = uf_max_pool2d_options_default();
    uf_avg_pool2d_options average = uf_avg_pool2d_options_default();
    (void)store;
    most.kernel[0] = average.kernel[1] = 3;
    most.stride[0] = average.stride[0] = 2;
    most.stride[1] = average.stride[1] = 1;
    most.padding[0] = average.padding[1] = 1;
    average.count_include_pad = false;
    const uf_value x = uf_input(graph, "x", UF_SHAPE(2, 3, 5, 6));
    uf_output(graph, "y", uf_max_pool2d(graph, x, &most));
    uf_output(graph, "z", uf_avg_pool2d(graph, x, &average));
}

static uf_status real_pool(uf_context *context, const uf_pool_kernel_args *args) {
    sabotage_hit();
    return context->device->kernels->pool_backward(context, args);
}

static uf_status pool_sign(uf_context *context, const uf_pool_kernel_args *args) {
    const uf_status status = real_pool(context, args);
    sabotage_scale(&args->grad_input, -1.0);
    return status;
}

/* The average's gradient is spread over the padding too. */
static uf_status pool_padding(uf_context *context, const uf_pool_kernel_args *args) {
    uf_pool_kernel_args bad = *args;
    bad.count_include_pad = !args->count_include_pad;
    return real_pool(context, &bad);
}

/* The maximum is looked for in the neighbouring column. */
static uf_status pool_other_place(uf_context *context, const uf_pool_kernel_args *args) {
    uf_pool_kernel_args bad = *args;
    if (args->kind != UF_POOL_MAX) {
        return real_pool(context, args);
    }
    bad.input = sabotage_clone(&args->input);
    sabotage_alter(&bad.input, SHIFT_COLUMN);
    const uf_status status = real_pool(context, &bad);
    free(bad.input.data);
    return status;
}

static uf_status pool_shifted(uf_context *context, const uf_pool_kernel_args *args) {
    uf_pool_kernel_args bad = *args;
    bad.grad_output = sabotage_clone(&args->grad_output);
    sabotage_alter(&bad.grad_output, SHIFT_ROW);
    const uf_status status = real_pool(context, &bad);
    free(bad.grad_output.data);
    return status;
}

static uf_status pool_no_image(uf_context *context, const uf_pool_kernel_args *args) {
    const uf_status status = real_pool(context, args);
    sabotage_alter(&args->grad_input, NO_IMAGE);
    return status;
}

static uf_status pool_nudged(uf_context *context, const uf_pool_kernel_args *args) {
    const uf_status status = real_pool(context, args);
    sabotage_nudge(&args->grad_input);
    return status;
}

static uf_status pool_overwrites(uf_context *context, const uf_pool_kernel_args *args) {
    uf_pool_kernel_args bad = *args;
    bad.mode = UF_OVERWRITE;
    return real_pool(context, &bad);
}

#define POOL(text, defect)                                                                         \
    {                                                                                              \
        .name = "pool_backward: " text, .build = build_pool,                                       \
        .slot = offsetof(struct uf_kernels, pool_backward), .function = (void (*)(void))(defect),  \
    }

const sabotage sabotage_images[] = {
    POOL("wrong sign", pool_sign),
    POOL("spread over the padding", pool_padding),
    POOL("the maximum's neighbour", pool_other_place),
    POOL("another row's gradient", pool_shifted),
    POOL("the last image missing", pool_no_image),
    POOL("one element wrong by 1%", pool_nudged),
    POOL("overwrites where it should add", pool_overwrites),
    RESAMPLE("wrong sign", resample_sign),
    RESAMPLE("nearest for bilinear and the reverse", resample_other),
    RESAMPLE("half a row away", resample_shifted),
    RESAMPLE("corners aligned", resample_aligned),
    RESAMPLE("the last column missing", resample_no_column),
    RESAMPLE("the last image missing", resample_no_image),
    RESAMPLE("one element wrong by 1%", resample_nudged),
    RESAMPLE("overwrites where it should add", resample_overwrites),
    {.name = NULL},
};
