/* weight_norm.c - cases of weight norm. The input goes nowhere. */
#include <math.h>
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

static const struct {
    int32_t rank, dim;
    int64_t extent[4];
} table[] = {
    {2, 0, {1, 1}},       {2, 0, {7, 5}},         {2, 1, {7, 5}},
    {4, 0, {5, 3, 3, 3}}, {4, 1, {5, 3, 3, 4}},   {4, 3, {2, 3, 4, 5}},
    {3, 0, {40, 16, 7}},  {4, 0, {3, 300, 2, 2}}, {4, 1, {300, 3, 1, 1}},
};

static void make(int64_t row, test_random *random, layer_case *one) {
    const int32_t rank = table[row].rank, dim = table[row].dim;
    const int64_t *extent = table[row].extent;
    int64_t narrow[4], inner = 1;
    for (int32_t i = 0; i < rank; ++i) {
        narrow[i] = i == dim ? extent[i] : 1;
        inner *= i > dim ? extent[i] : 1;
    }
    one->input = case_tensor_of("", rank, extent);
    one->output = case_tensor_of("", rank, extent);
    case_add_parameter(one, case_tensor_of("weight_v", rank, extent));
    case_add_parameter(one, case_tensor_of("weight_g", rank, narrow));
    const double *v = one->parameters[0].values, *g = one->parameters[1].values;
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    test_random_fill(random, one->parameters[0].values, one->input.count, 1.0);
    test_random_fill(random, one->parameters[1].values, extent[dim], 1.0);
    for (int64_t i = 0; i < one->input.count; ++i) {
        const int64_t r = i / inner % extent[dim];
        double sum = 0.0;
        for (int64_t k = 0; k < one->input.count; ++k) {
            sum += k / inner % extent[dim] == r ? v[k] * v[k] : 0.0;
        }
        one->output.values[i] = v[i] * g[r] / sqrt(sum);
    }
    one->row = row;
    one->reduction = 2;
    (void)snprintf(one->label, sizeof one->label, "weight_norm row %d", (int)row);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    const uf_shape shape = uf_shape_from(one->input.extent, one->input.rank);
    (void)input;
    return uf_weight_norm(graph, scope, shape, table[one->row].dim);
}

const layer_family weight_norm_family = {
    .name = "weight_norm",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
