/* vae_train.c - train a variational autoencoder, by default on Fashion-MNIST.
 *
 * The encoder halves a picture until 2x2 and ends in the mean and the logarithm of the variance of
 * a normal distribution; the decoder makes a picture of a draw from it, by transposed convolutions.
 * Behind each epoch the test error is said and written to PREFIX-test.csv: the mean squared error,
 * per pixel of -1..1, of the held-out pictures' reconstructions from their means. Other files:
 *   PREFIX-000000.png                   64 pictures that the decoder makes of fixed normal draws
 *   PREFIX-000000-reconstructions.png   held-out pictures, each beside its reconstruction
 *   PREFIX.h5, PREFIX-decoder.h5        weights under the names of PyTorch's state_dict; the
 * decoder alone is a network that `unfurl generate` takes Data: Debian's dataset-fashion-mnist.
 * Kingma, Welling 2013, https://arxiv.org/abs/1312.6114 */
#include <unfurl/unfurl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/common.h"
#include "common/data.h"
#include "common/grid.h"
#include "common/held_out.h"
#include "common/train.h"

const char *const example_name = "vae_train";

enum { SHOWN = 64, TEST_BATCH = 100 };

typedef struct settings {
    train_options train;
    int64_t features, latent, image_size;
    double kl;        /* weight of the divergence beside the squared error of a pixel */
    const char *init; /* first weights; NULL: random ones */
} settings;

static settings parse(int argc, char **argv) {
    static settings s = {.features = 16, .latent = 32, .image_size = 32, .kl = 1e-3};
    static option own[] = {
        {OPTION_INTEGER, "--features", &s.features, 1, 1024, "N", "first channels", true, false},
        {OPTION_INTEGER, "--latent", &s.latent, 1, 4096, "N", "numbers in a code", true, false},
        {OPTION_INTEGER, "--image-size", &s.image_size, 8, 256, "N", "a power of two", true, false},
        {OPTION_NUMBER, "--kl", &s.kl, 0, 1e6, "W", "weight of the divergence", true, false},
        {OPTION_TEXT, "--init", &s.init, 0, 0, "FILE.h5", "first weights", false, false},
        {.kind = OPTION_END},
    };
    s.train = train_options_default();
    s.train.data = "/usr/share/datasets/fashion-mnist";
    s.train.out = "vae";
    s.train.steps = 2811; /* three epochs of 60,000 pictures in batches of 64 */
    train_parse("Train a variational autoencoder.", own, &s.train, argc, argv);
    if ((s.image_size & (s.image_size - 1)) != 0) {
        fail_usage("--image-size takes a power of two from 8 to 256, not %lld",
                   (long long)s.image_size);
    }
    return s;
}

/* ---- the networks ---- */

/* Images (N, 1, size, size) -> (N, 2 latent, 1, 1): means, then logarithms of variances. */
static uf_value encoder(uf_graph *graph, uf_scope scope, uf_value x, const settings *s) {
    int64_t channels = s->features;
    int module = 0;
    for (int64_t size = s->image_size; size > 2; size /= 2, module += 3) {
        x = uf_conv2d(graph, x, uf_inf(scope, "main.%d", module), channels,
                      UF_CONV2D(4, 2, 1, false));
        x = uf_batch_norm2d(graph, x, uf_inf(scope, "main.%d", module + 1), NULL);
        x = uf_leaky_relu(graph, x, 0.2);
        channels *= 2;
    }
    return uf_conv2d(graph, x, uf_inf(scope, "main.%d", module), 2 * s->latent,
                     UF_CONV2D(2, 1, 0, true));
}

