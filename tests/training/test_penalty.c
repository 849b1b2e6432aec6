/* test_penalty.c - gradient penalties: their values and gradients where these can be computed by
 * hand, gradients that vanish, a critic that learns, what is refused. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/compare.h"
#include "support/random.h"

enum { SAMPLES = 2, FEATURES = 3 };

typedef struct fixture {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    uf_value x;
} fixture;

static fixture open_fixture(uf_dtype dtype, uf_shape shape) {
    fixture f;
    uf_store_options options = uf_store_options_default();
    options.dtype = dtype == UF_BF16 ? UF_F32 : dtype;
    f.context = test_context(2);
    assert_ok(uf_store_create_with(f.context, "critic", &options, &f.store));
    assert_ok(uf_graph_create(f.context, &f.graph));
    f.x = uf_input(f.graph, "x", shape);
    return f;
}

static void close_fixture(fixture *f) {
    uf_graph_destroy(f->graph);
    uf_store_destroy(f->store);
    uf_context_destroy(f->context);
}

static void put(uf_store *store, const char *name, const double *values, int64_t count) {
    uf_tensor *tensor;
    assert_ok(uf_store_tensor(store, name, &tensor));
    assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, count));
    uf_store_touch(store);
}

/* A program that differentiates `loss` by the store. */
static uf_program *compile(fixture *f, uf_dtype dtype, const uf_value *loss) {
    uf_pass pass = uf_pass_default();
    pass.losses = loss;
    pass.stores = &f->store;
    pass.loss_count = pass.store_count = 1;
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.plan = UF_PLAN_POISON;
    options.passes = &pass;
    options.pass_count = 1;
    uf_program *program;
    assert_ok(uf_program_compile(f->graph, &options, &program));
    return program;
}

static uf_gradient_penalty_options penalty(uf_gradient_penalty_kind kind, double weight,
                                           bool one_sided) {
    uf_gradient_penalty_options options = uf_gradient_penalty_options_default();
    options.kind = kind;
    options.weight = weight;
    options.one_sided = one_sided;
    return options;
}

/* ---- by hand ---- */

/* The gradient of w x + b is w at each sample: all of these numbers are exact in bf16 but the
 * quotients. Row by row: options, w, its norm, the penalty, its gradient by |w|. */
static const struct {
    uf_gradient_penalty_kind kind;
    double weight;
    bool one_sided;
    double w[FEATURES], norm, penalty, slope;
} table[] = {
    {UF_GRADIENT_PENALTY_WGAN_GP, 10.0, false, {2.0, -1.0, 2.0}, 3.0, 40.0, 40.0},
    {UF_GRADIENT_PENALTY_WGAN_GP, 10.0, true, {2.0, -1.0, 2.0}, 3.0, 40.0, 40.0},
    {UF_GRADIENT_PENALTY_WGAN_GP, 4.0, false, {0.25, -0.5, 0.5}, 0.75, 0.25, -2.0},
    {UF_GRADIENT_PENALTY_WGAN_GP, 4.0, true, {0.25, -0.5, 0.5}, 0.75, 0.0, 0.0},
    {UF_GRADIENT_PENALTY_R1, 10.0, false, {2.0, -1.0, 2.0}, 3.0, 45.0, 30.0},
    {UF_GRADIENT_PENALTY_R1, 0.0, false, {2.0, -1.0, 2.0}, 3.0, 0.0, 0.0},
};

static void check_row(int64_t row, uf_dtype dtype) {
    static const double bias = 0.5;
    fixture f = open_fixture(dtype, UF_SHAPE(SAMPLES, FEATURES));
    const uf_gradient_penalty_options options =
        penalty(table[row].kind, table[row].weight, table[row].one_sided);
    const uf_value y = uf_linear(f.graph, f.x, uf_at(f.store, "0"), 1, true);
    const uf_value loss = uf_gradient_penalty(f.graph, y, f.x, &options);
    uf_output(f.graph, "penalty", loss);
    assert_ok(uf_graph_status(f.graph));
    put(f.store, "0.weight", table[row].w, FEATURES);
    put(f.store, "0.bias", &bias, 1);
    uf_program *program = compile(&f, dtype, &loss);
    uf_tensor *output = uf_program_output(program, "penalty"), *gradient;
    assert_int_equal(uf_tensor_dtype(output), dtype == UF_BF16 ? UF_F32 : dtype);
    const double numbers[SAMPLES * FEATURES] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0};
    assert_ok(uf_tensor_upload_as(uf_program_input(program, "x"), UF_F64, numbers, 6));
    assert_ok(uf_program_run(program));
    double value, got[FEATURES], expected[FEATURES];
    assert_ok(uf_tensor_download_as(output, UF_F64, &value, 1));
    assert_ok(uf_store_gradient(f.store, "0.weight", &gradient));
    assert_ok(uf_tensor_download_as(gradient, UF_F64, got, FEATURES));
    for (int i = 0; i < FEATURES; ++i) {
        expected[i] = table[row].slope * table[row].w[i] / table[row].norm;
    }
    char label[64];
    (void)snprintf(label, sizeof label, "row %d in %s", (int)row, uf_dtype_name(dtype));
    const double tolerance = dtype == UF_F64 ? 1e-15 : dtype == UF_F32 ? 1e-6 : 0x1p-7;
    assert_close(label, compare_values(&value, &table[row].penalty, 1, 1.0), tolerance);
    assert_close(label, compare_values(got, expected, FEATURES, 1.0), tolerance);
    uf_program_destroy(program);
    close_fixture(&f);
}

