/* test_init.c - initialisers: bounds, moments, streams by name, PyTorch's defaults and DCGAN's
 * recipe. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <unfurl/init.h>
#include <unfurl/layers.h>

#include "support/compare.h"

static uf_context *seeded_context(uint64_t seed, int32_t threads) {
    uf_context *context;
    uf_context_options options = uf_context_options_default();
    uf_context *plain = test_context(threads); /* for the device that the test runs on */
    options.device = uf_context_device(plain);
    options.threads = threads;
    options.seed = seed;
    uf_context_destroy(plain);
    assert_ok(uf_context_create(&options, &context));
    return context;
}

static uf_store *one_tensor(uf_context *context, uf_dtype dtype, const char *name, uf_shape shape) {
    uf_store_options options = uf_store_options_default();
    options.dtype = dtype;
    uf_store *store;
    assert_ok(uf_store_create_with(context, "store", &options, &store));
    assert_ok(uf_store_declare(store, name, shape, UF_ROLE_PARAMETER));
    return store;
}

/* The tensor's elements as doubles; the caller frees them. */
static double *values_of(uf_store *store, const char *name, int64_t *count) {
    uf_tensor *tensor;
    assert_ok(uf_store_tensor(store, name, &tensor));
    *count = uf_tensor_count(tensor);
    double *values = test_allocate((size_t)*count * sizeof *values);
    assert_ok(uf_tensor_download_as(tensor, UF_F64, values, *count));
    return values;
}

/* Mean 0 and this standard deviation, within 5 standard errors; `kurtosis` is 9/5 or 3. `bound`
 * (infinity for none) holds, and is nearly reached. */
static void check_distribution(const char *label, const double *x, int64_t count, double mean,
                               double std, double kurtosis, double bound) {
    const double n = (double)count;
    double sum = 0.0, square = 0.0, most = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        const double d = x[i] - mean;
        sum += d;
        square += d * d;
        most = fabs(d) > most ? fabs(d) : most;
    }
    const double variance = std * std;
    const double mean_error = sum / n / (std / sqrt(n));
    const double variance_error = (square / n - variance) / (variance * sqrt((kurtosis - 1.0) / n));
    const bool within =
        isinf(bound) || (most <= bound * (1.0 + 1e-7) && most > bound * (1.0 - 50.0 / n));
    if (!(fabs(mean_error) < 5.0) || !(fabs(variance_error) < 5.0) || !within) {
        fail_msg(
            "%s: the mean is off by %.2f standard errors, the variance by %.2f, the largest is "
            "%.9g of %.9g",
            label, mean_error, variance_error, most, bound);
    }
}

/* Every mode, on 1,000,000 elements: fan_in is 50*20*10, fan_out 100*20*10. */
static void test_kaiming(void **state) {
    (void)state;
    static const double gains[] = {1.0, 1.4142135623730951, 1.3867504905630728, 5.0 / 3.0, 0.75};
    static const uint64_t seeds[] = {0, 42};
    static const int64_t extent[4] = {100, 50, 20, 10};
    for (int64_t s = 0; s < COUNT_OF(seeds); ++s) {
        uf_context *context = seeded_context(seeds[s], 2);
        uf_store *store = one_tensor(context, UF_F32, "w", uf_shape_from(extent, 4));
        for (int fan = 0; fan < 2; ++fan) {
            for (int kind = 0; kind < COUNT_OF(gains); ++kind) {
                uf_kaiming_options options = uf_kaiming_options_default();
                options.a = 0.2;
                options.fan = (uf_fan)fan;
                options.nonlinearity = (uf_nonlinearity)kind;
                assert_true(fabs(uf_gain((uf_nonlinearity)kind, 0.2) - gains[kind]) < 1e-15);
                const double std = gains[kind] / sqrt(fan == 0 ? 10000.0 : 20000.0);
                int64_t count;
                assert_ok(uf_init_kaiming_uniform(store, "w", &options));
                double *x = values_of(store, "w", &count);
                check_distribution("kaiming_uniform", x, count, 0.0, std, 9.0 / 5.0,
                                   std * sqrt(3.0));
                free(x);
                assert_ok(uf_init_kaiming_normal(store, "w", &options));
                x = values_of(store, "w", &count);
                check_distribution("kaiming_normal", x, count, 0.0, std, 3.0, (double)INFINITY);
                free(x);
            }
        }
        uf_store_destroy(store);
        uf_context_destroy(context);
    }
}

