/* dcgan.c - the generator of pytorch/examples: latents (N, latent, 1, 1) to 4x4, then doubled until
 * an image (N, channels, side, side).
 * Radford, Metz, Chintala 2015, https://arxiv.org/abs/1511.06434
 * https://github.com/pytorch/examples/blob/main/dcgan/main.py */
#include "zoo.h"

void zoo_dcgan(uf_graph *graph, uf_store *store, const zoo_size *size) {
    int64_t channels = size->features * size->side / 8;
    int module = 0;
    uf_value x = uf_input(graph, "z", UF_SHAPE(size->batch, size->latent, 1, 1));
    for (int64_t side = 4; side < size->side; side *= 2) {
        x = uf_conv_transpose2d(graph, x, uf_atf(store, "main.%d", module), channels,
                                side == 4 ? UF_CONV_TRANSPOSE2D(4, 1, 0, false)
                                          : UF_CONV_TRANSPOSE2D(4, 2, 1, false));
        x = uf_relu(graph, uf_batch_norm2d(graph, x, uf_atf(store, "main.%d", module + 1), NULL));
        channels /= 2;
        module += 3;
    }
    x = uf_conv_transpose2d(graph, x, uf_atf(store, "main.%d", module), size->channels,
                            UF_CONV_TRANSPOSE2D(4, 2, 1, false));
    uf_output(graph, "image", uf_tanh(graph, x));
}
