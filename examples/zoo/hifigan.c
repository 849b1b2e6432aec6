/* hifigan.c - HiFi-GAN's generator (V1): mel spectrograms (N, channels, frames) to sound (N, 1, 256
 * frames). The file's weights are parted by weight norm (weight_g, weight_v); loading joins them.
 * Kong, Kim, Bae 2020, https://arxiv.org/abs/2010.05646
 * https://github.com/jik876/hifi-gan/blob/master/models.py */
#include "zoo.h"

static uf_value same(uf_graph *graph, uf_value x, uf_scope scope, int64_t channels, int64_t kernel,
                     int64_t dilation) {
    uf_conv1d_options options =
        uf_conv1d_options_with(kernel, 1, dilation * (kernel - 1) / 2, true);
    options.dilation = dilation;
    return uf_conv1d(graph, x, scope, channels, &options);
}

/* ResBlock1: three pairs of convolutions, the first of each dilated. */
static uf_value residual(uf_graph *graph, uf_value x, uf_scope block, int64_t channels,
                         int64_t kernel) {
    for (int i = 0; i < 3; ++i) {
        uf_value y = uf_leaky_relu(graph, x, 0.1);
        y = same(graph, y, uf_inf(block, "convs1.%d", i), channels, kernel, 2 * i + 1);
        y = uf_leaky_relu(graph, y, 0.1);
        y = same(graph, y, uf_inf(block, "convs2.%d", i), channels, kernel, 1);
        x = uf_add(graph, y, x);
    }
    return x;
}

void zoo_hifigan(uf_graph *graph, uf_store *store, const zoo_size *size) {
    static const int64_t rates[] = {8, 8, 2, 2}, kernels[] = {3, 7, 11};
    int64_t channels = size->features;
    uf_value x = uf_input(graph, "mel", UF_SHAPE(size->batch, size->channels, size->side));
    x = same(graph, x, uf_at(store, "conv_pre"), channels, 7, 1);
    for (int i = 0; i < 4; ++i) {
        channels /= 2;
        x = uf_conv_transpose1d(graph, uf_leaky_relu(graph, x, 0.1), uf_atf(store, "ups.%d", i),
                                channels,
                                UF_CONV_TRANSPOSE1D(2 * rates[i], rates[i], rates[i] / 2, true));
        uf_value sum = {0};
        for (int k = 0; k < 3; ++k) {
            const uf_scope block = uf_atf(store, "resblocks.%d", 3 * i + k);
            const uf_value y = residual(graph, x, block, channels, kernels[k]);
            sum = k == 0 ? y : uf_add(graph, sum, y);
        }
        x = uf_scale(graph, sum, 1.0 / 3.0);
    }
    x = same(graph, uf_leaky_relu(graph, x, 0.01), uf_at(store, "conv_post"), 1, 7, 1);
    uf_output(graph, "sound", uf_tanh(graph, x));
}
