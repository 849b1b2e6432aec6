/* test_weight_norm.c - weight norm and spectral norm in programs: first values, power iterations in
 * TRAIN, what is kept in EVAL, bf16, several applications of one layer, and every refusal. Numbers
 * of PyTorch are in `unfurl parity`. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/program.h"
#include "support/compare.h"

typedef struct fixture {
    uf_context *context;
    uf_store *store;
    uf_graph *graph;
} fixture;

static fixture open_fixture(uf_dtype dtype, int32_t threads) {
    fixture f;
    uf_store_options options = uf_store_options_default();
    options.dtype = dtype;
    f.context = test_context(threads);
    assert_ok(uf_store_create_with(f.context, "weights", &options, &f.store));
    assert_ok(uf_graph_create(f.context, &f.graph));
    return f;
}

static void close_fixture(fixture *f) {
    uf_graph_destroy(f->graph);
    uf_store_destroy(f->store);
    uf_context_destroy(f->context);
}

/* The elements of a tensor. The caller frees them. */
static double *download(uf_tensor *tensor) {
    const int64_t count = uf_tensor_count(tensor);
    double *values = test_allocate((size_t)count * sizeof *values);
    assert_ok(uf_tensor_download_as(tensor, UF_F64, values, count));
    return values;
}

static double *weights_of(uf_store *store, const char *name) {
    uf_tensor *tensor;
    assert_ok(uf_store_tensor(store, name, &tensor));
    return download(tensor);
}

static uf_program *compile(fixture *f, uf_dtype dtype, uf_mode mode) {
    uf_program_options options = uf_program_options_default();
    uf_program *program;
    options.dtype = dtype;
    options.mode = mode;
    assert_ok(uf_program_compile(f->graph, &options, &program));
    return program;
}

static double dot(const double *a, const double *b, int64_t count) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        sum += a[i] * b[i];
    }
    return sum;
}

static void near(double have, double want, double tolerance) {
    if (!(fabs(have - want) <= tolerance)) {
        fail_msg("%.17g, expected %.17g", have, want);
    }
}

/* At first g is the norm of v, so that the weight is v; u and v of spectral norm have norm 1. */
static void test_first_values(void **state) {
    (void)state;
    fixture f = open_fixture(UF_F64, 2);
    const uf_shape shape = UF_SHAPE(5, 3, 2, 2);
    uf_output(f.graph, "y", uf_weight_norm(f.graph, uf_at(f.store, "w"), shape, 1));
    uf_output(f.graph, "z", uf_spectral_norm(f.graph, uf_at(f.store, "s"), shape, 1));
    assert_ok(uf_init_default(f.graph, f.store));
    uf_program *program = compile(&f, UF_F64, UF_EVAL);
    assert_ok(uf_program_run(program));
    double *v = weights_of(f.store, "w.weight_v");
    double *y = download(uf_program_output(program, "y"));
    for (int i = 0; i < 60; ++i) {
        near(y[i], v[i], 1e-15);
    }
    assert_true(dot(v, v, 60) > 0.1);
    free(v);
    free(y);
    double *u = weights_of(f.store, "s.weight_u");
    v = weights_of(f.store, "s.weight_v");
    near(dot(u, u, 3), 1.0, 1e-12);
    near(dot(v, v, 20), 1.0, 1e-12);
    free(u);
    free(v);
    close_fixture(&f);
}

/* One application: a power iteration on u and v, from the definition; W is (rows, columns). */
static double iterate(const double *weight, int64_t rows, int64_t columns, double *u, double *v) {
    for (int64_t c = 0; c < columns; ++c) {
        v[c] = 0.0;
        for (int64_t r = 0; r < rows; ++r) {
            v[c] += weight[r * columns + c] * u[r];
        }
    }
    double norm = sqrt(dot(v, v, columns));
    for (int64_t c = 0; c < columns; ++c) {
        v[c] /= norm;
    }
    for (int64_t r = 0; r < rows; ++r) {
        u[r] = dot(weight + r * columns, v, columns);
    }
    norm = sqrt(dot(u, u, rows));
    for (int64_t r = 0; r < rows; ++r) {
        u[r] /= norm;
    }
    return norm; /* u . W v */
}

enum { ROWS = 6, COLUMNS = 2 * 3 * 3, WIDE_ROWS = 3, WIDE = 10000 };