/* fan_in 10000 and fan_out 20000, as above. */
static void test_xavier(void **state) {
    (void)state;
    static const int64_t extent[4] = {100, 50, 20, 10};
    uf_context *context = seeded_context(7, 2);
    uf_store *store = one_tensor(context, UF_F32, "w", uf_shape_from(extent, 4));
    const double std = 1.5 * sqrt(2.0 / 30000.0);
    int64_t count;
    assert_ok(uf_init_xavier_uniform(store, "w", 1.5));
    double *x = values_of(store, "w", &count);
    check_distribution("xavier_uniform", x, count, 0.0, std, 9.0 / 5.0, std * sqrt(3.0));
    free(x);
    assert_ok(uf_init_xavier_normal(store, "w", 1.5));
    x = values_of(store, "w", &count);
    check_distribution("xavier_normal", x, count, 0.0, std, 3.0, (double)INFINITY);
    free(x);
    uf_store_destroy(store);
    uf_context_destroy(context);
}

/* Element (r, c) of a matrix whose longer side comes first: its own or its transpose's. */
static double *element(double *x, int64_t columns, bool is_wide, int64_t r, int64_t c) {
    return is_wide ? &x[c * columns + r] : &x[r * columns + c];
}

/* Q of A = Q*R with a positive diagonal in R, in place, by Gram and Schmidt, twice for accuracy:
 * the decomposition is unique, so that reflections have to find the same. */
static void gram_schmidt(double *x, int64_t rows, int64_t columns) {
    const bool is_wide = rows < columns;
    const int64_t m = is_wide ? columns : rows, n = is_wide ? rows : columns;
    for (int64_t j = 0; j < n; ++j) {
        for (int64_t earlier = 0; earlier < 2 * j; ++earlier) {
            double product = 0.0;
            for (int64_t i = 0; i < m; ++i) {
                product += *element(x, columns, is_wide, i, earlier % j) *
                           *element(x, columns, is_wide, i, j);
            }
            for (int64_t i = 0; i < m; ++i) {
                *element(x, columns, is_wide, i, j) -=
                    product * *element(x, columns, is_wide, i, earlier % j);
            }
        }
        double square = 0.0;
        for (int64_t i = 0; i < m; ++i) {
            square += pow(*element(x, columns, is_wide, i, j), 2.0);
        }
        for (int64_t i = 0; i < m; ++i) {
            *element(x, columns, is_wide, i, j) /= sqrt(square);
        }
    }
}

static void test_orthogonal(void **state) {
    (void)state;
    static const int64_t extents[][4] = {{7, 3, 1, 1},  {3, 7, 1, 1},   {16, 16, 1, 1},
                                         {12, 5, 4, 3}, {90, 11, 2, 2}, {1, 9, 1, 1},
                                         {9, 1, 1, 1},  {1, 1, 1, 1}};
    uf_context *context = seeded_context(11, 2);
    for (int64_t i = 0; i < COUNT_OF(extents); ++i) {
        const uf_shape shape = uf_shape_from(extents[i], 4);
        uf_store *store = one_tensor(context, UF_F64, "w", shape);
        uf_store *narrow = one_tensor(context, UF_F32, "w", shape);
        const int64_t rows = extents[i][0];
        int64_t count;
        assert_ok(uf_init_normal(store, "w", 0.0, 1.0));
        double *expected = values_of(store, "w", &count);
        gram_schmidt(expected, rows, count / rows);
        for (int64_t e = 0; e < count; ++e) {
            expected[e] *= 1.25;
        }
        const uint64_t version = uf_store_version(store);
        assert_ok(uf_init_orthogonal(store, "w", 1.25));
        assert_true(uf_store_version(store) > version);
        double *got = values_of(store, "w", &count);
        assert_close("orthogonal", compare_values(got, expected, count, 1.0), 1e-11);
        assert_ok(uf_init_orthogonal(narrow, "w", 1.25));
        double *rounded = values_of(narrow, "w", &count);
        for (int64_t e = 0; e < count; ++e) {
            assert_true(rounded[e] == (double)(float)got[e]);
        }
        free(rounded);
        free(got);
        free(expected);
        uf_store_destroy(narrow);
        uf_store_destroy(store);
    }
    uf_context_destroy(context);
}

