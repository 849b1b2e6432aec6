/* activation_backward.c - cases of the gradient of an activation as a value: of a multiple of f. */
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

static const int64_t shapes[][4] = {{1, 1, 3, 7}, {2, 3, 4, 5}, {1, 7, 1, 3}, {3, 1, 33, 31}};

static const double factor = -1.75;

enum { KINDS = UF_ACTIVATION_EXP, SHAPES = (int)(sizeof(shapes) / sizeof(shapes[0])) };

static void make(int64_t row, test_random *random, layer_case *one) {
    const int64_t *shape = shapes[row / KINDS];
    one->activation = (uf_activation){(uf_activation_kind)(row % KINDS + 1), 0.25};
    one->input = case_tensor_of("", 4, shape);
    one->output = case_tensor_of("", 4, shape);
    const ref_activation kind = case_ref_activation(one->activation);
    /* f' is made from f, which a bf16 program has rounded. */
    const bool of_result = one->activation.kind == UF_ACTIVATION_TANH ||
                           one->activation.kind == UF_ACTIVATION_SIGMOID ||
                           one->activation.kind == UF_ACTIVATION_EXP;
    for (int64_t i = 0; i < one->input.count; ++i) {
        const double x = (double)(float)test_random_real(random, -3.0, 3.0);
        one->input.values[i] = x;
        one->output.values[i] = factor * ref_activate_derivative(kind, 0.25, x);
    }
    one->size = 0.0; /* each activation is held to its own largest value */
    (void)snprintf(
        one->label, sizeof one->label, "activation_backward %s%s (%lld, %lld, %lld, %lld)",
        of_result ? "of a rounded result, " : "", case_activation_name(one->activation),
        (long long)shape[0], (long long)shape[1], (long long)shape[2], (long long)shape[3]);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    (void)scope;
    const uf_value y = case_graph_activation(graph, input, one->activation);
    return uf_gradient(graph, uf_scale(graph, y, factor), input);
}

const layer_family activation_backward_family = {
    .name = "activation_backward",
    .table_count = (int64_t)KINDS * SHAPES,
    .table = make,
    .graph = build,
};
