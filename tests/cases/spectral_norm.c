/* spectral_norm.c - cases of spectral norm in evaluation, with any u and v. The input goes nowhere.
 * tests/graph/test_weight_norm.c has training. */
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

static const struct {
    int32_t rank, dim;
    int64_t extent[4];
} table[] = {
    {2, 0, {1, 1}},       {2, 0, {7, 5}},      {2, 1, {7, 5}},         {4, 0, {5, 3, 3, 3}},
    {4, 1, {5, 3, 3, 4}}, {3, 0, {40, 16, 7}}, {4, 0, {3, 300, 2, 2}}, {4, 1, {300, 3, 1, 1}},
};

static void make(int64_t row, test_random *random, layer_case *one) {
    const int32_t rank = table[row].rank, dim = table[row].dim;
    const int64_t *extent = table[row].extent;
    const int64_t rows = extent[dim];
    int64_t inner = 1;
    for (int32_t i = dim + 1; i < rank; ++i) {
        inner *= extent[i];
    }
    one->input = case_tensor_of("", rank, extent);
    one->output = case_tensor_of("", rank, extent);
    const int64_t columns = one->input.count / rows;
    case_add_parameter(one, case_tensor_of("weight_orig", rank, extent));
    case_add_parameter(one, case_tensor_of("weight_u", 1, &rows));
    case_add_parameter(one, case_tensor_of("weight_v", 1, &columns));
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    for (int32_t i = 0; i < 3; ++i) {
        test_random_fill(random, one->parameters[i].values, one->parameters[i].count, 1.0);
    }
    const double *weight = one->parameters[0].values, *u = one->parameters[1].values;
    const double *v = one->parameters[2].values;
    /* A sigma of some size: nothing cancels. */
    for (int64_t i = 0; i < one->input.count; ++i) {
        const int64_t column = i / inner / rows * inner + i % inner;
        const double sign = u[i / inner % rows] * v[column] < 0.0 ? -1.0 : 1.0;
        double *at = &one->parameters[0].values[i];
        *at = *at * sign < 0.0 ? -*at : *at;
    }
    double sigma = 0.0;
    for (int64_t i = 0; i < one->input.count; ++i) {
        sigma += weight[i] * u[i / inner % rows] * v[i / inner / rows * inner + i % inner];
    }
    for (int64_t i = 0; i < one->input.count; ++i) {
        one->output.values[i] = weight[i] / sigma;
        one->size = weight[i] / sigma > one->size ? weight[i] / sigma : one->size;
    }
    one->row = row;
    one->reduction = 2;
    (void)snprintf(one->label, sizeof one->label, "spectral_norm row %d", (int)row);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    const uf_shape shape = uf_shape_from(one->input.extent, one->input.rank);
    (void)input;
    return uf_spectral_norm(graph, scope, shape, table[one->row].dim);
}

const layer_family spectral_norm_family = {
    .name = "spectral_norm",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
