/* ldm_decoder.c - the decoder of latent diffusion's VAE, which is Stable Diffusion's too: latents
 * (N, channels, H, W) to an image (N, 3, 8 H, 8 W), with attention over the latents' pixels.
 * Weights: what begins with decoder. or post_quant_conv. in the autoencoder's file.
 * Rombach, Blattmann, Lorenz, Esser, Ommer 2021, https://arxiv.org/abs/2112.10752
 * https://github.com/CompVis/latent-diffusion/blob/main/ldm/modules/diffusionmodules/model.py */
#include "zoo.h"

#include <math.h>

static uf_value norm(uf_graph *graph, uf_value x, uf_scope scope) {
    uf_group_norm_options options = uf_group_norm_options_default();
    options.eps = 1e-6;
    return uf_group_norm(graph, x, scope, 32, &options);
}

static uf_value conv(uf_graph *graph, uf_value x, uf_scope scope, int64_t channels) {
    return uf_conv2d(graph, x, scope, channels, UF_CONV2D(3, 1, 1, true));
}

static uf_value residual(uf_graph *graph, uf_value x, uf_scope block, int64_t channels) {
    uf_value y = uf_silu(graph, norm(graph, x, uf_in(block, "norm1")));
    y = conv(graph, y, uf_in(block, "conv1"), channels);
    y = uf_silu(graph, norm(graph, y, uf_in(block, "norm2")));
    y = conv(graph, y, uf_in(block, "conv2"), channels);
    if (uf_value_shape(graph, x).extent[1] != channels) {
        x = uf_conv2d(graph, x, uf_in(block, "nin_shortcut"), channels, UF_CONV2D(1, 1, 0, true));
    }
    return uf_add(graph, x, y);
}

/* softmax(q k / sqrt(channels)) v of all pixels of an image, (N, C, H, W) -> the same. */
static uf_value attention(uf_graph *graph, uf_value x, uf_scope scope, int64_t channels) {
    static const int32_t transposed[] = {0, 2, 1};
    const char *const names[] = {"q", "k", "v"};
    const uf_value normed = norm(graph, x, uf_in(scope, "norm"));
    uf_value parts[3];
    for (int i = 0; i < 3; ++i) {
        parts[i] =
            uf_conv2d(graph, normed, uf_in(scope, names[i]), channels, UF_CONV2D(1, 1, 0, true));
        parts[i] = uf_flatten(graph, parts[i], 2, 3); /* (N, C, H W) */
    }
    uf_value weights = uf_matmul(graph, uf_permute(graph, parts[0], transposed, 3), parts[1]);
    weights = uf_softmax(graph, uf_scale(graph, weights, 1.0 / sqrt((double)channels)), -1);
    uf_value y = uf_matmul(graph, parts[2], uf_permute(graph, weights, transposed, 3));
    y = uf_reshape(graph, y, uf_value_shape(graph, x));
    y = uf_conv2d(graph, y, uf_in(scope, "proj_out"), channels, UF_CONV2D(1, 1, 0, true));
    return uf_add(graph, x, y);
}

void zoo_ldm_decoder(uf_graph *graph, uf_store *store, const zoo_size *size) {
    static const int64_t multiples[] = {1, 2, 4, 4};
    const uf_scope decoder = uf_at(store, "decoder"), mid = uf_in(decoder, "mid");
    int64_t channels = size->features * multiples[3];
    uf_value x =
        uf_input(graph, "latents", UF_SHAPE(size->batch, size->channels, size->side, size->side));
    x = uf_conv2d(graph, x, uf_at(store, "post_quant_conv"), size->channels,
                  UF_CONV2D(1, 1, 0, true));
    x = conv(graph, x, uf_in(decoder, "conv_in"), channels);
    x = residual(graph, x, uf_in(mid, "block_1"), channels);
    x = attention(graph, x, uf_in(mid, "attn_1"), channels);
    x = residual(graph, x, uf_in(mid, "block_2"), channels);
    for (int level = 3; level >= 0; --level) {
        const uf_scope up = uf_inf(decoder, "up.%d", level);
        channels = size->features * multiples[level];
        for (int i = 0; i < 3; ++i) {
            x = residual(graph, x, uf_inf(up, "block.%d", i), channels);
        }
        if (level > 0) {
            x = uf_upsample_nearest(graph, x, NULL);
            x = conv(graph, x, uf_in(up, "upsample.conv"), channels);
        }
    }
    x = uf_silu(graph, norm(graph, x, uf_in(decoder, "norm_out")));
    uf_output(graph, "image", conv(graph, x, uf_in(decoder, "conv_out"), 3));
}