/* Known kernels, and what they are for: a transposed convolution of stride 2 that enlarges a ramp.
 */
static void test_bilinear(void **state) {
    (void)state;
    static const double taps[4][7] = {
        {1.0}, {0.5, 1.0, 0.5}, {0.25, 0.75, 0.75, 0.25}, {0.25, 0.5, 0.75, 1.0, 0.75, 0.5, 0.25}};
    static const int64_t sizes[4] = {1, 3, 4, 7};
    static const int64_t channels[][2] = {{3, 3}, {6, 1}, {6, 2}}; /* dense, per channel, groups */
    uf_context *context = seeded_context(0, 1);
    for (int64_t i = 0; i < 3 * 4 * 4; ++i) {
        const int64_t out = channels[i % 3][1];
        const int64_t h = i / 3 % 4, w = i / 12;
        const int64_t extent[4] = {channels[i % 3][0], out, sizes[h], sizes[w]};
        uf_store *store = one_tensor(context, UF_F32, "w", uf_shape_from(extent, 4));
        int64_t count;
        assert_ok(uf_init_bilinear(store, "w"));
        double *x = values_of(store, "w", &count);
        for (int64_t e = 0; e < count; ++e) {
            const int64_t pair = e / (sizes[h] * sizes[w]);
            const double tap = taps[h][e / sizes[w] % sizes[h]] * taps[w][e % sizes[w]];
            assert_true(x[e] == (pair / out % out == pair % out ? tap : 0.0));
        }
        free(x);
        uf_store_destroy(store);
    }
    uf_graph *graph;
    uf_store *store;
    uf_program *program;
    assert_ok(uf_store_create(context, "net", &store));
    assert_ok(uf_graph_create(context, &graph));
    uf_conv_transpose2d_options up = uf_conv_transpose2d_options_default();
    up.kernel[0] = up.kernel[1] = 4;
    up.stride[0] = up.stride[1] = 2;
    up.padding[0] = up.padding[1] = 1;
    up.bias = false;
    uf_value x = uf_input(graph, "x", UF_SHAPE(1, 2, 5, 6));
    uf_output(graph, "y", uf_conv_transpose2d(graph, x, uf_at(store, "up"), 2, &up));
    assert_ok(uf_init_bilinear(store, "up.weight"));
    assert_ok(uf_program_compile(graph, NULL, &program));
    double image[2 * 5 * 6], enlarged[2 * 10 * 12];
    for (int i = 0; i < 2 * 5 * 6; ++i) {
        image[i] = 100.0 * (i / 30) + 4.0 * (i / 6 % 5) - 2.0 * (i % 6);
    }
    assert_ok(uf_tensor_upload_as(uf_program_input(program, "x"), UF_F64, image, 60));
    assert_ok(uf_program_run(program));
    assert_ok(uf_tensor_download_as(uf_program_output(program, "y"), UF_F64, enlarged, 240));
    for (int i = 0; i < 240; ++i) {
        const int row = i / 12 % 10, column = i % 12;
        if (row > 0 && row < 9 && column > 0 && column < 11) { /* within the padding of zeros */
            const double expected =
                100.0 * (i / 120) + 4.0 * (0.5 * row - 0.25) - 2.0 * (0.5 * column - 0.25);
            assert_true(fabs(enlarged[i] - expected) < 1e-4);
        }
    }
    uf_context_destroy(context);
}

