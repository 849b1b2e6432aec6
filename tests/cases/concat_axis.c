/* concat_axis.c - cases of ConcatAxis: a value with a part of itself and itself again. */
#include "cases/arranged.h"
#include "support/test.h"

static const struct {
    int32_t rank;
    int64_t extent[5];
    int32_t axis, place;
} table[] = {
    {4, {2, 3, 4, 5}, 0, 0},  {4, {2, 3, 4, 5}, -2, 2}, {4, {2, 3, 4, 64}, 3, 3},
    {4, {1, 16, 9, 8}, 1, 1}, {2, {5, 7}, 0, 0},        {2, {5, 7}, -1, 1},
    {1, {9}, -1, 0},          {3, {1, 1, 1}, 2, 2},     {5, {2, 2, 3, 4, 5}, 1, 1},
};

/* The part is the second half, the middle one with it. */
static void source(int64_t row, const int64_t *output, int64_t *input) {
    const int32_t place = table[row].place;
    const int64_t whole = table[row].extent[place], part = (whole + 1) / 2;
    for (int32_t i = 0; i < table[row].rank; ++i) {
        input[i] = output[i];
    }
    if (output[place] >= whole + part) {
        input[place] -= whole + part;
    } else if (output[place] >= whole) {
        input[place] -= part;
    }
}

static void make(int64_t row, test_random *random, layer_case *one) {
    const int32_t place = table[row].place;
    int64_t extent[UF_MAX_RANK];
    for (int32_t i = 0; i < table[row].rank; ++i) {
        extent[i] = table[row].extent[i];
    }
    extent[place] += extent[place] + (extent[place] + 1) / 2;
    one->input = case_tensor_of("", table[row].rank, table[row].extent);
    one->output = case_tensor_of("", table[row].rank, extent);
    arranged_case(row, random, one, source);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    const int64_t whole = table[one->row].extent[table[one->row].place];
    const uf_value part = uf_slice(graph, input, table[one->row].axis, whole / 2, whole);
    const uf_value parts[3] = {input, part, input};
    (void)scope;
    return uf_concat_axis(graph, parts, 3, table[one->row].axis);
}

const layer_family concat_axis_family = {
    .name = "concat_axis",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
