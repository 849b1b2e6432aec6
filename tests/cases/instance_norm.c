/* instance_norm.c - cases of InstanceNorm2d and InstanceNorm1d, by the statistics of the image. */
#include "cases/norm_case.h"
#include "support/test.h"

/* height 0: (N, C, L). */
static const struct {
    int64_t n, c, h, w;
    bool affine;
} table[] = {
    {1, 1, 1, 2, false}, {4, 3, 5, 7, true},    {2, 8, 4, 4, false},
    {2, 5, 0, 9, true},  {3, 2, 33, 17, false}, {1, 70, 2, 3, true},
};

static void make(int64_t row, test_random *random, layer_case *one) {
    const int64_t n = table[row].n, c = table[row].c, h = table[row].h, w = table[row].w;
    const int64_t image[4] = {n, c, h, w}, line[3] = {n, c, w};
    norm_case_make(row, random, one, h > 0 ? image : line, h > 0 ? 4 : 3, &c,
                   table[row].affine ? 1 : 0, ref_norm_groups(n, c, (h > 0 ? h : 1) * w, c));
}

static bool load(h5_file file, const char *path, layer_case *one) {
    norm_case_load(file, path, one);
    return true;
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    uf_instance_norm_options options = uf_instance_norm_options_default();
    options.eps = one->eps;
    options.affine = case_parameter(one, "weight") != NULL;
    const uf_value y = one->input.rank == 3 ? uf_instance_norm1d(graph, input, scope, &options)
                                            : uf_instance_norm2d(graph, input, scope, &options);
    return case_graph_activation(graph, y, one->activation);
}

const layer_family instance_norm_family = {
    .name = "instance_norm",
    .pytorch = "instance_norm2d",
    .load = load,
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