static void test_icnr(void **state) {
    (void)state;
    enum { CHANNELS = 40, ROW = 50 * 3 * 3, FACTOR = 3, COPIES = FACTOR * FACTOR };
    uf_context *context = seeded_context(5, 2);
    uf_store *store = one_tensor(context, UF_F64, "w", UF_SHAPE(CHANNELS * COPIES, 50, 3, 3));
    for (int fan = 0; fan < 2; ++fan) {
        uf_kaiming_options options = uf_kaiming_options_default();
        options.nonlinearity = UF_NONLINEARITY_RELU;
        options.fan = (uf_fan)fan;
        int64_t count;
        assert_ok(uf_init_icnr(store, "w", FACTOR, &options));
        double *x = values_of(store, "w", &count);
        static double first[CHANNELS * ROW];
        for (int64_t e = 0; e < count; ++e) {
            const int64_t channel = e / ROW / COPIES;
            assert_true(x[e] == x[channel * COPIES * ROW + e % ROW]);
            first[channel * ROW + e % ROW] = x[e];
        }
        /* fan_out is that of the weight before it is repeated. */
        check_distribution("icnr", first, CHANNELS * ROW, 0.0,
                           sqrt(2.0 / (fan == 0 ? 50.0 * 9.0 : 40.0 * 9.0)), 3.0, (double)INFINITY);
        free(x);
    }
    uf_store_destroy(store);
    uf_context_destroy(context);
}

/* A tensor's numbers depend on seed and name only. */
static void test_streams(void **state) {
    (void)state;
    enum { COUNT = 1000 };
    uf_context *context = seeded_context(42, 1);
    uf_context *again = seeded_context(42, 3);
    uf_context *other = seeded_context(43, 1);
    uf_store *stores[] = {
        one_tensor(context, UF_F64, "a.weight", UF_SHAPE(COUNT)),
        one_tensor(again, UF_F64, "a.weight", UF_SHAPE(COUNT)),
        one_tensor(other, UF_F64, "a.weight", UF_SHAPE(COUNT)),
        one_tensor(context, UF_F32, "a.weight", UF_SHAPE(COUNT)),
        one_tensor(context, UF_F64, "b.weight", UF_SHAPE(COUNT)),
    };
    double *x[COUNT_OF(stores)];
    int64_t count;
    for (int i = 0; i < COUNT_OF(stores); ++i) {
        const char *name = i == 4 ? "b.weight" : "a.weight";
        assert_ok(uf_init_normal(stores[i], name, 0.0, 1.0));
        assert_ok(uf_init_normal(stores[i], name, 0.0, 1.0)); /* the same again, not the next */
        x[i] = values_of(stores[i], name, &count);
        assert_int_equal(count, COUNT);
    }
    assert_same_bits("the same seed and name", x[1], x[0], COUNT * 8);
    double with_seed = 0.0, with_name = 0.0;
    for (int64_t i = 0; i < COUNT; ++i) {
        assert_true(x[3][i] == (double)(float)x[0][i]);
        with_seed += x[0][i] * x[2][i];
        with_name += x[0][i] * x[4][i];
    }
    /* Correlations of independent streams: within 5 standard errors of 0. */
    assert_true(fabs(with_seed) < 5.0 * sqrt(COUNT) && fabs(with_name) < 5.0 * sqrt(COUNT));
    for (int i = 0; i < COUNT_OF(stores); ++i) {
        free(x[i]);
        uf_store_destroy(stores[i]);
    }
    uf_context_destroy(context);
    uf_context_destroy(again);
    uf_context_destroy(other);
}

