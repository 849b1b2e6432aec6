/* dcgan.c - DCGAN as pytorch/examples/dcgan has it: 4x4 filters, a side doubled or halved by each
 * layer. Training takes the discriminator on real and on fake pictures, then the generator through
 * it. The last sigmoid is part of the loss.
 * Radford, Metz, Chintala 2015, https://arxiv.org/abs/1511.06434 */
#include "models/model.h"

/* z (N, latent, 1, 1) -> (N, channels, H, H): 4x4, then doubled until `height`. */
static uf_value generator(uf_graph *graph, uf_store *store, uf_value z,
                          const bench_model_size *size) {
    int64_t channels = size->features * size->height / 8;
    int module = 0;
    uf_value x = z;
    for (int64_t side = 4; side < size->height; side *= 2) {
        x = uf_conv_transpose2d(graph, x, uf_atf(store, "main.%d", module), channels,
                                side == 4 ? UF_CONV_TRANSPOSE2D(4, 1, 0, false)
                                          : UF_CONV_TRANSPOSE2D(4, 2, 1, false));
        x = uf_relu(graph, uf_batch_norm2d(graph, x, uf_atf(store, "main.%d", module + 1), NULL));
        channels /= 2;
        module += 3;
    }
    x = uf_conv_transpose2d(graph, x, uf_atf(store, "main.%d", module), size->channels,
                            UF_CONV_TRANSPOSE2D(4, 2, 1, false));
    return uf_tanh(graph, x);
}

/* (N, channels, H, H) -> logits (N, 1, 1, 1): halved until 4x4. */
static uf_value discriminator(uf_graph *graph, uf_store *store, uf_value image,
                              const bench_model_size *size) {
    int64_t channels = size->features;
    int module = 2;
    uf_value x =
        uf_conv2d(graph, image, uf_at(store, "main.0"), channels, UF_CONV2D(4, 2, 1, false));
    x = uf_leaky_relu(graph, x, 0.2);
    for (int64_t side = size->height / 2; side > 4; side /= 2) {
        channels *= 2;
        x = uf_conv2d(graph, x, uf_atf(store, "main.%d", module), channels,
                      UF_CONV2D(4, 2, 1, false));
        x = uf_batch_norm2d(graph, x, uf_atf(store, "main.%d", module + 1), NULL);
        x = uf_leaky_relu(graph, x, 0.2);
        module += 3;
    }
    return uf_conv2d(graph, x, uf_atf(store, "main.%d", module), 1, UF_CONV2D(4, 1, 0, false));
}

void bench_dcgan_generate(uf_graph *graph, uf_store *const *stores, const bench_model_size *size,
                          bench_model *model) {
    const uf_shape latents = UF_SHAPE(size->batch, size->latent, 1, 1);
    const uf_value z = bench_model_input(model, graph, "z", latents);
    uf_output(graph, "image", generator(graph, stores[0], z, size));
}

void bench_dcgan_train(uf_graph *graph, uf_store *const *stores, const bench_model_size *size,
                       bench_model *model) {
    const uf_shape latents = UF_SHAPE(size->batch, size->latent, 1, 1);
    const uf_shape images = UF_SHAPE(size->batch, size->channels, size->height, size->width);
    const uf_value z = bench_model_input(model, graph, "z", latents);
    const uf_value real = bench_model_input(model, graph, "real", images);
    const uf_value fake = generator(graph, stores[0], z, size);
    const uf_value on_real = discriminator(graph, stores[1], real, size);
    const uf_value on_fake = discriminator(graph, stores[1], uf_detach(graph, fake), size);
    const uf_value judged = discriminator(graph, stores[1], fake, size);
    const uf_value ones = uf_full_like(graph, on_real, 1.0);
    const uf_value zeros = uf_full_like(graph, on_real, 0.0);
    model->passes[0] = (bench_model_pass){
        .store = 1,
        .loss_count = 2,
        .names = {"d_real", "d_fake"},
        .losses = {uf_bce_with_logits_loss(graph, on_real, ones),
                   uf_bce_with_logits_loss(graph, on_fake, zeros)},
        .weights = {1.0, 1.0},
    };
    model->passes[1] = (bench_model_pass){
        .store = 0,
        .loss_count = 1,
        .names = {"g"},
        .losses = {uf_bce_with_logits_loss(graph, judged, ones)},
        .weights = {1.0},
    };
    model->pass_count = 2;
    model->adam.lr = 2e-4;
    model->adam.beta1 = 0.5;
}