/* A layer applied three times in a program is three iterations a run, and each application has the
 * weight of its own, in backward too. */
static void check_training(uf_dtype dtype, int32_t threads, double tolerance) {
    fixture f = open_fixture(dtype == UF_F64 ? UF_F64 : UF_F32, threads);
    uf_value weights[3];
    for (int i = 0; i < 3; ++i) {
        static const char *const names[] = {"a", "b", "c"};
        weights[i] = uf_spectral_norm(f.graph, uf_at(f.store, "layer"), UF_SHAPE(ROWS, 2, 3, 3), 0);
        uf_output(f.graph, names[i], weights[i]);
    }
    assert_ok(uf_init_default(f.graph, f.store));
    double *original = weights_of(f.store, "layer.weight_orig");
    double *u = weights_of(f.store, "layer.weight_u");
    double v[COLUMNS];
    uf_program *program = compile(&f, dtype, UF_TRAIN);
    for (int run = 0; run < 3; ++run) {
        assert_ok(uf_program_run(program));
        for (int i = 0; i < 3; ++i) {
            static const char *const names[] = {"a", "b", "c"};
            const double sigma = iterate(original, ROWS, COLUMNS, u, v);
            double *have = download(uf_program_output(program, names[i]));
            for (int k = 0; k < ROWS * COLUMNS; ++k) {
                near(have[k], original[k] / sigma, tolerance);
            }
            free(have);
        }
        double *kept = weights_of(f.store, "layer.weight_u");
        double *kept_v = weights_of(f.store, "layer.weight_v");
        for (int k = 0; k < ROWS; ++k) {
            near(kept[k], u[k], dtype == UF_F64 ? 1e-13 : 1e-6);
        }
        for (int k = 0; k < COLUMNS; ++k) {
            near(kept_v[k], v[k], dtype == UF_F64 ? 1e-13 : 1e-6);
        }
        free(kept);
        free(kept_v);
    }
    free(original);
    free(u);
    uf_program_destroy(program);
    close_fixture(&f);
}

static void test_training(void **state) {
    (void)state;
    check_training(UF_F64, 1, 1e-13);
    check_training(UF_F64, 4, 1e-13);
    check_training(UF_F32, 2, 1e-6);
    check_training(UF_BF16, 2, 4e-3);
}

/* The gradient of an application is that of its own u, v and sigma, though later ones have changed
 * the buffers since. */
static void test_gradient_of_each_application(void **state) {
    (void)state;
    fixture f = open_fixture(UF_F64, 2);
    const uf_scope scope = uf_at(f.store, "layer");
    const uf_value first = uf_spectral_norm(f.graph, scope, UF_SHAPE(ROWS, COLUMNS), 0);
    const uf_value second = uf_spectral_norm(f.graph, scope, UF_SHAPE(ROWS, COLUMNS), 0);
    uf_output(f.graph, "second", second);
    assert_ok(uf_init_default(f.graph, f.store));
    double *original = weights_of(f.store, "layer.weight_orig");
    double *u = weights_of(f.store, "layer.weight_u");
    double v[COLUMNS], upstream[ROWS * COLUMNS];
    const double sigma = iterate(original, ROWS, COLUMNS, u, v);
    uf_pass pass = uf_pass_default();
    pass.losses = &first;
    pass.loss_count = 1;
    pass.stores = &f.store;
    pass.store_count = 1;
    pass.external_seeds = true;
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_F64;
    options.mode = UF_TRAIN;
    options.plan = UF_PLAN_POISON;
    options.passes = &pass;
    options.pass_count = 1;
    uf_program *program;
    assert_ok(uf_program_compile(f.graph, &options, &program));
    for (int i = 0; i < ROWS * COLUMNS; ++i) {
        upstream[i] = sin((double)i);
    }
    assert_ok(uf_tensor_upload(uf_program_seed(program, 0, 0), upstream));
    assert_ok(uf_program_run(program));
    uf_tensor *tensor;
    assert_ok(uf_store_gradient(f.store, "layer.weight_orig", &tensor));
    double *gradient = download(tensor);
    const double along = dot(upstream, original, ROWS * COLUMNS) / sigma;
    for (int i = 0; i < ROWS * COLUMNS; ++i) {
        near(gradient[i], (upstream[i] - along * u[i / COLUMNS] * v[i % COLUMNS]) / sigma, 1e-12);
    }
    free(gradient);
    free(original);
    free(u);
    uf_program_destroy(program);
    close_fixture(&f);
}

