/* train.c - a program as a user writes it, on the public interface alone: two steps of a small GAN,
 * its generator saved, loaded into another store, run, and its picture written.
 *
 *   attack_train OUT.png [bf16]
 *
 * Ends with 0, or with 1 and one line "attack_train: STATUS: message". */
#include <unfurl/unfurl.h>

#include <stdio.h>
#include <string.h>

enum { BATCH = 2, LATENT = 4, FEATURES = 4, SIDE = 16 };

static const char weights_path[] = "attack_train.h5";

/* All that a run makes; destroyed from the end, whatever of it there is. */
typedef struct training {
    uf_dtype dtype; /* of the programs; the stores are f32 */
    uf_context *context;
    uf_store *g, *d, *loaded;
    uf_graph *graph, *sampling;
    uf_optimizer *g_adam, *d_sgd;
    uf_store *average;
    uf_ema *ema;
    uf_program *program, *sampler;
    uf_picture picture;
} training;

/* (N, latent, 1, 1) -> (N, 1, 16, 16) */
static uf_value generator(uf_graph *graph, uf_store *store, uf_value x) {
    uf_conv_transpose2d_options conv = uf_conv_transpose2d_options_default();
    conv.kernel[0] = conv.kernel[1] = 4;
    conv.bias = false;
    x = uf_conv_transpose2d(graph, x, uf_at(store, "main.0"), FEATURES, &conv);
    x = uf_relu(graph, uf_batch_norm2d(graph, x, uf_at(store, "main.1"), NULL));
    conv.stride[0] = conv.stride[1] = 4;
    conv.bias = true;
    return uf_tanh(graph, uf_conv_transpose2d(graph, x, uf_at(store, "main.3"), 1, &conv));
}

/* (N, 1, 16, 16) -> (N, 1) */
static uf_value discriminator(uf_graph *graph, uf_store *store, uf_value x) {
    uf_conv2d_options conv = uf_conv2d_options_default();
    conv.kernel[0] = conv.kernel[1] = conv.stride[0] = conv.stride[1] = 4;
    x = uf_leaky_relu(graph, uf_conv2d(graph, x, uf_at(store, "main.0"), FEATURES, &conv), 0.2);
    x = uf_reshape(graph, x, UF_SHAPE(-1, FEATURES * SIDE));
    return uf_linear(graph, x, uf_at(store, "main.2"), 1, true);
}

static uf_status build(training *one) {
    uf_graph *graph = one->graph;
    const uf_value z = uf_input(graph, "z", UF_SHAPE(BATCH, LATENT, 1, 1));
    const uf_value real = uf_input(graph, "real", UF_SHAPE(BATCH, 1, SIDE, SIDE));
    const uf_value fake = generator(graph, one->g, z);
    const uf_value on_real = discriminator(graph, one->d, real);
    const uf_value on_fake = discriminator(graph, one->d, uf_detach(graph, fake));
    const uf_value judged = discriminator(graph, one->d, fake);
    const uf_value ones = uf_full_like(graph, on_real, 1.0),
                   zeros = uf_full_like(graph, on_real, 0.0);
    const uf_value d_losses[] = {uf_bce_with_logits_loss(graph, on_real, ones),
                                 uf_bce_with_logits_loss(graph, on_fake, zeros)};
    const uf_value g_losses[] = {uf_bce_with_logits_loss(graph, judged, ones)};
    UF_TRY(uf_init_dcgan(graph, one->g));
    UF_TRY(uf_init_default(graph, one->d));
    UF_TRY(uf_optimizer_create_adam(one->g, NULL, &one->g_adam));
    UF_TRY(uf_optimizer_create_sgd(one->d, NULL, &one->d_sgd));
    UF_TRY(uf_store_copy(one->g, one->context, UF_F32, &one->average));
    UF_TRY(uf_ema_create(one->g, one->average, NULL, &one->ema));
    uf_pass passes[2] = {uf_pass_default(), uf_pass_default()};
    passes[0].losses = d_losses;
    passes[0].loss_count = 2;
    passes[0].stores = &one->d;
    passes[0].optimizers = &one->d_sgd;
    passes[0].clip_norm = 1.0;
    passes[1].emas = &one->ema;
    passes[1].ema_count = 1;
    passes[1].losses = g_losses;
    passes[1].loss_count = 1;
    passes[1].stores = &one->g;
    passes[1].optimizers = &one->g_adam;
    passes[0].store_count = passes[0].optimizer_count = 1;
    passes[1].store_count = passes[1].optimizer_count = 1;
    uf_program_options options = uf_program_options_default();
    options.dtype = one->dtype;
    options.mode = UF_TRAIN;
    options.passes = passes;
    options.pass_count = 2;
    return uf_program_compile(graph, &options, &one->program);
}

