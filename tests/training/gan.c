/* gan.c - see gan.h. */
#include "gan.h"

#include <stdlib.h>

#include "support/random.h"
#include "support/test.h"

/* (N, latent, 1, 1) -> (N, 1, 16, 16) */
static uf_value generator(uf_graph *graph, uf_store *store, uf_value x) {
    uf_conv_transpose2d_options conv = uf_conv_transpose2d_options_default();
    conv.kernel[0] = conv.kernel[1] = 4;
    conv.bias = false;
    x = uf_conv_transpose2d(graph, x, uf_at(store, "main.0"), 2 * GAN_FEATURES, &conv);
    x = uf_relu(graph, uf_batch_norm2d(graph, x, uf_at(store, "main.1"), NULL));
    conv.stride[0] = conv.stride[1] = 2;
    conv.padding[0] = conv.padding[1] = 1;
    x = uf_conv_transpose2d(graph, x, uf_at(store, "main.3"), GAN_FEATURES, &conv);
    x = uf_relu(graph, uf_batch_norm2d(graph, x, uf_at(store, "main.4"), NULL));
    conv.bias = true;
    return uf_tanh(graph, uf_conv_transpose2d(graph, x, uf_at(store, "main.6"), 1, &conv));
}

/* (N, 1, 16, 16) -> (N, 1, 1, 1) */
static uf_value discriminator(uf_graph *graph, uf_store *store, uf_value x) {
    uf_conv2d_options conv = uf_conv2d_options_default();
    conv.kernel[0] = conv.kernel[1] = 4;
    conv.stride[0] = conv.stride[1] = 2;
    conv.padding[0] = conv.padding[1] = 1;
    x = uf_leaky_relu(graph, uf_conv2d(graph, x, uf_at(store, "main.0"), GAN_FEATURES, &conv), 0.2);
    conv.bias = false;
    x = uf_conv2d(graph, x, uf_at(store, "main.2"), 2 * GAN_FEATURES, &conv);
    x = uf_leaky_relu(graph, uf_batch_norm2d(graph, x, uf_at(store, "main.3"), NULL), 0.2);
    conv.stride[0] = conv.stride[1] = 1;
    conv.padding[0] = conv.padding[1] = 0;
    return uf_conv2d(graph, x, uf_at(store, "main.5"), 1, &conv);
}

static uf_store *make_store(uf_context *context, const char *name, uf_dtype dtype) {
    uf_store_options options = uf_store_options_default();
    uf_store *store;
    options.dtype = dtype;
    assert_ok(uf_store_create_with(context, name, &options, &store));
    return store;
}

gan gan_open(int32_t threads, uf_dtype dtype, uf_plan plan) {
    return gan_open_on(test_context(threads), dtype, plan, true);
}

gan gan_open_on(uf_context *context, uf_dtype dtype, uf_plan plan, bool capture) {
    gan one;
    one.context = context;
    one.g = make_store(one.context, "generator", dtype);
    one.d = make_store(one.context, "discriminator", dtype);
    assert_ok(uf_graph_create(one.context, &one.graph));
    uf_graph *graph = one.graph;
    const uf_value z = uf_input(graph, "z", UF_SHAPE(GAN_BATCH, GAN_LATENT, 1, 1));
    const uf_value real = uf_input(graph, "real", UF_SHAPE(GAN_BATCH, 1, GAN_SIZE, GAN_SIZE));
    const uf_value fake = generator(graph, one.g, z);
    const uf_value on_real = discriminator(graph, one.d, real);
    const uf_value on_fake = discriminator(graph, one.d, uf_detach(graph, fake));
    const uf_value judged = discriminator(graph, one.d, fake);
    const uf_value ones = uf_full_like(graph, on_real, 1.0),
                   zeros = uf_full_like(graph, on_real, 0.0);
    const uf_value d_losses[] = {uf_bce_with_logits_loss(graph, on_real, ones),
                                 uf_bce_with_logits_loss(graph, on_fake, zeros)};
    const uf_value g_losses[] = {uf_bce_with_logits_loss(graph, judged, ones)};
    uf_output(graph, "fake", fake);
    assert_ok(uf_init_dcgan(graph, one.g));
    assert_ok(uf_init_dcgan(graph, one.d));
    uf_adam_options adam = uf_adam_options_default();
    adam.lr = 2e-3;
    adam.beta1 = 0.5;
    assert_ok(uf_optimizer_create_adam(one.g, &adam, &one.g_adam));
    assert_ok(uf_optimizer_create_adam(one.d, &adam, &one.d_adam));
    const uf_pass passes[] = {
        {.losses = d_losses,
         .loss_count = 2,
         .stores = &one.d,
         .store_count = 1,
         .optimizers = &one.d_adam,
         .optimizer_count = 1},
        {.losses = g_losses,
         .loss_count = 1,
         .stores = &one.g,
         .store_count = 1,
         .optimizers = &one.g_adam,
         .optimizer_count = 1},
    };
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.mode = UF_TRAIN;
    options.plan = plan;
    options.capture = capture;
    options.passes = passes;
    options.pass_count = 2;
    assert_ok(uf_program_compile(graph, &options, &one.program));
    return one;
}

void gan_close(gan *one) {
    uf_program_destroy(one->program);
    uf_optimizer_destroy(one->g_adam);
    uf_optimizer_destroy(one->d_adam);
    uf_graph_destroy(one->graph);
    uf_store_destroy(one->g);
    uf_store_destroy(one->d);
    uf_context_destroy(one->context);
}

void gan_feed(gan *one, int64_t step) {
    static const char *const names[] = {"z", "real"};
    double values[GAN_BATCH * GAN_SIZE * GAN_SIZE];
    test_random random = test_random_for("gan", step);
    for (int i = 0; i < 2; ++i) {
        uf_tensor *input = uf_program_input(one->program, names[i]);
        assert_non_null(input);
        assert_true(uf_tensor_count(input) <= COUNT_OF(values));
        test_random_fill(&random, values, uf_tensor_count(input), 0.5);
        assert_ok(uf_tensor_upload_as(input, UF_F64, values, uf_tensor_count(input)));
    }
}

void gan_step(gan *one, int64_t step) {
    gan_feed(one, step);
    assert_ok(uf_program_run(one->program));
}

unsigned char *gan_contents(const gan *one, size_t *size) {
    unsigned char *bytes = NULL;
    *size = 0;
    for (int s = 0; s < 2; ++s) {
        uf_store *store = s == 0 ? one->g : one->d;
        for (int64_t i = 0; i < uf_store_size(store); ++i) {
            uf_store_entry entry;
            uf_tensor *tensor;
            assert_ok(uf_store_entry_at(store, i, &entry));
            assert_ok(uf_store_tensor(store, entry.name, &tensor));
            const size_t part = (size_t)uf_tensor_count(tensor) * uf_dtype_size(entry.dtype);
            bytes = realloc(bytes, *size + part);
            assert_non_null(bytes);
            assert_ok(uf_tensor_download(tensor, bytes + *size));
            *size += part;
        }
    }
    return bytes;
}
