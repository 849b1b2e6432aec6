/* dcgan_train.c - train a GAN on pictures: the DCGAN of pytorch/examples, by option conditional on
 * the label. `dcgan_train --help` lists the options.
 *
 * Writes PREFIX-000000.png, ... (samples of fixed latents), PREFIX-losses.csv, PREFIX-checkpoint.h5
 * to go on from, and PREFIX.h5: the generator's weights under the names of PyTorch's state_dict,
 * which `unfurl generate --weights PREFIX.h5` takes unless --conditional is on. With --ema
 * PREFIX-ema.h5 has their moving average, which the samples come from. Radford et al. 2015,
 * https://arxiv.org/abs/1511.06434 Mirza, Osindero 2014, https://arxiv.org/abs/1411.1784 */
#include <unfurl/unfurl.h>

#include <stdlib.h>

#include "common/common.h"
#include "common/data.h"
#include "common/grid.h"
#include "common/train.h"

const char *const example_name = "dcgan_train";

enum { COLUMNS = 8, ROWS = 8 }; /* of the grid of samples; a conditional one has a row a class */

typedef struct settings {
    const char *dataset;
    int64_t features, latent, image_size, channels;
    bool conditional;
    int64_t classes; /* of the data, if conditional */
} settings;

/* ---- the networks ---- */

/* z (N, latent, 1, 1), label (N) -> (N, channels, size, size): 4x4, then doubled until `size`. */
static uf_value generator(uf_graph *graph, uf_store *store, uf_value z, uf_value label,
                          const settings *s) {
    uf_value x = z;
    if (s->conditional) {
        const uf_value row =
            uf_embedding(graph, label, uf_at(store, "embedding"), s->classes, s->latent);
        x = uf_mul(graph, z, uf_reshape(graph, row, UF_SHAPE(-1, s->latent, 1, 1)));
    }
    int64_t channels = s->features * s->image_size / 8;
    int number = 0;
    for (int64_t size = 4; size < s->image_size; size *= 2) {
        x = uf_conv_transpose2d(graph, x, uf_atf(store, "main.%d", number), channels,
                                size == 4 ? UF_CONV_TRANSPOSE2D(4, 1, 0, false)
                                          : UF_CONV_TRANSPOSE2D(4, 2, 1, false));
        x = uf_relu(graph, uf_batch_norm2d(graph, x, uf_atf(store, "main.%d", number + 1), NULL));
        channels /= 2;
        number += 3;
    }
    x = uf_conv_transpose2d(graph, x, uf_atf(store, "main.%d", number), s->channels,
                            UF_CONV_TRANSPOSE2D(4, 2, 1, false));
    return uf_tanh(graph, x);
}

/* (N, channels, size, size), label (N) -> logits (N, 1, 1, 1): halved until 4x4. The label is one
 * more channel of the image. */
static uf_value discriminator(uf_graph *graph, uf_store *store, uf_value image, uf_value label,
                              const settings *s) {
    uf_value x = image;
    if (s->conditional) {
        const uf_value row = uf_embedding(graph, label, uf_at(store, "embedding"), s->classes,
                                          s->image_size * s->image_size);
        const uf_value joined[] = {
            image, uf_reshape(graph, row, UF_SHAPE(-1, 1, s->image_size, s->image_size))};
        x = uf_concat(graph, joined, 2);
    }
    int64_t channels = s->features;
    x = uf_conv2d(graph, x, uf_at(store, "main.0"), channels, UF_CONV2D(4, 2, 1, false));
    x = uf_leaky_relu(graph, x, 0.2);
    int number = 2;
    for (int64_t size = s->image_size / 2; size > 4; size /= 2) {
        channels *= 2;
        x = uf_conv2d(graph, x, uf_atf(store, "main.%d", number), channels,
                      UF_CONV2D(4, 2, 1, false));
        x = uf_batch_norm2d(graph, x, uf_atf(store, "main.%d", number + 1), NULL);
        x = uf_leaky_relu(graph, x, 0.2);
        number += 3;
    }
    return uf_conv2d(graph, x, uf_atf(store, "main.%d", number), 1, UF_CONV2D(4, 1, 0, false));
}

