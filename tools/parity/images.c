/* images.c - layers that change the size of images: upsampling. */
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

const struct kind parity_images[] = {
    {"upsample_nearest/", replay_nearest, false},
    {"upsample_bilinear/", replay_bilinear, false},
    {NULL, NULL, false},
};
