/* fast_style.c - the network of fast neural style in pytorch/examples, (N, 3, H, W) -> the same, H
 * and W multiples of 4.
 * Johnson, Alahi, Fei-Fei 2016, https://arxiv.org/abs/1603.08155
 * https://github.com/pytorch/examples/blob/main/fast_neural_style/neural_style/transformer_net.py
 */
#include "zoo.h"

static uf_value conv(uf_graph *graph, uf_value x, uf_scope scope, int64_t channels, int64_t kernel,
                     int64_t stride) {
    const int64_t border = kernel / 2;
    x = uf_pad2d(graph, x, UF_PAD_REFLECT, border, border, border, border);
    return uf_conv2d(graph, x, uf_in(scope, "conv2d"), channels,
                     UF_CONV2D(kernel, stride, 0, true));
}

static uf_value norm(uf_graph *graph, uf_value x, uf_scope scope) {
    uf_instance_norm_options options = uf_instance_norm_options_default();
    options.affine = true;
    return uf_instance_norm2d(graph, x, scope, &options);
}

void zoo_fast_style(uf_graph *graph, uf_store *store, const zoo_size *size) {
    const int64_t features = size->features;
    uf_value x = uf_input(graph, "image", UF_SHAPE(size->batch, 3, size->side, size->side));
    for (int i = 0; i < 3; ++i) {
        x = conv(graph, x, uf_atf(store, "conv%d", i + 1), features << i, i == 0 ? 9 : 3,
                 i == 0 ? 1 : 2);
        x = uf_relu(graph, norm(graph, x, uf_atf(store, "in%d", i + 1)));
    }
    for (int i = 1; i <= size->blocks; ++i) {
        const uf_scope block = uf_atf(store, "res%d", i);
        uf_value y = conv(graph, x, uf_in(block, "conv1"), 4 * features, 3, 1);
        y = uf_relu(graph, norm(graph, y, uf_in(block, "in1")));
        y = conv(graph, y, uf_in(block, "conv2"), 4 * features, 3, 1);
        x = uf_add(graph, norm(graph, y, uf_in(block, "in2")), x);
    }
    for (int i = 1; i <= 2; ++i) {
        x = uf_upsample_nearest(graph, x, NULL);
        x = conv(graph, x, uf_atf(store, "deconv%d", i), 4 * features >> i, 3, 1);
        x = uf_relu(graph, norm(graph, x, uf_atf(store, "in%d", i + 3)));
    }
    uf_output(graph, "image", conv(graph, x, uf_at(store, "deconv3"), 3, 9, 1));
}
