/* layer_case.c - what all case files share. */
#include "cases/layer_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

const layer_family *const layer_families[] = {
#define UF_LAYER(name) &name##_family,
#include "layers/layers.def"
#undef UF_LAYER
    NULL};

int test_run_families(const char *group, void (*test)(void **state)) {
    struct CMUnitTest tests[64];
    size_t count = 0;
    memset(tests, 0, sizeof tests);
    for (; layer_families[count] != NULL && count < sizeof tests / sizeof tests[0]; ++count) {
        /* cmocka carries the state as void *; tests cast it back to const. */
        memcpy(&tests[count].initial_state, &layer_families[count], sizeof(void *));
        tests[count].name = layer_families[count]->name;
        tests[count].test_func = test;
    }
    return _cmocka_run_group_tests(group, tests, count, NULL, NULL);
}

void case_begin(layer_case *one, const layer_family *family) {
    memset(one, 0, sizeof *one);
    one->family = family;
    one->reduction = 1;
    one->size = 1.0;
}

void case_free(layer_case *one) {
    free(one->input.values);
    free(one->output.values);
    for (int32_t i = 0; i < one->parameter_count; ++i) {
        free(one->parameters[i].values);
    }
    memset(one, 0, sizeof *one);
}

case_tensor case_tensor_of(const char *name, int32_t rank, const int64_t *extent) {
    case_tensor tensor;
    memset(&tensor, 0, sizeof tensor);
    tensor.name = name;
    tensor.rank = rank;
    tensor.count = 1;
    for (int32_t i = 0; i < rank; ++i) {
        tensor.extent[i] = extent[i];
        tensor.count *= extent[i];
    }
    tensor.values = test_allocate((size_t)tensor.count * sizeof *tensor.values);
    memset(tensor.values, 0xff, (size_t)tensor.count * sizeof *tensor.values); /* NaN */
    return tensor;
}

case_tensor case_tensor_nchw(int64_t n, int64_t c, int64_t h, int64_t w) {
    const int64_t extent[4] = {n, c, h, w};
    return case_tensor_of("", 4, extent);
}

case_tensor case_tensor_read(h5_file file, const char *path, const char *dataset,
                             const char *name) {
    case_tensor tensor;
    memset(&tensor, 0, sizeof tensor);
    h5_array array = h5_read_optional(file, path, dataset);
    if (array.values == NULL) {
        return tensor;
    }
    tensor.name = name;
    tensor.rank = array.rank;
    tensor.count = array.count;
    tensor.values = array.values;
    memcpy(tensor.extent, array.extent, sizeof array.extent);
    return tensor;
}

void case_add_parameter(layer_case *one, case_tensor parameter) {
    if (parameter.values != NULL) {
        assert_true(one->parameter_count < CASE_PARAMETERS);
        one->parameters[one->parameter_count++] = parameter;
    }
}

const case_tensor *case_parameter(const layer_case *one, const char *name) {
    for (int32_t i = 0; i < one->parameter_count; ++i) {
        if (strcmp(one->parameters[i].name, name) == 0) {
            return &one->parameters[i];
        }
    }
    return NULL;
}

uf_view ops_parameter(const ops_call *call, const char *name) {
    uf_view absent;
    memset(&absent, 0, sizeof absent);
    const case_tensor *parameter = case_parameter(call->one, name);
    return parameter == NULL ? absent : call->parameters[parameter - call->one->parameters];
}

/* In the order of uf_activation_kind. Kinds that have a maximum are for tests/cases/activation.c.
 */
