/* concat_part.c - cases of the gradient of one of a concat's inputs as a value: of half the squares
 * of all of them, which is the input itself. */
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

enum { PARTS = 4 };

static const double factors[PARTS] = {1.0, -0.5, 2.0, 0.25}; /* exact in every type */

static const struct {
    int32_t rank;
    int64_t extent[4];
    int32_t axis, number, count; /* the part is `number` of so many */
} table[] = {
    {4, {2, 3, 4, 5}, 1, 0, 2},  {4, {2, 3, 4, 5}, 1, 1, 2}, {4, {2, 64, 2, 2}, 1, 1, 4},
    {4, {2, 64, 1, 1}, 1, 2, 4}, {4, {3, 2, 5, 7}, 3, 1, 3}, {4, {3, 2, 5, 7}, -2, 3, 4},
    {3, {4, 6, 33}, 0, 1, 3},    {2, {5, 7}, 1, 0, 1},       {1, {9}, 0, 2, 4},
};

static void make(int64_t row, test_random *random, layer_case *one) {
    one->row = row;
    one->input = case_tensor_of("", table[row].rank, table[row].extent);
    one->output = case_tensor_of("", table[row].rank, table[row].extent);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    for (int64_t i = 0; i < one->input.count; ++i) {
        one->output.values[i] = one->input.values[i] * factors[table[row].number];
    }
    (void)snprintf(one->label, sizeof one->label, "concat_part, row %d", (int)row);
}

/* The parts are multiples of the input. */
static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    uf_value parts[PARTS];
    (void)scope;
    for (int32_t i = 0; i < table[one->row].count; ++i) {
        parts[i] = uf_scale(graph, input, factors[i]);
    }
    const uf_value y = uf_concat_axis(graph, parts, table[one->row].count, table[one->row].axis);
    const uf_value halves = uf_scale(graph, uf_square(graph, y), 0.5);
    return uf_gradient(graph, halves, parts[table[one->row].number]);
}

const layer_family concat_part_family = {
    .name = "concat_part",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
