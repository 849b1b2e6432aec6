/* test_functional.c - convolutions and linear layers whose weight and bias are values: the bits of
 * the layers with parameters, through fusion and the memory plan, and every refusal. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "graph/program.h"
#include "support/compare.h"
#include "support/random.h"

enum { CONV = 0, TRANSPOSED, LINEAR, KINDS };

typedef struct fixture {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
} fixture;

static fixture open_fixture(uf_dtype dtype) {
    fixture f;
    uf_store_options options = uf_store_options_default();
    options.dtype = dtype;
    f.context = test_context(2);
    assert_ok(uf_store_create_with(f.context, "weights", &options, &f.store));
    assert_ok(uf_graph_create(f.context, &f.graph));
    return f;
}

static void close_fixture(fixture *f) {
    uf_graph_destroy(f->graph);
    uf_store_destroy(f->store);
    uf_context_destroy(f->context);
}

static uf_conv2d_options conv_options(void) {
    uf_conv2d_options options = uf_conv2d_options_default();
    options.stride[0] = options.stride[1] = 2;
    options.padding[0] = options.padding[1] = 1;
    options.groups = 2;
    return options;
}

static uf_conv_transpose2d_options transposed_options(void) {
    uf_conv_transpose2d_options options = uf_conv_transpose2d_options_default();
    options.stride[0] = options.stride[1] = 2;
    options.groups = 2;
    return options;
}

static const uf_shape input_shapes[KINDS] = {{4, {3, 4, 6, 5}}, {4, {3, 4, 6, 5}}, {3, {3, 2, 4}}};
static const uf_shape weight_shapes[KINDS] = {{4, {6, 2, 3, 3}}, {4, {4, 3, 3, 3}}, {2, {6, 4}}};

static uf_value with_parameters(fixture *f, int kind, uf_value x) {
    const uf_conv2d_options conv = conv_options();
    const uf_conv_transpose2d_options transposed = transposed_options();
    const uf_scope scope = uf_at(f->store, "layer");
    return kind == CONV         ? uf_conv2d(f->graph, x, scope, 6, &conv)
           : kind == TRANSPOSED ? uf_conv_transpose2d(f->graph, x, scope, 6, &transposed)
                                : uf_linear(f->graph, x, scope, 6, true);
}

static uf_value with_values(fixture *f, int kind, uf_value x, uf_value w, uf_value b) {
    uf_conv2d_options conv = conv_options();
    uf_conv_transpose2d_options transposed = transposed_options();
    conv.kernel[0] = transposed.kernel[1] = 77; /* ignored */
    conv.bias = transposed.bias = false;
    return kind == CONV         ? uf_conv2d_with(f->graph, x, w, b, &conv)
           : kind == TRANSPOSED ? uf_conv_transpose2d_with(f->graph, x, w, b, &transposed)
                                : uf_linear_with(f->graph, x, w, b);
}

/* Random numbers that bf16 holds. */
static void fill(uf_tensor *tensor, const char *name) {
    test_random random = test_random_for(name, 0);
    const int64_t count = uf_tensor_count(tensor);
    double *values = test_allocate((size_t)count * sizeof *values);
    test_random_fill(&random, values, count, 1.0);
    for (int64_t i = 0; i < count; ++i) {
        values[i] = (double)(int)(values[i] * 64.0) / 64.0;
    }
    assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, count));
    free(values);
}

static void same(const char *what, uf_tensor *a, uf_tensor *b) {
    const int64_t count = uf_tensor_count(a);
    assert_int_equal(count, uf_tensor_count(b));
    double *left = test_allocate((size_t)count * sizeof *left);
    double *right = test_allocate((size_t)count * sizeof *right);
    assert_ok(uf_tensor_download_as(a, UF_F64, left, count));
    assert_ok(uf_tensor_download_as(b, UF_F64, right, count));
    assert_same_bits(what, left, right, count * (int64_t)sizeof *left);
    free(left);
    free(right);
}

