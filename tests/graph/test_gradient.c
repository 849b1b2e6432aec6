/* test_gradient.c - gradients as values: the same numbers as a pass makes, for any shape that a
 * program is compiled for; second derivatives where numbers are large or small; what is refused. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "support/compare.h"
#include "support/random.h"

typedef struct fixture {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
} fixture;

static fixture open_fixture(uf_dtype dtype) {
    fixture f;
    uf_store_options options = uf_store_options_default();
    options.dtype = dtype == UF_BF16 ? UF_F32 : dtype;
    f.context = test_context(2);
    assert_ok(uf_store_create_with(f.context, "net", &options, &f.store));
    assert_ok(uf_graph_create(f.context, &f.graph));
    return f;
}

static void close_fixture(fixture *f) {
    uf_graph_destroy(f->graph);
    uf_store_destroy(f->store);
    uf_context_destroy(f->context);
}

/* ---- against a pass ---- */

/* The last rows of the image lie in no window. */
static uf_value critic(uf_graph *graph, uf_store *store, uf_value x) {
    uf_conv2d_options options = uf_conv2d_options_default();
    options.kernel[0] = 4;
    options.stride[0] = options.stride[1] = 2;
    options.padding[1] = 1;
    x = uf_leaky_relu(graph, uf_conv2d(graph, x, uf_at(store, "0"), 6, &options), 0.2);
    options.groups = 2;
    options.kernel[0] = 2;
    x = uf_tanh(graph, uf_conv2d(graph, x, uf_at(store, "1"), 8, &options));
    x = uf_reshape(graph, x, UF_SHAPE(-1, uf_value_shape(graph, x).extent[3]));
    return uf_linear(graph, x, uf_at(store, "2"), 3, true);
}

static uf_value generator(uf_graph *graph, uf_store *store, uf_value x) {
    uf_conv_transpose2d_options options = uf_conv_transpose2d_options_default();
    options.stride[0] = 2;
    options.output_padding[0] = 1;
    options.dilation[1] = 2;
    options.output_padding[1] = 1; /* not below the stride: beyond every window of the reverse */
    x = uf_gelu(graph, uf_conv_transpose2d(graph, x, uf_at(store, "0"), 4, &options));
    const uf_value other = uf_scale(graph, uf_square(graph, x), -0.5);
    x = uf_add(graph, x, other);
    return uf_conv_transpose2d(graph, uf_hardtanh(graph, x, -0.5, 0.5), uf_at(store, "1"), 2, NULL);
}

static uf_value line(uf_graph *graph, uf_store *store, uf_value x) {
    const uf_shape shape = uf_value_shape(graph, x);
    uf_conv1d_options options = uf_conv1d_options_default();
    uf_conv_transpose1d_options transposed = uf_conv_transpose1d_options_default();
    options.stride = transposed.stride = 2;
    x = uf_reshape(graph, x, UF_SHAPE(-1, shape.extent[1], shape.extent[2] * shape.extent[3]));
    x = uf_softplus(graph, uf_conv1d(graph, x, uf_at(store, "0"), 5, &options), 1.5);
    return uf_mish(graph, uf_conv_transpose1d(graph, x, uf_at(store, "1"), 2, &transposed));
}

/* The mean of each channel scales it, and its square comes on top. */
static uf_value pooled(uf_graph *graph, uf_store *store, uf_value x) {
    static const int32_t axes[] = {1, -1};
    x = uf_pad2d(graph, x, UF_PAD_REFLECT, 2, 1, 0, 2);
    x = uf_silu(graph, uf_conv2d(graph, x, uf_at(store, "0"), 5, NULL));
    const uf_value mean = uf_global_avg_pool2d(graph, x);
    x = uf_add(graph, uf_mul(graph, x, mean), uf_square(graph, mean));
    return uf_div(graph, uf_sum(graph, x, axes, 2, false), uf_exp(graph, mean));
}

typedef uf_value net(uf_graph *graph, uf_store *store, uf_value x);

static net *const nets[] = {critic, generator, line, pooled};

static double *download(uf_tensor *tensor) {
    double *values = test_allocate((size_t)uf_tensor_count(tensor) * sizeof *values);
    assert_non_null(tensor);
    assert_ok(uf_tensor_download_as(tensor, UF_F64, values, uf_tensor_count(tensor)));
    return values;
}

