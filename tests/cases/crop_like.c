/* crop_like.c - cases of CropLike: the centre, rounded down. */
#include "cases/arranged.h"
#include "support/test.h"

static const struct {
    int32_t rank;
    int64_t extent[5];
    int64_t like[2], first[2];
} table[] = {
    {4, {2, 3, 8, 6}, {4, 4}, {2, 1}},    {4, {2, 3, 7, 5}, {4, 2}, {1, 1}},
    {4, {1, 1, 1, 1}, {1, 1}, {0, 0}},    {2, {20, 40}, {20, 9}, {0, 15}},
    {5, {2, 3, 2, 6, 5}, {1, 3}, {2, 1}},
};

static void source(int64_t row, const int64_t *output, int64_t *input) {
    for (int32_t i = 0; i < table[row].rank; ++i) {
        const int32_t side = i - (table[row].rank - 2);
        input[i] = output[i] + (side >= 0 ? table[row].first[side] : 0);
    }
}

static void make(int64_t row, test_random *random, layer_case *one) {
    const int32_t rank = table[row].rank;
    one->input = case_tensor_of("", rank, table[row].extent);
    int64_t extent[UF_MAX_RANK];
    for (int32_t i = 0; i < rank; ++i) {
        extent[i] = i < rank - 2 ? table[row].extent[i] : table[row].like[i - (rank - 2)];
    }
    one->output = case_tensor_of("", rank, extent);
    arranged_case(row, random, one, source);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    const uf_value rows = uf_slice(graph, input, -2, 0, table[one->row].like[0]);
    (void)scope;
    return uf_crop_like(graph, input, uf_slice(graph, rows, -1, 0, table[one->row].like[1]));
}

const layer_family crop_like_family = {
    .name = "crop_like",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
