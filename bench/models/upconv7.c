/* upconv7.c - upconv_7 of waifu2x, which doubles a picture: six 3x3 convolutions without padding,
 * then a transposed convolution. https://github.com/nagadomi/waifu2x */
#include "models/model.h"

void bench_upconv7(uf_graph *graph, uf_store *const *stores, const bench_model_size *size,
                   bench_model *model) {
    static const int64_t channels[] = {16, 32, 64, 128, 128, 256};
    enum { CONVOLUTIONS = (int)(sizeof channels / sizeof channels[0]) };
    const uf_shape images = UF_SHAPE(size->batch, size->channels, size->height, size->width);
    uf_value x = bench_model_input(model, graph, "a", images);
    for (int i = 0; i < CONVOLUTIONS; ++i) {
        x = uf_conv2d(graph, x, uf_atf(stores[0], "%d", 2 * i), channels[i], NULL);
        x = uf_leaky_relu(graph, x, 0.1);
    }
    x = uf_conv_transpose2d(graph, x, uf_atf(stores[0], "%d", 2 * CONVOLUTIONS), size->channels,
                            UF_CONV_TRANSPOSE2D(4, 2, 3, true));
    uf_output(graph, "image", x);
}
