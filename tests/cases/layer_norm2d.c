/* layer_norm2d.c - cases of LayerNorm over the channels of each pixel. */
#include "cases/norm_case.h"
#include "support/test.h"

static const struct {
    int64_t n, c, h, w;
    bool affine;
} table[] = {
    {1, 2, 1, 1, true},  {2, 7, 3, 5, true},   {3, 64, 9, 4, false},
    {1, 33, 8, 8, true}, {2, 5, 25, 33, true}, {1, 300, 2, 20, true},
};

static void make(int64_t row, test_random *random, layer_case *one) {
    const int64_t n = table[row].n, c = table[row].c, h = table[row].h, w = table[row].w;
    const int64_t extent[4] = {n, c, h, w};
    norm_case_make(row, random, one, extent, 4, &c, table[row].affine ? 1 : 0,
                   ref_norm_channels(n, c, h * w));
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    uf_layer_norm_options options = uf_layer_norm_options_default();
    options.eps = one->eps;
    options.elementwise_affine = case_parameter(one, "weight") != NULL;
    return case_graph_activation(graph, uf_layer_norm2d(graph, input, scope, &options),
                                 one->activation);
}

const layer_family layer_norm2d_family = {
    .name = "layer_norm2d",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
