/* prelu.c - cases of PReLU: values of any rank, one weight or one for each channel. */
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

static const struct {
    int32_t rank;
    int64_t extent[4];
    int64_t num_parameters;
} table[] = {
    {4, {1, 1, 1, 1}, 1}, {4, {2, 3, 4, 5}, 3}, {4, {2, 3, 4, 5}, 1},     {2, {3, 7}, 7},
    {3, {2, 4, 33}, 4},   {1, {9}, 1},          {4, {1, 16, 12, 16}, 16}, {3, {3, 1, 700}, 1},
};

/* Numbers that bf16 holds too, so that no rounding of the weight moves the result. */
static double quarter(test_random *random) {
    return (double)test_random_integer(random, -8, 8) / 4.0;
}

static void make(int64_t row, test_random *random, layer_case *one) {
    const int64_t channels = table[row].num_parameters;
    one->input = case_tensor_of("", table[row].rank, table[row].extent);
    one->output = case_tensor_of("", table[row].rank, table[row].extent);
    case_add_parameter(one, case_tensor_of("weight", 1, &channels));
    for (int64_t c = 0; c < channels; ++c) {
        one->parameters[0].values[c] = quarter(random);
    }
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    const int64_t images = channels == 1 ? 1 : table[row].extent[0];
    const int64_t pixels = one->input.count / (images * channels);
    for (int64_t i = 0; i < one->input.count; ++i) {
        const double x = one->input.values[i];
        const double weight = one->parameters[0].values[i / pixels % channels];
        one->output.values[i] = x > 0.0 ? x : weight * x;
    }
    one->row = row;
    (void)snprintf(one->label, sizeof one->label, "prelu row %d, %d weights", (int)row,
                   (int)channels);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    return uf_prelu(graph, input, scope, table[one->row].num_parameters);
}

const layer_family prelu_family = {
    .name = "prelu",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
