/* custom.c - an operation of the user's own: tanh by ops.h, which runs on any device. */
#include "gradcheck/cases.h"

static uf_activation_args args_of(const uf_custom_call *call) {
    uf_activation_args args = uf_activation_args_default();
    const int64_t count = uf_shape_count(&call->output.shape);
    args.activation.kind = UF_ACTIVATION_TANH;
    args.input = uf_view_nchw(call->inputs[0].data, UF_F64, 1, 1, 1, count);
    args.output = uf_view_nchw(call->output.data, UF_F64, 1, 1, 1, count);
    return args;
}

static uf_status forward(void *user, const uf_custom_call *call) {
    const uf_activation_args args = args_of(call);
    (void)user;
    return uf_activation_forward(call->context, &args);
}

static uf_status backward(void *user, const uf_custom_call *call) {
    uf_activation_args args = args_of(call);
    const int64_t count = uf_shape_count(&call->output.shape);
    (void)user;
    args.grad_output = uf_view_nchw(call->grad_output.data, UF_F64, 1, 1, 1, count);
    args.grad_input = uf_view_nchw(call->grad_inputs[0].data, UF_F64, 1, 1, 1, count);
    return uf_activation_backward(call->context, &args);
}

/* Its gradient is added to that of another reader; then it is in between other layers. */
static void build(uf_graph *graph, uf_store *store, const void *data) {
    uf_custom_definition definition = uf_custom_definition_default();
    const uf_value input = uf_input(graph, "input", UF_SHAPE(2, 3, 5, 6));
    (void)data;
    definition.name = "hyperbolic";
    definition.forward = forward;
    definition.backward = backward;
    definition.backward_reads = UF_CUSTOM_READS_OUTPUT;
    uf_output(graph, "output", uf_custom(graph, &definition, &input, 1));
    uf_output(graph, "again", uf_custom(graph, &definition, &input, 1));
    uf_value x = uf_conv2d(graph, input, uf_at(store, "0"), 2, NULL);
    x = uf_custom(graph, &definition, &x, 1);
    uf_output(graph, "between", uf_conv2d(graph, x, uf_at(store, "1"), 1, NULL));
}

const gradcheck_case gradcheck_custom[] = {
    {"custom", "by ops.h", true, UF_TRAIN, build, NULL},
    {NULL, NULL, false, UF_TRAIN, NULL, NULL},
};
