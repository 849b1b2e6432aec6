/* test_norms.c - norms inside programs: running statistics of instance norm, batch norm of lines
 * and rows, norms that are the same, and shapes that they refuse. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    assert_ok(uf_store_create_with(f.context, "norms", &options, &f.store));
    assert_ok(uf_graph_create(f.context, &f.graph));
    f.x = uf_input(f.graph, "x", shape);
    return f;
}

static void fill(uf_tensor *tensor, int64_t seed) {
    const int64_t count = uf_tensor_count(tensor);
    double *values = test_allocate((size_t)count * sizeof *values);
    test_random random = test_random_for("norms", seed);
    test_random_fill(&random, values, count, 1.0);
    for (int64_t i = 0; i < count; ++i) {
        values[i] += 2.0;
    }
    assert_ok(uf_tensor_upload_as(tensor, UF_F64, values, count));
    free(values);
}

/* The caller frees them. */
static double *values_of(const uf_tensor *tensor) {
    const int64_t count = uf_tensor_count(tensor);
    double *values = test_allocate((size_t)count * sizeof *values);
    assert_ok(uf_tensor_download_as(tensor, UF_F64, values, count));
    return values;
}

/* Weights, biases and statistics that are not alike. */
static void fill_store(uf_store *store) {
    for (int64_t i = 0; i < uf_store_size(store); ++i) {
        uf_store_entry entry;
        uf_tensor *tensor;
        assert_ok(uf_store_entry_at(store, i, &entry));
        assert_ok(uf_store_tensor(store, entry.name, &tensor));
        if (entry.role != UF_ROLE_COUNTER) {
            fill(tensor, uf_tensor_count(tensor) + (int64_t)strlen(entry.name));
        }
    }
}

static uf_program *compile(fixture *f, uf_mode mode) {
    uf_program_options options = uf_program_options_default();
    uf_program *program;
    options.dtype = UF_F64;
    options.mode = mode;
    assert_ok(uf_program_compile(f->graph, &options, &program));
    return program;
}

/* ---- running statistics ---- */

enum { N = 3, C = 2, PIXELS = 12 };

static double statistic_of(const double *x, bool variance) {
    double mean = 0.0, var = 0.0;
    for (int i = 0; i < PIXELS; ++i) {
        mean += x[i] / PIXELS;
    }
    for (int i = 0; i < PIXELS; ++i) {
        var += (x[i] - mean) * (x[i] - mean) / (PIXELS - 1);
    }
    return variance ? var : mean;
}

/* TRAIN normalises each image by its own numbers and moves the running ones; EVAL uses these. */
static void test_running(void **state) {
    (void)state;
    fixture f = open_fixture(UF_SHAPE(N, C, 3, 4));
    uf_instance_norm_options options = uf_instance_norm_options_default();
    options.track_running_stats = true;
    options.momentum = 0.3;
    uf_output(f.graph, "y", uf_instance_norm2d(f.graph, f.x, uf_at(f.store, "n"), &options));
    uf_program *const train = compile(&f, UF_TRAIN), *const eval = compile(&f, UF_EVAL);
    assert_int_equal(uf_store_size(f.store), 3);
    fill_store(f.store);
    uf_tensor *running[2];
    assert_ok(uf_store_tensor(f.store, "n.running_mean", &running[0]));
    assert_ok(uf_store_tensor(f.store, "n.running_var", &running[1]));
    double *expected[2] = {values_of(running[0]), values_of(running[1])};
    fill(uf_program_input(train, "x"), 0);
    fill(uf_program_input(eval, "x"), 1);
    double *x = values_of(uf_program_input(train, "x"));
    for (int run = 0; run < 2; ++run) {
        assert_ok(uf_program_run(train));
        for (int k = 0; k < 2; ++k) {
            for (int c = 0; c < C; ++c) {
                double mean = 0.0;
                for (int n = 0; n < N; ++n) {
                    mean += statistic_of(x + (n * C + c) * PIXELS, k == 1) / N;
                }
                expected[k][c] = 0.7 * expected[k][c] + 0.3 * mean;
            }
            double *got = values_of(running[k]);
            assert_close("running statistics", compare_values(got, expected[k], C, 1.0), 1e-14);
            free(got);
        }
    }
    double *y = values_of(uf_program_output(train, "y"));
    for (int i = 0; i < N * C; ++i) { /* the variance of y is that of x / (that of x + eps) */
        assert_true(fabs(statistic_of(y + i * PIXELS, false)) < 1e-14);
        assert_true(fabs(statistic_of(y + i * PIXELS, true) * (PIXELS - 1) / PIXELS - 1.0) < 1e-4);
    }
    free(x);
    free(y);
    x = values_of(uf_program_input(eval, "x"));
    assert_ok(uf_program_run(eval));
    y = values_of(uf_program_output(eval, "y"));
    for (int i = 0; i < N * C * PIXELS; ++i) {
        const int c = i / PIXELS % C;
        x[i] = (x[i] - expected[0][c]) / sqrt(expected[1][c] + 1e-5);
    }
    assert_close("evaluation", compare_values(y, x, (int64_t)N * C * PIXELS, 0.0), 1e-14);
    free(x);
    free(y);
    free(expected[0]);
    free(expected[1]);
    uf_context_destroy(f.context);
}