/* z (N, latent, 1, 1) -> images (N, 1, size, size): 2x2, then doubled until `size`. */
static uf_value decoder(uf_graph *graph, uf_scope scope, uf_value x, const settings *s) {
    int64_t channels = s->features * s->image_size / 4;
    int module = 0;
    for (int64_t size = 2; size < s->image_size; size *= 2, module += 3) {
        x = uf_conv_transpose2d(graph, x, uf_inf(scope, "main.%d", module), channels,
                                size == 2 ? UF_CONV_TRANSPOSE2D(2, 1, 0, false)
                                          : UF_CONV_TRANSPOSE2D(4, 2, 1, false));
        x = uf_relu(graph, uf_batch_norm2d(graph, x, uf_inf(scope, "main.%d", module + 1), NULL));
        channels /= 2;
    }
    x = uf_conv_transpose2d(graph, x, uf_inf(scope, "main.%d", module), 1,
                            UF_CONV_TRANSPOSE2D(4, 2, 1, true));
    return uf_tanh(graph, x);
}

/* ---- held-out pictures, and pictures of what is learned ---- */

typedef struct vae {
    const settings *s;
    uf_program *viewer;
    data_loader *test;     /* held out */
    int64_t pixels;        /* of an image */
    float *before, *after; /* TEST_BATCH images each */
} vae;

/* Reconstruct held-out pictures from number `first` on; their mean squared error. */
static double reconstruct(vae *v, int64_t first) {
    float error;
    data_read(v->test, first, TEST_BATCH, v->before, NULL);
    train_upload(v->viewer, "image", v->before);
    must(uf_program_run(v->viewer));
    train_download(v->viewer, "error", &error);
    return (double)error;
}

/* The mean over all of them, but for a last batch that is not full. */
static double test_error(vae *v) {
    const int64_t batches = data_count(v->test) / TEST_BATCH;
    double sum = 0.0;
    for (int64_t b = 0; b < batches; ++b) sum += reconstruct(v, b * TEST_BATCH);
    return sum / (double)batches;
}

static void sample(void *user, const char *path) {
    vae *v = user;
    const int64_t side = v->s->image_size, pixels = v->pixels;
    float *pairs = allocate(SHOWN * pixels, sizeof(float));
    char beside[4096];
    reconstruct(v, 0);
    train_download(v->viewer, "sample", v->after);
    grid_write(path, v->after, SHOWN, 8, 1, side, side);
    train_download(v->viewer, "image", v->after);
    for (int64_t i = 0; i < SHOWN; ++i) {
        memcpy(pairs + i * pixels, (i % 2 == 0 ? v->before : v->after) + i / 2 * pixels,
               sizeof(float) * (size_t)pixels);
    }
    snprintf(beside, sizeof beside, "%.*s-reconstructions.png", (int)strlen(path) - 4, path);
    grid_write(beside, pairs, SHOWN, 8, 1, side, side);
    free(pairs);
}

/* PREFIX.h5, with --ema PREFIX-ema.h5, and what begins with "decoder." as a file of its own. */
static void save(train *run, const settings *s, uf_context *context, const train_model *model) {
    uf_graph *graph;
    uf_store *alone = train_store(&s->train, context, "decoder");
    char path[4096];
    train_save(run, model->store, ".h5");
    if (model->average != NULL) train_save(run, model->average, "-ema.h5");
    must(uf_graph_create(context, &graph));
    decoder(graph, uf_at(alone, ""), uf_input(graph, "z", UF_SHAPE(1, s->latent, 1, 1)), s);
    uf_hdf5_load_options part = uf_hdf5_load_options_default();
    part.strict = false; /* the encoder's tensors are left out */
    part.strip_prefixes = (const char *const[]){"decoder."};
    part.strip_prefix_count = 1;
    snprintf(path, sizeof path, "%s%s.h5", s->train.out, model->average != NULL ? "-ema" : "");
    must(uf_store_load_hdf5(alone, path, &part));
    train_save(run, alone, "-decoder.h5");
}

/* ---- training ---- */

