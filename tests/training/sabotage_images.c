/* sabotage_images.c - defects of the gradients of layers that change the size of images. */
#include <stddef.h>

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

const sabotage sabotage_images[] = {
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