static void test_by_hand(void **state) {
    (void)state;
    for (int64_t row = 0; row < COUNT_OF(table); ++row) {
        check_row(row, UF_F64);
        check_row(row, UF_F32);
        check_row(row, UF_BF16);
    }
}

/* A sample that is one number; the norm is its size. */
static void test_rank_one(void **state) {
    (void)state;
    fixture f = open_fixture(UF_F64, UF_SHAPE(4));
    const uf_gradient_penalty_options r1 = penalty(UF_GRADIENT_PENALTY_R1, 2.0, false);
    const uf_value y = uf_square(f.graph, f.x); /* its gradient is 2 x */
    uf_output(f.graph, "penalty", uf_gradient_penalty(f.graph, y, f.x, &r1));
    uf_program *program;
    const double numbers[] = {1.0, -2.0, 3.0, 0.5}, expected = (1.0 + 4.0 + 9.0 + 0.25);
    double got;
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_F64;
    assert_ok(uf_program_compile(f.graph, &options, &program));
    assert_ok(uf_tensor_upload_as(uf_program_input(program, "x"), UF_F64, numbers, 4));
    assert_ok(uf_program_run(program));
    assert_ok(uf_tensor_download_as(uf_program_output(program, "penalty"), UF_F64, &got, 1));
    assert_close("rank 1", compare_values(&got, &expected, 1, 0.0), 1e-15);
    uf_program_destroy(program);
    close_fixture(&f);
}

/* ---- gradients that vanish ---- */

/* A ReLU that lets nothing through: the norms are 0, which has no slope, and the gradient of the
 * penalty is 0. */
static void test_dead_critic(void **state) {
    (void)state;
    static const uf_dtype dtypes[] = {UF_F64, UF_F32, UF_BF16};
    static const double w[FEATURES] = {2.0, -1.0, 2.0}, bias = -1000.0, slope = 1.0;
    for (int64_t d = 0; d < COUNT_OF(dtypes); ++d) {
        fixture f = open_fixture(dtypes[d], UF_SHAPE(SAMPLES, FEATURES));
        uf_value y = uf_linear(f.graph, f.x, uf_at(f.store, "0"), 1, true);
        y = uf_linear(f.graph, uf_relu(f.graph, y), uf_at(f.store, "1"), 1, false);
        const uf_value loss = uf_gradient_penalty(f.graph, y, f.x, NULL);
        uf_output(f.graph, "penalty", loss);
        assert_ok(uf_graph_status(f.graph));
        put(f.store, "0.weight", w, FEATURES);
        put(f.store, "0.bias", &bias, 1);
        put(f.store, "1.weight", &slope, 1);
        uf_program *program = compile(&f, dtypes[d], &loss);
        double value, got[FEATURES];
        uf_tensor *gradient;
        assert_ok(uf_program_run(program));
        assert_ok(uf_tensor_download_as(uf_program_output(program, "penalty"), UF_F64, &value, 1));
        assert_true(value == 10.0);
        assert_ok(uf_store_gradient(f.store, "0.weight", &gradient));
        assert_ok(uf_tensor_download_as(gradient, UF_F64, got, FEATURES));
        for (int i = 0; i < FEATURES; ++i) {
            assert_true(got[i] == 0.0);
        }
        uf_program_destroy(program);
        close_fixture(&f);
    }
}

/* ---- a critic that learns ---- */