/* ---- samples ---- */

typedef struct sampler {
    uf_program *program;
    uf_shape shape; /* of the images */
    float *images;
} sampler;

static sampler make_sampler(const train_options *o, const settings *s, uf_context *context,
                            const train_model *model) {
    const int64_t count = COLUMNS * (s->conditional ? s->classes : ROWS);
    sampler result = {.shape = UF_SHAPE(count, s->channels, s->image_size, s->image_size)};
    uf_graph *graph;
    must(uf_graph_create(context, &graph));
    const uf_value z = uf_input(graph, "z", UF_SHAPE(count, s->latent, 1, 1));
    uf_value label = {0};
    if (s->conditional) {
        label = uf_input_i64(graph, "label", UF_SHAPE(count));
    }
    uf_output(graph, "image", generator(graph, model->store, z, label, s));
    result.program = train_compile_sampler(o, graph, model);
    result.images = allocate(uf_shape_count(&result.shape), sizeof(float));

    train_upload_normals(result.program, "z", random_at((uint64_t)o->seed, "samples", 0));
    if (s->conditional) {
        int64_t *labels = allocate(count, sizeof *labels);
        for (int64_t i = 0; i < count; ++i) {
            labels[i] = i / COLUMNS;
        }
        must(uf_tensor_upload(uf_program_input(result.program, "label"), labels));
        free(labels);
    }
    return result;
}

static void sample(void *user, const char *path) {
    const sampler *s = user;
    const int64_t *extent = s->shape.extent;
    must(uf_program_run(s->program));
    train_download(s->program, "image", s->images);
    grid_write(path, s->images, extent[0], COLUMNS, extent[1], extent[2], extent[3]);
}

/* ---- training ---- */

static uf_optimizer *adam(uf_store *store, double lr) {
    uf_adam_options options = uf_adam_options_default();
    uf_optimizer *optimizer;
    options.lr = lr;
    options.beta1 = 0.5;
    must(uf_optimizer_create_adam(store, &options, &optimizer));
    return optimizer;
}

