/* penalties.c - gradient penalties of a critic, which take its second derivatives. */
#include "parity/replay.h"

#include <stdlib.h>
#include <string.h>

static uf_value conv(struct layer_run *run, uf_value x, const char *name, int64_t channels,
                     int64_t kernel, int64_t stride) {
    uf_conv2d_options options = uf_conv2d_options_default();
    options.kernel[0] = options.kernel[1] = kernel;
    options.stride[0] = options.stride[1] = stride;
    options.padding[0] = options.padding[1] = 1;
    return uf_conv2d(run->graph, x, uf_at(run->store, name), channels, &options);
}

/* The names are those of an nn.Sequential. Cases 000 have Tanh in the middle, the others
 * Softplus: the file says so by a text, and attributes are read as numbers. */
static uf_value critic(struct layer_run *run, uf_value x, bool has_tanh) {
    x = uf_leaky_relu(run->graph, conv(run, x, "0", 5, 4, 2), 0.2);
    x = conv(run, x, "2", 7, 3, 1);
    x = has_tanh ? uf_tanh(run->graph, x) : uf_softplus(run->graph, x, 1.0);
    x = uf_leaky_relu(run->graph, conv(run, x, "4", 4, 4, 2), 0.2);
    x = uf_reshape(run->graph, x, UF_SHAPE(-1, 16));
    return uf_linear(run->graph, x, uf_at(run->store, "7"), 1, true);
}

/* Load `weights/...`, or compare gradients with `grads/...`. */
static int each_parameter(struct replay *replay, const struct layer_run *run, bool load) {
    for (int64_t i = 0; i < uf_store_size(run->store); i++) {
        char name[PARITY_PATH_SIZE];
        uf_store_entry entry;
        uf_tensor *tensor;
        TRY_LIBRARY(uf_store_entry_at(run->store, i, &entry));
        snprintf(name, sizeof name, "%s/%s", load ? "weights" : "grads", entry.name);
        if (load) {
            TRY_LIBRARY(uf_store_tensor(run->store, entry.name, &tensor));
            TRY(parity_upload(replay, tensor, name));
        } else {
            TRY_LIBRARY(uf_store_gradient(run->store, entry.name, &tensor));
            TRY(parity_compare(replay, tensor, name));
        }
    }
    return EXIT_DONE;
}

static int run_penalty(struct replay *replay, struct layer_run *run, uf_value penalty) {
    uf_pass pass = uf_pass_default();
    uf_program_options options = uf_program_options_default();
    pass.losses = &penalty;
    pass.stores = &run->store;
    pass.loss_count = pass.store_count = 1;
    options.dtype = replay->dtype;
    options.passes = &pass;
    options.pass_count = 1;
    uf_output(run->graph, "penalty", penalty);
    TRY_LIBRARY(uf_graph_status(run->graph));
    TRY_LIBRARY(uf_store_seal(run->store));
    TRY(each_parameter(replay, run, true));
    TRY_LIBRARY(uf_program_compile(run->graph, &options, &run->program));
    TRY(parity_upload(replay, uf_program_input(run->program, "input"), "input"));
    /* A bias that no second derivative reaches gets no gradient; PyTorch's is 0. */
    TRY_LIBRARY(uf_store_zero_gradients(run->store));
    TRY_LIBRARY(uf_program_run(run->program));
    TRY(parity_compare(replay, uf_program_output(run->program, "penalty"), "penalty"));
    TRY(parity_compare(replay, uf_program_output(run->program, "gradient"), "grad_x"));
    return each_parameter(replay, run, false);
}

static int replay_penalty(struct replay *replay) {
    uf_gradient_penalty_options options = uf_gradient_penalty_options_default();
    const bool is_r1 = strstr(replay->group, "_r1/") != NULL;
    struct layer_run run;
    int status = parity_begin(replay, &run, "input", NULL);
    if (status == EXIT_DONE) {
        const char *number = strchr(replay->group, '/') + 1;
        const uf_value output = critic(&run, run.inputs[0], strcmp(number, "000") == 0);
        options.kind = is_r1 ? UF_GRADIENT_PENALTY_R1 : UF_GRADIENT_PENALTY_WGAN_GP;
        options.weight = is_r1 ? 2.0 : 1.0; /* the file's R1 is the mean of |g|^2 */
        uf_output(run.graph, "gradient", uf_gradient(run.graph, output, run.inputs[0]));
        status = run_penalty(replay, &run,
                             uf_gradient_penalty(run.graph, output, run.inputs[0], &options));
    }
    parity_end(&run);
    return status;
}

const struct kind parity_penalties[] = {
    {"gradient_penalty_wgan_gp/", replay_penalty, false},
    {"gradient_penalty_r1/", replay_penalty, false},
    {NULL, NULL, false},
};
