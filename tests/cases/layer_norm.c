/* layer_norm.c - cases of LayerNorm over trailing axes. */
#include "cases/norm_case.h"
#include "support/test.h"

static const struct {
    int32_t rank, axes;
    int64_t extent[4];
    bool affine;
} table[] = {
    {2, 1, {3, 7}, true},        {3, 1, {2, 5, 64}, true}, {4, 3, {2, 3, 5, 7}, true},
    {4, 2, {2, 3, 4, 6}, false}, {1, 1, {9}, true},        {3, 1, {2, 70, 600}, true},
    {2, 1, {4, 3000}, true},
};

static void make(int64_t row, test_random *random, layer_case *one) {
    const int32_t first = table[row].rank - table[row].axes;
    int64_t rows = 1, size = 1;
    for (int32_t i = 0; i < table[row].rank; ++i) {
        *(i < first ? &rows : &size) *= table[row].extent[i];
    }
    one->conv.groups = table[row].axes;
    norm_case_make(row, random, one, table[row].extent, table[row].rank, table[row].extent + first,
                   table[row].affine ? table[row].axes : 0, ref_norm_rows(rows, size));
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    uf_layer_norm_options options = uf_layer_norm_options_default();
    options.eps = one->eps;
    options.elementwise_affine = case_parameter(one, "weight") != NULL;
    return case_graph_activation(
        graph, uf_layer_norm(graph, input, scope, (int32_t)one->conv.groups, &options),
        one->activation);
}

const layer_family layer_norm_family = {
    .name = "layer_norm",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
