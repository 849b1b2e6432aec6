/* test_linear.c - Linear over the last axis inside a program: its channels are not axis 1, which is
 * what a batch norm behind it and a concat around it count by. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "graph/program.h"
#include "support/compare.h"
#include "support/random.h"

typedef struct fixture {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
    uf_value x;
} fixture;

static fixture open_fixture(uf_shape shape) {
    fixture f;
    uf_store_options options = uf_store_options_default();
    options.dtype = UF_F64;
    f.context = test_context(2);
    assert_ok(uf_store_create_with(f.context, "weights", &options, &f.store));
    assert_ok(uf_graph_create(f.context, &f.graph));
    f.x = uf_input(f.graph, "x", shape);
    return f;
}

/* Output "y" for random inputs. The caller frees it. */
static double *run(fixture *f, uf_program *program, int64_t *count) {
    uf_tensor *x = uf_program_input(program, "x");
    uf_tensor *y = uf_program_output(program, "y");
    test_random random = test_random_for("linear", 0);
    double *values = test_allocate((size_t)uf_tensor_count(x) * sizeof *values);
    test_random_fill(&random, values, uf_tensor_count(x), 1.0);
    assert_ok(uf_tensor_upload(x, values));
    assert_ok(uf_program_run(program));
    free(values);
    *count = uf_tensor_count(y);
    values = test_allocate((size_t)*count * sizeof *values);
    assert_ok(uf_tensor_download(y, values));
    (void)f;
    return values;
}

static int64_t removed_steps(const uf_program *program) {
    int64_t removed = 0;
    for (int32_t s = 0; s < program->step_count; ++s) {
        removed += program->steps[s].removed ? 1 : 0;
    }
    return removed;
}

/* A batch norm that follows stays a step of its own; an activation does not. */
static void test_batch_norm_behind(void **state) {
    (void)state;
    fixture f = open_fixture(UF_SHAPE(2, 3, 4, 5));
    uf_value y = uf_linear(f.graph, f.x, uf_at(f.store, "linear"), 3, true);
    y = uf_batch_norm2d(f.graph, y, uf_at(f.store, "norm"), NULL);
    y = uf_tanh(f.graph, uf_linear(f.graph, y, uf_at(f.store, "last"), 2, true));
    uf_output(f.graph, "y", y);
    assert_ok(uf_init_default(f.graph, f.store));
    assert_ok(uf_init_uniform(f.store, "norm.running_mean", -1.0, 1.0));
    assert_ok(uf_init_uniform(f.store, "norm.running_var", 0.5, 1.5));
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_F64;
    int64_t count;
    uf_program *program;
    assert_ok(uf_program_compile(f.graph, &options, &program));
    assert_int_equal(removed_steps(program), 1);
    double *fused = run(&f, program, &count);
    uf_program_destroy(program);
    options.fuse = false;
    assert_ok(uf_program_compile(f.graph, &options, &program));
    double *plain = run(&f, program, &count);
    assert_same_bits("fused", fused, plain, count * (int64_t)sizeof *fused);
    free(fused);
    free(plain);
    uf_context_destroy(f.context);
}

/* A concat's inputs lie in their places only where Linear sees rows of one distance. 32 values are
 * 256 bytes: nothing but the rank keeps them from lying there. */
static void test_concat_around(void **state) {
    (void)state;
    for (int rank = 2; rank <= 4; ++rank) {
        const uf_shape shapes[] = {UF_SHAPE(3, 32), UF_SHAPE(3, 4, 8), UF_SHAPE(3, 2, 2, 8)};
        fixture f = open_fixture(shapes[rank - 2]);
        const int64_t width = rank == 2 ? 32 : 8;
        const uf_value parts[2] = {uf_linear(f.graph, f.x, uf_at(f.store, "a"), width, true),
                                   uf_linear(f.graph, f.x, uf_at(f.store, "b"), width, false)};
        const uf_value joined = uf_concat(f.graph, parts, 2);
        uf_output(f.graph, "y", uf_tanh(f.graph, joined));
        assert_ok(uf_init_default(f.graph, f.store));
        uf_gradcheck_result result;
        assert_ok(uf_gradcheck(f.graph, NULL, &result));
        assert_true(result.passed);
        uf_program_options options = uf_program_options_default();
        options.dtype = UF_F64;
        int64_t count;
        uf_program *program;
        assert_ok(uf_program_compile(f.graph, &options, &program));
        assert_true((program->values[parts[0].id].pitch != 0) == (rank == 2));
        double *shared = run(&f, program, &count);
        uf_program_destroy(program);
        options.plan = UF_PLAN_NO_REUSE;
        assert_ok(uf_program_compile(f.graph, &options, &program));
        double *plain = run(&f, program, &count);
        assert_same_bits("joined", shared, plain, count * (int64_t)sizeof *shared);
        free(shared);
        free(plain);
        uf_context_destroy(f.context);
    }
}

static void test_errors(void **state) {
    (void)state;
    fixture f = open_fixture(UF_SCALAR);
    (void)uf_linear(f.graph, f.x, uf_at(f.store, "linear"), 3, true);
    assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT, "linear", "scalar");
    uf_context_destroy(f.context);
    f = open_fixture(UF_SHAPE(2, 3, 4));
    (void)uf_linear(f.graph, f.x, uf_at(f.store, "linear"), 0, true);
    assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT, "linear: out_features is 0");
    uf_context_destroy(f.context);
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_norm_behind),
        cmocka_unit_test(test_concat_around),
        cmocka_unit_test(test_errors),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
