/* fsrcnn.c - FSRCNN enlarges the luminance of an image, (N, 1, H, W) -> (N, 1, scale H, scale W);
 * size->blocks is the scale.
 * Dong, Loy, Tang 2016, https://arxiv.org/abs/1608.00367
 * https://github.com/yjn870/FSRCNN-pytorch/blob/master/models.py */
#include "zoo.h"

void zoo_fsrcnn(uf_graph *graph, uf_store *store, const zoo_size *size) {
    enum { SHRUNK = 12, MAPPINGS = 4 };
    uf_conv_transpose2d_options up = uf_conv_transpose2d_options_square(9, size->blocks, 4, true);
    up.output_padding[0] = up.output_padding[1] = size->blocks - 1;
    uf_value x = uf_input(graph, "image", UF_SHAPE(size->batch, 1, size->side, size->side));
    x = uf_conv2d(graph, x, uf_at(store, "first_part.0"), size->features, UF_CONV2D(5, 1, 2, true));
    x = uf_prelu(graph, x, uf_at(store, "first_part.1"), size->features);
    for (int i = 0; i < MAPPINGS + 2; ++i) {
        const bool inside = 0 < i && i <= MAPPINGS;
        const int64_t channels = i <= MAPPINGS ? SHRUNK : size->features;
        x = uf_conv2d(graph, x, uf_atf(store, "mid_part.%d", 2 * i), channels,
                      inside ? UF_CONV2D(3, 1, 1, true) : UF_CONV2D(1, 1, 0, true));
        x = uf_prelu(graph, x, uf_atf(store, "mid_part.%d", 2 * i + 1), channels);
    }
    x = uf_conv_transpose2d(graph, x, uf_at(store, "last_part"), 1, &up);
    uf_output(graph, "image", x);
}
