/* norm_case.c - see norm_case.h. */
#include "cases/norm_case.h"

#include <stdio.h>

#include "support/test.h"

void norm_case_make(int64_t row, test_random *random, layer_case *one, const int64_t *extent,
                    int32_t rank, const int64_t *params_extent, int32_t params, ref_norm norm) {
    one->activation = (uf_activation){(uf_activation_kind)(row % CASE_ACTIVATIONS), 0.25};
    one->eps = norm.eps;
    one->reduction = 4;
    one->size = 2.0;
    one->input = case_tensor_of("", rank, extent);
    one->output = case_tensor_of("", rank, extent);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    for (int64_t i = 0; i < one->input.count; ++i) {
        one->input.values[i] = (double)(float)(one->input.values[i] + 0.5);
    }
    if (params > 0) {
        case_add_parameter(one, case_tensor_of("weight", params, params_extent));
        case_add_parameter(one, case_tensor_of("bias", params, params_extent));
    }
    for (int32_t i = 0; i < one->parameter_count; ++i) {
        test_random_fill(random, one->parameters[i].values, one->parameters[i].count, 1.0);
    }
    ref_norm_forward(&norm, one->input.values, params > 0 ? one->parameters[0].values : NULL,
                     params > 0 ? one->parameters[1].values : NULL, one->output.values);
    ref_norm_free(&norm);
    case_activate(one);
    (void)snprintf(one->label, sizeof one->label, "%s row %lld%s %s", one->family->name,
                   (long long)row, params > 0 ? " affine" : "",
                   case_activation_name(one->activation));
}

void norm_case_load(h5_file file, const char *path, layer_case *one) {
    one->eps = 1e-5;
    one->input = case_tensor_read(file, path, "input", "");
    one->output = case_tensor_read(file, path, "output", "");
    case_add_parameter(one, case_tensor_read(file, path, "weight", "weight"));
    case_add_parameter(one, case_tensor_read(file, path, "bias", "bias"));
    (void)snprintf(one->label, sizeof one->label, "%s", path);
}
