/* pix2pix.c - pix2pix as junyanz/pytorch-CycleGAN-and-pix2pix has it: a U-Net as deep as the side
 * can be halved, and a discriminator that sees patches of 70x70 pixels. Without dropout, which the
 * library lacks (their --no_dropout).
 * Isola, Zhu, Zhou, Efros 2017, https://arxiv.org/abs/1611.07004 */
#include "models/model.h"

/* A level of the U-Net and all below it, (N, C, H, W) -> (N, C + outer, H, W): the activated input
 * beside what the levels make of it. The original's LeakyReLU works in place, so that its skips are
 * activated too. The outermost gives (N, outer, H, W) alone. */
static uf_value level(uf_graph *graph, uf_value x, uf_scope scope, int depth, int levels,
                      int64_t outer, int64_t features) {
    const bool outermost = depth == 0, innermost = depth + 1 == levels;
    const int64_t inner = features << (depth < 3 ? depth : 3);
    const uf_scope modules = uf_in(scope, "model");
    int module = outermost ? 0 : 1;
    const uf_value skip = outermost ? x : uf_leaky_relu(graph, x, 0.2);
    uf_value y =
        uf_conv2d(graph, skip, uf_inf(modules, "%d", module++), inner, UF_CONV2D(4, 2, 1, false));
    if (!outermost && !innermost) {
        y = uf_batch_norm2d(graph, y, uf_inf(modules, "%d", module++), NULL);
    }
    if (!innermost) {
        const uf_scope below = uf_inf(modules, "%d", module++);
        y = level(graph, y, below, depth + 1, levels, inner, features);
    }
    y = uf_relu(graph, y);
    ++module;
    y = uf_conv_transpose2d(graph, y, uf_inf(modules, "%d", module++), outer,
                            UF_CONV_TRANSPOSE2D(4, 2, 1, outermost));
    if (outermost) {
        return uf_tanh(graph, y);
    }
    const uf_value both[] = {skip, uf_batch_norm2d(graph, y, uf_inf(modules, "%d", module), NULL)};
    return uf_concat(graph, both, 2);
}

/* (N, channels, H, H) -> (N, channels, H, H), down to 1x1 and up again. */
static uf_value generator(uf_graph *graph, uf_store *store, uf_value image,
                          const bench_model_size *size) {
    int levels = 0;
    while (size->height >> (levels + 1) > 0) {
        ++levels;
    }
    return level(graph, image, uf_at(store, "model"), 0, levels, size->channels, size->features);
}

/* A picture and its translation, (N, 2 channels, H, W) -> a logit for each patch. */
static uf_value discriminator(uf_graph *graph, uf_store *store, uf_value a, uf_value b,
                              const bench_model_size *size) {
    const uf_scope modules = uf_at(store, "model");
    const uf_value both[] = {a, b};
    uf_value x = uf_concat(graph, both, 2);
    x = uf_conv2d(graph, x, uf_in(modules, "0"), size->features, UF_CONV2D(4, 2, 1, true));
    x = uf_leaky_relu(graph, x, 0.2);
    int module = 2;
    for (int i = 0; i < 3; ++i) {
        const int64_t channels = size->features << (i + 1);
        x = uf_conv2d(graph, x, uf_inf(modules, "%d", module), channels,
                      UF_CONV2D(4, i < 2 ? 2 : 1, 1, false));
        x = uf_batch_norm2d(graph, x, uf_inf(modules, "%d", module + 1), NULL);
        x = uf_leaky_relu(graph, x, 0.2);
        module += 3;
    }
    return uf_conv2d(graph, x, uf_inf(modules, "%d", module), 1, UF_CONV2D(4, 1, 1, true));
}

void bench_pix2pix_generate(uf_graph *graph, uf_store *const *stores, const bench_model_size *size,
                            bench_model *model) {
    const uf_shape images = UF_SHAPE(size->batch, size->channels, size->height, size->width);
    const uf_value a = bench_model_input(model, graph, "a", images);
    uf_output(graph, "image", generator(graph, stores[0], a, size));
}

void bench_pix2pix_train(uf_graph *graph, uf_store *const *stores, const bench_model_size *size,
                         bench_model *model) {
    const uf_shape images = UF_SHAPE(size->batch, size->channels, size->height, size->width);
    const uf_value a = bench_model_input(model, graph, "a", images);
    const uf_value b = bench_model_input(model, graph, "b", images);
    const uf_value fake = generator(graph, stores[0], a, size);
    const uf_value on_fake = discriminator(graph, stores[1], a, uf_detach(graph, fake), size);
    const uf_value on_real = discriminator(graph, stores[1], a, b, size);
    const uf_value judged = discriminator(graph, stores[1], a, fake, size);
    const uf_value ones = uf_full_like(graph, on_real, 1.0);
    const uf_value zeros = uf_full_like(graph, on_real, 0.0);
    model->passes[0] = (bench_model_pass){
        .store = 1,
        .loss_count = 2,
        .names = {"d_fake", "d_real"},
        .losses = {uf_bce_with_logits_loss(graph, on_fake, zeros),
                   uf_bce_with_logits_loss(graph, on_real, ones)},
        .weights = {0.5, 0.5},
    };
    model->passes[1] = (bench_model_pass){
        .store = 0,
        .loss_count = 2,
        .names = {"g_gan", "g_l1"},
        .losses = {uf_bce_with_logits_loss(graph, judged, ones), uf_l1_loss(graph, fake, b)},
        .weights = {1.0, 100.0},
    };
    model->pass_count = 2;
    model->adam.lr = 2e-4;
    model->adam.beta1 = 0.5;
}
