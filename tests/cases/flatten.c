/* flatten.c - cases of Flatten: the same numbers in a row under another shape. */
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

static const struct {
    int32_t rank;
    int64_t extent[5];
    int32_t start, end;
    int32_t output_rank;
    int64_t output[5];
} table[] = {
    {4, {2, 3, 4, 5}, 1, -1, 2, {2, 60}},       {4, {2, 3, 4, 5}, 0, 3, 1, {120}},
    {4, {2, 3, 4, 5}, -3, -2, 3, {2, 12, 5}},   {3, {4, 1, 3}, 2, 2, 3, {4, 1, 3}},
    {5, {2, 3, 2, 2, 5}, 2, -1, 3, {2, 3, 20}}, {1, {7}, 0, -1, 1, {7}},
};

static void make(int64_t row, test_random *random, layer_case *one) {
    one->row = row;
    one->input = case_tensor_of("", table[row].rank, table[row].extent);
    one->output = case_tensor_of("", table[row].output_rank, table[row].output);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    one->reduction = 0; /* exact: the tolerance is 0 */
    for (int64_t i = 0; i < one->input.count; ++i) {
        const double x = one->input.values[i];
        one->output.values[i] = x > 0.0 ? x : 0.0;
    }
    (void)snprintf(one->label, sizeof one->label, "flatten, row %lld", (long long)row);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    (void)scope;
    return uf_relu(graph, uf_flatten(graph, input, table[one->row].start, table[one->row].end));
}

const layer_family flatten_family = {
    .name = "flatten",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