static void fill(uf_tensor *tensor, const char *name, double value) {
    test_random random = test_random_for(name, 0);
    const int64_t count = uf_tensor_count(tensor);
    double *values = test_allocate((size_t)count * sizeof *values);
    test_random_fill(&random, values, count, 1.0);
    for (int64_t i = 0; i < count && value != 0.0; ++i) {
        values[i] = value;
    }
    assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, count));
    free(values);
}

/* uf_gradient's value and what a pass with seeds of 1 makes, in one program. */
static void compare(net *build, uf_dtype dtype, uf_plan plan, bool fuse, const uf_shape *other) {
    fixture f = open_fixture(dtype);
    const uf_value x = uf_input(f.graph, "x", UF_SHAPE(2, 4, 6, 5));
    const uf_value y = build(f.graph, f.store, x);
    uf_output(f.graph, "g", uf_gradient(f.graph, y, x));
    assert_ok(uf_init_default(f.graph, f.store));
    uf_pass pass = uf_pass_default();
    pass.losses = &y;
    pass.inputs = &x;
    pass.loss_count = pass.input_count = 1;
    pass.external_seeds = true;
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.plan = plan;
    options.fuse = fuse;
    options.passes = &pass;
    options.pass_count = 1;
    uf_input_shape shape = {.input = "x"};
    if (other != NULL) {
        shape.shape = *other;
        options.input_shapes = &shape;
        options.input_shape_count = 1;
    }
    uf_program *program;
    assert_ok(uf_program_compile(f.graph, &options, &program));
    fill(uf_program_input(program, "x"), "x", 0.0);
    fill(uf_program_seed(program, 0, 0), "seed", 1.0);
    assert_ok(uf_program_run(program));
    uf_tensor *got = uf_program_output(program, "g");
    uf_tensor *expected = uf_program_gradient(program, 0, x);
    const uf_shape is = uf_tensor_shape(got), should = uf_tensor_shape(expected);
    assert_true(uf_shape_equal(&is, &should));
    double *values = download(got), *of_pass = download(expected);
    const comparison result = compare_values(values, of_pass, uf_tensor_count(got), 0.0);
    /* One rounding of bf16 falls to another side where a GPU took another variant for f32's sums.
     */
    assert_close("gradient", result, dtype == UF_F64 ? 1e-14 : dtype == UF_F32 ? 4e-6 : 2e-2);
    double size = 0.0;
    for (int64_t i = 0; i < uf_tensor_count(got); ++i) {
        size = fmax(size, fabs(values[i]));
    }
    assert_true(size > 1e-3); /* not nothing against nothing */
    free(values);
    free(of_pass);
    uf_program_destroy(program);
    close_fixture(&f);
}

static void test_as_a_pass(void **state) {
    (void)state;
    static const uf_dtype dtypes[] = {UF_F64, UF_F32, UF_BF16};
    static const uf_plan plans[] = {UF_PLAN_REUSE, UF_PLAN_NO_REUSE, UF_PLAN_POISON};
    for (int64_t n = 0; n < COUNT_OF(nets); ++n) {
        for (int64_t d = 0; d < COUNT_OF(dtypes); ++d) {
            for (int64_t p = 0; p < COUNT_OF(plans); ++p) {
                compare(nets[n], dtypes[d], plans[p], true, NULL);
            }
            compare(nets[n], dtypes[d], UF_PLAN_POISON, false, NULL);
        }
    }
}

/* The layers of a gradient make the shapes of the program's inputs, not of the graph's. */
static void test_other_shapes(void **state) {
    (void)state;
    const uf_shape taller = UF_SHAPE(3, 4, 7, 5), wider = UF_SHAPE(1, 4, 5, 8);
    const uf_shape flatter = UF_SHAPE(5, 4, 3, 10); /* as long in a row as the graph's */
    compare(critic, UF_F64, UF_PLAN_POISON, true, &taller);
    compare(generator, UF_F64, UF_PLAN_POISON, true, &taller);
    compare(generator, UF_F64, UF_PLAN_POISON, true, &wider);
    compare(line, UF_F64, UF_PLAN_POISON, true, &flatter);
    compare(pooled, UF_F64, UF_PLAN_POISON, true, &taller);
    compare(pooled, UF_F64, UF_PLAN_POISON, true, &wider);
}

/* ---- differentiated once more ---- */

/* The gradients, by x and by the first weight, of a random linear form of uf_gradient's value: x's
 * first. */
