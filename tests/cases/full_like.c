/* full_like.c - cases of full_like: one number in the shape of another value. */
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

static const int64_t table[][4] = {{1, 1, 1, 1}, {2, 3, 4, 5}, {3, 7, 1, 33}, {1, 16, 9, 8}};

static void make(int64_t row, test_random *random, layer_case *one) {
    const int64_t n = table[row][0], c = table[row][1], h = table[row][2], w = table[row][3];
    one->input = case_tensor_nchw(n, c, h, w);
    one->output = case_tensor_nchw(n, c, h, w);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    one->reduction = 0; /* exact: the tolerance is 0 */
    for (int64_t i = 0; i < one->input.count; ++i) {
        one->output.values[i] = 0.75;
    }
    (void)snprintf(one->label, sizeof one->label, "full_like (%lld, %lld, %lld, %lld)",
                   (long long)n, (long long)c, (long long)h, (long long)w);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    (void)scope;
    (void)one;
    return uf_full_like(graph, uf_relu(graph, input), 0.75);
}

const layer_family full_like_family = {
    .name = "full_like",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
