/* test_i64_inputs.c - inputs of indices: their tensors, and who refuses them. */
#include "support/test.h"

#include <stdint.h>
#include <string.h>

typedef struct fixture {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    uf_value x, labels;
} fixture;

static fixture open_fixture(void) {
    fixture f;
    memset(&f, 0, sizeof f);
    f.context = test_context(1);
    assert_ok(uf_store_create(f.context, "net", &f.store));
    assert_ok(uf_graph_create(f.context, &f.graph));
    f.x = uf_input(f.graph, "x", UF_SHAPE(3, 2));
    f.labels = uf_input_i64(f.graph, "labels", UF_SHAPE(3, 2));
    return f;
}

static void close_fixture(fixture *f) {
    uf_graph_destroy(f->graph);
    uf_store_destroy(f->store);
    uf_context_destroy(f->context);
}

/* The elements stay what they are in a program of any type, beside real values that change. */
static void test_elements(void **state) {
    (void)state;
    static const int64_t given[] = {0, 7, -1, INT64_MAX, INT64_MIN, (INT64_C(1) << 53) + 1};
    static const uf_dtype dtypes[] = {UF_F32, UF_F64, UF_BF16};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; ++d) {
        fixture f = open_fixture();
        uf_output(f.graph, "y", uf_tanh(f.graph, f.x));
        uf_output(f.graph, "same", f.labels);
        assert_ok(uf_graph_status(f.graph));
        uf_program_options options = uf_program_options_default();
        options.dtype = dtypes[d];
        options.plan = UF_PLAN_POISON;
        uf_program *program;
        assert_ok(uf_program_compile(f.graph, &options, &program));
        uf_tensor *labels = uf_program_input(program, "labels");
        assert_int_equal(uf_tensor_dtype(labels), UF_I64);
        assert_int_equal(uf_tensor_dtype(uf_program_input(program, "x")), dtypes[d]);
        assert_int_equal(uf_tensor_dtype(uf_program_output(program, "y")), dtypes[d]);
        assert_ok(uf_tensor_upload(labels, given));
        const double ones[] = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0};
        assert_ok(uf_tensor_upload_as(uf_program_input(program, "x"), UF_F64, ones, 6));
        for (int run = 0; run < 3; ++run) {
            assert_ok(uf_program_run(program));
            int64_t got[6] = {1, 1, 1, 1, 1, 1};
            assert_int_equal(uf_tensor_dtype(uf_program_output(program, "same")), UF_I64);
            assert_ok(uf_tensor_download(uf_program_output(program, "same"), got));
            assert_memory_equal(got, given, sizeof given);
        }
        uf_program_destroy(program);
        close_fixture(&f);
    }
}

static void test_shape_of_a_program(void **state) {
    (void)state;
    fixture f = open_fixture();
    uf_output(f.graph, "same", f.labels);
    const uf_input_shape other = {"labels", UF_SHAPE(5)};
    uf_program_options options = uf_program_options_default();
    options.input_shapes = &other;
    options.input_shape_count = 1;
    uf_program *program;
    assert_ok(uf_program_compile(f.graph, &options, &program));
    assert_int_equal(uf_tensor_count(uf_program_input(program, "labels")), 5);
    uf_program_destroy(program);
    close_fixture(&f);
}

static void test_real_layers_refuse(void **state) {
    (void)state;
    fixture f = open_fixture();
    uf_linear(f.graph, f.labels, uf_at(f.store, "main.0"), 4, true);
    assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT,
                 "main.0: linear: input 0 is input labels, which has i64 elements",
                 "real values are needed");
    close_fixture(&f);
    f = open_fixture();
    uf_add(f.graph, f.x, f.labels);
    assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT, "add: input 1",
                 "input labels");
    close_fixture(&f);
    f = open_fixture();
    uf_mse_loss(f.graph, f.x, f.labels);
    assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT, "detach: input 0",
                 "input labels");
    close_fixture(&f);
    f = open_fixture();
    uf_input_i64(f.graph, "x", UF_SHAPE(1));
    assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT, "two inputs named x");
    close_fixture(&f);
}

/* A pass wants gradients of real values. */
static void test_passes_refuse(void **state) {
    (void)state;
    fixture f = open_fixture();
    const uf_value loss = uf_mse_loss(f.graph, f.x, uf_full_like(f.graph, f.x, 1.0));
    uf_pass pass = uf_pass_default();
    pass.losses = &loss;
    pass.loss_count = 1;
    pass.inputs = &f.labels;
    pass.input_count = 1;
    uf_program_options options = uf_program_options_default();
    options.passes = &pass;
    options.pass_count = 1;
    uf_program *program;
    assert_error(uf_program_compile(f.graph, &options, &program), UF_ERROR_INVALID_ARGUMENT,
                 "pass 0: inputs[0] is input labels, which has i64 elements");
    pass.inputs = &f.x;
    pass.losses = &f.labels;
    pass.external_seeds = true;
    assert_error(uf_program_compile(f.graph, &options, &program), UF_ERROR_INVALID_ARGUMENT,
                 "pass 0: loss 0 is input labels, which has i64 elements");
    close_fixture(&f);
}

/* The check of gradients leaves indices alone. */
static void test_gradcheck(void **state) {
    (void)state;
    fixture f = open_fixture();
    uf_output(f.graph, "y", uf_tanh(f.graph, f.x));
    uf_output(f.graph, "same", f.labels);
    const double values[] = {0, 1, 2, 3, 4, 5};
    const uf_gradcheck_input given = {"labels", values};
    uf_gradcheck_options options = uf_gradcheck_options_default();
    uf_gradcheck_result result;
    options.inputs = &given;
    options.input_count = 1;
    assert_ok(uf_gradcheck(f.graph, &options, &result));
    assert_true(result.passed);
    assert_int_equal(result.checked, 6);
    close_fixture(&f);
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements),           cmocka_unit_test(test_shape_of_a_program),
        cmocka_unit_test(test_real_layers_refuse), cmocka_unit_test(test_passes_refuse),
        cmocka_unit_test(test_gradcheck),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
