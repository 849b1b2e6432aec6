/* taesd.c - the decoder of TAESD: latents of Stable Diffusion (N, channels, H, W) to an image
 * (N, 3, 8 H, 8 W).
 * https://github.com/madebyollin/taesd/blob/main/taesd.py */
#include "zoo.h"

static uf_value conv(uf_graph *graph, uf_value x, uf_store *store, int module, int64_t channels,
                     bool bias) {
    return uf_conv2d(graph, x, uf_atf(store, "%d", module), channels, UF_CONV2D(3, 1, 1, bias));
}

static uf_value block(uf_graph *graph, uf_value x, uf_store *store, int module, int64_t channels) {
    uf_value y = x;
    for (int i = 0; i < 3; ++i) {
        y = i == 0 ? y : uf_relu(graph, y);
        y = uf_conv2d(graph, y, uf_atf(store, "%d.conv.%d", module, 2 * i), channels,
                      UF_CONV2D(3, 1, 1, true));
    }
    return uf_relu(graph, uf_add(graph, y, x));
}

void zoo_taesd(uf_graph *graph, uf_store *store, const zoo_size *size) {
    const int64_t channels = size->features;
    uf_value x =
        uf_input(graph, "latents", UF_SHAPE(size->batch, size->channels, size->side, size->side));
    x = uf_scale(graph, uf_tanh(graph, uf_scale(graph, x, 1.0 / 3.0)), 3.0);
    x = uf_relu(graph, conv(graph, x, store, 1, channels, true));
    int module = 3;
    for (int level = 0; level < 3; ++level) {
        for (int i = 0; i < 3; ++i) {
            x = block(graph, x, store, module++, channels);
        }
        x = uf_upsample_nearest(graph, x, NULL);
        x = conv(graph, x, store, module + 1, channels, false);
        module += 2;
    }
    x = block(graph, x, store, module, channels);
    uf_output(graph, "image", conv(graph, x, store, module + 1, 3, true));
}
