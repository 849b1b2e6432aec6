/* slice.c - cases of Slice, from what Python's x[start:stop] is. */
#include "cases/arranged.h"
#include "support/test.h"

static const struct {
    int32_t rank;
    int64_t extent[5];
    int32_t axis;
    int64_t start, stop;
    int64_t first, count; /* the indices that are left */
} table[] = {
    {4, {2, 3, 4, 5}, 0, 1, 2, 1, 1},
    {4, {2, 3, 4, 5}, 1, 0, 2, 0, 2},
    {4, {2, 3, 4, 5}, -2, -3, -1, 1, 2},
    {4, {2, 3, 4, 64}, 3, 16, 48, 16, 32},
    {4, {2, 3, 4, 64}, -1, 3, INT64_MAX, 3, 61},
    {2, {5, 7}, 0, INT64_MIN, -2, 0, 3},
    {2, {5, 7}, 1, -100, 100, 0, 7},
    {1, {9}, 0, 8, 9, 8, 1},
    {5, {2, 2, 3, 4, 5}, 2, -2, 3, 1, 2},
};

static int32_t axis_of(int64_t row) {
    return table[row].axis < 0 ? table[row].axis + table[row].rank : table[row].axis;
}

static void source(int64_t row, const int64_t *output, int64_t *input) {
    for (int32_t i = 0; i < table[row].rank; ++i) {
        input[i] = output[i] + (i == axis_of(row) ? table[row].first : 0);
    }
}

static void make(int64_t row, test_random *random, layer_case *one) {
    one->input = case_tensor_of("", table[row].rank, table[row].extent);
    int64_t extent[UF_MAX_RANK];
    for (int32_t i = 0; i < table[row].rank; ++i) {
        extent[i] = i == axis_of(row) ? table[row].count : table[row].extent[i];
    }
    one->output = case_tensor_of("", table[row].rank, extent);
    arranged_case(row, random, one, source);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    const int64_t row = one->row;
    (void)scope;
    return uf_slice(graph, input, table[row].axis, table[row].start, table[row].stop);
}

const layer_family slice_family = {
    .name = "slice",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