static const struct {
    const char *name;
    ref_activation reference;
    uf_value (*graph)(uf_graph *graph, uf_value input);
    uf_value (*graph_of)(uf_graph *graph, uf_value input, double parameter);
} activations[UF_ACTIVATION_COUNT] = {
    [UF_ACTIVATION_IDENTITY] = {.name = "identity", .reference = REF_IDENTITY},
    [UF_ACTIVATION_RELU] = {"relu", REF_RELU, uf_relu, NULL},
    [UF_ACTIVATION_LEAKY_RELU] = {"leaky_relu", REF_LEAKY_RELU, NULL, uf_leaky_relu},
    [UF_ACTIVATION_TANH] = {"tanh", REF_TANH, uf_tanh, NULL},
    [UF_ACTIVATION_SIGMOID] = {"sigmoid", REF_SIGMOID, uf_sigmoid, NULL},
    [UF_ACTIVATION_ELU] = {"elu", REF_ELU, NULL, uf_elu},
    [UF_ACTIVATION_SELU] = {"selu", REF_SELU, uf_selu, NULL},
    [UF_ACTIVATION_GELU] = {"gelu", REF_GELU, uf_gelu, NULL},
    [UF_ACTIVATION_GELU_TANH] = {"gelu_tanh", REF_GELU_TANH, uf_gelu_tanh, NULL},
    [UF_ACTIVATION_SILU] = {"silu", REF_SILU, uf_silu, NULL},
    [UF_ACTIVATION_MISH] = {"mish", REF_MISH, uf_mish, NULL},
    [UF_ACTIVATION_SOFTPLUS] = {"softplus", REF_SOFTPLUS, NULL, uf_softplus},
    [UF_ACTIVATION_SOFTSIGN] = {"softsign", REF_SOFTSIGN, uf_softsign, NULL},
    [UF_ACTIVATION_LOG_SIGMOID] = {"log_sigmoid", REF_LOG_SIGMOID, uf_log_sigmoid, NULL},
    [UF_ACTIVATION_RELU6] = {"relu6", REF_RELU6, uf_relu6, NULL},
    [UF_ACTIVATION_HARDSIGMOID] = {"hardsigmoid", REF_HARDSIGMOID, uf_hardsigmoid, NULL},
    [UF_ACTIVATION_HARDSWISH] = {"hardswish", REF_HARDSWISH, uf_hardswish, NULL},
    [UF_ACTIVATION_ABS] = {"abs", REF_ABS, uf_abs, NULL},
    [UF_ACTIVATION_SCALE] = {"scale", REF_SCALE, NULL, uf_scale},
    [UF_ACTIVATION_SQUARE] = {"square", REF_SQUARE, uf_square, NULL},
    [UF_ACTIVATION_EXP] = {"exp", REF_EXP, uf_exp, NULL},
    [UF_ACTIVATION_LOG] = {"log", REF_LOG, uf_log, NULL},
    [UF_ACTIVATION_SQRT] = {"sqrt", REF_SQRT, uf_sqrt, NULL},
    [UF_ACTIVATION_HARDTANH] = {"hardtanh", REF_IDENTITY, NULL, NULL},
    [UF_ACTIVATION_CLAMP] = {"clamp", REF_IDENTITY, NULL, NULL},
};

ref_activation case_ref_activation(uf_activation activation) {
    return activations[activation.kind].reference;
}

const char *case_activation_name(uf_activation activation) {
    return activations[activation.kind].name;
}

void case_activate(layer_case *one) {
    ref_activation_forward(case_ref_activation(one->activation), one->activation.parameter,
                           one->output.count, one->output.values, one->output.values);
}

uf_activation case_random_activation(test_random *random) {
    uf_activation activation = {UF_ACTIVATION_IDENTITY, 0.0};
    if (test_random_one_in(random, 2)) {
        activation.kind = (uf_activation_kind)test_random_integer(random, 1, CASE_ACTIVATIONS - 1);
        activation.parameter = 0.25; /* the same in f32 and f64 */
    }
    return activation;
}

uf_value case_graph_activation(uf_graph *graph, uf_value value, uf_activation activation) {
    if (activations[activation.kind].graph_of != NULL) {
        return activations[activation.kind].graph_of(graph, value, activation.parameter);
    }
    if (activations[activation.kind].graph != NULL) {
        return activations[activation.kind].graph(graph, value);
    }
    assert_int_equal(activation.kind, UF_ACTIVATION_IDENTITY);
    return value;
}

double case_tolerance(const layer_case *one, uf_dtype dtype) {
    const double unit_roundoff = dtype == UF_F32 ? 0x1p-24 : 0x1p-53;
    return 8.0 * unit_roundoff * sqrt((double)one->reduction);
}
