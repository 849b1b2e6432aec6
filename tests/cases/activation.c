/* activation.c - cases of every activation, over shapes and over the values that go wrong most
 * easily. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cases/layer_case.h"
#include "support/test.h"

static const int64_t shapes[][4] = {
    {1, 1, 1, 1}, {2, 3, 4, 5}, {1, 7, 1, 3}, {3, 1, 33, 31}, {1, 600, 2, 1}};

/* The values that go wrong most easily. Groups of one size each: an error is measured against the
 * largest value of its case, and beside 1e30 nothing small would count. */
static const double edges[][8] = {
    {0.0, -0.0, 1e-30, -1e-30, 1e-38, -1e-38, 3e-31, -3e-31}, /* signed zeros */
    {1e-8, -1e-8, 3e-8, -3e-8, 1e-9, -1e-9, 5e-10, -5e-10},   /* 1 + x swallows them */
    {1e-4, -1e-4, 2e-3, -2e-3, 3e-4, -3e-4, 1e-3, -1e-3},     /* 1 - tanh(x)^2 does */
    {0.5, -0.5, 1.0, -1.0, 0.25, -0.25, 9.0, -9.0},           /* ordinary, and tanh rounds to 1 */
    {20.0, -20.0, 88.0, -88.0, 89.0, -89.0, 104.0, -104.0},   /* exp overflows or underflows */
    {1e4, -1e4, 1e30, -1e30, 1e12, -1e12, 1e38, -1e38},
};

/* Kinds that do not take any number, or have a maximum, which is 0.75 in every case. */
static const struct {
    uf_activation activation;
    double low, high;
} limited[] = {
    {{UF_ACTIVATION_SQUARE, 0.0}, -5.0, 5.0},   {{UF_ACTIVATION_EXP, 0.0}, -9.0, 4.0},
    {{UF_ACTIVATION_LOG, 0.0}, 0.01, 50.0},     {{UF_ACTIVATION_SQRT, 0.0}, 0.0, 50.0},
    {{UF_ACTIVATION_HARDTANH, -1.5}, -3., 3.0}, {{UF_ACTIVATION_CLAMP, 0.25}, -3., 3.0},
    {{UF_ACTIVATION_SCALE, -3.5}, -2.0, 2.0},   {{UF_ACTIVATION_SOFTPLUS, 4.0}, -9., 9.0},
    {{UF_ACTIVATION_ELU, -0.5}, -9.0, 9.0}};
static const double maximum = 0.75;

enum {
    KINDS = CASE_ACTIVATIONS - 1,
    SHAPES = (int)(sizeof(shapes) / sizeof(shapes[0])),
    EDGES = (int)(sizeof(edges) / sizeof(edges[0]))
};

static bool has_maximum(uf_activation activation) {
    return activation.kind == UF_ACTIVATION_HARDTANH || activation.kind == UF_ACTIVATION_CLAMP;
}

static void make_limited(int64_t row, test_random *random, layer_case *one) {
    const int64_t *shape = shapes[row % SHAPES];
    one->activation = limited[row / SHAPES].activation;
    one->input = case_tensor_of("", 4, shape);
    one->output = case_tensor_of("", 4, shape);
    for (int64_t i = 0; i < one->input.count; ++i) {
        const double x = (double)(float)test_random_real(random, limited[row / SHAPES].low,
                                                         limited[row / SHAPES].high);
        one->input.values[i] = x;
        one->output.values[i] = fmin(fmax(x, one->activation.parameter), maximum);
    }
    if (!has_maximum(one->activation)) {
        memcpy(one->output.values, one->input.values,
               (size_t)one->input.count * sizeof *one->input.values);
        case_activate(one);
    }
    one->size = 0.0;
    (void)snprintf(one->label, sizeof one->label, "activation %s %g (%lld, %lld, %lld, %lld)",
                   case_activation_name(one->activation), one->activation.parameter,
                   (long long)shape[0], (long long)shape[1], (long long)shape[2],
                   (long long)shape[3]);
}

