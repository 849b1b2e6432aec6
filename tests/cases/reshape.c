/* reshape.c - cases of Reshape: the same numbers in a row under another shape. */
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

static const int64_t table[][4] = {{1, 1, 1, 1}, {2, 3, 4, 5}, {3, 7, 1, 33}, {1, 16, 9, 8}};

static void make(int64_t row, test_random *random, layer_case *one) {
    const int64_t n = table[row][0], c = table[row][1], h = table[row][2], w = table[row][3];
    one->input = case_tensor_nchw(n, c, h, w);
    const int64_t rows = n * h, columns = c * w;
    const int64_t extent[2] = {rows, columns};
    one->output = case_tensor_of("", 2, extent);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    one->reduction = 0; /* exact: the tolerance is 0 */
    for (int64_t i = 0; i < one->input.count; ++i) {
        const double x = one->input.values[i];
        one->output.values[i] = x > 0.0 ? x : 0.0;
    }
    (void)snprintf(one->label, sizeof one->label, "reshape (%lld, %lld, %lld, %lld)", (long long)n,
                   (long long)c, (long long)h, (long long)w);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    (void)scope;
    /* 0 is the input's extent: (n, 1, c, h w) lies between. */
    const uf_value between = uf_reshape(graph, input, UF_SHAPE(0, 1, one->input.extent[1], -1));
    return uf_relu(graph, uf_reshape(graph, between, UF_SHAPE(-1, one->output.extent[1])));
}

const layer_family reshape_family = {
    .name = "reshape",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
