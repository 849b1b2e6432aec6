/* test_cross_entropy.c - cross-entropy with class indices against plain loops in double. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "support/compare.h"
#include "support/random.h"

typedef struct logits {
    int64_t n, c, inner; /* inner 0: no further axis */
    double scale;
} logits;

static const logits rows[] = {{1, 1, 0, 1.0},  {3, 2, 0, 1.0},    {64, 100, 0, 5.0},
                              {7, 31, 0, 1.0}, {5, 33, 0, 300.0}, {2, 4, 15, 1.0},
                              {3, 40, 7, 3.0}, {1, 3, 5000, 1.0}};

static int64_t inner_of(const logits *row) {
    return row->inner > 0 ? row->inner : 1;
}

/* The loss of each target, and its gradient by the logits. */
static void reference(const logits *row, const double *x, const int64_t *target, double *losses,
                      double *gradient) {
    const int64_t inner = inner_of(row);
    for (int64_t n = 0; n < row->n; ++n) {
        for (int64_t i = 0; i < inner; ++i) {
            const int64_t first = n * row->c * inner + i;
            const int64_t t = target[n * inner + i];
            double largest = -HUGE_VAL, sum = 0.0;
            for (int64_t c = 0; c < row->c; ++c) {
                largest = fmax(largest, x[first + c * inner]);
            }
            for (int64_t c = 0; c < row->c; ++c) {
                sum += exp(x[first + c * inner] - largest);
            }
            losses[n * inner + i] = largest + log(sum) - x[first + t * inner];
            for (int64_t c = 0; c < row->c; ++c) {
                gradient[first + c * inner] =
                    exp(x[first + c * inner] - largest) / sum - (c == t ? 1.0 : 0.0);
            }
        }
    }
}

typedef struct results {
    double *loss, *gradient;
} results;

static void free_results(results *r) {
    free(r->loss);
    free(r->gradient);
}

/* Run it as a graph, in which the logits have a second reader, so that the gradient is added. */
static results run(uf_context *context, const logits *row, uf_dtype dtype, uf_reduction reduction,
                   const double *x, const int64_t *target, const double *seeds) {
    const int64_t inner = inner_of(row);
    const int64_t count = row->n * row->c * inner;
    const int64_t targets = row->n * inner;
    const int64_t losses = reduction == UF_REDUCTION_NONE ? targets : 1;
    uf_graph *graph;
    uf_program *program;
    uf_loss_options options = uf_loss_options_default();
    options.reduction = reduction;
    assert_ok(uf_graph_create(context, &graph));
    const uf_value input = uf_input(
        graph, "x", row->inner > 0 ? UF_SHAPE(row->n, row->c, 1, inner) : UF_SHAPE(row->n, row->c));
    const uf_value labels = uf_input_i64(
        graph, "target", row->inner > 0 ? UF_SHAPE(row->n, 1, inner) : UF_SHAPE(row->n));
    const uf_value loss = uf_cross_entropy_loss(graph, input, labels, &options);
    uf_output(graph, "loss", loss);
    uf_pass pass = uf_pass_default();
    pass.losses = &loss;
    pass.loss_count = 1;
    pass.inputs = &input;
    pass.input_count = 1;
    pass.external_seeds = true;
    uf_program_options program_options = uf_program_options_default();
    program_options.dtype = dtype;
    program_options.plan = UF_PLAN_POISON;
    program_options.passes = &pass;
    program_options.pass_count = 1;
    assert_ok(uf_program_compile(graph, &program_options, &program));
    assert_ok(uf_tensor_upload_as(uf_program_input(program, "x"), UF_F64, x, count));
    assert_ok(uf_tensor_upload(uf_program_input(program, "target"), target));
    assert_ok(uf_tensor_upload_as(uf_program_seed(program, 0, 0), UF_F64, seeds, losses));
    assert_ok(uf_program_run(program));
    results r = {test_allocate((size_t)losses * sizeof(double)),
                 test_allocate((size_t)count * sizeof(double))};
    assert_ok(uf_tensor_download_as(uf_program_output(program, "loss"), UF_F64, r.loss, losses));
    assert_ok(
        uf_tensor_download_as(uf_program_gradient(program, 0, input), UF_F64, r.gradient, count));
    assert_int_equal(uf_tensor_dtype(uf_program_output(program, "loss")),
                     dtype == UF_F64 ? UF_F64 : UF_F32);
    uf_program_destroy(program);
    uf_graph_destroy(graph);
    return r;
}