static void make(int64_t row, test_random *random, layer_case *one) {
    if (row >= KINDS * (SHAPES + EDGES)) {
        make_limited(row - KINDS * (SHAPES + EDGES), random, one);
        return;
    }
    const bool edge = row / KINDS >= SHAPES;
    const int64_t edge_shape[4] = {1, 2, 2, COUNT_OF(edges[0]) / 4};
    const int64_t *shape = edge ? edge_shape : shapes[row / KINDS];
    one->activation = (uf_activation){(uf_activation_kind)(row % KINDS + 1), 0.25};
    one->input = case_tensor_of("", 4, shape);
    one->output = case_tensor_of("", 4, shape);
    test_random_fill(random, one->input.values, one->input.count, 2.0);
    if (edge) {
        for (int64_t i = 0; i < one->input.count; ++i) {
            one->input.values[i] = (double)(float)edges[row / KINDS - SHAPES][i];
        }
    }
    memcpy(one->output.values, one->input.values,
           (size_t)one->input.count * sizeof *one->input.values);
    case_activate(one);
    one->size = 0.0; /* each activation is held to its own largest value */
    (void)snprintf(one->label, sizeof one->label, "activation %s %s(%lld, %lld, %lld, %lld)",
                   case_activation_name(one->activation), edge ? "edges " : "", (long long)shape[0],
                   (long long)shape[1], (long long)shape[2], (long long)shape[3]);
}

static bool load(h5_file file, const char *path, layer_case *one) {
    static const struct {
        const char *path;
        uf_activation activation;
    } known[] = {{"activation/relu", {UF_ACTIVATION_RELU, 0.0}},
                 {"activation/leaky_relu_0p2", {UF_ACTIVATION_LEAKY_RELU, 0.2}},
                 {"activation/tanh", {UF_ACTIVATION_TANH, 0.0}},
                 {"activation/sigmoid", {UF_ACTIVATION_SIGMOID, 0.0}},
                 {"activation/elu", {UF_ACTIVATION_ELU, 1.0}},
                 {"activation/gelu", {UF_ACTIVATION_GELU, 0.0}},
                 {"activation/gelu_tanh", {UF_ACTIVATION_GELU_TANH, 0.0}},
                 {"activation/mish", {UF_ACTIVATION_MISH, 0.0}},
                 {"activation/silu", {UF_ACTIVATION_SILU, 0.0}},
                 {"activation/softplus", {UF_ACTIVATION_SOFTPLUS, 1.0}}};
    for (int64_t i = 0; i < COUNT_OF(known); ++i) {
        if (strcmp(known[i].path, path) == 0) {
            one->activation = known[i].activation;
            one->input = case_tensor_read(file, path, "input", "");
            one->output = case_tensor_read(file, path, "output", "");
            (void)snprintf(one->label, sizeof one->label, "%s", path);
            return true;
        }
    }
    return false;
}

static uf_status run(uf_context *context, const ops_call *call) {
    uf_activation_args args = uf_activation_args_default();
    args.activation = call->one->activation;
    args.input = call->input;
    args.output = call->output;
    args.maximum = maximum;
    return uf_activation_forward(context, &args);
}

static uf_value build(uf_graph *graph, uf_value input, uf_scope scope, const layer_case *one) {
    (void)scope;
    if (has_maximum(one->activation)) {
        return one->activation.kind == UF_ACTIVATION_CLAMP
                   ? uf_clamp(graph, input, one->activation.parameter, maximum)
                   : uf_hardtanh(graph, input, one->activation.parameter, maximum);
    }
    return case_graph_activation(graph, input, one->activation);
}

const layer_family activation_family = {
    .name = "activation",
    .pytorch = "activation",
    .load = load,
    .table_count = KINDS * (SHAPES + EDGES) + COUNT_OF(limited) * SHAPES,
    .table = make,
    .ops = run,
    .graph = build,
};