static double *once_more(net *build, uf_dtype dtype, uf_plan plan, int64_t *count) {
    fixture f = open_fixture(dtype);
    const uf_value x = uf_input(f.graph, "x", UF_SHAPE(2, 4, 6, 5));
    const uf_value g = uf_gradient(f.graph, build(f.graph, f.store, x), x);
    assert_ok(uf_init_default(f.graph, f.store));
    uf_pass pass = uf_pass_default();
    pass.losses = &g;
    pass.inputs = &x;
    pass.stores = &f.store;
    pass.loss_count = pass.input_count = pass.store_count = 1;
    pass.external_seeds = true;
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.plan = plan;
    options.passes = &pass;
    options.pass_count = 1;
    uf_program *program;
    uf_tensor *weight;
    assert_ok(uf_program_compile(f.graph, &options, &program));
    fill(uf_program_input(program, "x"), "x", 0.0);
    fill(uf_program_seed(program, 0, 0), "seed", 0.0);
    assert_ok(uf_program_run(program));
    assert_ok(uf_store_gradient(f.store, "0.weight", &weight));
    double *by_x = download(uf_program_gradient(program, 0, x)), *by_weight = download(weight);
    const int64_t first = uf_tensor_count(uf_program_gradient(program, 0, x));
    *count = first + uf_tensor_count(weight);
    double *all = test_allocate((size_t)*count * sizeof *all);
    memcpy(all, by_x, (size_t)first * sizeof *all);
    memcpy(all + first, by_weight, (size_t)(*count - first) * sizeof *all);
    free(by_x);
    free(by_weight);
    uf_program_destroy(program);
    close_fixture(&f);
    return all;
}

/* No step reads what none has written: not of an input that is there for its shape either. */
static void test_plans(void **state) {
    (void)state;
    static const uf_dtype dtypes[] = {UF_F64, UF_F32, UF_BF16};
    for (int64_t n = 0; n < COUNT_OF(nets); ++n) {
        for (int64_t d = 0; d < COUNT_OF(dtypes); ++d) {
            int64_t count;
            double *apart = once_more(nets[n], dtypes[d], UF_PLAN_NO_REUSE, &count);
            double *poisoned = once_more(nets[n], dtypes[d], UF_PLAN_POISON, &count);
            assert_close("finite", compare_values(poisoned, apart, count, 0.0), 0.0);
            assert_same_bits("plans", poisoned, apart, count * (int64_t)sizeof *apart);
            free(apart);
            free(poisoned);
        }
    }
}

/* ---- the ends of an activation's range ---- */

static uf_value plain_softplus(uf_graph *graph, uf_value x) {
    return uf_softplus(graph, x, 1.0);
}

static uf_value plain_elu(uf_graph *graph, uf_value x) {
    return uf_elu(graph, x, 0.7);
}

enum { EDGES = 24 };
static const double edges[EDGES] = {1e-30, -1e-30, 1e-8, -1e-8, 1e-3, -1e-3, 0.5,  -0.5,
                                    2.5,   -2.5,   6.0,  -6.0,  15.0, -15.0, 19.9, -19.9,
                                    39.0,  -39.0,  90.0, -90.0, 1e4,  -1e4,  1e30, -1e30};

/* The gradient of f'(x), at the edges. */
static void second_derivatives(uf_value (*function)(uf_graph *graph, uf_value x), uf_dtype dtype,
                               double second[EDGES]) {
    fixture f = open_fixture(dtype);
    const uf_value x = uf_input(f.graph, "x", UF_SHAPE(EDGES));
    const uf_value slope = uf_gradient(f.graph, function(f.graph, x), x);
    uf_pass pass = uf_pass_default();
    pass.losses = &slope;
    pass.inputs = &x;
    pass.loss_count = pass.input_count = 1;
    pass.external_seeds = true;
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.passes = &pass;
    options.pass_count = 1;
    uf_program *program;
    assert_ok(uf_program_compile(f.graph, &options, &program));
    assert_ok(uf_tensor_upload_as(uf_program_input(program, "x"), UF_F64, edges, EDGES));
    fill(uf_program_seed(program, 0, 0), "seed", 1.0);
    assert_ok(uf_program_run(program));
    assert_ok(uf_tensor_download_as(uf_program_gradient(program, 0, x), UF_F64, second, EDGES));
    uf_program_destroy(program);
    close_fixture(&f);
}

/* f'' of the functions whose formulas multiply what overflows by what vanishes: finite, and 0 far
 * out. Softsign's falls as x^-3. */
