/* custom.c - cases of an operation of the user's own: tanh by ops.h, which runs on any device and
 * in any type. tests/graph/test_custom.c has the rest. */
#include <math.h>
#include <stdio.h>

#include "cases/layer_case.h"
#include "support/test.h"

static const struct {
    int32_t rank;
    int64_t extent[4];
} table[] = {{1, {1}}, {2, {3, 700}}, {3, {2, 1, 9}}, {4, {2, 3, 4, 5}}};

static void make(int64_t row, test_random *random, layer_case *one) {
    one->input = case_tensor_of("", table[row].rank, table[row].extent);
    one->output = case_tensor_of("", table[row].rank, table[row].extent);
    test_random_fill(random, one->input.values, one->input.count, 1.0);
    for (int64_t i = 0; i < one->input.count; ++i) {
        one->output.values[i] = tanh(one->input.values[i]);
    }
    one->reduction = 1;
    (void)snprintf(one->label, sizeof one->label, "custom row %d", (int)row);
}

static uf_view view_of(const uf_custom_tensor *tensor) {
    return uf_view_nchw(tensor->data, tensor->dtype, 1, 1, 1, uf_shape_count(&tensor->shape));
}

static uf_status forward(void *user, const uf_custom_call *call) {
    uf_activation_args args = uf_activation_args_default();
    args.activation = *(const uf_activation *)user;
    args.input = view_of(&call->inputs[0]);
    args.output = view_of(&call->output);
    return uf_activation_forward(call->context, &args);
}

static uf_activation hyperbolic = {UF_ACTIVATION_TANH, 0.0};

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    uf_custom_definition definition = uf_custom_definition_default();
    (void)scope;
    (void)one;
    definition.name = "hyperbolic";
    definition.user = &hyperbolic;
    definition.forward = forward;
    return uf_custom(graph, &definition, &input, 1);
}

const layer_family custom_family = {
    .name = "custom",
    .table_count = COUNT_OF(table),
    .table = make,
    .graph = build,
};