/* Without running statistics both modes are one, and the layer needs no store. */
static void test_without_scope(void **state) {
    (void)state;
    fixture f = open_fixture(UF_SHAPE(2, 4, 3, 4));
    uf_group_norm_options group = uf_group_norm_options_default();
    group.affine = false;
    uf_layer_norm_options layer = uf_layer_norm_options_default();
    layer.elementwise_affine = false;
    uf_value y = uf_instance_norm2d(f.graph, f.x, (uf_scope){0}, NULL);
    y = uf_tanh(f.graph, uf_group_norm(f.graph, uf_relu(f.graph, y), (uf_scope){0}, 2, &group));
    y = uf_tanh(f.graph, uf_layer_norm(f.graph, y, (uf_scope){0}, 2, &layer));
    uf_output(f.graph, "y", uf_layer_norm2d(f.graph, y, (uf_scope){0}, &layer));
    double *y_of[2];
    int64_t count = 0;
    for (int m = 0; m < 2; ++m) {
        uf_program *const program = compile(&f, m == 0 ? UF_TRAIN : UF_EVAL);
        fill(uf_program_input(program, "x"), 0);
        assert_ok(uf_program_run(program));
        y_of[m] = values_of(uf_program_output(program, "y"));
        count = uf_tensor_count(uf_program_output(program, "y"));
    }
    assert_same_bits("modes", y_of[0], y_of[1], count * (int64_t)sizeof **y_of);
    free(y_of[0]);
    free(y_of[1]);
    uf_context_destroy(f.context);
}

/* ---- layers that are the same ---- */

/* A line of L pixels is an image of one row; a row of a matrix is an image of one pixel. Behind a
 * linear layer batch norm becomes a part of it in EVAL. */
static void test_batch_norm1d(void **state) {
    (void)state;
    const uf_shape shapes[] = {UF_SHAPE(5, 3), UF_SHAPE(2, 3, 7)};
    const uf_shape images[] = {UF_SHAPE(5, 3, 1, 1), UF_SHAPE(2, 3, 1, 7)};
    for (int i = 0; i < 4; ++i) {
        fixture f = open_fixture(shapes[i / 2]);
        uf_value x[2] = {f.x, f.x};
        for (int k = 0; i / 2 == 0 && k < 2; ++k) { /* twice, so that each has one reader */
            x[k] = uf_linear(f.graph, f.x, uf_at(f.store, "l"), 3, true);
        }
        x[1] = uf_reshape(f.graph, x[1], images[i / 2]);
        uf_output(f.graph, "y", uf_batch_norm1d(f.graph, x[0], uf_at(f.store, "n"), NULL));
        uf_output(f.graph, "image", uf_batch_norm2d(f.graph, x[1], uf_at(f.store, "n"), NULL));
        uf_program *const program = compile(&f, i % 2 == 0 ? UF_EVAL : UF_TRAIN);
        fill_store(f.store);
        fill(uf_program_input(program, "x"), i);
        assert_ok(uf_program_run(program));
        double *y = values_of(uf_program_output(program, "y"));
        double *of_image = values_of(uf_program_output(program, "image"));
        const int64_t count = uf_tensor_count(uf_program_output(program, "y"));
        assert_close("batch norm", compare_values(y, of_image, count, 0.0), 1e-14);
        free(y);
        free(of_image);
        uf_context_destroy(f.context);
    }
}

/* ---- refusals ---- */

static void refuse(uf_shape shape, int which, const char *first, const char *second) {
    fixture f = open_fixture(shape);
    const uf_scope scope = uf_at(f.store, "n");
    const uf_value made = which == 0   ? uf_instance_norm2d(f.graph, f.x, scope, NULL)
                          : which == 1 ? uf_instance_norm1d(f.graph, f.x, scope, NULL)
                          : which == 2 ? uf_group_norm(f.graph, f.x, scope, 4, NULL)
                          : which == 3 ? uf_layer_norm(f.graph, f.x, scope, 3, NULL)
                          : which == 4 ? uf_layer_norm2d(f.graph, f.x, scope, NULL)
                          : which == 5 ? uf_batch_norm1d(f.graph, f.x, scope, NULL)
                                       : uf_layer_norm(f.graph, f.x, scope, 0, NULL);
    (void)made;
    assert_error(uf_graph_status(f.graph), UF_ERROR_INVALID_ARGUMENT, first, second);
    uf_context_destroy(f.context);
}

static void test_refused(void **state) {
    (void)state;
    refuse(UF_SHAPE(2, 3, 4), 0, "instance_norm2d", "(N, C, H, W)");
    refuse(UF_SHAPE(2, 3, 1, 1), 0, "instance_norm2d", "more than 1 value");
    refuse(UF_SHAPE(2, 3, 4, 5), 1, "instance_norm1d", "(N, C, L)");
    refuse(UF_SHAPE(2, 6, 4, 5), 2, "6 channels", "4 groups");
    refuse(UF_SHAPE(8), 2, "group_norm", "(N, C, ...)");
    refuse(UF_SHAPE(8, 9), 3, "layer_norm", "3 axes");
    refuse(UF_SHAPE(8, 9), 6, "layer_norm", "0 axes");
    refuse(UF_SHAPE(8, 9, 3), 4, "layer_norm2d", "(N, C, H, W)");
    refuse(UF_SHAPE(2, 3, 4, 5), 5, "batch_norm1d", "(N, C, L)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_running),
        cmocka_unit_test(test_without_scope),
        cmocka_unit_test(test_batch_norm1d),
        cmocka_unit_test(test_refused),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
