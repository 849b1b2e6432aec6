/* test_matmul.c - products of matrices: gradients in bf16, how many calls a batch takes, attention
 * for another batch than the graph's, and errors. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/bf16_calls.h"
#include "support/compare.h"
#include "support/random.h"

/* The tolerance of sums of up to 64 products: see case_tolerance. */
#define F32_ERROR (8.0 * 0x1p-24 * 8.0)

static int64_t calls;

static uf_status counting_fprop(uf_context *context, const uf_conv_kernel_args *args) {
    ++calls;
    return context->device->kernels->conv_fprop(context, args);
}

/* Everything that a pass over matmul(a, b) leaves: the product and both gradients, in a row. */
static double *differentiate(uf_context *context, uf_shape a_shape, uf_shape b_shape,
                             uf_dtype dtype, int64_t *count) {
    uf_graph *graph;
    uf_program *program;
    assert_ok(uf_graph_create(context, &graph));
    const uf_value in[2] = {uf_input(graph, "a", a_shape), uf_input(graph, "b", b_shape)};
    const uf_value y = uf_matmul(graph, in[0], in[1]);
    uf_output(graph, "y", y);
    uf_pass pass = uf_pass_default();
    pass.losses = &y;
    pass.loss_count = 1;
    pass.external_seeds = true;
    pass.inputs = in;
    pass.input_count = 2;
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.passes = &pass;
    options.pass_count = 1;
    assert_ok(uf_program_compile(graph, &options, &program));
    uf_tensor *const given[3] = {uf_program_input(program, "a"), uf_program_input(program, "b"),
                                 uf_program_seed(program, 0, 0)};
    test_random random = test_random_for("matmul", 0);
    for (int i = 0; i < 3; ++i) {
        const int64_t elements = uf_tensor_count(given[i]);
        double *values = test_allocate((size_t)elements * sizeof *values);
        for (int64_t k = 0; k < elements; ++k) {
            values[k] = to_bf16(test_random_real(&random, -1.0, 1.0));
        }
        assert_ok(uf_tensor_upload_as(given[i], UF_F64, values, elements));
        free(values);
    }
    assert_ok(uf_program_run(program));
    const uf_tensor *const made[3] = {uf_program_output(program, "y"),
                                      uf_program_gradient(program, 0, in[0]),
                                      uf_program_gradient(program, 0, in[1])};
    *count = 0;
    for (int i = 0; i < 3; ++i) {
        *count += uf_tensor_count(made[i]);
    }
    double *results = test_allocate((size_t)*count * sizeof *results);
    double *to = results;
    for (int i = 0; i < 3; ++i) {
        assert_ok(uf_tensor_download_as(made[i], UF_F64, to, uf_tensor_count(made[i])));
        to += uf_tensor_count(made[i]);
    }
    uf_graph_destroy(graph);
    uf_program_destroy(program);
    return results;
}

/* Each gradient of one call is rounded once; one that several calls add is rounded after each. */
static void test_bf16(void **state) {
    (void)state;
    static const struct {
        uf_shape a, b;
        bool several;
    } table[] = {
        {{3, {4, 9, 20}}, {3, {4, 20, 7}}, false},
        {{3, {4, 9, 20}}, {2, {20, 7}}, false},
        {{2, {9, 20}}, {3, {4, 20, 7}}, false},
        {{4, {2, 1, 9, 20}}, {4, {1, 3, 20, 7}}, true},
    };
    uf_context *context = test_context(2);
    for (int64_t i = 0; i < COUNT_OF(table); ++i) {
        int64_t count;
        double *exact = differentiate(context, table[i].a, table[i].b, UF_F64, &count);
        double *got = differentiate(context, table[i].a, table[i].b, UF_BF16, &count);
        double *narrow = differentiate(context, table[i].a, table[i].b, UF_F32, &count);
        assert_close("f32", compare_values(narrow, exact, count, 1.0), F32_ERROR);
        if (table[i].several) {
            assert_close("bf16", compare_values(got, exact, count, 1.0), 0x1p-7);
        } else {
            assert_rounded_once("bf16", got, exact, count, F32_ERROR);
        }
        free(exact);
        free(got);
        free(narrow);
    }
    uf_context_destroy(context);
}