/* The gradients of both parametrisations for one upstream, by a program of `dtype`. */
static void gradients(uf_dtype dtype, int32_t threads, double *result) {
    fixture f = open_fixture(dtype == UF_F64 ? UF_F64 : UF_F32, threads);
    const uf_shape shape = UF_SHAPE(WIDE_ROWS, 2, WIDE / 2);
    const uf_value losses[2] = {uf_weight_norm(f.graph, uf_at(f.store, "w"), shape, 0),
                                uf_spectral_norm(f.graph, uf_at(f.store, "s"), shape, 1)};
    assert_ok(uf_init_default(f.graph, f.store));
    uf_pass pass = uf_pass_default();
    pass.losses = losses;
    pass.loss_count = 2;
    pass.stores = &f.store;
    pass.store_count = 1;
    pass.external_seeds = true;
    uf_program_options options = uf_program_options_default();
    options.dtype = dtype;
    options.mode = UF_TRAIN;
    options.passes = &pass;
    options.pass_count = 1;
    uf_program *program;
    assert_ok(uf_program_compile(f.graph, &options, &program));
    double *upstream = test_allocate(WIDE_ROWS * WIDE * sizeof *upstream);
    for (int i = 0; i < WIDE_ROWS * WIDE; ++i) {
        upstream[i] = (double)(i * 37 % 33 - 16) / 16.0; /* bf16 holds it */
    }
    for (int loss = 0; loss < 2; ++loss) {
        assert_ok(uf_tensor_upload_as(uf_program_seed(program, 0, loss), UF_F64, upstream,
                                      WIDE_ROWS * WIDE));
    }
    assert_ok(uf_program_run(program));
    static const char *const names[] = {"w.weight_v", "s.weight_orig", "w.weight_g"};
    for (int i = 0; i < 3; ++i) {
        uf_tensor *tensor;
        assert_ok(uf_store_gradient(f.store, names[i], &tensor));
        assert_ok(uf_tensor_download_as(tensor, UF_F64, result + i * WIDE_ROWS * WIDE,
                                        i < 2 ? WIDE_ROWS * WIDE : WIDE_ROWS));
    }
    free(upstream);
    uf_program_destroy(program);
    close_fixture(&f);
}

/* Programs of f32 and bf16 have f32 gradients; any number of threads has the same bits. A row is
 * several units wide. */
static void test_gradients_of_each_type(void **state) {
    (void)state;
    enum { COUNT = 2 * WIDE_ROWS * WIDE + WIDE_ROWS };
    double *want = test_allocate(COUNT * sizeof *want);
    double *have = test_allocate(COUNT * sizeof *have);
    double *again = test_allocate(COUNT * sizeof *again);
    gradients(UF_F64, 1, want);
    gradients(UF_F64, 4, have);
    assert_same_bits("threads", have, want, COUNT * (int64_t)sizeof *have);
    for (int bf16 = 0; bf16 < 2; ++bf16) {
        double *of = bf16 != 0 ? again : have;
        gradients(bf16 != 0 ? UF_BF16 : UF_F32, 1 + bf16, of);
        for (int i = 0; i < COUNT; ++i) {
            near(of[i], want[i], 2e-6 * (1.0 + fabs(want[i])));
        }
    }
    assert_same_bits("bf16", again, have, COUNT * (int64_t)sizeof *have); /* the same upstream */
    free(want);
    free(have);
    free(again);
}

