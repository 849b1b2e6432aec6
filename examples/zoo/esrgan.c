/* esrgan.c - ESRGAN's generator of residual in residual dense blocks (RRDB) enlarges an image four
 * times: (N, 3, H, W) -> (N, 3, 4 H, 4 W).
 * Wang, Yu, Wu, Gu, Liu, Dong, Loy, Qiao, Tang 2018, https://arxiv.org/abs/1809.00219
 * https://github.com/xinntao/ESRGAN/blob/master/RRDBNet_arch.py */
#include "zoo.h"

static uf_value conv(uf_graph *graph, uf_value x, uf_scope scope, int64_t channels) {
    return uf_conv2d(graph, x, scope, channels, UF_CONV2D(3, 1, 1, true));
}

/* Five convolutions: each sees the block's input and the results of all before it. */
static uf_value dense(uf_graph *graph, uf_value x, uf_scope block, int64_t channels) {
    uf_value parts[5] = {x}, y = x;
    for (int i = 0; i < 4; ++i) {
        y = conv(graph, y, uf_inf(block, "conv%d", i + 1), channels / 2);
        parts[i + 1] = uf_leaky_relu(graph, y, 0.2);
        y = uf_concat(graph, parts, i + 2);
    }
    y = conv(graph, y, uf_in(block, "conv5"), channels);
    return uf_add(graph, uf_scale(graph, y, 0.2), x);
}

void zoo_esrgan(uf_graph *graph, uf_store *store, const zoo_size *size) {
    const int64_t channels = size->features;
    uf_value x = uf_input(graph, "image", UF_SHAPE(size->batch, 3, size->side, size->side));
    x = conv(graph, x, uf_at(store, "conv_first"), channels);
    uf_value trunk = x;
    for (int i = 0; i < size->blocks; ++i) {
        uf_value y = trunk;
        for (int part = 1; part <= 3; ++part) {
            y = dense(graph, y, uf_atf(store, "RRDB_trunk.%d.RDB%d", i, part), channels);
        }
        trunk = uf_add(graph, uf_scale(graph, y, 0.2), trunk);
    }
    x = uf_add(graph, x, conv(graph, trunk, uf_at(store, "trunk_conv"), channels));
    for (int i = 1; i <= 2; ++i) {
        x = uf_upsample_nearest(graph, x, NULL);
        x = uf_leaky_relu(graph, conv(graph, x, uf_atf(store, "upconv%d", i), channels), 0.2);
    }
    x = uf_leaky_relu(graph, conv(graph, x, uf_at(store, "HRconv"), channels), 0.2);
    uf_output(graph, "image", conv(graph, x, uf_at(store, "conv_last"), 3));
}
