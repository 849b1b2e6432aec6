/* parameter.c - cases of a parameter as a value. The input goes nowhere. */
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

static const struct {
    int32_t rank;
    int64_t extent[4];
} table[] = {{1, {1}}, {1, {700}}, {2, {3, 5}}, {4, {2, 3, 4, 5}}, {3, {1, 1, 9}}};

static void make(int64_t row, test_random *random, layer_case *one) {
    const int32_t rank = table[row].rank;
    one->input = case_tensor_of("", rank, table[row].extent);
    one->output = case_tensor_of("", rank, table[row].extent);
    case_add_parameter(one, case_tensor_of("constant", rank, table[row].extent));
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    test_random_fill(random, one->parameters[0].values, one->input.count, 1.0);
    for (int64_t i = 0; i < one->input.count; ++i) {
        one->output.values[i] = one->parameters[0].values[i];
    }
    one->reduction = 2;
    (void)snprintf(one->label, sizeof one->label, "parameter row %d", (int)row);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    const uf_shape shape = uf_shape_from(one->input.extent, one->input.rank);
    (void)input;
    return uf_parameter(graph, scope, "constant", shape);
}

const layer_family parameter_family = {
    .name = "parameter",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