/* In EVAL nothing is iterated, and the weight is made again exactly when the store has changed. */
static void test_kept_in_evaluation(void **state) {
    (void)state;
    fixture f = open_fixture(UF_F64, 2);
    uf_conv2d_options conv = uf_conv2d_options_default();
    conv.weight = UF_WEIGHT_SPECTRAL_NORM;
    conv.bias = false;
    const uf_value x = uf_input(f.graph, "x", UF_SHAPE(1, 2, 3, 3));
    uf_value y = uf_conv2d(f.graph, x, uf_at(f.store, "layer"), 4, &conv);
    uf_output(f.graph, "y", uf_batch_norm2d(f.graph, y, uf_at(f.store, "norm"), NULL));
    assert_ok(uf_init_default(f.graph, f.store));
    assert_ok(uf_init_uniform(f.store, "norm.running_mean", -1.0, 1.0));
    uf_program *program = compile(&f, UF_F64, UF_EVAL);
    double *u = weights_of(f.store, "layer.weight_u");
    double ones[18];
    for (int i = 0; i < 18; ++i) {
        ones[i] = 1.0 + i;
    }
    assert_ok(uf_tensor_upload(uf_program_input(program, "x"), ones));
    int32_t kept = 0;
    for (int32_t s = 0; s < program->step_count; ++s) {
        kept += program->steps[s].kept ? 1 : 0;
    }
    assert_int_equal(kept, 1);
    assert_ok(uf_program_run(program));
    double *before = download(uf_program_output(program, "y"));
    uf_tensor *weight;
    assert_ok(uf_store_tensor(f.store, "layer.weight_orig", &weight));
    double *original = download(weight);
    double other[72];
    for (int i = 0; i < 72; ++i) {
        other[i] = original[i] + (i % 5 == 0 ? 0.25 : 0.0);
    }
    /* By a way that the store does not see, as a kernel of the caller's. */
    assert_ok(f.context->device->upload(f.context, weight->data, other, sizeof other));
    assert_ok(uf_program_run(program));
    double *stale = download(uf_program_output(program, "y"));
    assert_memory_equal(stale, before, 4 * sizeof *stale);
    uf_store_touch(f.store);
    assert_ok(uf_program_run(program));
    double *after = download(uf_program_output(program, "y"));
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_F64;
    options.fuse = false;
    uf_program *plain;
    assert_ok(uf_program_compile(f.graph, &options, &plain));
    assert_ok(uf_tensor_upload(uf_program_input(plain, "x"), ones));
    assert_ok(uf_program_run(plain));
    double *want = download(uf_program_output(plain, "y"));
    for (int i = 0; i < 4; ++i) {
        near(after[i], want[i], 1e-12);
        assert_true(fabs(after[i] - before[i]) > 1e-9);
    }
    double *u_after = weights_of(f.store, "layer.weight_u");
    assert_memory_equal(u, u_after, 4 * sizeof *u);
    free(u);
    free(u_after);
    free(before);
    free(stale);
    free(after);
    free(want);
    free(original);
    uf_program_destroy(program);
    uf_program_destroy(plain);
    close_fixture(&f);
}

/* The option of a layer is the functional form over values that are made by hand. */
static void test_option_is_functional(void **state) {
    (void)state;
    for (int kind = UF_WEIGHT_NORM; kind <= UF_WEIGHT_SPECTRAL_NORM; ++kind) {
        fixture f = open_fixture(UF_F32, 2);
        const uf_scope scope = uf_at(f.store, "layer");
        uf_conv_transpose2d_options options = uf_conv_transpose2d_options_default();
        options.stride[0] = options.stride[1] = 2;
        options.groups = 2;
        options.weight = (uf_weight_kind)kind;
        const uf_value x = uf_input(f.graph, "x", UF_SHAPE(2, 4, 3, 3));
        const uf_value y = uf_conv_transpose2d(f.graph, x, scope, 6, &options);
        const uf_shape shape = UF_SHAPE(4, 3, 3, 3);
        const uf_value weight = kind == UF_WEIGHT_NORM ? uf_weight_norm(f.graph, scope, shape, 0)
                                                       : uf_spectral_norm(f.graph, scope, shape, 1);
        const uf_value bias = uf_parameter(f.graph, scope, "bias", UF_SHAPE(6));
        uf_output(f.graph, "y", y);
        uf_output(f.graph, "z", uf_conv_transpose2d_with(f.graph, x, weight, bias, &options));
        assert_ok(uf_init_default(f.graph, f.store));
        assert_ok(uf_init_uniform(f.store, "layer.bias", 0.5, 1.0));
        uf_program *program = compile(&f, UF_F32, UF_EVAL);
        uf_tensor *input = uf_program_input(program, "x");
        double values[72];
        for (int i = 0; i < 72; ++i) {
            values[i] = cos((double)i);
        }
        assert_ok(uf_tensor_upload_as(input, UF_F64, values, 72));
        assert_ok(uf_program_run(program));
        double *have = download(uf_program_output(program, "y"));
        double *want = download(uf_program_output(program, "z"));
        assert_same_bits("the option", have, want,
                         uf_tensor_count(uf_program_output(program, "y")) * (int64_t)sizeof *have);
        free(have);
        free(want);
        uf_program_destroy(program);
        close_fixture(&f);
    }
}

