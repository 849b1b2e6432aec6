/* cyclegan.c - the generator of CycleGAN with nine residual blocks, as
 * junyanz/pytorch-CycleGAN-and-pix2pix has it.
 * Zhu, Park, Isola, Efros 2017, https://arxiv.org/abs/1703.10593 */
#include "models/model.h"

enum { BLOCKS = 9 };

/* Without weights or running statistics: it needs no store. */
static uf_value instance_norm(uf_graph *graph, uf_value x) {
    return uf_instance_norm2d(graph, x, (uf_scope){0}, NULL);
}

static uf_value reflected(uf_graph *graph, uf_value x, int64_t amount) {
    return uf_pad2d(graph, x, UF_PAD_REFLECT, amount, amount, amount, amount);
}

/* x + what two 3x3 convolutions, the default, make of it. */
static uf_value block(uf_graph *graph, uf_value x, uf_scope scope, int64_t channels) {
    const uf_scope modules = uf_in(scope, "conv_block");
    uf_value y = uf_conv2d(graph, reflected(graph, x, 1), uf_in(modules, "1"), channels, NULL);
    y = uf_relu(graph, instance_norm(graph, y));
    y = uf_conv2d(graph, reflected(graph, y, 1), uf_in(modules, "5"), channels, NULL);
    return uf_add(graph, x, instance_norm(graph, y));
}

void bench_cyclegan_generate(uf_graph *graph, uf_store *const *stores, const bench_model_size *size,
                             bench_model *model) {
    const uf_shape images = UF_SHAPE(size->batch, size->channels, size->height, size->width);
    uf_conv_transpose2d_options up = uf_conv_transpose2d_options_square(3, 2, 1, true);
    const uf_scope modules = uf_at(stores[0], "model");
    int64_t channels = size->features;
    int module = 1;
    up.output_padding[0] = up.output_padding[1] = 1;
    uf_value x = reflected(graph, bench_model_input(model, graph, "a", images), 3);
    x = uf_conv2d(graph, x, uf_inf(modules, "%d", module), channels, UF_CONV2D(7, 1, 0, true));
    x = uf_relu(graph, instance_norm(graph, x));
    module += 3;
    for (int i = 0; i < 2; ++i) {
        channels *= 2;
        x = uf_conv2d(graph, x, uf_inf(modules, "%d", module), channels, UF_CONV2D(3, 2, 1, true));
        x = uf_relu(graph, instance_norm(graph, x));
        module += 3;
    }
    for (int i = 0; i < BLOCKS; ++i) {
        x = block(graph, x, uf_inf(modules, "%d", module++), channels);
    }
    for (int i = 0; i < 2; ++i) {
        channels /= 2;
        x = uf_conv_transpose2d(graph, x, uf_inf(modules, "%d", module), channels, &up);
        x = uf_relu(graph, instance_norm(graph, x));
        module += 3;
    }
    x = reflected(graph, x, 3);
    x = uf_conv2d(graph, x, uf_inf(modules, "%d", module + 1), size->channels,
                  UF_CONV2D(7, 1, 0, true));
    uf_output(graph, "image", uf_tanh(graph, x));
}
