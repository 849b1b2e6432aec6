/* linear.c - cases of Linear. */
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

/* The input's shape without its last extent, in, out, bias. */
static const struct {
    int32_t leading;
    int64_t extent[3];
    int64_t in, out;
    bool bias;
} table[] = {
    {1, {1}, 1, 1, false},      {1, {1}, 3, 9, true},        {1, {4}, 7, 5, true},
    {1, {33}, 130, 17, true},   {1, {5}, 600, 3, false},     {0, {0}, 6, 4, true},
    {2, {3, 5}, 7, 4, true},    {2, {1, 37}, 16, 40, false}, {3, {2, 3, 4}, 5, 6, true},
    {3, {2, 1, 3}, 1, 4, true},
};

/* output = input * weight^T + bias, from the definition. */
static void compute(layer_case *one, int64_t n, int64_t in, int64_t out) {
    const double *weight = case_parameter(one, "weight")->values;
    const case_tensor *bias = case_parameter(one, "bias");
    for (int64_t i = 0; i < n; ++i) {
        for (int64_t o = 0; o < out; ++o) {
            double sum = bias != NULL ? bias->values[o] : 0.0;
            for (int64_t k = 0; k < in; ++k) {
                sum += one->input.values[i * in + k] * weight[o * in + k];
            }
            one->output.values[i * out + o] = sum;
        }
    }
}

static void make(int64_t row, test_random *random, layer_case *one) {
    const int64_t in = table[row].in, out = table[row].out;
    const int32_t leading = table[row].leading;
    int64_t input[4], output[4];
    const int64_t weight[2] = {out, in};
    for (int32_t i = 0; i < leading; ++i) {
        input[i] = output[i] = table[row].extent[i];
    }
    input[leading] = in;
    output[leading] = out;
    one->input = case_tensor_of("", leading + 1, input);
    one->output = case_tensor_of("", leading + 1, output);
    case_add_parameter(one, case_tensor_of("weight", 2, weight));
    if (table[row].bias) {
        case_add_parameter(one, case_tensor_of("bias", 1, &out));
    }
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    for (int32_t i = 0; i < one->parameter_count; ++i) {
        test_random_fill(random, one->parameters[i].values, one->parameters[i].count, 1.0);
    }
    one->reduction = in;
    const int64_t rows = one->input.count / in;
    compute(one, rows, in, out);
    (void)snprintf(one->label, sizeof one->label, "linear rank %d, %lld rows %lld->%lld%s",
                   leading + 1, (long long)rows, (long long)in, (long long)out,
                   table[row].bias ? " bias" : "");
}

static bool load(h5_file file, const char *path, layer_case *one) {
    one->input = case_tensor_read(file, path, "input", "");
    one->output = case_tensor_read(file, path, "output", "");
    case_add_parameter(one, case_tensor_read(file, path, "weight", "weight"));
    case_add_parameter(one, case_tensor_read(file, path, "bias", "bias"));
    (void)snprintf(one->label, sizeof one->label, "%s", path);
    return true;
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    return uf_linear(graph, input, scope, one->output.extent[one->output.rank - 1],
                     case_parameter(one, "bias") != NULL);
}

const layer_family linear_family = {
    .name = "linear",
    .pytorch = "linear",
    .load = load,
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