/* The bias of a layer whose weight is made begins like that of any other. */
static void test_bias_begins_alike(void **state) {
    (void)state;
    double *biases[2];
    for (int kind = 0; kind < 2; ++kind) {
        fixture f = open_fixture(UF_F64, 1);
        uf_conv2d_options options = uf_conv2d_options_default();
        options.weight = kind == 0 ? UF_WEIGHT_PLAIN : UF_WEIGHT_NORM;
        const uf_value x = uf_input(f.graph, "x", UF_SHAPE(1, 4, 3, 3));
        uf_output(f.graph, "y", uf_conv2d(f.graph, x, uf_at(f.store, "layer"), 6, &options));
        assert_ok(uf_init_default(f.graph, f.store));
        biases[kind] = weights_of(f.store, "layer.bias");
        close_fixture(&f);
    }
    assert_memory_equal(biases[0], biases[1], 6 * sizeof *biases[0]);
    assert_true(fabs(biases[0][0]) > 0.0 && fabs(biases[0][0]) <= 1.0 / 6.0);
    free(biases[0]);
    free(biases[1]);
}

/* The recipe of pytorch/examples sets what spectral norm wraps. */
static void test_dcgan_values(void **state) {
    (void)state;
    fixture f = open_fixture(UF_F64, 1);
    uf_output(f.graph, "y",
              uf_spectral_norm(f.graph, uf_at(f.store, "s"), UF_SHAPE(64, 8, 2, 2), 0));
    assert_ok(uf_init_dcgan(f.graph, f.store));
    double *weight = weights_of(f.store, "s.weight_orig");
    near(sqrt(dot(weight, weight, 2048) / 2048.0), 0.02, 0.001);
    free(weight);
    close_fixture(&f);
}

static void refuse(const fixture *f, const char *sentence) {
    assert_true(uf_graph_status(f->graph) != UF_OK);
    assert_string_equal(uf_last_error(), sentence);
}

static void test_errors(void **state) {
    (void)state;
    const uf_shape shape = UF_SHAPE(4, 3, 2, 2);
    fixture f = open_fixture(UF_F32, 1);
    (void)uf_weight_norm(f.graph, uf_at(f.store, "w"), shape, 4);
    refuse(&f, "w: weight_norm: dim is 4; it must be 0 to 3");
    close_fixture(&f);
    f = open_fixture(UF_F32, 1);
    (void)uf_spectral_norm(f.graph, uf_at(f.store, "w"), UF_SHAPE(4), 0);
    refuse(&f, "w: spectral_norm: the weight is (4,); it must have 2 axes or more, of 1 or more");
    close_fixture(&f);
    f = open_fixture(UF_F32, 1);
    (void)uf_parameter(f.graph, uf_at(f.store, "w"), "", shape);
    refuse(&f, "uf_parameter: the name must have 1 to 63 characters");
    close_fixture(&f);
    f = open_fixture(UF_F32, 1);
    uf_conv2d_options options = uf_conv2d_options_default();
    options.weight = (uf_weight_kind)3;
    uf_value x = uf_input(f.graph, "x", UF_SHAPE(1, 4, 8, 8));
    (void)uf_conv2d(f.graph, x, uf_at(f.store, "c"), 4, &options);
    refuse(&f, "c: conv2d: weight is 3, which is no uf_weight_kind");
    close_fixture(&f);
    f = open_fixture(UF_F32, 1);
    options.weight = UF_WEIGHT_NORM;
    options.groups = 3;
    x = uf_input(f.graph, "x", UF_SHAPE(1, 4, 8, 8));
    (void)uf_conv2d(f.graph, x, uf_at(f.store, "c"), 4, &options);
    refuse(&f, "c: conv2d: in_channels 4 and out_channels 4 must both be divisible by groups 3");
    close_fixture(&f);
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_values),
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_gradient_of_each_application),
        cmocka_unit_test(test_gradients_of_each_type),
        cmocka_unit_test(test_kept_in_evaluation),
        cmocka_unit_test(test_option_is_functional),
        cmocka_unit_test(test_bias_begins_alike),
        cmocka_unit_test(test_dcgan_values),
        cmocka_unit_test(test_errors),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests_name("weight_norm", tests, NULL, NULL);
}
