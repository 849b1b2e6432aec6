/* optimizers.c - `grads` holds one gradient per step, `params_after` the parameter after each. */
#include "parity/replay.h"

#include <stdlib.h>
#include <string.h>

static int make_optimizer(const struct replay *replay, uf_store *store, uf_optimizer **optimizer) {
    const char *name = strchr(replay->group, '/') + 1;
    if (strncmp(name, "adam", 4) == 0) {
        uf_adam_options adam = uf_adam_options_default();
        TRY(parity_read_attribute(replay, "lr", &adam.lr, 1));
        TRY(parity_read_attribute(replay, "beta1", &adam.beta1, 1));
        TRY(parity_read_attribute(replay, "beta2", &adam.beta2, 1));
        TRY(parity_read_attribute(replay, "eps", &adam.eps, 1));
        TRY(parity_read_attribute(replay, "weight_decay", &adam.weight_decay, 1));
        adam.decoupled = strncmp(name, "adamw", 5) == 0;
        TRY_LIBRARY(uf_optimizer_create_adam(store, &adam, optimizer));
        return EXIT_DONE;
    }
    if (strncmp(name, "rmsprop", 7) == 0) {
        uf_rmsprop_options rmsprop = uf_rmsprop_options_default();
        TRY(parity_read_attribute(replay, "lr", &rmsprop.lr, 1));
        TRY(parity_read_attribute(replay, "alpha", &rmsprop.alpha, 1));
        TRY(parity_read_attribute(replay, "eps", &rmsprop.eps, 1));
        TRY(parity_read_attribute(replay, "momentum", &rmsprop.momentum, 1));
        TRY(parity_read_attribute(replay, "weight_decay", &rmsprop.weight_decay, 1));
        TRY_LIBRARY(uf_optimizer_create_rmsprop(store, &rmsprop, optimizer));
        return EXIT_DONE;
    }
    uf_sgd_options sgd = uf_sgd_options_default();
    double nesterov = 0.0;
    TRY(parity_read_attribute(replay, "lr", &sgd.lr, 1));
    TRY(parity_read_attribute(replay, "momentum", &sgd.momentum, 1));
    TRY(parity_read_attribute(replay, "dampening", &sgd.dampening, 1));
    TRY(parity_read_attribute(replay, "weight_decay", &sgd.weight_decay, 1));
    TRY(parity_read_attribute(replay, "nesterov", &nesterov, 1));
    sgd.nesterov = nesterov != 0.0;
    TRY_LIBRARY(uf_optimizer_create_sgd(store, &sgd, optimizer));
    return EXIT_DONE;
}

static int take_steps(struct replay *replay, uf_store *store, uf_optimizer *optimizer,
                      const struct array *grads, const struct array *after, double *have) {
    uf_tensor *parameter, *gradient;
    TRY_LIBRARY(uf_store_tensor(store, "param", &parameter));
    TRY_LIBRARY(uf_store_gradient(store, "param", &gradient));
    TRY(parity_upload(replay, parameter, "param_before"));
    const int64_t count = uf_tensor_count(parameter);
    if (count == 0 || grads->count == 0 || grads->count != after->count ||
        grads->count % count != 0) {
        return fail("%s: grads and params_after do not fit param_before", replay->group);
    }
    for (int64_t first = 0; first < grads->count; first += count) {
        TRY_LIBRARY(uf_tensor_upload_as(gradient, UF_F64, grads->values + first, count));
        TRY_LIBRARY(uf_optimizer_step(optimizer));
        TRY_LIBRARY(uf_tensor_download_as(parameter, UF_F64, have, count));
        parity_note(replay, have, after->values + first, count);
    }
    return EXIT_DONE;
}

static int run_optimizer(struct replay *replay, uf_store *store, const struct array *before,
                         const struct array *grads, const struct array *after) {
    uf_optimizer *optimizer = NULL;
    TRY_LIBRARY(uf_store_declare(store, "param", before->shape, UF_ROLE_PARAMETER));
    int status = make_optimizer(replay, store, &optimizer);
    if (status == EXIT_DONE) {
        status = take_steps(replay, store, optimizer, grads, after, before->values);
    }
    uf_optimizer_destroy(optimizer);
    return status;
}

static int replay_optimizer(struct replay *replay) {
    uf_store_options options = uf_store_options_default();
    uf_store *store = NULL;
    struct array before = {0}, grads = {0}, after = {0};
    options.dtype = replay->dtype;
    TRY_LIBRARY(uf_store_create_with(replay->context, replay->group, &options, &store));
    int status = parity_read_array(replay, "param_before", &before);
    status = status == EXIT_DONE ? parity_read_array(replay, "grads", &grads) : status;
    status = status == EXIT_DONE ? parity_read_array(replay, "params_after", &after) : status;
    status = status == EXIT_DONE ? run_optimizer(replay, store, &before, &grads, &after) : status;
    uf_store_destroy(store);
    free(before.values);
    free(grads.values);
    free(after.values);
    return status;
}

const struct kind parity_optimizers[] = {
    {"optimizer/adam", replay_optimizer, false},
    {"optimizer/rmsprop", replay_optimizer, false},
    {"optimizer/sgd", replay_optimizer, false},
    {NULL, NULL, false},
};
