/* cyclegan.c - CycleGAN's generator of residual blocks, (N, channels, H, W) -> the same, H and W
 * multiples of 4. Its instance norms have no parameters.
 * Zhu, Park, Isola, Efros 2017, https://arxiv.org/abs/1703.10593
 * https://github.com/junyanz/pytorch-CycleGAN-and-pix2pix/blob/master/models/networks.py */
#include "zoo.h"

static uf_value norm(uf_graph *graph, uf_value x) {
    return uf_instance_norm2d(graph, x, (uf_scope){0}, NULL);
}

/* A convolution of the image's own size, reflected at its borders, and a norm. */
static uf_value same(uf_graph *graph, uf_value x, uf_scope scope, int64_t channels) {
    x = uf_pad2d(graph, x, UF_PAD_REFLECT, 1, 1, 1, 1);
    return norm(graph, uf_conv2d(graph, x, scope, channels, UF_CONV2D(3, 1, 0, true)));
}

void zoo_cyclegan(uf_graph *graph, uf_store *store, const zoo_size *size) {
    const int64_t features = size->features;
    uf_conv_transpose2d_options up = uf_conv_transpose2d_options_square(3, 2, 1, true);
    up.output_padding[0] = up.output_padding[1] = 1;
    int module = 4;
    uf_value x =
        uf_input(graph, "image", UF_SHAPE(size->batch, size->channels, size->side, size->side));
    x = uf_pad2d(graph, x, UF_PAD_REFLECT, 3, 3, 3, 3);
    x = uf_conv2d(graph, x, uf_at(store, "model.1"), features, UF_CONV2D(7, 1, 0, true));
    x = uf_relu(graph, norm(graph, x));
    for (int i = 1; i <= 2; ++i, module += 3) {
        x = uf_conv2d(graph, x, uf_atf(store, "model.%d", module), features << i,
                      UF_CONV2D(3, 2, 1, true));
        x = uf_relu(graph, norm(graph, x));
    }
    for (int i = 0; i < size->blocks; ++i, ++module) {
        const uf_scope block = uf_atf(store, "model.%d.conv_block", module);
        uf_value y = uf_relu(graph, same(graph, x, uf_in(block, "1"), 4 * features));
        x = uf_add(graph, x, same(graph, y, uf_in(block, "5"), 4 * features));
    }
    for (int i = 1; i >= 0; --i, module += 3) {
        x = uf_conv_transpose2d(graph, x, uf_atf(store, "model.%d", module), features << i, &up);
        x = uf_relu(graph, norm(graph, x));
    }
    x = uf_pad2d(graph, x, UF_PAD_REFLECT, 3, 3, 3, 3);
    x = uf_conv2d(graph, x, uf_atf(store, "model.%d", module + 1), size->channels,
                  UF_CONV2D(7, 1, 0, true));
    uf_output(graph, "image", uf_tanh(graph, x));
}
