/* tiny_train.c - a training of a few hundred numbers on all that train.h gives, with faults on
 * request: signals, inputs that are not finite, a loss of zero. */
#include "common/train.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>

#include "common/common.h"
#include "common/grid.h"
#include "common/random.h"

const char *const example_name = "tiny_train";

enum { FEATURES = 8, SAMPLES = 4 };

typedef struct settings {
    int64_t width, signal, signal_at, poison_at, spoil_at;
    int optimizer;
    bool zero, twice;
} settings;

static uf_value network(uf_graph *graph, uf_store *store, uf_value x, const settings *s) {
    x = uf_batch_norm1d(graph, uf_linear(graph, x, uf_at(store, "0"), s->width, true),
                        uf_at(store, "1"), NULL);
    x = uf_dropout(graph, uf_tanh(graph, x), 0.2);
    return uf_linear(graph, x, uf_at(store, "4"), 1, !s->zero);
}

static uf_optimizer *make_optimizer(uf_store *store, int kind) {
    uf_optimizer *optimizer = NULL;
    uf_sgd_options sgd = uf_sgd_options_default();
    sgd.momentum = 0.9;
    switch (kind) {
    case 0:
        must(uf_optimizer_create_adam(store, NULL, &optimizer));
        break;
    case 1:
        must(uf_optimizer_create_sgd(store, &sgd, &optimizer));
        break;
    default:
        must(uf_optimizer_create_rmsprop(store, NULL, &optimizer));
        break;
    }
    return optimizer;
}

static void sample(void *user, const char *path) {
    uf_program *sampler = user;
    float out[SAMPLES];
    must(uf_program_run(sampler));
    train_download(sampler, "y", out);
    grid_write(path, out, SAMPLES, 2, 1, 1, 1);
}

/* Learn the sum of the inputs. */
static void make_batch(const train_options *o, const settings *s, int64_t step, float *x,
                       float *y) {
    random_stream random = random_at((uint64_t)o->seed, "inputs", step);
    random_normals(&random, x, o->batch * FEATURES);
    for (int64_t i = 0; i < o->batch; ++i) {
        y[i] = 0.0f;
        for (int64_t k = 0; k < FEATURES; ++k) {
            x[i * FEATURES + k] *= s->zero ? 0.0f : 1.0f;
            y[i] += x[i * FEATURES + k];
        }
    }
    if (step == s->poison_at) {
        x[3] = INFINITY;
    }
}

static void spoil(uf_store *store) {
    uf_tensor *tensor;
    must(uf_store_tensor(store, "4.weight", &tensor));
    float *values = allocate(uf_tensor_count(tensor), sizeof *values);
    values[2] = INFINITY;
    must(uf_tensor_upload_as(tensor, UF_F32, values, uf_tensor_count(tensor)));
    uf_store_touch(store);
    free(values);
}

int main(int argc, char **argv) {
    settings s = {.width = 16, .signal = SIGTERM, .signal_at = -1, .poison_at = -1, .spoil_at = -1};
    train_options o = train_options_default();
    option own[] = {
        {OPTION_INTEGER, "--width", &s.width, 1, 100, "N", "of the hidden layer", true, false},
        {OPTION_CHOICE, "--optimizer", &s.optimizer, 0, 0, "adam|sgd|rmsprop", "that learns", true,
         false},
        {OPTION_INTEGER, "--signal", &s.signal, 1, 64, "N", "to raise", false, false},
        {OPTION_INTEGER, "--signal-at", &s.signal_at, -1, 1e6, "STEP", "when", false, false},
        {OPTION_FLAG, "--twice", &s.twice, 0, 0, NULL, "the signal", false, false},
        {OPTION_INTEGER, "--poison-at", &s.poison_at, -1, 1e6, "STEP", "of an infinite input",
         false, false},
        {OPTION_INTEGER, "--spoil-at", &s.spoil_at, -1, 1e6, "STEP", "of an infinite weight", false,
         false},
        {OPTION_FLAG, "--zero", &s.zero, 0, 0, NULL, "all inputs", true, false},
        {OPTION_END, NULL, NULL, 0, 0, NULL, NULL, false, false},
    };
    o.out = "tiny";
    o.batch = 4;
    o.steps = 40;
    o.sample_every = o.checkpoint_every = 10;
    o.log_every = 1;
    train_parse("Learn a sum.", own, &o, argc, argv);

    uf_context *context = train_context(&o);
    uf_store *store = train_store(&o, context, "tiny");
    uf_graph *graph, *sample_graph;
    must(uf_graph_create(context, &graph));
    const uf_value x = uf_input(graph, "x", UF_SHAPE(o.batch, FEATURES));
    const uf_value y = uf_input(graph, "y", UF_SHAPE(o.batch, 1));
    const uf_value loss = uf_mse_loss(graph, network(graph, store, x, &s), y);
    must(uf_init_default(graph, store));
    train_model model = {.store = store, .optimizer = make_optimizer(store, s.optimizer)};
    train_average(&o, context, &model);
    const uf_pass pass = train_pass(&loss, 1, &model);
    uf_program *program = train_compile(&o, graph, &pass, 1);

    must(uf_graph_create(context, &sample_graph));
    const uf_value fixed = uf_input(sample_graph, "x", UF_SHAPE(SAMPLES, FEATURES));
    uf_output(sample_graph, "y", network(sample_graph, store, fixed, &s));
    uf_program *sampler = train_compile_sampler(&o, sample_graph, &model);
    train_upload_normals(sampler, "x", random_at((uint64_t)o.seed, "samples", 0));

    const train_setup setup = {.context = context,
                               .program = program,
                               .losses = "mse",
                               .discriminator_losses = 1,
                               .models = &model,
                               .model_count = 1,
                               .data = "sums of normal numbers",
                               .sample = sample,
                               .user = sampler};
    train *run = train_begin(&o, &setup);
    float *inputs = allocate(o.batch * FEATURES, sizeof *inputs);
    float *targets = allocate(o.batch, sizeof *targets);
    for (int64_t step; train_next(run, &step);) {
        make_batch(&o, &s, step, inputs, targets);
        train_upload(program, "x", inputs);
        train_upload(program, "y", targets);
        must(uf_program_run(program));
        if (step == s.spoil_at) {
            spoil(store);
        }
        if (step == s.signal_at) {
            raise((int)s.signal);
            if (s.twice) {
                raise((int)s.signal);
            }
        }
    }
    train_save(run, store, ".h5");
    if (model.average != NULL) {
        train_save(run, model.average, "-ema.h5");
    }
    const int status = train_end(run);
    free(targets);
    free(inputs);
    uf_context_destroy(context);
    return status;
}