static void test_edges(void **state) {
    (void)state;
    static uf_value (*const functions[])(uf_graph *, uf_value) = {
        uf_gelu,        uf_gelu_tanh, uf_silu,      uf_mish,   plain_softplus, uf_softsign,
        uf_log_sigmoid, uf_selu,      uf_hardswish, plain_elu, uf_tanh,        uf_sigmoid};
    for (int64_t i = 0; i < COUNT_OF(functions); ++i) {
        char label[64];
        double wide[EDGES], narrow[EDGES];
        second_derivatives(functions[i], UF_F64, wide);
        second_derivatives(functions[i], UF_F32, narrow);
        (void)snprintf(label, sizeof label, "second derivative of function %d", (int)i);
        assert_close(label, compare_values(narrow, wide, EDGES, 0.0), 2e-6);
        for (int64_t e = EDGES - 6; e < EDGES; ++e) {
            assert_true(fabs(wide[e]) < 1e-5 && fabs(narrow[e]) < 1e-5);
        }
    }
}

/* ---- what it is made of ---- */

static void test_ends(void **state) {
    (void)state;
    fixture f = open_fixture(UF_F32);
    const uf_value x = uf_input(f.graph, "x", UF_SHAPE(3));
    uf_output(f.graph, "itself", uf_gradient(f.graph, x, x));
    uf_output(f.graph, "twice", uf_gradient(f.graph, uf_add(f.graph, x, x), x));
    uf_program *program;
    assert_ok(uf_program_compile(f.graph, NULL, &program));
    assert_ok(uf_program_run(program));
    double *one = download(uf_program_output(program, "itself"));
    double *two = download(uf_program_output(program, "twice"));
    for (int i = 0; i < 3; ++i) {
        assert_true(one[i] == 1.0 && two[i] == 2.0);
    }
    free(one);
    free(two);
    uf_program_destroy(program);
    close_fixture(&f);
}

/* The step of a linear layer backward, as a layer, adds to a gradient that is there. Its own is
 * the sum over the axis along which it repeats. */
static void test_linear_rule_adds(void **state) {
    (void)state;
    static const int32_t axis = 1;
    fixture f = open_fixture(UF_F64);
    const uf_value x = uf_input(f.graph, "x", UF_SHAPE(2, 5, 3));
    const uf_value sum = uf_sum(f.graph, x, &axis, 1, false), y = uf_tanh(f.graph, sum);
    const uf_node *node = f.graph->nodes[f.graph->values[sum.id].node];
    const uf_gradient_rule rule = {.graph = f.graph,
                                   .layer = node->layer,
                                   .attributes = node->attributes.bytes,
                                   .inputs = &x,
                                   .input_count = 1,
                                   .grad_output = y};
    const uf_value losses[] = {uf_gradient_of_linear(&rule, 0), uf_scale(f.graph, y, 4.0)};
    uf_pass pass = uf_pass_default();
    pass.losses = losses;
    pass.loss_count = 2;
    pass.inputs = &y;
    pass.input_count = 1;
    pass.external_seeds = true;
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_F64;
    options.plan = UF_PLAN_POISON;
    options.passes = &pass;
    options.pass_count = 1;
    uf_program *program;
    assert_ok(uf_program_compile(f.graph, &options, &program));
    fill(uf_program_seed(program, 0, 0), "seed", 1.0);
    fill(uf_program_seed(program, 0, 1), "seed", 1.0);
    assert_ok(uf_program_run(program));
    double *got = download(uf_program_gradient(program, 0, y));
    for (int i = 0; i < 6; ++i) {
        assert_true(got[i] == 9.0);
    }
    free(got);
    uf_program_destroy(program);
    close_fixture(&f);
}

/* No tensor is new, so that a sealed store is as good, and each is in a scope of its own. */
static void test_shares_parameters(void **state) {
    (void)state;
    fixture f = open_fixture(UF_F32);
    const uf_value x = uf_input(f.graph, "x", UF_SHAPE(2, 4, 6, 5));
    const uf_value y = critic(f.graph, f.store, x);
    assert_ok(uf_init_default(f.graph, f.store));
    const int64_t before = uf_store_size(f.store);
    const uf_value g = uf_gradient(f.graph, y, x);
    assert_ok(uf_graph_status(f.graph));
    assert_int_equal(uf_store_size(f.store), before);
    const uf_shape shape = uf_value_shape(f.graph, g), expected = UF_SHAPE(2, 4, 6, 5);
    assert_true(uf_shape_equal(&shape, &expected));
    close_fixture(&f);
}

