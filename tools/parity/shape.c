/* shape.c - arithmetic with broadcasting, reductions, and layers that rearrange elements. */
#include "parity/replay.h"

#include <stdlib.h>
#include <string.h>

static int replay_binary(struct replay *replay) {
    static const struct {
        const char *name;
        uf_value (*apply)(uf_graph *graph, uf_value a, uf_value b);
    } operations[] = {{"add", uf_add}, {"sub", uf_sub}, {"mul", uf_mul}, {"div", uf_div}};
    const char *name = replay->group + strlen("binary_");
    struct layer_run run;
    int status = parity_begin(replay, &run, "a_", "b_", NULL);
    if (status == EXIT_DONE) {
        for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
            if (strncmp(name, operations[i].name, strlen(operations[i].name)) == 0) {
                run.output = operations[i].apply(run.graph, run.inputs[0], run.inputs[1]);
            }
        }
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

/* A list of axes of any length up to UF_MAX_RANK. */
static int read_axes(const struct replay *replay, int32_t *axes, int32_t *count) {
    double numbers[UF_MAX_RANK];
    TRY_LIBRARY(
        uf_hdf5_read_attribute(replay->file, replay->group, "axes", numbers, UF_MAX_RANK, count));
    if (*count > UF_MAX_RANK) {
        return fail("attribute axes of %s holds %d numbers", replay->group, (int)*count);
    }
    for (int32_t i = 0; i < *count; i++) {
        if (!(numbers[i] >= -UF_MAX_RANK && numbers[i] < UF_MAX_RANK)) {
            return fail("attribute axes of %s holds %g", replay->group, numbers[i]);
        }
        axes[i] = (int32_t)numbers[i];
    }
    return EXIT_DONE;
}

static int replay_reduce(struct replay *replay) {
    const bool mean = strncmp(replay->group, "reduce_mean", strlen("reduce_mean")) == 0;
    struct layer_run run;
    int32_t axes[UF_MAX_RANK], count;
    int64_t keepdim = 0;
    TRY(read_axes(replay, axes, &count));
    TRY(parity_read_integers(replay, "keepdim", &keepdim, 1));
    int status = parity_begin(replay, &run, "input", NULL);
    if (status == EXIT_DONE) {
        run.output = mean ? uf_mean(run.graph, run.inputs[0], axes, count, keepdim != 0)
                          : uf_sum(run.graph, run.inputs[0], axes, count, keepdim != 0);
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

static int replay_global_avg_pool2d(struct replay *replay) {
    struct layer_run run;
    int status = parity_begin(replay, &run, "input", NULL);
    if (status == EXIT_DONE) {
        run.output = uf_global_avg_pool2d(run.graph, run.inputs[0]);
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

static int replay_permute(struct replay *replay) {
    struct layer_run run;
    int32_t axes[UF_MAX_RANK], count;
    TRY(read_axes(replay, axes, &count));
    int status = parity_begin(replay, &run, "input", NULL);
    if (status == EXIT_DONE) {
        run.output = uf_permute(run.graph, run.inputs[0], axes, count);
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

static int replay_slice(struct replay *replay) {
    struct layer_run run;
    int64_t axis = 0, start = 0, stop = INT64_MAX;
    TRY(parity_read_integers(replay, "axis", &axis, 1));
    TRY(parity_read_integers(replay, "start", &start, 1));
    TRY(parity_read_integers(replay, "stop", &stop, 1));
    int status = parity_begin(replay, &run, "input", NULL);
    if (status == EXIT_DONE) {
        run.output = uf_slice(run.graph, run.inputs[0], (int32_t)axis, start, stop);
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

static int replay_concat(struct replay *replay) {
    struct layer_run run;
    int64_t axis = 1;
    TRY(parity_read_integers(replay, "axis", &axis, 1));
    int status = parity_begin(replay, &run, "a_", "b_", NULL);
    if (status == EXIT_DONE) {
        run.output = uf_concat_axis(run.graph, run.inputs, 2, (int32_t)axis);
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

static int replay_pixel_shuffle(struct replay *replay) {
    const bool back = strncmp(replay->group, "pixel_unshuffle", strlen("pixel_unshuffle")) == 0;
    struct layer_run run;
    int64_t factor = 0;
    TRY(parity_read_integers(replay, "factor", &factor, 1));
    int status = parity_begin(replay, &run, "input", NULL);
    if (status == EXIT_DONE) {
        run.output = back ? uf_pixel_unshuffle(run.graph, run.inputs[0], factor)
                          : uf_pixel_shuffle(run.graph, run.inputs[0], factor);
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

const struct kind parity_shape[] = {
    {"binary_add/", replay_binary, false},
    {"binary_sub/", replay_binary, false},
    {"binary_mul/", replay_binary, false},
    {"binary_div/", replay_binary, false},
    {"reduce_mean/", replay_reduce, false},
    {"reduce_sum/", replay_reduce, false},
    {"global_avg_pool2d/", replay_global_avg_pool2d, false},
    {"permute/", replay_permute, false},
    {"slice/", replay_slice, false},
    {"concat/", replay_concat, false},
    {"pixel_shuffle/", replay_pixel_shuffle, false},
    {"pixel_unshuffle/", replay_pixel_shuffle, false},
    {NULL, NULL, false},
};