int main(int argc, char **argv) {
    settings s = {.features = 16, .latent = 64, .image_size = 32, .channels = 1};
    train_options o = train_options_default();
    o.data = "/usr/share/datasets/fashion-mnist";
    o.out = "dcgan";
    o.steps = 8000;
    o.lr = 2e-4;
    option own[] = {
        {OPTION_TEXT, "--dataset", &s.dataset, 0, 0, "NAME", "of an HDF5 file that has several",
         false, false},
        {OPTION_INTEGER, "--features", &s.features, 1, 1024, "N",
         "channels at half the image's size", true, false},
        {OPTION_INTEGER, "--latent", &s.latent, 1, 4096, "N", "numbers that an image is made of",
         true, false},
        {OPTION_INTEGER, "--image-size", &s.image_size, 16, 128, "N", "16, 32, 64 or 128", true,
         false},
        {OPTION_INTEGER, "--channels", &s.channels, 1, 3, "N", "1: grey; 3: colour", true, false},
        {OPTION_FLAG, "--conditional", &s.conditional, 0, 0, NULL,
         "both networks are told the class; samples have a row for each", true, false},
        {OPTION_END, NULL, NULL, 0, 0, NULL, NULL, false, false},
    };
    train_parse("Train a DCGAN on pictures: Fashion-MNIST, a folder, or a dataset of an HDF5 file.",
                own, &o, argc, argv);
    if ((s.image_size & (s.image_size - 1)) != 0 || s.channels == 2) {
        fail_usage("--image-size takes 16, 32, 64 or 128 and --channels 1 or 3, not %lld and %lld",
                   (long long)s.image_size, (long long)s.channels);
    }
    data_loader *pictures = data_open(&(data_options){.path = o.data,
                                                      .dataset = s.dataset,
                                                      .channels = s.channels,
                                                      .size = s.image_size,
                                                      .batch = o.batch,
                                                      .seed = (uint64_t)o.seed,
                                                      .threads = (int)o.threads,
                                                      .cache_bytes = DATA_CACHE_BYTES});
    s.classes = data_classes(pictures);
    if (s.conditional && s.classes == 0) {
        fail("%s has no labels, which --conditional needs", o.data);
    }

    uf_context *context = train_context(&o);
    uf_store *g_store = train_store(&o, context, "generator");
    uf_store *d_store = train_store(&o, context, "discriminator");
    uf_graph *graph;
    must(uf_graph_create(context, &graph));

    /* D learns from real images and from fakes that it may not change; then G learns from D as it
     * now is. */
    const uf_value z = uf_input(graph, "z", UF_SHAPE(o.batch, s.latent, 1, 1));
    const uf_value real =
        uf_input(graph, "real", UF_SHAPE(o.batch, s.channels, s.image_size, s.image_size));
    uf_value label = {0};
    if (s.conditional) {
        label = uf_input_i64(graph, "label", UF_SHAPE(o.batch));
    }
    const uf_value fake = generator(graph, g_store, z, label, &s);
    const uf_value on_real = discriminator(graph, d_store, real, label, &s);
    const uf_value on_fake = discriminator(graph, d_store, uf_detach(graph, fake), label, &s);
    const uf_value judged = discriminator(graph, d_store, fake, label, &s);
    const uf_value ones = uf_full_like(graph, on_real, 1.0);
    const uf_value zeros = uf_full_like(graph, on_real, 0.0);
    const uf_value d_losses[] = {uf_bce_with_logits_loss(graph, on_real, ones),
                                 uf_bce_with_logits_loss(graph, on_fake, zeros)};
    const uf_value g_loss = uf_bce_with_logits_loss(graph, judged, ones);
    must(uf_init_dcgan(graph, g_store));
    must(uf_init_dcgan(graph, d_store));

    train_model models[] = {{.store = g_store, .optimizer = adam(g_store, o.lr)},
                            {.store = d_store, .optimizer = adam(d_store, o.lr)}};
    train_model *g = &models[0], *d = &models[1];
    train_average(&o, context, g);
    const uf_pass passes[] = {train_pass(d_losses, 2, d), train_pass(&g_loss, 1, g)};
    uf_program *program = train_compile(&o, graph, passes, 2);
    sampler samples = make_sampler(&o, &s, context, g);

    train *run = train_begin(&o, &(train_setup){.context = context,
                                                .program = program,
                                                .losses = "d_real,d_fake,g",
                                                .discriminator_losses = 2,
                                                .models = models,
                                                .model_count = 2,
                                                .data = data_description(pictures),
                                                .sample = sample,
                                                .user = &samples});
    for (int64_t step; train_next(run, &step);) {
        const int64_t *labels;
        train_upload(program, "real", data_batch(pictures, step, &labels));
        if (s.conditional) {
            must(uf_tensor_upload(uf_program_input(program, "label"), labels));
        }
        train_upload_normals(program, "z", random_at((uint64_t)o.seed, "latents", step));
        must(uf_program_run(program));
    }
    train_save(run, g->store, ".h5");
    if (g->average != NULL) {
        train_save(run, g->average, "-ema.h5");
    }
    train_say(run,
              s.conditional ? "%s%s.h5 has the weights"
                            : "unfurl generate --weights %s%s.h5 --out samples.png makes images",
              o.out, g->average != NULL ? "-ema" : "");

    const int status = train_end(run);
    free(samples.images);
    data_close(pictures);
    uf_context_destroy(context); /* and all that was made from it */
    return status;
}
