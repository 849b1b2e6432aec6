/* batch_norm2d.c - cases of BatchNorm2d with its running statistics (EVAL). */
#include <math.h>
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

static const struct {
    int64_t n, c, h, w;
    bool affine;
    double eps;
} table[] = {
    {1, 1, 1, 1, true, 1e-5},    {4, 3, 5, 7, true, 1e-5},  {2, 8, 1, 1, true, 1e-5},
    {3, 6, 4, 4, false, 1e-5},   {2, 5, 3, 9, true, 0.1},   {1, 600, 2, 3, true, 1e-5},
    {2, 3, 33, 17, false, 1e-3}, {5, 32, 8, 8, true, 1e-5},
};

static void compute(layer_case *one) {
    const case_tensor *weight = case_parameter(one, "weight");
    const case_tensor *bias = case_parameter(one, "bias");
    const ref_batch_norm norm = {one->input.extent[0], one->input.extent[1],
                                 one->input.extent[2] * one->input.extent[3], one->eps, 0.1};
    ref_batch_norm_eval_forward(&norm, one->input.values, weight != NULL ? weight->values : NULL,
                                bias != NULL ? bias->values : NULL,
                                case_parameter(one, "running_mean")->values,
                                case_parameter(one, "running_var")->values, one->output.values);
}

static void make(int64_t row, test_random *random, layer_case *one) {
    const int64_t c = table[row].c;
    one->eps = table[row].eps;
    one->activation = (uf_activation){(uf_activation_kind)(row % CASE_ACTIVATIONS), 0.25};
    one->reduction = 2;
    one->input = case_tensor_nchw(table[row].n, c, table[row].h, table[row].w);
    one->output = case_tensor_nchw(table[row].n, c, table[row].h, table[row].w);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    case_tensor mean = case_tensor_of("running_mean", 1, &c);
    case_tensor var = case_tensor_of("running_var", 1, &c);
    test_random_fill(random, mean.values, c, 0.5);
    for (int64_t i = 0; i < c; ++i) {
        var.values[i] = (double)(float)test_random_real(random, 0.25, 2.0);
    }
    if (table[row].affine) {
        case_tensor weight = case_tensor_of("weight", 1, &c);
        case_tensor bias = case_tensor_of("bias", 1, &c);
        test_random_fill(random, weight.values, c, 1.0);
        test_random_fill(random, bias.values, c, 1.0);
        case_add_parameter(one, weight);
        case_add_parameter(one, bias);
    }
    case_add_parameter(one, mean);
    case_add_parameter(one, var);
    /* Variances go down to 1/4, so a value may grow by 2, by the weight, and by the shift. */
    one->size = 2.0;
    compute(one);
    case_activate(one);
    (void)snprintf(
        one->label, sizeof one->label, "batch_norm2d (%lld, %lld, %lld, %lld)%s eps %g %s",
        (long long)table[row].n, (long long)c, (long long)table[row].h, (long long)table[row].w,
        table[row].affine ? " affine" : "", one->eps, case_activation_name(one->activation));
}

static bool load(h5_file file, const char *path, layer_case *one) {
    one->eps = h5_attribute_real(file, path, "eps");
    one->input = case_tensor_read(file, path, "input", "");
    one->output = case_tensor_read(file, path, "output", "");
    case_add_parameter(one, case_tensor_read(file, path, "weight", "weight"));
    case_add_parameter(one, case_tensor_read(file, path, "bias", "bias"));
    case_add_parameter(one, case_tensor_read(file, path, "running_mean_before", "running_mean"));
    case_add_parameter(one, case_tensor_read(file, path, "running_var_before", "running_var"));
    (void)snprintf(one->label, sizeof one->label, "%s", path);
    return true;
}

static uf_status run(uf_context *context, const ops_call *call) {
    uf_batch_norm2d_args args = uf_batch_norm2d_args_default();
    args.input = call->input;
    args.output = call->output;
    args.weight = ops_parameter(call, "weight");
    args.bias = ops_parameter(call, "bias");
    args.running_mean = ops_parameter(call, "running_mean");
    args.running_var = ops_parameter(call, "running_var");
    args.eps = call->one->eps;
    args.activation = call->one->activation;
    return uf_batch_norm2d_forward(context, &args);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    uf_batch_norm2d_options options = uf_batch_norm2d_options_default();
    options.eps = one->eps;
    options.affine = case_parameter(one, "weight") != NULL;
    return case_graph_activation(graph, uf_batch_norm2d(graph, input, scope, &options),
                                 one->activation);
}

const layer_family batch_norm2d_family = {
    .name = "batch_norm2d",
    .pytorch = "batch_norm2d_eval",
    .load = load,
    .table_count = COUNT_OF(table),
    .table = make,
    .ops = run,
    .graph = build,
};