/* The layer with parameters and the one with values, in one program with gradients. */
static void check_same(int kind, uf_dtype dtype) {
    fixture f = open_fixture(dtype == UF_F64 ? UF_F64 : UF_F32);
    const uf_value x = uf_input(f.graph, "x", input_shapes[kind]);
    const uf_value w = uf_input(f.graph, "w", weight_shapes[kind]);
    const uf_value b = uf_input(f.graph, "b", UF_SHAPE(6));
    const uf_value outputs[2] = {uf_leaky_relu(f.graph, with_parameters(&f, kind, x), 0.25),
                                 uf_leaky_relu(f.graph, with_values(&f, kind, x, w, b), 0.25)};
    uf_output(f.graph, "parameters", outputs[0]);
    uf_output(f.graph, "values", outputs[1]);
    const uf_value inputs[2] = {w, b};
    uf_pass pass = uf_pass_default();
    pass.losses = outputs;
    pass.loss_count = 2;
    pass.stores = &f.store;
    pass.store_count = 1;
    pass.inputs = inputs;
    pass.input_count = 2;
    pass.external_seeds = true;
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.mode = UF_TRAIN;
    options.plan = UF_PLAN_POISON;
    options.passes = &pass;
    options.pass_count = 1;
    uf_program *program;
    uf_tensor *weight, *bias;
    assert_ok(uf_program_compile(f.graph, &options, &program));
    assert_ok(uf_store_tensor(f.store, "layer.weight", &weight));
    assert_ok(uf_store_tensor(f.store, "layer.bias", &bias));
    fill(weight, "w");
    fill(bias, "b");
    uf_store_touch(f.store);
    fill(uf_program_input(program, "x"), "x");
    fill(uf_program_input(program, "w"), "w");
    fill(uf_program_input(program, "b"), "b");
    fill(uf_program_seed(program, 0, 0), "seed");
    fill(uf_program_seed(program, 0, 1), "seed");
    assert_ok(uf_program_run(program));
    same("output", uf_program_output(program, "parameters"), uf_program_output(program, "values"));
    if (dtype != UF_BF16) { /* the gradient of a parameter is f32 there */
        uf_tensor *gradient;
        assert_ok(uf_store_gradient(f.store, "layer.weight", &gradient));
        same("weight", gradient, uf_program_gradient(program, 0, w));
        assert_ok(uf_store_gradient(f.store, "layer.bias", &gradient));
        same("bias", gradient, uf_program_gradient(program, 0, b));
    }
    uf_program_destroy(program);
    close_fixture(&f);
}

static void test_same_bits(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; ++kind) {
        check_same(kind, UF_F32);
        check_same(kind, UF_F64);
        check_same(kind, UF_BF16);
    }
}

static int64_t removed_steps(const uf_program *program) {
    int64_t removed = 0;
    for (int32_t s = 0; s < program->step_count; ++s) {
        removed += program->steps[s].removed ? 1 : 0;
    }
    return removed;
}

/* Output "y" of an f64 program with random inputs, once as it is fused and once plain. */
static void check_fused(fixture *f, int64_t removed) {
    uf_program *programs[2];
    for (int i = 0; i < 2; ++i) {
        uf_program_options options = uf_program_options_default();
        options.dtype = UF_F64;
        options.fuse = i == 0;
        options.plan = i == 0 ? UF_PLAN_POISON : UF_PLAN_NO_REUSE;
        assert_ok(uf_program_compile(f->graph, &options, &programs[i]));
        for (int32_t k = 0; k < uf_program_input_count(programs[i]); ++k) {
            const char *name = uf_program_input_name(programs[i], k);
            fill(uf_program_input(programs[i], name), name);
        }
        assert_ok(uf_program_run(programs[i]));
    }
    assert_int_equal(removed_steps(programs[0]), removed);
    double worst = 0.0;
    uf_tensor *fused = uf_program_output(programs[0], "y");
    const int64_t count = uf_tensor_count(fused);
    double *have = test_allocate((size_t)count * sizeof *have);
    double *want = test_allocate((size_t)count * sizeof *want);
    assert_ok(uf_tensor_download(fused, have));
    assert_ok(uf_tensor_download(uf_program_output(programs[1], "y"), want));
    for (int64_t i = 0; i < count; ++i) {
        const double d = have[i] - want[i];
        assert_true(d == d);
        worst = d * d > worst ? d * d : worst;
    }
    assert_true(worst < 1e-24);
    free(have);
    free(want);
    uf_program_destroy(programs[0]);
    uf_program_destroy(programs[1]);
}