/* What a type rounds a number to. */
static double rounded(uf_context *context, uf_dtype dtype, double value) {
    uf_tensor *tensor;
    double back;
    assert_ok(uf_tensor_create(context, dtype, UF_SCALAR, &tensor));
    assert_ok(uf_tensor_upload_as(tensor, UF_F64, &value, 1));
    assert_ok(uf_tensor_download_as(tensor, UF_F64, &back, 1));
    uf_tensor_destroy(tensor);
    return back;
}

static void check_row(uf_context *context, const logits *row, uf_dtype dtype, double tolerance) {
    const int64_t inner = inner_of(row);
    const int64_t count = row->n * row->c * inner;
    const int64_t targets = row->n * inner;
    double *x = test_allocate((size_t)count * sizeof *x);
    double *gradient = test_allocate((size_t)count * sizeof *gradient);
    double *expected = test_allocate((size_t)count * sizeof *expected);
    double *losses = test_allocate((size_t)targets * sizeof *losses);
    double *seeds = test_allocate((size_t)targets * sizeof *seeds);
    int64_t *target = test_allocate((size_t)targets * sizeof *target);
    test_random random = test_random_for("cross_entropy", row->n * 1000 + row->c);
    for (int64_t i = 0; i < count; ++i) {
        x[i] = rounded(context, dtype, test_random_real(&random, -row->scale, row->scale));
    }
    for (int64_t i = 0; i < targets; ++i) {
        target[i] = (int64_t)test_random_real(&random, 0.0, (double)row->c);
        target[i] = target[i] < row->c ? target[i] : row->c - 1;
        seeds[i] = 0.25 * (double)(1 + i % 5);
    }
    target[0] = row->c - 1;
    reference(row, x, target, losses, gradient);
    double sum = 0.0;
    for (int64_t i = 0; i < targets; ++i) {
        sum += losses[i];
    }
    for (int reduction = UF_REDUCTION_MEAN; reduction <= UF_REDUCTION_NONE; ++reduction) {
        results r = run(context, row, dtype, (uf_reduction)reduction, x, target, seeds);
        const bool none = reduction == UF_REDUCTION_NONE;
        const double divisor = reduction == UF_REDUCTION_MEAN ? (double)targets : 1.0;
        const double value = sum / divisor;
        for (int64_t i = 0; i < count; ++i) {
            const int64_t at = i / (row->c * inner) * inner + i % inner;
            expected[i] = gradient[i] * seeds[none ? at : 0] / divisor;
        }
        assert_close("loss",
                     compare_values(r.loss, none ? losses : &value, none ? targets : 1, 0.0),
                     dtype == UF_BF16 ? 1e-5 : tolerance);
        assert_close("gradient", compare_values(r.gradient, expected, count, 0.0), tolerance);
        free_results(&r);
    }
    free(x);
    free(gradient);
    free(expected);
    free(losses);
    free(seeds);
    free(target);
}

static void test_rows(void **state) {
    uf_context *context = *state;
    for (int64_t i = 0; i < COUNT_OF(rows); ++i) {
        check_row(context, &rows[i], UF_F64, 1e-12);
        check_row(context, &rows[i], UF_F32, 1e-5);
        check_row(context, &rows[i], UF_BF16, 1e-2);
    }
}

/* The same bits for any number of threads. */
static void test_threads(void **state) {
    (void)state;
    const logits row = {64, 3, 1500, 1.0};
    const int64_t count = row.n * row.c * row.inner;
    double *x = test_allocate((size_t)count * sizeof *x);
    int64_t *target = test_allocate((size_t)(row.n * row.inner) * sizeof *target);
    const double seed = 1.5;
    results first = {NULL, NULL};
    test_random random = test_random_for("cross_entropy threads", 0);
    test_random_fill(&random, x, count, 1.0);
    for (int64_t i = 0; i < row.n * row.inner; ++i) {
        target[i] = i % row.c;
    }
    for (int32_t threads = 1; threads <= 3; ++threads) {
        uf_context *context = test_context(threads);
        results r = run(context, &row, UF_F32, UF_REDUCTION_MEAN, x, target, &seed);
        if (threads == 1) {
            first = r;
        } else {
            assert_same_bits("loss", r.loss, first.loss, 8);
            assert_same_bits("gradient", r.gradient, first.gradient, count * 8);
            free_results(&r);
        }
        uf_context_destroy(context);
    }
    free_results(&first);
    free(x);
    free(target);
}

