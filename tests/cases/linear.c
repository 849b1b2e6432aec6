/* linear.c - cases of Linear. */
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

/* {n, in, out, bias} */
static const int64_t table[][4] = {
    {1, 1, 1, 0}, {1, 3, 9, 1}, {4, 7, 5, 1}, {33, 130, 17, 1}, {5, 600, 3, 0},
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
    const int64_t n = table[row][0], in = table[row][1], out = table[row][2];
    const int64_t input[2] = {n, in}, output[2] = {n, out}, weight[2] = {out, in};
    one->input = case_tensor_of("", 2, input);
    one->output = case_tensor_of("", 2, output);
    case_add_parameter(one, case_tensor_of("weight", 2, weight));
    if (table[row][3] != 0) {
        case_add_parameter(one, case_tensor_of("bias", 1, &out));
    }
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    for (int32_t i = 0; i < one->parameter_count; ++i) {
        test_random_fill(random, one->parameters[i].values, one->parameters[i].count, 1.0);
    }
    one->reduction = in;
    compute(one, n, in, out);
    (void)snprintf(one->label, sizeof one->label, "linear n%lld %lld->%lld%s", (long long)n,
                   (long long)in, (long long)out, table[row][3] != 0 ? " bias" : "");
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
    return uf_linear(graph, input, scope, one->output.extent[1],
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