/* ---- refusals ---- */

static void expect_refusal(fixture *f, uf_value made, uf_status status, const char *word,
                           const char *other) {
    assert_int_equal(made.id, 0);
    assert_error(uf_graph_status(f->graph), status, word, other);
    close_fixture(f);
}

static void test_refusals(void **state) {
    (void)state;
    const uf_value nothing = {0};
    assert_int_equal(uf_gradient(NULL, nothing, nothing).id, 0);

    fixture f = open_fixture(UF_F32);
    uf_value x = uf_input(f.graph, "x", UF_SHAPE(2, 3, 4, 4));
    uf_value y = uf_batch_norm2d(f.graph, uf_tanh(f.graph, x), uf_at(f.store, "main.1"), NULL);
    expect_refusal(&f, uf_gradient(f.graph, y, x), UF_ERROR_UNSUPPORTED, "uf_gradient: main.1",
                   "batch_norm2d");

    f = open_fixture(UF_F32);
    x = uf_input(f.graph, "x", UF_SHAPE(2, 3));
    y = uf_tanh(f.graph, uf_input(f.graph, "other", UF_SHAPE(2, 3)));
    expect_refusal(&f, uf_gradient(f.graph, y, x), UF_ERROR_INVALID_ARGUMENT, "uf_gradient",
                   "does not depend on the input");

    f = open_fixture(UF_F32);
    x = uf_input(f.graph, "x", UF_SHAPE(2, 3));
    y = uf_tanh(f.graph, x);
    expect_refusal(&f, uf_gradient(f.graph, x, y), UF_ERROR_INVALID_ARGUMENT, "uf_gradient",
                   "does not depend on the input");

    f = open_fixture(UF_F32);
    x = uf_input(f.graph, "x", UF_SHAPE(2, 3));
    y = uf_tanh(f.graph, uf_detach(f.graph, x));
    expect_refusal(&f, uf_gradient(f.graph, y, x), UF_ERROR_INVALID_ARGUMENT, "uf_gradient",
                   "does not depend on the input");

    f = open_fixture(UF_F32);
    x = uf_input_i64(f.graph, "labels", UF_SHAPE(2, 3));
    expect_refusal(&f, uf_gradient(f.graph, x, x), UF_ERROR_INVALID_ARGUMENT,
                   "uf_gradient: output is input labels", "i64");

    f = open_fixture(UF_F32);
    x = uf_input(f.graph, "x", UF_SHAPE(2, 3));
    expect_refusal(&f, uf_gradient(f.graph, x, nothing), UF_ERROR_INVALID_ARGUMENT,
                   "uf_gradient: input", "is not a value");

    f = open_fixture(UF_F32);
    x = uf_input(f.graph, "x", UF_SHAPE(2, 3));
    y = uf_gradient(f.graph, uf_tanh(f.graph, x), x);
    expect_refusal(&f, uf_gradient(f.graph, y, x), UF_ERROR_UNSUPPORTED, "tanh_backward",
                   "its own derivative");

    /* Straight lines: the gradient is a constant. */
    f = open_fixture(UF_F32);
    x = uf_input(f.graph, "x", UF_SHAPE(2, 3));
    y = uf_gradient(f.graph, uf_leaky_relu(f.graph, x, 0.2), x);
    expect_refusal(&f, uf_gradient(f.graph, y, x), UF_ERROR_INVALID_ARGUMENT, "uf_gradient",
                   "does not depend on the input");
}

/* A batch norm that the way to the input does not meet is no obstacle. */
static void test_beside_the_way(void **state) {
    (void)state;
    fixture f = open_fixture(UF_F32);
    const uf_value x = uf_input(f.graph, "x", UF_SHAPE(2, 3, 4, 4));
    const uf_value z = uf_input(f.graph, "z", UF_SHAPE(2, 3, 4, 4));
    const uf_value other = uf_batch_norm2d(f.graph, z, uf_at(f.store, "0"), NULL);
    uf_batch_norm2d(f.graph, x, uf_at(f.store, "1"), NULL);
    uf_gradient(f.graph, uf_tanh(f.graph, uf_add(f.graph, x, other)), x);
    assert_ok(uf_graph_status(f.graph));
    close_fixture(&f);
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_a_pass),
        cmocka_unit_test(test_other_shapes),
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_linear_rule_adds),
        cmocka_unit_test(test_shares_parameters),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_beside_the_way),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
