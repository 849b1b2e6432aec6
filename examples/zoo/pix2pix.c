/* pix2pix.c - the U-Net of junyanz/pytorch-CycleGAN-and-pix2pix: (N, channels, H, H) down to 1x1
 * and up again. Dropout draws in training alone; their test.py draws too unless told --eval.
 * Isola, Zhu, Zhou, Efros 2017, https://arxiv.org/abs/1611.07004
 * https://github.com/junyanz/pytorch-CycleGAN-and-pix2pix/blob/master/models/networks.py */
#include "zoo.h"

/* The level at `depth` and all below it, (N, outer, H, H) -> (N, 2 outer, H, H): the input beside
 * what the levels make of it. The original's LeakyReLU works in place, so that its skips are
 * activated too. The outermost level gives (N, outer, H, H) alone. */
static uf_value level(uf_graph *graph, uf_value x, uf_scope model, int depth, int levels,
                      int64_t outer, int64_t features) {
    const bool outermost = depth == 0, innermost = depth + 1 == levels;
    const int64_t inner = features << (depth < 3 ? depth : 3);
    int module = outermost ? 0 : 1;
    const uf_value skip = outermost ? x : uf_leaky_relu(graph, x, 0.2);
    uf_value y =
        uf_conv2d(graph, skip, uf_inf(model, "%d", module++), inner, UF_CONV2D(4, 2, 1, false));
    if (!innermost) {
        if (!outermost) {
            y = uf_batch_norm2d(graph, y, uf_inf(model, "%d", module++), NULL);
        }
        y = level(graph, y, uf_inf(model, "%d.model", module++), depth + 1, levels, inner,
                  features);
    }
    y = uf_conv_transpose2d(graph, uf_relu(graph, y), uf_inf(model, "%d", module + 1), outer,
                            UF_CONV_TRANSPOSE2D(4, 2, 1, outermost));
    if (outermost) {
        return uf_tanh(graph, y);
    }
    y = uf_batch_norm2d(graph, y, uf_inf(model, "%d", module + 2), NULL);
    y = depth > 3 && !innermost ? uf_dropout(graph, y, 0.5) : y;
    return uf_concat(graph, (const uf_value[]){skip, y}, 2);
}

void zoo_pix2pix(uf_graph *graph, uf_store *store, const zoo_size *size) {
    const uf_value image =
        uf_input(graph, "image", UF_SHAPE(size->batch, size->channels, size->side, size->side));
    uf_output(graph, "image",
              level(graph, image, uf_at(store, "model.model"), 0, (int)size->blocks, size->channels,
                    size->features));
}