/* A batch is one call; only axes in another order cost one each. */
static void test_calls(void **state) {
    (void)state;
    static const struct {
        uf_shape a, b;
        int64_t calls;
    } table[] = {
        {{2, {3, 4}}, {2, {4, 5}}, 1},
        {{4, {8, 6, 3, 4}}, {4, {8, 6, 4, 5}}, 1},
        {{4, {8, 6, 3, 4}}, {2, {4, 5}}, 1},
        {{2, {3, 4}}, {4, {8, 6, 4, 5}}, 1},
        {{4, {1, 6, 3, 4}}, {4, {8, 6, 4, 5}}, 1},
        {{4, {8, 6, 3, 4}}, {4, {8, 1, 4, 5}}, 1},
        {{5, {1, 6, 2, 3, 4}}, {5, {8, 6, 1, 4, 5}}, 1},
        {{4, {8, 6, 3, 4}}, {4, {1, 6, 4, 5}}, 8},
        {{4, {8, 1, 3, 4}}, {4, {1, 6, 4, 5}}, 8},
    };
    uf_context *context = test_context(2);
    struct uf_kernels counting = *context->device->kernels;
    counting.conv_fprop = counting_fprop;
    context->kernels = &counting;
    for (int64_t i = 0; i < COUNT_OF(table); ++i) {
        int64_t count;
        calls = 0;
        free(differentiate(context, table[i].a, table[i].b, UF_F64, &count));
        assert_int_equal(calls, table[i].calls);
    }
    context->kernels = context->device->kernels;
    uf_context_destroy(context);
}

/* A leading axis may differ between the programs of a graph. */
static void test_other_batch(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_graph *graph;
    uf_program *program;
    assert_ok(uf_graph_create(context, &graph));
    const uf_value a = uf_input(graph, "a", UF_SHAPE(2, 3, 4));
    const uf_value b = uf_input(graph, "b", UF_SHAPE(2, 4, 5));
    uf_output(graph, "y", uf_matmul(graph, a, b));
    const uf_input_shape shapes[2] = {{"a", UF_SHAPE(7, 3, 4)}, {"b", UF_SHAPE(1, 4, 5)}};
    uf_program_options options = uf_program_options_default();
    options.input_shapes = shapes;
    options.input_shape_count = 2;
    assert_ok(uf_program_compile(graph, &options, &program));
    const uf_shape got = uf_tensor_shape(uf_program_output(program, "y"));
    const uf_shape expected = UF_SHAPE(7, 3, 5);
    assert_true(uf_shape_equal(&got, &expected));
    uf_context_destroy(context);
}

static void test_errors(void **state) {
    (void)state;
    static const struct {
        uf_shape a, b;
        uf_status status;
        const char *says;
    } table[] = {
        {{1, {4}}, {2, {4, 5}}, UF_ERROR_INVALID_ARGUMENT, "input 0 is (4,)"},
        {{2, {3, 4}}, {1, {4}}, UF_ERROR_INVALID_ARGUMENT, "input 1 is (4,)"},
        {{2, {3, 4}}, {2, {5, 4}}, UF_ERROR_SHAPE, "(3, 4) and (5, 4)"},
        {{3, {2, 3, 4}}, {3, {3, 4, 5}}, UF_ERROR_SHAPE, "(2, 3, 4) and (3, 4, 5)"},
    };
    uf_context *context = test_context(1);
    for (int64_t i = 0; i < COUNT_OF(table); ++i) {
        uf_graph *graph;
        assert_ok(uf_graph_create(context, &graph));
        const uf_value a = uf_input(graph, "a", table[i].a), b = uf_input(graph, "b", table[i].b);
        (void)uf_matmul(graph, a, b);
        assert_error(uf_graph_status(graph), table[i].status, "matmul", table[i].says);
        uf_graph_destroy(graph);
    }
    uf_context_destroy(context);
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_other_batch),
        cmocka_unit_test(test_errors),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
