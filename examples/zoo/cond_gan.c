/* cond_gan.c - a class-conditional generator, ACGAN's of eriklindernoren/PyTorch-GAN: latents times
 * the embedding of their labels, then up to an image (N, channels, side, side); size->blocks is the
 * number of classes.
 * Odena, Olah, Shlens 2016, https://arxiv.org/abs/1610.09585
 * https://github.com/eriklindernoren/PyTorch-GAN/blob/master/implementations/acgan/acgan.py */
#include "zoo.h"

void zoo_cond_gan(uf_graph *graph, uf_store *store, const zoo_size *size) {
    const int64_t quarter = size->side / 4, features = size->features;
    /* nn.BatchNorm2d(channels, 0.8): their second argument is eps. */
    uf_batch_norm2d_options norm = uf_batch_norm2d_options_default();
    norm.eps = 0.8;
    const uf_value z = uf_input(graph, "z", UF_SHAPE(size->batch, size->latent));
    const uf_value labels = uf_input_i64(graph, "labels", UF_SHAPE(size->batch));
    uf_value x = uf_embedding(graph, labels, uf_at(store, "label_emb"), size->blocks, size->latent);
    x = uf_linear(graph, uf_mul(graph, x, z), uf_at(store, "l1.0"), features * quarter * quarter,
                  true);
    x = uf_reshape(graph, x, UF_SHAPE(-1, features, quarter, quarter));
    x = uf_batch_norm2d(graph, x, uf_at(store, "conv_blocks.0"), NULL);
    for (int i = 0; i < 2; ++i) {
        x = uf_conv2d(graph, uf_upsample_nearest(graph, x, NULL),
                      uf_atf(store, "conv_blocks.%d", 4 * i + 2), features >> i,
                      UF_CONV2D(3, 1, 1, true));
        x = uf_batch_norm2d(graph, x, uf_atf(store, "conv_blocks.%d", 4 * i + 3), &norm);
        x = uf_leaky_relu(graph, x, 0.2);
    }
    x = uf_conv2d(graph, x, uf_at(store, "conv_blocks.9"), size->channels,
                  UF_CONV2D(3, 1, 1, true));
    uf_output(graph, "image", uf_tanh(graph, x));
}
