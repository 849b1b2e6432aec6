/* noise.c - cases of noise that is the same in each run: without spread. test_draws.c has the
 * rest. */
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

static const int64_t table[][4] = {{1, 1, 1, 1}, {2, 3, 4, 5}, {3, 7, 1, 33}, {2, 16, 9, 8}};

static void make(int64_t row, test_random *random, layer_case *one) {
    const int64_t *s = table[row];
    one->input = case_tensor_nchw(s[0], s[1], s[2], s[3]);
    one->output = case_tensor_nchw(s[0], s[1], s[2], s[3]);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    for (int64_t i = 0; i < one->input.count; ++i) {
        one->output.values[i] = row % 2 == 0 ? 0.75 : -2.5;
    }
    one->row = row;
    one->reduction = 0; /* exact */
    (void)snprintf(one->label, sizeof one->label, "noise row %d", (int)row);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    (void)scope;
    return one->row % 2 == 0 ? uf_noise_normal_like(graph, input, 0.75, 0.0)
                             : uf_noise_uniform_like(graph, input, -2.5, -2.5);
}

const layer_family noise_family = {
    .name = "noise",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
