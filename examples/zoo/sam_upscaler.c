/* sam_upscaler.c - the end of Segment Anything's mask decoder: an embedding of the image
 * (N, features, H, W), enlarged four times, times what small networks make of each mask's token.
 * Weights: what begins with output_upscaling. or output_hypernetworks_mlps. below mask_decoder.
 * Kirillov et al. 2023, https://arxiv.org/abs/2304.02643
 * modeling/mask_decoder.py of https://github.com/facebookresearch/segment-anything */
#include "zoo.h"

void zoo_sam_upscaler(uf_graph *graph, uf_store *store, const zoo_size *size) {
    enum { MASKS = 4 };
    const int64_t features = size->features, side = size->side;
    uf_layer_norm_options norm = uf_layer_norm_options_default();
    norm.eps = 1e-6;
    uf_value x = uf_input(graph, "image", UF_SHAPE(size->batch, features, side, side));
    const uf_value tokens = uf_input(graph, "tokens", UF_SHAPE(size->batch, MASKS, features));
    x = uf_conv_transpose2d(graph, x, uf_at(store, "output_upscaling.0"), features / 4,
                            UF_CONV_TRANSPOSE2D(2, 2, 0, true));
    x = uf_gelu(graph, uf_layer_norm2d(graph, x, uf_at(store, "output_upscaling.1"), &norm));
    x = uf_conv_transpose2d(graph, x, uf_at(store, "output_upscaling.3"), features / 8,
                            UF_CONV_TRANSPOSE2D(2, 2, 0, true));
    x = uf_flatten(graph, uf_gelu(graph, x), 2, 3);
    uf_value rows[MASKS];
    for (int i = 0; i < MASKS; ++i) {
        const uf_scope mlp = uf_atf(store, "output_hypernetworks_mlps.%d.layers", i);
        uf_value y = uf_slice(graph, tokens, 1, i, i + 1);
        y = uf_relu(graph, uf_linear(graph, y, uf_in(mlp, "0"), features, true));
        y = uf_relu(graph, uf_linear(graph, y, uf_in(mlp, "1"), features, true));
        rows[i] = uf_linear(graph, y, uf_in(mlp, "2"), features / 8, true);
    }
    x = uf_matmul(graph, uf_concat_axis(graph, rows, MASKS, 1), x);
    uf_output(graph, "masks", uf_reshape(graph, x, UF_SHAPE(-1, MASKS, 4 * side, 4 * side)));
}