/* convT 100 -> 40 with bias, batch norm, conv 40 -> 60 in 2 groups, optionally one more layer in
 * front. */
static uf_store *network(uf_context *context, uf_graph **graph, bool extra) {
    uf_store *store;
    assert_ok(uf_store_create(context, "net", &store));
    assert_ok(uf_graph_create(context, graph));
    uf_value x = uf_input(*graph, "x", UF_SHAPE(2, 100, 8, 8));
    if (extra) {
        uf_conv2d_options options = uf_conv2d_options_default();
        options.padding[0] = options.padding[1] = 1;
        x = uf_conv2d(*graph, x, uf_at(store, "extra"), 100, &options);
    }
    uf_conv_transpose2d_options up = uf_conv_transpose2d_options_default();
    up.kernel[0] = 4;
    up.kernel[1] = 5;
    x = uf_conv_transpose2d(*graph, x, uf_at(store, "up"), 40, &up);
    x = uf_batch_norm2d(*graph, x, uf_at(store, "norm"), NULL);
    uf_conv2d_options down = uf_conv2d_options_default();
    down.groups = 2;
    x = uf_conv2d(*graph, x, uf_at(store, "down"), 60, &down);
    uf_output(*graph, "y", x);
    assert_ok(uf_graph_status(*graph));
    return store;
}

static void check_constant(uf_store *store, const char *name, double value) {
    int64_t count;
    double *x = values_of(store, name, &count);
    for (int64_t i = 0; i < count; ++i) {
        assert_true(x[i] == value);
    }
    free(x);
}

static void check_uniform(uf_store *store, const char *name, double fan_in) {
    int64_t count;
    double *x = values_of(store, name, &count);
    const double bound = 1.0 / sqrt(fan_in);
    check_distribution(name, x, count, 0.0, bound / sqrt(3.0), 9.0 / 5.0, bound);
    free(x);
}

static void check_normal(uf_store *store, const char *name, double mean) {
    int64_t count;
    double *x = values_of(store, name, &count);
    check_distribution(name, x, count, mean, 0.02, 3.0, (double)INFINITY);
    free(x);
}

static void spoil(uf_store *store) {
    for (int64_t i = 0; i < uf_store_size(store); ++i) {
        uf_store_entry entry;
        assert_ok(uf_store_entry_at(store, i, &entry));
        assert_ok(uf_init_constant(store, entry.name, -7.25));
        check_constant(store, entry.name, entry.role == UF_ROLE_COUNTER ? -7.0 : -7.25);
    }
}

static void test_default_and_dcgan(void **state) {
    (void)state;
    uf_context *context = seeded_context(3, 2);
    uf_graph *graph;
    uf_store *store = network(context, &graph, false);
    spoil(store);
    for (int dcgan = 0; dcgan < 2; ++dcgan) {
        const uint64_t version = uf_store_version(store);
        assert_ok(dcgan ? uf_init_dcgan(graph, store) : uf_init_default(graph, store));
        assert_true(uf_store_version(store) > version);
        /* a = sqrt(5): bound = sqrt(2/6) * sqrt(3/fan_in) = 1/sqrt(fan_in), the bias's bound,
         * too. */
        if (dcgan) {
            check_normal(store, "up.weight", 0.0);
            check_normal(store, "down.weight", 0.0);
            check_normal(store, "norm.weight", 1.0);
        } else {
            check_uniform(store, "up.weight", 40 * 4 * 5);
            check_uniform(store, "down.weight", 20 * 3 * 3);
            check_constant(store, "norm.weight", 1.0);
        }
        check_uniform(store, "up.bias", 40 * 4 * 5);
        check_uniform(store, "down.bias", 20 * 3 * 3);
        check_constant(store, "norm.bias", 0.0);
        check_constant(store, "norm.running_mean", 0.0);
        check_constant(store, "norm.running_var", 1.0);
        check_constant(store, "norm.num_batches_tracked", 0.0);
    }
    uf_graph_destroy(graph);
    uf_store_destroy(store);
    uf_context_destroy(context);
}