int main(int argc, char **argv) {
    const settings s = parse(argc, argv);
    const train_options *o = &s.train;
    const int64_t side = s.image_size;
    data_options source = {.path = o->data, .channels = 1, .size = side, .batch = o->batch};
    source.seed = (uint64_t)o->seed;
    source.held_out_share = 0.1; /* of a folder; Fashion-MNIST has files of its own */
    data_loader *pictures = data_open(&source);
    source.held_out = true;
    source.batch = 0;
    vae v = {.s = &s, .test = data_open(&source), .pixels = side * side};
    if (data_count(v.test) < TEST_BATCH) {
        fail("%s has fewer than %d held-out pictures", o->data, TEST_BATCH);
    }
    v.before = allocate(2 * TEST_BATCH * v.pixels, sizeof(float));
    v.after = v.before + TEST_BATCH * v.pixels;

    uf_context *context = train_context(o);
    train_model model = {.store = train_store(o, context, "vae")};
    const uf_scope e = uf_at(model.store, "encoder"), d = uf_at(model.store, "decoder");
    uf_graph *graph, *views;

    /* z = mean + noise * deviation, through which gradients reach mean and deviation (section 2.4
     * of the paper). The loss is the squared error and W times the divergence from N(0, 1). */
    must(uf_graph_create(context, &graph));
    const uf_value image = uf_input(graph, "image", UF_SHAPE(o->batch, 1, side, side));
    const uf_value noise = uf_input(graph, "noise", UF_SHAPE(o->batch, s.latent, 1, 1));
    const uf_value code = encoder(graph, e, image, &s);
    const uf_value mean = uf_slice(graph, code, 1, 0, s.latent);
    const uf_value log_variance = uf_slice(graph, code, 1, s.latent, 2 * s.latent);
    const uf_value deviation = uf_exp(graph, uf_scale(graph, log_variance, 0.5));
    const uf_value z = uf_add(graph, mean, uf_mul(graph, noise, deviation));
    const uf_value losses[] = {uf_mse_loss(graph, decoder(graph, d, z, &s), image),
                               uf_loss(graph, UF_LOSS_KL_NORMAL, mean, log_variance, NULL)};
    must(s.init == NULL ? uf_init_default(graph, model.store)
                        : uf_store_load_hdf5(model.store, s.init, NULL));

    uf_adam_options adam = uf_adam_options_default();
    adam.lr = o->lr;
    must(uf_optimizer_create_adam(model.store, &adam, &model.optimizer));
    train_average(o, context, &model);
    uf_pass pass = train_pass(losses, 2, &model);
    pass.loss_weights = (const double[]){1.0, s.kl};
    uf_program *program = train_compile(o, graph, &pass, 1);

    must(uf_graph_create(context, &views));
    const uf_value draws = uf_input(views, "z", UF_SHAPE(SHOWN, s.latent, 1, 1));
    const uf_value held = uf_input(views, "image", UF_SHAPE(TEST_BATCH, 1, side, side));
    const uf_value means = uf_slice(views, encoder(views, e, held, &s), 1, 0, s.latent);
    const uf_value again = decoder(views, d, means, &s);
    uf_output(views, "sample", decoder(views, d, draws, &s));
    uf_output(views, "image", again);
    uf_output(views, "error", uf_mse_loss(views, again, held));
    v.viewer = train_compile_sampler(o, views, &model);

    train_upload_normals(v.viewer, "z", random_at((uint64_t)o->seed, "samples", 0));

    train_setup setup = {.context = context, .program = program, .losses = "error,divergence"};
    setup.models = &model;
    setup.model_count = 1;
    setup.data = data_description(pictures);
    setup.sample = sample;
    setup.user = &v;
    train *run = train_begin(o, &setup);
    held_out table = {o->out, "test_error", data_batches_per_epoch(pictures), NULL};
    int64_t step;
    while (train_next(run, &step)) {
        if (held_out_due(&table, step)) held_out_add(&table, run, step, &(double){test_error(&v)});
        train_upload_normals(program, "noise", random_at((uint64_t)o->seed, "noise", step));
        train_upload(program, "image", data_batch(pictures, step, NULL));
        must(uf_program_run(program));
    }
    held_out_add(&table, run, step, &(double){test_error(&v)});
    held_out_close(&table);
    save(run, &s, context, &model);

    free(v.before);
    data_close(v.test);
    data_close(pictures);
    uf_context_destroy(context); /* and all that was made of it */
    return train_end(run);
}
