/* vae.c - the convolutional VAE of AntixK/PyTorch-VAE: an image (N, channels, H, H) is halved
 * `blocks` times, which leaves 2x2; z = mean + noise * standard deviation; z is doubled again.
 * Kingma, Welling 2013, https://arxiv.org/abs/1312.6114
 * https://github.com/AntixK/PyTorch-VAE/blob/master/models/vanilla_vae.py */
#include "zoo.h"

static uf_value norm_relu(uf_graph *graph, uf_value x, uf_scope scope) {
    return uf_leaky_relu(graph, uf_batch_norm2d(graph, x, scope, NULL), 0.01);
}

/* Twice as high and wide. */
static uf_value doubled(uf_graph *graph, uf_value x, uf_scope scope, int64_t channels) {
    uf_conv_transpose2d_options up = uf_conv_transpose2d_options_square(3, 2, 1, true);
    up.output_padding[0] = up.output_padding[1] = 1;
    x = uf_conv_transpose2d(graph, x, uf_in(scope, "0"), channels, &up);
    return norm_relu(graph, x, uf_in(scope, "1"));
}

void zoo_vae(uf_graph *graph, uf_store *store, const zoo_size *size) {
    const int levels = (int)size->blocks;
    const int64_t deepest = size->features << (levels - 1);
    uf_value x =
        uf_input(graph, "image", UF_SHAPE(size->batch, size->channels, size->side, size->side));
    for (int i = 0; i < levels; ++i) {
        x = uf_conv2d(graph, x, uf_atf(store, "encoder.%d.0", i), size->features << i,
                      UF_CONV2D(3, 2, 1, true));
        x = norm_relu(graph, x, uf_atf(store, "encoder.%d.1", i));
    }
    x = uf_flatten(graph, x, 1, -1);
    const uf_value mu = uf_linear(graph, x, uf_at(store, "fc_mu"), size->latent, true);
    const uf_value log_var = uf_linear(graph, x, uf_at(store, "fc_var"), size->latent, true);
    const uf_value noise = uf_input(graph, "noise", UF_SHAPE(size->batch, size->latent));
    const uf_value deviation = uf_exp(graph, uf_scale(graph, log_var, 0.5));
    const uf_value z = uf_add(graph, uf_mul(graph, noise, deviation), mu);
    x = uf_linear(graph, z, uf_at(store, "decoder_input"), 4 * deepest, true);
    x = uf_reshape(graph, x, UF_SHAPE(-1, deepest, 2, 2));
    for (int i = 0; i + 1 < levels; ++i) {
        const int64_t channels = size->features << (levels - 2 - i);
        x = doubled(graph, x, uf_atf(store, "decoder.%d", i), channels);
    }
    x = doubled(graph, x, uf_at(store, "final_layer"), size->features);
    x = uf_conv2d(graph, x, uf_at(store, "final_layer.3"), 3, UF_CONV2D(3, 1, 1, true));
    uf_output(graph, "image", uf_tanh(graph, x));
    uf_output(graph, "mu", mu);
    uf_output(graph, "log_var", log_var);
}
