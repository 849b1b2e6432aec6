/* parity_cases.c - how each kind of case is replayed: a graph of one layer, a loss, an
 * optimizer. */
#include "parity.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 4 * UF_NAME_SIZE };

/* A dataset, or an attribute's numbers; values NULL when the file has none of this name. */
struct array {
    uf_shape shape;
    double *values;
    int64_t count;
};

/* The path of a dataset of the group; false when it is longer than any in a file can be. */
static bool join(const struct replay *replay, const char *name, char path[PATH_SIZE]) {
    return snprintf(path, PATH_SIZE, "%s/%s", replay->group, name) < PATH_SIZE;
}

static bool has(const struct replay *replay, const char *name) {
    char path[PATH_SIZE];
    if (!join(replay, name, path)) {
        return false;
    }
    for (int64_t i = 0; i < replay->entry_count; i++) {
        if (strcmp(replay->entries[i].name, path) == 0) {
            return true;
        }
    }
    return false;
}

static int read_array(const struct replay *replay, const char *name, struct array *array) {
    char path[PATH_SIZE];
    memset(array, 0, sizeof *array);
    if (!join(replay, name, path)) {
        return fail("the name of %s is too long", replay->group);
    }
    TRY_LIBRARY(uf_hdf5_read(replay->file, path, UF_F64, &array->shape, NULL, 0));
    array->count = uf_shape_count(&array->shape);
    array->values = malloc(((size_t)array->count + 1) * sizeof *array->values);
    if (array->values == NULL) {
        return fail("out of memory for the %" PRId64 " values of %s", array->count, path);
    }
    if (uf_hdf5_read(replay->file, path, UF_F64, &array->shape, array->values, array->count) !=
        UF_OK) {
        free(array->values);
        array->values = NULL;
        return fail_library();
    }
    return EXIT_DONE;
}

/* Numbers of an attribute of the group; `count` of them must be there. Absent: the fallback
 * stays. */
static int read_attribute(const struct replay *replay, const char *name, double *values,
                          int32_t count) {
    double found[8];
    int32_t have = 0;
    const uf_status status =
        uf_hdf5_read_attribute(replay->file, replay->group, name, found, 8, &have);
    if (status == UF_ERROR_NOT_FOUND) {
        return EXIT_DONE;
    }
    if (status != UF_OK) {
        return fail_library();
    }
    if (have != count) {
        return fail("attribute %s of %s holds %d numbers, not %d", name, replay->group, (int)have,
                    (int)count);
    }
    memcpy(values, found, (size_t)count * sizeof *values);
    return EXIT_DONE;
}

static int read_integers(const struct replay *replay, const char *name, int64_t *values,
                         int32_t count) {
    double numbers[8];
    for (int32_t i = 0; i < count; i++) {
        numbers[i] = (double)values[i];
    }
    TRY(read_attribute(replay, name, numbers, count));
    for (int32_t i = 0; i < count; i++) {
        /* Beyond 2^53 a double does not say which integer it is; NaN is no integer either. */
        if (!(fabs(numbers[i]) <= 0x1p53) || floor(numbers[i]) != numbers[i]) {
            return fail("attribute %s of %s is %g; it must be an integer", name, replay->group,
                        numbers[i]);
        }
        values[i] = (int64_t)numbers[i];
    }
    return EXIT_DONE;
}

/* Note how far `have` is from `want`. An expected value that is not finite is met by the same one
 * alone, an infinity by the same infinity and NaN by NaN; all else that is not finite is infinitely
 * far. Only finite values make the scale: beside an infinite one every difference would be none. */
static void note(struct replay *replay, const double *have, const double *want, int64_t count) {
    double difference = 0.0, scale = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const bool same = have[i] == want[i] || (isnan(have[i]) && isnan(want[i]));
        const double d = same ? 0.0 : fabs(have[i] - want[i]);
        difference = isfinite(d) ? fmax(difference, d) : (double)INFINITY;
        scale = isfinite(want[i]) ? fmax(scale, fabs(want[i])) : scale;
    }
    replay->error = fmax(replay->error, scale > 0.0 ? difference / scale : difference);
}

static int compare(struct replay *replay, uf_tensor *tensor, const char *name) {
    struct array want;
    TRY(read_array(replay, name, &want));
    double *have = malloc(((size_t)want.count + 1) * sizeof *have);
    if (tensor == NULL || have == NULL || uf_tensor_count(tensor) != want.count) {
        free(have);
        free(want.values);
        return fail("%s/%s has another size than the result", replay->group, name);
    }
    const uf_status status = uf_tensor_download_as(tensor, UF_F64, have, want.count);
    if (status == UF_OK) {
        note(replay, have, want.values, want.count);
    }
    free(have);
    free(want.values);
    return status == UF_OK ? EXIT_DONE : fail_library();
}