/* From norms near 0 to norms near 1, by the penalty alone. */
static void test_learns(void **state) {
    (void)state;
    enum { STEPS = 150, BATCH = 8 };
    fixture f = open_fixture(UF_F32, UF_SHAPE(BATCH, 2, 8, 8));
    uf_conv2d_options options = uf_conv2d_options_default();
    options.kernel[0] = options.kernel[1] = 4;
    options.stride[0] = options.stride[1] = 2;
    options.padding[0] = options.padding[1] = 1;
    uf_value y = uf_conv2d(f.graph, f.x, uf_at(f.store, "0"), 8, &options);
    y = uf_conv2d(f.graph, uf_leaky_relu(f.graph, y, 0.2), uf_at(f.store, "1"), 8, &options);
    y = uf_reshape(f.graph, uf_tanh(f.graph, y), UF_SHAPE(BATCH, -1));
    y = uf_linear(f.graph, y, uf_at(f.store, "2"), 1, true);
    const uf_value loss = uf_gradient_penalty(f.graph, y, f.x, NULL);
    assert_ok(uf_init_default(f.graph, f.store));
    uf_adam_options adam = uf_adam_options_default();
    adam.lr = 0.01;
    uf_optimizer *optimizer;
    assert_ok(uf_optimizer_create_adam(f.store, &adam, &optimizer));
    uf_pass pass = uf_pass_default();
    pass.losses = &loss;
    pass.stores = &f.store;
    pass.optimizers = &optimizer;
    pass.loss_count = pass.store_count = pass.optimizer_count = 1;
    uf_program_options chosen = uf_program_options_default();
    chosen.mode = UF_TRAIN;
    chosen.passes = &pass;
    chosen.pass_count = 1;
    uf_program *program;
    assert_ok(uf_program_compile(f.graph, &chosen, &program));
    double first = 0.0, last = 0.0, numbers[BATCH * 2 * 8 * 8];
    for (int step = 0; step < STEPS; ++step) {
        test_random random = test_random_for("penalty", step);
        test_random_fill(&random, numbers, COUNT_OF(numbers), 1.0);
        assert_ok(uf_tensor_upload_as(uf_program_input(program, "x"), UF_F64, numbers,
                                      COUNT_OF(numbers)));
        assert_ok(uf_program_run(program));
        assert_ok(uf_context_synchronize(f.context));
        int64_t steps;
        bool finite;
        assert_ok(uf_program_losses(program, &last, 1, &steps, &finite));
        assert_true(finite);
        first = step == 0 ? last : first;
    }
    print_message("penalty %g to %g\n", first, last);
    assert_true(first > 5.0 && last < 0.5);
    uf_program_destroy(program);
    uf_optimizer_destroy(optimizer);
    close_fixture(&f);
}

/* ---- refusals ---- */

static void expect_refusal(uf_shape shape, const uf_gradient_penalty_options *options,
                           const char *word) {
    fixture f = open_fixture(UF_F32, shape);
    const uf_value made = uf_gradient_penalty(f.graph, uf_tanh(f.graph, f.x), f.x, options);
    assert_int_equal(made.id, 0);
    assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT, "uf_gradient_penalty", word);
    close_fixture(&f);
}

static void test_refusals(void **state) {
    (void)state;
    const uf_shape shape = UF_SHAPE(2, 3);
    uf_gradient_penalty_options options = penalty(UF_GRADIENT_PENALTY_WGAN_GP, -1.0, false);
    expect_refusal(shape, &options, "weight is -1");
    options.weight = (double)NAN;
    expect_refusal(shape, &options, "weight is nan");
    options = penalty(UF_GRADIENT_PENALTY_R1, 1.0, true);
    expect_refusal(shape, &options, "one_sided");
    options = penalty((uf_gradient_penalty_kind)2, 1.0, false);
    expect_refusal(shape, &options, "2 is no uf_gradient_penalty_kind");
    options = penalty(UF_GRADIENT_PENALTY_R1, 1.0, false);
    options.struct_size = 3;
    expect_refusal(shape, &options, "uf_gradient_penalty_options");
    expect_refusal(UF_SCALAR, NULL, "scalar");
    const uf_value nothing = {0};
    assert_int_equal(uf_gradient_penalty(NULL, nothing, nothing, NULL).id, 0);

    fixture f = open_fixture(UF_F32, UF_SHAPE(2, 3, 4, 4));
    const uf_value y = uf_batch_norm2d(f.graph, f.x, uf_at(f.store, "norm"), NULL);
    uf_gradient_penalty(f.graph, y, f.x, NULL);
    assert_error(uf_graph_status(f.graph), UF_ERROR_UNSUPPORTED, "norm: batch_norm2d");
    close_fixture(&f);
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),     cmocka_unit_test(test_rank_one),
        cmocka_unit_test(test_dead_critic), cmocka_unit_test(test_learns),
        cmocka_unit_test(test_refusals),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
