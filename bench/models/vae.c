/* vae.c - the convolutional VAE of AntixK/PyTorch-VAE (vanilla_vae.py), with a posterior of
 * variance 1: there is no fc_var. The sample is then mu + noise, and the divergence of a picture
 * from the prior is sum mu^2 / 2, so that no exponential is needed.
 * Kingma, Welling 2013, https://arxiv.org/abs/1312.6114 */
#include "models/model.h"

enum { SMALLEST = 2 }; /* the side of the deepest layer */

static int levels_of(const bench_model_size *size) {
    int levels = 0;
    for (int64_t side = size->height; side > SMALLEST; side /= 2) {
        ++levels;
    }
    return levels;
}

/* (N, channels, H, H) -> mu (N, latent) */
static uf_value encoder(uf_graph *graph, uf_store *store, uf_value image,
                        const bench_model_size *size) {
    const int levels = levels_of(size);
    uf_value x = image;
    for (int i = 0; i < levels; ++i) {
        const uf_scope scope = uf_atf(store, "encoder.%d", i);
        x = uf_conv2d(graph, x, uf_in(scope, "0"), size->features << i, UF_CONV2D(3, 2, 1, true));
        x = uf_batch_norm2d(graph, x, uf_in(scope, "1"), NULL);
        x = uf_leaky_relu(graph, x, 0.01);
    }
    const int64_t flat = (size->features << (levels - 1)) * SMALLEST * SMALLEST;
    x = uf_reshape(graph, x, UF_SHAPE(-1, flat));
    return uf_linear(graph, x, uf_at(store, "fc_mu"), size->latent, true);
}

/* z (N, latent) -> (N, channels, H, H): a linear layer to 2x2, then doubled until `height`. */
static uf_value decoder(uf_graph *graph, uf_store *store, uf_value z,
                        const bench_model_size *size) {
    uf_conv_transpose2d_options up = uf_conv_transpose2d_options_square(3, 2, 1, true);
    const uf_scope end = uf_at(store, "final_layer");
    const int levels = levels_of(size);
    const int64_t deepest = size->features << (levels - 1);
    up.output_padding[0] = up.output_padding[1] = 1;
    uf_value x =
        uf_linear(graph, z, uf_at(store, "decoder_input"), deepest * SMALLEST * SMALLEST, true);
    x = uf_reshape(graph, x, UF_SHAPE(-1, deepest, SMALLEST, SMALLEST));
    for (int i = 0; i < levels; ++i) {
        const bool ends = i + 1 == levels;
        const uf_scope scope = ends ? end : uf_atf(store, "decoder.%d", i);
        const int64_t channels = ends ? size->features : deepest >> (i + 1);
        x = uf_conv_transpose2d(graph, x, uf_in(scope, "0"), channels, &up);
        x = uf_batch_norm2d(graph, x, uf_in(scope, "1"), NULL);
        x = uf_leaky_relu(graph, x, 0.01);
    }
    x = uf_conv2d(graph, x, uf_in(end, "3"), size->channels, UF_CONV2D(3, 1, 1, true));
    return uf_tanh(graph, x);
}

void bench_vae_decode(uf_graph *graph, uf_store *const *stores, const bench_model_size *size,
                      bench_model *model) {
    const uf_shape latents = UF_SHAPE(size->batch, size->latent);
    const uf_value z = bench_model_input(model, graph, "z", latents);
    uf_output(graph, "image", decoder(graph, stores[0], z, size));
}

void bench_vae_train(uf_graph *graph, uf_store *const *stores, const bench_model_size *size,
                     bench_model *model) {
    const uf_shape images = UF_SHAPE(size->batch, size->channels, size->height, size->width);
    const uf_shape latents = UF_SHAPE(size->batch, size->latent);
    const uf_value image = bench_model_input(model, graph, "image", images);
    const uf_value noise = bench_model_input(model, graph, "noise", latents);
    const uf_value mu = encoder(graph, stores[0], image, size);
    const uf_value z = uf_add(graph, mu, noise);
    const uf_value zeros = uf_full_like(graph, mu, 0.0);
    /* The mean of mu^2 times latent / 2 is the divergence; theirs counts 0.00025 of it. */
    model->passes[0] = (bench_model_pass){
        .store = 0,
        .loss_count = 2,
        .names = {"reconstruction", "mu_squared"},
        .losses = {uf_mse_loss(graph, decoder(graph, stores[0], z, size), image),
                   uf_mse_loss(graph, mu, zeros)},
        .weights = {1.0, 0.00025 * 0.5 * (double)size->latent},
    };
    model->pass_count = 1;
    model->adam.lr = 5e-3;
}
