/* permute.c - cases of Permute. */
#include "cases/arranged.h"
#include "support/test.h"

static const struct {
    int32_t rank;
    int64_t extent[UF_MAX_RANK];
    int32_t axes[UF_MAX_RANK];
} table[] = {
    {4, {2, 3, 4, 5}, {0, 2, 3, 1}},
    {4, {2, 3, 4, 5}, {-1, 0, -2, 1}},
    {4, {3, 16, 1, 8}, {0, 1, 2, 3}},
    {2, {65, 33}, {1, 0}},
    {3, {4, 7, 64}, {1, 0, 2}},
    {1, {5}, {0}},
    {5, {2, 3, 2, 4, 3}, {4, 2, 0, -2, 1}},
    {8, {2, 1, 3, 2, 1, 2, 2, 3}, {7, 6, 5, 4, 3, 2, 1, 0}},
};

static void source(int64_t row, const int64_t *output, int64_t *input) {
    for (int32_t i = 0; i < table[row].rank; ++i) {
        const int32_t axis = table[row].axes[i];
        input[axis < 0 ? axis + table[row].rank : axis] = output[i];
    }
}

static void make(int64_t row, test_random *random, layer_case *one) {
    int64_t extent[UF_MAX_RANK];
    for (int32_t i = 0; i < table[row].rank; ++i) {
        const int32_t axis = table[row].axes[i];
        extent[i] = table[row].extent[axis < 0 ? axis + table[row].rank : axis];
    }
    one->input = case_tensor_of("", table[row].rank, table[row].extent);
    one->output = case_tensor_of("", table[row].rank, extent);
    arranged_case(row, random, one, source);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    (void)scope;
    return uf_permute(graph, input, table[one->row].axes, table[one->row].rank);
}

const layer_family permute_family = {
    .name = "permute",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