/* A target outside the classes reads nothing that is not there, and shows. */
static void test_bad_targets(void **state) {
    uf_context *context = *state;
    static const int64_t bad[] = {-1, 3, INT64_MAX, INT64_MIN};
    const double x[6] = {0.5, 1.0, -1.0, 0.0, 2.0, 1.0}, seeds[2] = {1.0, 1.0};
    const logits row = {2, 3, 0, 1.0};
    for (int64_t i = 0; i < COUNT_OF(bad); ++i) {
        const int64_t target[2] = {2, bad[i]};
        for (int reduction = UF_REDUCTION_MEAN; reduction <= UF_REDUCTION_NONE; ++reduction) {
            results r = run(context, &row, UF_F32, (uf_reduction)reduction, x, target, seeds);
            const bool none = reduction == UF_REDUCTION_NONE;
            assert_true(isnan(r.loss[none ? 1 : 0]));
            assert_true(!none || isfinite(r.loss[0]));
            for (int c = 0; c < 3; ++c) {
                assert_true(isfinite(r.gradient[c]) && isnan(r.gradient[3 + c]));
            }
            free_results(&r);
        }
    }
}

/* NaN goes through; a logit of -inf is a class that cannot be. */
static void test_edges(void **state) {
    uf_context *context = *state;
    const logits row = {2, 3, 0, 1.0};
    const double seeds[2] = {1.0, 1.0};
    const int64_t target[2] = {0, 1};
    for (int at = 0; at < 3; ++at) {
        double x[6] = {0.5, 0.5, 0.5, 1.0, 1.0, -(double)INFINITY};
        x[at] = (double)NAN;
        results r = run(context, &row, UF_F64, UF_REDUCTION_NONE, x, target, seeds);
        assert_true(isnan(r.loss[0]) && isnan(r.gradient[0]) && isnan(r.gradient[2]));
        assert_true(fabs(r.loss[1] - log(2.0)) < 1e-15);
        assert_true(fabs(r.gradient[3] - 0.5) < 1e-15 && fabs(r.gradient[4] + 0.5) < 1e-15);
        assert_true(r.gradient[5] == 0.0);
        free_results(&r);
    }
}

static void refuse(uf_context *context, uf_shape x, uf_shape target, const char *word) {
    uf_graph *graph;
    assert_ok(uf_graph_create(context, &graph));
    uf_cross_entropy_loss(graph, uf_input(graph, "x", x), uf_input_i64(graph, "target", target),
                          NULL);
    assert_error(uf_graph_status(graph), UF_ERROR_SHAPE, "cross_entropy_loss", word);
    uf_graph_destroy(graph);
}

static void test_refusals(void **state) {
    uf_context *context = *state;
    refuse(context, UF_SHAPE(4), UF_SHAPE(4), "the input is (4,)");
    refuse(context, UF_SHAPE(4, 3), UF_SHAPE(3), "the target is (3,)");
    refuse(context, UF_SHAPE(4, 3), UF_SHAPE(4, 1), "the target is (4, 1)");
    refuse(context, UF_SHAPE(4, 3, 5), UF_SHAPE(4, 3), "(N, d1, ...)");
    uf_graph *graph;
    assert_ok(uf_graph_create(context, &graph));
    const uf_value x = uf_input(graph, "x", UF_SHAPE(4, 3));
    uf_cross_entropy_loss(graph, x, uf_input(graph, "real", UF_SHAPE(4)), NULL);
    assert_error(uf_graph_status(graph), UF_ERROR_INVALID_ARGUMENT, "cross_entropy: input 1",
                 "real values where indices are needed");
    uf_graph_destroy(graph);
    assert_ok(uf_graph_create(context, &graph));
    uf_loss_options options = uf_loss_options_default();
    options.reduction = (uf_reduction)7;
    uf_cross_entropy_loss(graph, uf_input(graph, "x", UF_SHAPE(4, 3)),
                          uf_input_i64(graph, "t", UF_SHAPE(4)), &options);
    assert_error(uf_graph_status(graph), UF_ERROR_INVALID_ARGUMENT, "7 is no uf_reduction");
    uf_graph_destroy(graph);
}

static int make_context(void **state) {
    *state = test_context(2);
    return 0;
}

static int destroy_context(void **state) {
    uf_context_destroy(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_bad_targets), cmocka_unit_test(test_edges),
        cmocka_unit_test(test_refusals),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0
               ? skipped
               : cmocka_run_group_tests_name("cross_entropy", tests, make_context, destroy_context);
}
