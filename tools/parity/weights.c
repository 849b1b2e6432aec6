/* weights.c - weight norm and spectral norm. */
#include <stdlib.h>

#include "parity/replay.h"

/* The shape of a dataset of the group. */
static int read_shape(const struct replay *replay, const char *name, uf_shape *shape) {
    struct array array;
    TRY(parity_read_array(replay, name, &array));
    *shape = array.shape;
    free(array.values);
    return EXIT_DONE;
}

static int replay_weight_norm(struct replay *replay) {
    struct layer_run run;
    uf_shape shape;
    int64_t axis = 0;
    int status = parity_begin(replay, &run, NULL);
    if (status == EXIT_DONE) {
        status = read_shape(replay, "weight_v", &shape);
    }
    if (status == EXIT_DONE) {
        status = parity_read_integers(replay, "axis", &axis, 1);
    }
    if (status == EXIT_DONE) {
        run.output = uf_weight_norm(run.graph, uf_at(run.store, ""), shape, (int32_t)axis);
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

/* With u and v as the training run left them. */
static int run_evaluation(struct replay *replay, struct layer_run *run) {
    uf_program_options options = uf_program_options_default();
    options.dtype = replay->dtype;
    uf_program_destroy(run->program);
    run->program = NULL;
    TRY_LIBRARY(uf_program_compile(run->graph, &options, &run->program));
    TRY(parity_upload(replay, uf_program_input(run->program, "input"), "input"));
    TRY_LIBRARY(uf_program_run(run->program));
    return parity_compare(replay, uf_program_output(run->program, "output"), "output_eval");
}

static int replay_spectral_norm(struct replay *replay, bool transposed) {
    struct layer_run run;
    uf_shape weight;
    int status = parity_begin(replay, &run, "input", NULL);
    if (status == EXIT_DONE) {
        status = read_shape(replay, "weight_orig_before", &weight);
    }
    if (status == EXIT_DONE) {
        uf_conv2d_options conv = uf_conv2d_options_default();
        uf_conv_transpose2d_options options = uf_conv_transpose2d_options_default();
        const uf_scope scope = uf_at(run.store, "");
        for (int i = 0; i < 2; i++) {
            conv.kernel[i] = options.kernel[i] = weight.extent[2 + i];
        }
        conv.weight = options.weight = UF_WEIGHT_SPECTRAL_NORM;
        run.mode = UF_TRAIN;
        run.output =
            transposed
                ? uf_conv_transpose2d(run.graph, run.inputs[0], scope, weight.extent[1], &options)
                : uf_conv2d(run.graph, run.inputs[0], scope, weight.extent[0], &conv);
        status = parity_run_layer(replay, &run, "output");
    }
    if (status == EXIT_DONE) {
        status = run_evaluation(replay, &run);
    }
    parity_end(&run);
    return status;
}

static int replay_spectral_norm_conv(struct replay *replay) {
    return replay_spectral_norm(replay, false);
}

static int replay_spectral_norm_conv_transpose(struct replay *replay) {
    return replay_spectral_norm(replay, true);
}

const struct kind parity_weights[] = {
    {"weight_norm/", replay_weight_norm, false},
    {"spectral_norm_conv2d/", replay_spectral_norm_conv, false},
    {"spectral_norm_conv_transpose2d/", replay_spectral_norm_conv_transpose, false},
    {NULL, NULL, false},
};