/* ---- a layer, as a graph of its own ---- */

struct layer_run {
    uf_store *store;
    uf_graph *graph;
    uf_program *program;
    uf_value input, output;
    uf_mode mode;
};

static int begin(const struct replay *replay, struct layer_run *run) {
    uf_store_options options = uf_store_options_default();
    struct array input;
    memset(run, 0, sizeof *run);
    options.dtype = replay->dtype;
    TRY_LIBRARY(uf_store_create_with(replay->context, replay->group, &options, &run->store));
    TRY_LIBRARY(uf_graph_create(replay->context, &run->graph));
    TRY(read_array(replay, "input", &input));
    run->input = uf_input(run->graph, "input", input.shape);
    free(input.values);
    return EXIT_DONE;
}

static void end(struct layer_run *run) {
    uf_program_destroy(run->program);
    uf_graph_destroy(run->graph);
    uf_store_destroy(run->store);
}

/* Fill a tensor from a dataset of the group. */
static int upload(const struct replay *replay, uf_tensor *tensor, const char *name) {
    struct array array;
    TRY(read_array(replay, name, &array));
    const uf_status status = uf_tensor_upload_as(tensor, UF_F64, array.values, array.count);
    free(array.values);
    return status == UF_OK ? EXIT_DONE : fail_library();
}

/* Each tensor of the store from the dataset of its name, or NAME_before. */
static int load_parameters(const struct replay *replay, const struct layer_run *run) {
    TRY_LIBRARY(uf_store_seal(run->store));
    for (int64_t i = 0; i < uf_store_size(run->store); i++) {
        char before[PATH_SIZE];
        uf_store_entry entry;
        uf_tensor *tensor;
        TRY_LIBRARY(uf_store_entry_at(run->store, i, &entry));
        TRY_LIBRARY(uf_store_tensor(run->store, entry.name, &tensor));
        snprintf(before, sizeof before, "%s_before", entry.name);
        if (has(replay, entry.name) || has(replay, before)) {
            TRY(upload(replay, tensor, has(replay, before) ? before : entry.name));
        }
    }
    return EXIT_DONE;
}

/* Parameters' gradients against grad_NAME, buffers against NAME_after. */
static int compare_parameters(struct replay *replay, const struct layer_run *run) {
    for (int64_t i = 0; i < uf_store_size(run->store); i++) {
        char name[PATH_SIZE];
        uf_store_entry entry;
        uf_tensor *tensor;
        TRY_LIBRARY(uf_store_entry_at(run->store, i, &entry));
        snprintf(name, sizeof name, "grad_%s", entry.name);
        if (entry.role == UF_ROLE_PARAMETER && has(replay, name)) {
            TRY_LIBRARY(uf_store_gradient(run->store, entry.name, &tensor));
            TRY(compare(replay, tensor, name));
        }
        snprintf(name, sizeof name, "%s_after", entry.name);
        if (has(replay, name)) {
            TRY_LIBRARY(uf_store_tensor(run->store, entry.name, &tensor));
            TRY(compare(replay, tensor, name));
        }
    }
    return EXIT_DONE;
}

/* Run forward and backward, and compare everything that the group holds. */
static int run_layer(struct replay *replay, struct layer_run *run, const char *output) {
    uf_pass pass;
    uf_program_options options = uf_program_options_default();
    memset(&pass, 0, sizeof pass);
    pass.losses = &run->output;
    pass.loss_count = 1;
    pass.stores = &run->store;
    pass.store_count = uf_store_size(run->store) > 0 ? 1 : 0;
    pass.inputs = &run->input;
    pass.input_count = 1;
    pass.external_seeds = true;
    options.dtype = replay->dtype;
    options.mode = run->mode;
    options.passes = &pass;
    options.pass_count = 1;
    uf_output(run->graph, "output", run->output);
    TRY_LIBRARY(uf_graph_status(run->graph));
    TRY(load_parameters(replay, run));
    TRY_LIBRARY(uf_program_compile(run->graph, &options, &run->program));
    TRY(upload(replay, uf_program_input(run->program, "input"), "input"));
    if (has(replay, "target")) {
        TRY(upload(replay, uf_program_input(run->program, "target"), "target"));
    }
    if (has(replay, "grad_output")) {
        TRY(upload(replay, uf_program_seed(run->program, 0, 0), "grad_output"));
    }
    TRY_LIBRARY(uf_program_run(run->program));
    TRY(compare(replay, uf_program_output(run->program, "output"), output));
    TRY(compare(replay, uf_program_gradient(run->program, 0, run->input), "grad_input"));
    return compare_parameters(replay, run);
}