static void test_added_layer(void **state) {
    (void)state;
    static const char *const names[] = {"up.weight", "up.bias", "down.weight", "down.bias"};
    uf_context *context = seeded_context(3, 1);
    uf_graph *graphs[2];
    uf_store *stores[2];
    for (int extra = 0; extra < 2; ++extra) {
        stores[extra] = network(context, &graphs[extra], extra == 1);
        assert_ok(uf_init_default(graphs[extra], stores[extra]));
    }
    for (int64_t i = 0; i < COUNT_OF(names); ++i) {
        int64_t count[2];
        double *x = values_of(stores[0], names[i], &count[0]);
        double *y = values_of(stores[1], names[i], &count[1]);
        assert_int_equal(count[0], count[1]);
        assert_same_bits(names[i], x, y, count[0] * 8);
        free(x);
        free(y);
    }
    for (int i = 0; i < 2; ++i) {
        uf_graph_destroy(graphs[i]);
        uf_store_destroy(stores[i]);
    }
    uf_context_destroy(context);
}

static void test_refusals(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_store *store = one_tensor(context, UF_F32, "bias", UF_SHAPE(4));
    assert_ok(uf_store_declare(store, "n", UF_SCALAR, UF_ROLE_COUNTER));
    assert_error(uf_init_kaiming_uniform(store, "bias", NULL), UF_ERROR_SHAPE, "bias", "(4,)",
                 "rank 2");
    assert_error(uf_init_normal(store, "weight", 0.0, 1.0), UF_ERROR_NOT_FOUND, "weight", "store");
    assert_error(uf_init_normal(store, "bias", 0.0, -1.0), UF_ERROR_INVALID_ARGUMENT, "std", "-1");
    assert_error(uf_init_uniform(store, "bias", 1.0, 0.0), UF_ERROR_INVALID_ARGUMENT, "low");
    assert_error(uf_init_normal(store, "n", 0.0, 1.0), UF_ERROR_INVALID_ARGUMENT, "counter");
    assert_error(uf_init_default(NULL, store), UF_ERROR_INVALID_ARGUMENT, "graph");
    assert_error(uf_init_xavier_uniform(store, "bias", 1.0), UF_ERROR_SHAPE, "bias", "rank 2");
    assert_error(uf_init_xavier_normal(store, "bias", -1.0), UF_ERROR_INVALID_ARGUMENT, "gain");
    assert_error(uf_init_orthogonal(store, "bias", 1.0), UF_ERROR_SHAPE, "bias", "rank 2");
    assert_error(uf_init_orthogonal(store, "n", 1.0), UF_ERROR_INVALID_ARGUMENT, "counter");
    assert_error(uf_init_bilinear(store, "bias"), UF_ERROR_SHAPE, "bias", "rank 3");
    assert_error(uf_init_icnr(store, "bias", 2, NULL), UF_ERROR_SHAPE, "bias", "rank 2");
    uf_store_destroy(store);
    store = one_tensor(context, UF_F32, "w", UF_SHAPE(6, 4, 3, 3));
    assert_error(uf_init_bilinear(store, "w"), UF_ERROR_SHAPE, "(6, 4, 3, 3)", "multiple");
    assert_error(uf_init_icnr(store, "w", 2, NULL), UF_ERROR_SHAPE, "(6, 4, 3, 3)", "4");
    assert_error(uf_init_icnr(store, "w", 0, NULL), UF_ERROR_INVALID_ARGUMENT, "0");
    uf_store_destroy(store);
    uf_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kaiming),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_default_and_dcgan),
        cmocka_unit_test(test_added_layer),
        cmocka_unit_test(test_xavier),
        cmocka_unit_test(test_orthogonal),
        cmocka_unit_test(test_bilinear),
        cmocka_unit_test(test_icnr),
        cmocka_unit_test(test_refusals),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests_name("init", tests, NULL, NULL);
}
