/* images.c - layers that change the size of images: upsampling, pooling. */
#include "parity/replay.h"

static int replay_upsample(struct replay *replay, bool bilinear) {
    struct layer_run run;
    uf_upsample_options options = uf_upsample_options_default();
    int64_t align_corners = 0;
    TRY(parity_read_integers(replay, "size", options.size, 2));
    TRY(parity_read_attribute(replay, "scale", options.scale, 2));
    TRY(parity_read_integers(replay, "align_corners", &align_corners, 1));
    options.align_corners = align_corners != 0;
    int status = parity_begin(replay, &run, "input", NULL);
    if (status == EXIT_DONE) {
        run.output = bilinear ? uf_upsample_bilinear(run.graph, run.inputs[0], &options)
                              : uf_upsample_nearest(run.graph, run.inputs[0], &options);
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

static int replay_nearest(struct replay *replay) {
    return replay_upsample(replay, false);
}

static int replay_bilinear(struct replay *replay) {
    return replay_upsample(replay, true);
}

static int replay_max_pool2d(struct replay *replay) {
    struct layer_run run;
    uf_max_pool2d_options options = uf_max_pool2d_options_default();
    TRY(parity_read_integers(replay, "kernel", options.kernel, 2));
    TRY(parity_read_integers(replay, "stride", options.stride, 2));
    TRY(parity_read_integers(replay, "padding", options.padding, 2));
    int status = parity_begin(replay, &run, "input", NULL);
    if (status == EXIT_DONE) {
        run.output = uf_max_pool2d(run.graph, run.inputs[0], &options);
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

static int replay_avg_pool2d(struct replay *replay) {
    struct layer_run run;
    uf_avg_pool2d_options options = uf_avg_pool2d_options_default();
    int64_t count_include_pad = 1;
    TRY(parity_read_integers(replay, "kernel", options.kernel, 2));
    TRY(parity_read_integers(replay, "stride", options.stride, 2));
    TRY(parity_read_integers(replay, "padding", options.padding, 2));
    TRY(parity_read_integers(replay, "count_include_pad", &count_include_pad, 1));
    options.count_include_pad = count_include_pad != 0;
    int status = parity_begin(replay, &run, "input", NULL);
    if (status == EXIT_DONE) {
        run.output = uf_avg_pool2d(run.graph, run.inputs[0], &options);
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

const struct kind parity_images[] = {
    {"max_pool2d/", replay_max_pool2d, false},
    {"avg_pool2d/", replay_avg_pool2d, false},
    {"upsample_nearest/", replay_nearest, false},
    {"upsample_bilinear/", replay_bilinear, false},
    {NULL, NULL, false},
};