static uf_status feed(uf_program *program, const char *name, int step) {
    float values[BATCH * SIDE * SIDE];
    uf_tensor *input = uf_program_input(program, name);
    for (int i = 0; i < BATCH * SIDE * SIDE; ++i) {
        values[i] = (float)((i * 7 + step * 3) % 11) * 0.2F - 1.0F;
    }
    return uf_tensor_upload_as(input, UF_F32, values, uf_tensor_count(input));
}

static uf_status train(training *one) {
    for (int step = 0; step < 2; ++step) {
        double losses[3];
        int64_t finished;
        bool finite;
        UF_TRY(feed(one->program, "z", step));
        UF_TRY(feed(one->program, "real", step));
        UF_TRY(uf_program_run(one->program));
        UF_TRY(uf_program_losses(one->program, losses, 3, &finished, &finite));
    }
    return uf_store_save_hdf5(one->g, weights_path);
}

static uf_status sample(training *one, const char *path) {
    double image[BATCH * SIDE * SIDE];
    UF_TRY(uf_store_load_hdf5(one->loaded, weights_path, NULL));
    const uf_value z = uf_input(one->sampling, "z", UF_SHAPE(BATCH, LATENT, 1, 1));
    uf_output(one->sampling, "image", generator(one->sampling, one->loaded, z));
    uf_program_options options = uf_program_options_default();
    options.dtype = one->dtype;
    UF_TRY(uf_program_compile(one->sampling, &options, &one->sampler));
    UF_TRY(feed(one->sampler, "z", 9));
    UF_TRY(uf_program_run(one->sampler));
    UF_TRY(uf_tensor_download_as(uf_program_output(one->sampler, "image"), UF_F64, image,
                                 BATCH * SIDE * SIDE));
    UF_TRY(uf_picture_create(SIDE, BATCH * SIDE, 1, 8, &one->picture));
    for (int i = 0; i < BATCH * SIDE * SIDE; ++i) {
        ((uint8_t *)one->picture.samples)[i] = (uint8_t)(127.5 * (1.0 + image[i]));
    }
    return uf_png_write(path, &one->picture);
}

static uf_status everything(training *one, const char *path) {
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU;
    options.threads = 2;
    UF_TRY(uf_context_create(&options, &one->context));
    UF_TRY(uf_store_create(one->context, "generator", &one->g));
    UF_TRY(uf_store_create(one->context, "discriminator", &one->d));
    UF_TRY(uf_store_create(one->context, "loaded", &one->loaded));
    UF_TRY(uf_graph_create(one->context, &one->graph));
    UF_TRY(uf_graph_create(one->context, &one->sampling));
    UF_TRY(build(one));
    UF_TRY(train(one));
    return sample(one, path);
}

static void destroy(training *one) {
    uf_picture_free(&one->picture);
    uf_program_destroy(one->sampler);
    uf_program_destroy(one->program);
    uf_ema_destroy(one->ema);
    uf_optimizer_destroy(one->d_sgd);
    uf_optimizer_destroy(one->g_adam);
    uf_graph_destroy(one->sampling);
    uf_graph_destroy(one->graph);
    uf_store_destroy(one->average);
    uf_store_destroy(one->loaded);
    uf_store_destroy(one->d);
    uf_store_destroy(one->g);
    uf_context_destroy(one->context);
    (void)remove(weights_path);
}

int main(int argc, char **argv) {
    training one;
    const bool bf16 = argc == 3 && strcmp(argv[2], "bf16") == 0;
    if (argc != 2 && !bf16) {
        return 2;
    }
    memset(&one, 0, sizeof one);
    one.dtype = bf16 ? UF_BF16 : UF_F32;
    const uf_status status = everything(&one, argv[1]);
    if (status != UF_OK) {
        fprintf(stderr, "attack_train: %s: %s\n", uf_status_name(status), uf_last_error());
    }
    destroy(&one);
    return status == UF_OK ? 0 : 1;
}