/* A batch norm is folded where no bias is a value: its shift is made before the run. */
static void test_batch_norm_behind(void **state) {
    (void)state;
    for (int bias = 0; bias < 2; ++bias) {
        fixture f = open_fixture(UF_F64);
        const uf_value x = uf_input(f.graph, "x", input_shapes[CONV]);
        const uf_value w = uf_input(f.graph, "w", weight_shapes[CONV]);
        const uf_value b = bias != 0 ? uf_input(f.graph, "b", UF_SHAPE(6)) : (uf_value){0};
        uf_value y = with_values(&f, CONV, x, w, b);
        y = uf_batch_norm2d(f.graph, y, uf_at(f.store, "norm"), NULL);
        uf_output(f.graph, "y", y);
        assert_ok(uf_init_default(f.graph, f.store));
        assert_ok(uf_init_uniform(f.store, "norm.running_mean", -1.0, 1.0));
        assert_ok(uf_init_uniform(f.store, "norm.running_var", 0.5, 1.5));
        check_fused(&f, bias != 0 ? 0 : 1);
        close_fixture(&f);
    }
}

/* A weight that also lies in a concat: it must not get the gaps that an image may have. 32 values
 * of a filter are 256 bytes: nothing else keeps it from lying there. */
static void test_weight_in_a_concat(void **state) {
    (void)state;
    fixture f = open_fixture(UF_F64);
    const uf_value x = uf_input(f.graph, "x", UF_SHAPE(3, 8, 6, 5));
    const uf_value w = uf_relu(f.graph, uf_input(f.graph, "w", UF_SHAPE(3, 8, 2, 2)));
    const uf_value parts[2] = {w, uf_relu(f.graph, uf_input(f.graph, "v", UF_SHAPE(3, 8, 2, 2)))};
    const uf_value joined = uf_concat(f.graph, parts, 2);
    uf_output(f.graph, "joined", uf_tanh(f.graph, joined));
    uf_output(f.graph, "y", uf_conv2d_with(f.graph, x, w, (uf_value){0}, NULL));
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_F64;
    uf_program *program;
    assert_ok(uf_program_compile(f.graph, &options, &program));
    assert_int_equal(program->values[w.id].pitch, 0);
    assert_true(program->values[parts[1].id].pitch != 0);
    uf_program_destroy(program);
    check_fused(&f, 0);
    close_fixture(&f);
}

static void refuse(uf_shape x, uf_shape weight, uf_shape bias, int kind, const char *sentence) {
    fixture f = open_fixture(UF_F32);
    const uf_value input = uf_input(f.graph, "x", x);
    const uf_value w = uf_input(f.graph, "w", weight);
    const uf_value b = bias.rank >= 0 ? uf_input(f.graph, "b", bias) : (uf_value){0};
    const uf_value y = with_values(&f, kind, input, w, b);
    assert_int_equal(y.id, 0);
    assert_true(uf_graph_status(f.graph) != UF_OK);
    assert_string_equal(uf_last_error(), sentence);
    close_fixture(&f);
}

static void test_errors(void **state) {
    (void)state;
    const uf_shape none = {-1, {0}};
    refuse(UF_SHAPE(1, 4, 8, 8), UF_SHAPE(6, 2, 3), none, CONV,
           "conv2d: the weight is (6, 2, 3); it must have 4 axes");
    refuse(UF_SHAPE(1, 4, 8, 8), UF_SHAPE(6, 4, 3, 3), none, CONV,
           "conv2d: the weight is (6, 4, 3, 3); (6, 2, 3, 3) is needed");
    refuse(UF_SHAPE(1, 4, 8, 8), UF_SHAPE(5, 2, 3, 3), none, CONV,
           "conv2d: in_channels 4 and out_channels 5 must both be divisible by groups 2");
    refuse(UF_SHAPE(1, 4, 8, 8), UF_SHAPE(6, 2, 3, 3), UF_SHAPE(4), CONV,
           "conv2d: the bias is (4,); (6,) is needed");
    refuse(UF_SHAPE(1, 4, 8, 8), UF_SHAPE(6, 3, 3, 3), none, TRANSPOSED,
           "conv_transpose2d: the weight is (6, 3, 3, 3); (4, 3, 3, 3) is needed");
    refuse(UF_SHAPE(1, 4), UF_SHAPE(6, 5), none, LINEAR,
           "linear: the weight is (6, 5); (6, 4) is needed");
    refuse(UF_SHAPE(1, 4), UF_SHAPE(6, 4, 1, 1), none, LINEAR,
           "linear: the weight is (6, 4, 1, 1); it must have 2 axes");
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_batch_norm_behind),
        cmocka_unit_test(test_weight_in_a_concat),
        cmocka_unit_test(test_errors),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests_name("functional", tests, NULL, NULL);
}