static int replay_conv(struct replay *replay, bool transposed) {
    struct layer_run run;
    struct array weight;
    uf_conv_transpose2d_options up = uf_conv_transpose2d_options_default();
    uf_conv2d_options down = uf_conv2d_options_default();
    TRY(read_integers(replay, "stride", up.stride, 2));
    TRY(read_integers(replay, "padding", up.padding, 2));
    TRY(read_integers(replay, "output_padding", up.output_padding, 2));
    TRY(read_integers(replay, "dilation", up.dilation, 2));
    TRY(read_integers(replay, "groups", &up.groups, 1));
    TRY(read_array(replay, "weight", &weight));
    free(weight.values);
    if (weight.shape.rank != 4) {
        return fail("%s/weight does not have four axes", replay->group);
    }
    memcpy(up.kernel, &weight.shape.extent[2], sizeof up.kernel);
    up.bias = has(replay, "bias");
    memcpy(down.kernel, up.kernel, sizeof down.kernel);
    memcpy(down.stride, up.stride, sizeof down.stride);
    memcpy(down.padding, up.padding, sizeof down.padding);
    memcpy(down.dilation, up.dilation, sizeof down.dilation);
    down.groups = up.groups;
    down.bias = up.bias;
    int status = begin(replay, &run);
    if (status == EXIT_DONE) {
        const uf_scope root = uf_at(run.store, "");
        run.output = transposed
                         ? uf_conv_transpose2d(run.graph, run.input, root,
                                               weight.shape.extent[1] * up.groups, &up)
                         : uf_conv2d(run.graph, run.input, root, weight.shape.extent[0], &down);
        status = run_layer(replay, &run, "output");
    }
    end(&run);
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
    TRY(read_attribute(replay, "eps", &options.eps, 1));
    TRY(read_attribute(replay, "momentum", &options.momentum, 1));
    options.affine = has(replay, "weight");
    int status = begin(replay, &run);
    if (status == EXIT_DONE) {
        run.mode = mode;
        run.output = uf_batch_norm2d(run.graph, run.input, uf_at(run.store, ""), &options);
        status = run_layer(replay, &run, "output");
    }
    end(&run);
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
    TRY(read_array(replay, "weight", &weight));
    free(weight.values);
    int status = begin(replay, &run);
    if (status == EXIT_DONE) {
        run.output = uf_linear(run.graph, run.input, uf_at(run.store, ""), weight.shape.extent[0],
                               has(replay, "bias"));
        status = run_layer(replay, &run, "output");
    }
    end(&run);
    return status;
}

/* activation/NAME; the slope of a leaky ReLU is in its name, leaky_relu_0p2. */
static int replay_activation(struct replay *replay) {
    const char *name = strchr(replay->group, '/') + 1;
    struct layer_run run;
    int status = begin(replay, &run);
    if (status == EXIT_DONE) {
        if (strcmp(name, "relu") == 0) {
            run.output = uf_relu(run.graph, run.input);
        } else if (strcmp(name, "tanh") == 0) {
            run.output = uf_tanh(run.graph, run.input);
        } else if (strcmp(name, "sigmoid") == 0) {
            run.output = uf_sigmoid(run.graph, run.input);
        } else {
            char slope[32] = "0.01";
            if (name[strlen("leaky_relu")] == '_') {
                snprintf(slope, sizeof slope, "%s", name + strlen("leaky_relu_"));
                char *point = strchr(slope, 'p');
                if (point != NULL) {
                    *point = '.';
                }
            }
            run.output = uf_leaky_relu(run.graph, run.input, strtod(slope, NULL));
        }
        status = run_layer(replay, &run, "output");
    }
    end(&run);
    return status;
}

/* loss/NAME; bce is of sigmoid(input). */
static int replay_loss(struct replay *replay) {
    const char *name = strchr(replay->group, '/') + 1;
    struct layer_run run;
    struct array target;
    TRY(read_array(replay, "target", &target));
    free(target.values);
    int status = begin(replay, &run);
    if (status == EXIT_DONE) {
        const uf_value to = uf_input(run.graph, "target", target.shape);
        run.output = strcmp(name, "bce_with_logits") == 0
                         ? uf_bce_with_logits_loss(run.graph, run.input, to)
                     : strcmp(name, "bce") == 0
                         ? uf_bce_loss(run.graph, uf_sigmoid(run.graph, run.input), to)
                     : strcmp(name, "mse") == 0 ? uf_mse_loss(run.graph, run.input, to)
                                                : uf_l1_loss(run.graph, run.input, to);
        status = run_layer(replay, &run, "loss");
    }
    end(&run);
    return status;
}

