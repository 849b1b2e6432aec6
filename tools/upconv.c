#include "upconv.h"

uf_value upconv_build(uf_graph *graph, uf_store *store, uf_value input) {
    /* The names are those of an nn.Sequential: every second module is an activation. */
    static const int64_t channels[] = {16, 32, 64, 128, 128, 256};
    enum { CONVOLUTIONS = (int)(sizeof channels / sizeof channels[0]) };
    uf_value x = input;
    for (int i = 0; i < CONVOLUTIONS; i++) {
        x = uf_conv2d(graph, x, uf_atf(store, "%d", 2 * i), channels[i], NULL);
        x = uf_leaky_relu(graph, x, 0.1);
    }
    return uf_conv_transpose2d(graph, x, uf_at(store, "12"), 3,
                               UF_CONV_TRANSPOSE2D(4, UPCONV_SCALE, 3, true));
}
