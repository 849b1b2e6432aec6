/* norms.c - instance, group and layer norm, and batch norm of rows and lines. */
#include <math.h>
#include <stdlib.h>

#include "parity/replay.h"

typedef uf_value build(const struct replay *replay, struct layer_run *run, double eps,
                       int64_t number);

/* The largest |grad_output|. A norm's grad_input is what remains of terms of this size. Next to
 * nothing remains where a mean is over two elements, in layer_norm2d/000 5e-4: PyTorch's f64 is
 * 1.3e-11 of that from the exact result. */
static int read_term_size(const struct replay *replay, double *size) {
    struct array gradient;
    TRY(parity_read_array(replay, "grad_output", &gradient));
    for (int64_t i = 0; i < gradient.count; i++) {
        *size = fmax(*size, fabs(gradient.values[i]));
    }
    free(gradient.values);
    return EXIT_DONE;
}

/* `number` names the attribute that `made_by` is called with; NULL: none. */
static int replay_norm(struct replay *replay, const char *number, uf_mode mode, build *made_by) {
    struct layer_run run;
    double eps = 1e-5;
    int64_t value = 0;
    TRY(parity_read_attribute(replay, "eps", &eps, 1));
    if (number != NULL) {
        TRY(parity_read_integers(replay, number, &value, 1));
    }
    int status = parity_begin(replay, &run, "input", NULL);
    if (status == EXIT_DONE) {
        status = read_term_size(replay, &run.term_size);
    }
    if (status == EXIT_DONE) {
        run.mode = mode;
        run.output = made_by(replay, &run, eps, value);
        status = parity_run_layer(replay, &run, "output");
    }
    parity_end(&run);
    return status;
}

static uf_value instance_norm(const struct replay *replay, struct layer_run *run, double eps,
                              int64_t number) {
    uf_instance_norm_options options = uf_instance_norm_options_default();
    (void)number;
    options.eps = eps;
    options.affine = parity_has(replay, "weight");
    return uf_instance_norm2d(run->graph, run->inputs[0], uf_at(run->store, ""), &options);
}

static uf_value group_norm(const struct replay *replay, struct layer_run *run, double eps,
                           int64_t number) {
    uf_group_norm_options options = uf_group_norm_options_default();
    options.eps = eps;
    options.affine = parity_has(replay, "weight");
    return uf_group_norm(run->graph, run->inputs[0], uf_at(run->store, ""), number, &options);
}

static uf_value layer_norm(const struct replay *replay, struct layer_run *run, double eps,
                           int64_t number) {
    uf_layer_norm_options options = uf_layer_norm_options_default();
    options.eps = eps;
    options.elementwise_affine = parity_has(replay, "weight");
    return uf_layer_norm(run->graph, run->inputs[0], uf_at(run->store, ""), (int32_t)number,
                         &options);
}

static uf_value layer_norm2d(const struct replay *replay, struct layer_run *run, double eps,
                             int64_t number) {
    uf_layer_norm_options options = uf_layer_norm_options_default();
    (void)replay;
    (void)number;
    options.eps = eps;
    return uf_layer_norm2d(run->graph, run->inputs[0], uf_at(run->store, ""), &options);
}

static uf_value batch_norm1d(const struct replay *replay, struct layer_run *run, double eps,
                             int64_t number) {
    uf_batch_norm2d_options options = uf_batch_norm2d_options_default();
    (void)number;
    options.eps = eps;
    options.affine = parity_has(replay, "weight");
    return uf_batch_norm1d(run->graph, run->inputs[0], uf_at(run->store, ""), &options);
}

static int replay_instance_norm(struct replay *replay) {
    return replay_norm(replay, NULL, UF_EVAL, instance_norm);
}

static int replay_group_norm(struct replay *replay) {
    return replay_norm(replay, "num_groups", UF_EVAL, group_norm);
}

static int replay_layer_norm(struct replay *replay) {
    return replay_norm(replay, "axes", UF_EVAL, layer_norm);
}

static int replay_layer_norm2d(struct replay *replay) {
    return replay_norm(replay, NULL, UF_EVAL, layer_norm2d);
}

static int replay_batch_norm1d(struct replay *replay) {
    return replay_norm(replay, NULL, UF_TRAIN, batch_norm1d);
}

const struct kind parity_norms[] = {
    {"instance_norm2d/", replay_instance_norm, false},
    {"instance_norm2d_plain/", replay_instance_norm, false},
    {"group_norm/", replay_group_norm, false},
    {"layer_norm/", replay_layer_norm, false},
    {"layer_norm2d/", replay_layer_norm2d, false},
    {"batch_norm1d_train/", replay_batch_norm1d, false},
    {NULL, NULL, false},
};
