/* layers.c - convolutions, norms, Linear and activations. */
#include "parity/replay.h"

#include <stdlib.h>
#include <string.h>

static int replay_conv(struct replay *replay, bool transposed) {
    struct layer_run run;
    struct array weight;
    uf_conv_transpose2d_options up = uf_conv_transpose2d_options_default();
    uf_conv2d_options down = uf_conv2d_options_default();
    TRY(parity_read_integers(replay, "stride", up.stride, 2));
    TRY(parity_read_integers(replay, "padding", up.padding, 2));
    TRY(parity_read_integers(replay, "output_padding", up.output_padding, 2));
    TRY(parity_read_integers(replay, "dilation", up.dilation, 2));
    TRY(parity_read_integers(replay, "groups", &up.groups, 1));
    TRY(parity_read_array(replay, "weight", &weight));
    free(weight.values);
    if (weight.shape.rank != 4) {
        return fail("%s/weight does not have four axes", replay->group);
    }
    memcpy(up.kernel, &weight.shape.extent[2], sizeof up.kernel);
    up.bias = parity_has(replay, "bias");
    memcpy(down.kernel, up.kernel, sizeof down.kernel);
    memcpy(down.stride, up.stride, sizeof down.stride);
    memcpy(down.padding, up.padding, sizeof down.padding);
    memcpy(down.dilation, up.dilation, sizeof down.dilation);
    down.groups = up.groups;
    down.bias = up.bias;
    int status = parity_begin(replay, &run, "input", NULL);
    if (status == EXIT_DONE) {
        const uf_scope root = uf_at(run.store, "");
        run.output = transposed
                         ? uf_conv_transpose2d(run.graph, run.inputs[0], root,
                                               weight.shape.extent[1] * up.groups, &up)
                         : uf_conv2d(run.graph, run.inputs[0], root, weight.shape.extent[0], &down);
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

static int replay_conv_transpose2d(struct replay *replay) {
    return replay_conv(replay, true);
}

static int replay_conv2d(struct replay *replay) {
    return replay_conv(replay, false);
}

static int replay_batch_norm(struct replay *replay, uf_mode mode) {
    struct layer_run run;
    uf_batch_norm2d_options options = uf_batch_norm2d_options_default();
    TRY(parity_read_attribute(replay, "eps", &options.eps, 1));
    TRY(parity_read_attribute(replay, "momentum", &options.momentum, 1));
    options.affine = parity_has(replay, "weight");
    int status = parity_begin(replay, &run, "input", NULL);
    if (status == EXIT_DONE) {
        run.mode = mode;
        run.output = uf_batch_norm2d(run.graph, run.inputs[0], uf_at(run.store, ""), &options);
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

static int replay_batch_norm_train(struct replay *replay) {
    return replay_batch_norm(replay, UF_TRAIN);
}

static int replay_batch_norm_eval(struct replay *replay) {
    return replay_batch_norm(replay, UF_EVAL);
}

static int replay_linear(struct replay *replay) {
    struct layer_run run;
    struct array weight;
    TRY(parity_read_array(replay, "weight", &weight));
    free(weight.values);
    int status = parity_begin(replay, &run, "input", NULL);
    if (status == EXIT_DONE) {
        run.output = uf_linear(run.graph, run.inputs[0], uf_at(run.store, ""),
                               weight.shape.extent[0], parity_has(replay, "bias"));
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

/* activation/NAME; the slope of a leaky ReLU is in its name, leaky_relu_0p2. */
static int replay_activation(struct replay *replay) {
    const char *name = strchr(replay->group, '/') + 1;
    struct layer_run run;
    int status = parity_begin(replay, &run, "input", NULL);
    if (status == EXIT_DONE) {
        if (strcmp(name, "relu") == 0) {
            run.output = uf_relu(run.graph, run.inputs[0]);
        } else if (strcmp(name, "tanh") == 0) {
            run.output = uf_tanh(run.graph, run.inputs[0]);
        } else if (strcmp(name, "sigmoid") == 0) {
            run.output = uf_sigmoid(run.graph, run.inputs[0]);
        } else {
            char slope[32] = "0.01";
            if (name[strlen("leaky_relu")] == '_') {
                snprintf(slope, sizeof slope, "%s", name + strlen("leaky_relu_"));
                char *point = strchr(slope, 'p');
                if (point != NULL) {
                    *point = '.';
                }
            }
            run.output = uf_leaky_relu(run.graph, run.inputs[0], strtod(slope, NULL));
        }
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

const struct kind parity_layers[] = {
    {"conv_transpose2d/", replay_conv_transpose2d, false},
    {"conv2d/", replay_conv2d, false},
    {"batch_norm2d_train/", replay_batch_norm_train, false},
    {"batch_norm2d_eval/", replay_batch_norm_eval, false},
    {"linear/", replay_linear, false},
    {"linear_any_rank/", replay_linear, false},
    {"activation/relu", replay_activation, true},
    {"activation/leaky_relu", replay_activation, false},
    {"activation/tanh", replay_activation, true},
    {"activation/sigmoid", replay_activation, true},
    {NULL, NULL, false},
};
