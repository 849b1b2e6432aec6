/* group_norm.c - cases of GroupNorm. */
#include "cases/norm_case.h"
#include "support/test.h"

/* height 0: (N, C). */
static const struct {
    int64_t n, c, h, w, groups;
    bool affine;
} table[] = {
    {1, 1, 1, 2, 1, true},  {4, 6, 5, 7, 3, true},   {2, 8, 4, 4, 8, false},
    {2, 12, 0, 0, 4, true}, {3, 4, 33, 17, 2, true}, {1, 64, 2, 3, 32, true},
    {2, 10, 1, 1, 1, true},
};

static void make(int64_t row, test_random *random, layer_case *one) {
    const int64_t n = table[row].n, c = table[row].c, h = table[row].h, w = table[row].w;
    const int64_t extent[4] = {n, c, h, w};
    one->conv.groups = table[row].groups;
    norm_case_make(row, random, one, extent, h > 0 ? 4 : 2, &c, table[row].affine ? 1 : 0,
                   ref_norm_groups(n, c, h > 0 ? h * w : 1, table[row].groups));
}

static bool load(h5_file file, const char *path, layer_case *one) {
    h5_attribute_integers(file, path, "num_groups", &one->conv.groups, 1);
    norm_case_load(file, path, one);
    return true;
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    uf_group_norm_options options = uf_group_norm_options_default();
    options.eps = one->eps;
    options.affine = case_parameter(one, "weight") != NULL;
    return case_graph_activation(
        graph, uf_group_norm(graph, input, scope, one->conv.groups, &options), one->activation);
}

const layer_family group_norm_family = {
    .name = "group_norm",
    .pytorch = "group_norm",
    .load = load,
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