/* ---- optimizers: `grads` holds one gradient per step, `params_after` the parameter after each
 * ---- */

static int make_optimizer(const struct replay *replay, uf_store *store, uf_optimizer **optimizer) {
    const char *name = strchr(replay->group, '/') + 1;
    if (strncmp(name, "adam", 4) == 0) {
        uf_adam_options adam = uf_adam_options_default();
        TRY(read_attribute(replay, "lr", &adam.lr, 1));
        TRY(read_attribute(replay, "beta1", &adam.beta1, 1));
        TRY(read_attribute(replay, "beta2", &adam.beta2, 1));
        TRY(read_attribute(replay, "eps", &adam.eps, 1));
        TRY(read_attribute(replay, "weight_decay", &adam.weight_decay, 1));
        adam.decoupled = strncmp(name, "adamw", 5) == 0;
        TRY_LIBRARY(uf_optimizer_create_adam(store, &adam, optimizer));
        return EXIT_DONE;
    }
    uf_sgd_options sgd = uf_sgd_options_default();
    double nesterov = 0.0;
    TRY(read_attribute(replay, "lr", &sgd.lr, 1));
    TRY(read_attribute(replay, "momentum", &sgd.momentum, 1));
    TRY(read_attribute(replay, "dampening", &sgd.dampening, 1));
    TRY(read_attribute(replay, "weight_decay", &sgd.weight_decay, 1));
    TRY(read_attribute(replay, "nesterov", &nesterov, 1));
    sgd.nesterov = nesterov != 0.0;
    TRY_LIBRARY(uf_optimizer_create_sgd(store, &sgd, optimizer));
    return EXIT_DONE;
}

static int take_steps(struct replay *replay, uf_store *store, uf_optimizer *optimizer,
                      const struct array *grads, const struct array *after, double *have) {
    uf_tensor *parameter, *gradient;
    TRY_LIBRARY(uf_store_tensor(store, "param", &parameter));
    TRY_LIBRARY(uf_store_gradient(store, "param", &gradient));
    TRY(upload(replay, parameter, "param_before"));
    const int64_t count = uf_tensor_count(parameter);
    if (count == 0 || grads->count == 0 || grads->count != after->count ||
        grads->count % count != 0) {
        return fail("%s: grads and params_after do not fit param_before", replay->group);
    }
    for (int64_t first = 0; first < grads->count; first += count) {
        TRY_LIBRARY(uf_tensor_upload_as(gradient, UF_F64, grads->values + first, count));
        TRY_LIBRARY(uf_optimizer_step(optimizer));
        TRY_LIBRARY(uf_tensor_download_as(parameter, UF_F64, have, count));
        note(replay, have, after->values + first, count);
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
    int status = read_array(replay, "param_before", &before);
    status = status == EXIT_DONE ? read_array(replay, "grads", &grads) : status;
    status = status == EXIT_DONE ? read_array(replay, "params_after", &after) : status;
    status = status == EXIT_DONE ? run_optimizer(replay, store, &before, &grads, &after) : status;
    uf_store_destroy(store);
    free(before.values);
    free(grads.values);
    free(after.values);
    return status;
}

/* ---- the kinds ---- */

static const struct kind kinds[] = {
    {"conv_transpose2d/", replay_conv_transpose2d, false},
    {"conv2d/", replay_conv2d, false},
    {"batch_norm2d_train/", replay_batch_norm_train, false},
    {"batch_norm2d_eval/", replay_batch_norm_eval, false},
    {"linear/", replay_linear, false},
    {"activation/relu", replay_activation, true},
    {"activation/leaky_relu", replay_activation, false},
    {"activation/tanh", replay_activation, true},
    {"activation/sigmoid", replay_activation, true},
    {"loss/bce_with_logits", replay_loss, true},
    {"loss/bce", replay_loss, true},
    {"loss/mse", replay_loss, true},
    {"loss/l1", replay_loss, true},
    {"optimizer/adam", replay_optimizer, false},
    {"optimizer/sgd", replay_optimizer, false},
};

const struct kind *parity_kind_of(const char *group) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const bool same = kinds[i].exact
                              ? strcmp(group, kinds[i].prefix) == 0
                              : strncmp(group, kinds[i].prefix, strlen(kinds[i].prefix)) == 0;
        if (same) {
            return &kinds[i];
        }
    }
    return NULL;
}
