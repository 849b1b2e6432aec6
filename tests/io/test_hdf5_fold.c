/* Loading a plain weight from what weight norm and spectral norm save in its place, and these
 * tensors as they are. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/fixture.h"
#include "support/random.h"

typedef struct bench {
    uf_context *context;
    uf_store *store;
    fixture_log log;
} bench;

static void bench_open(bench *made, uf_dtype dtype) {
    uf_store_options options = uf_store_options_default();
    memset(made, 0, sizeof *made);
    options.dtype = dtype;
    made->context = fixture_context(&made->log);
    assert_ok(uf_store_create_with(made->context, "generator", &options, &made->store));
}

static void bench_close(bench *made) {
    uf_store_destroy(made->store);
    uf_context_destroy(made->context);
}

static void put(hid_t file, const char *name, int rank, const hsize_t *dims, const double *data) {
    fixture_dataset(file, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, rank, dims, data);
}

static void assert_values(uf_store *store, const char *name, const double *want, int64_t count,
                          double tolerance) {
    double *have = test_allocate((size_t)count * sizeof *have);
    fixture_values(store, name, have, count);
    for (int64_t i = 0; i < count; ++i) {
        if (!(fabs(have[i] - want[i]) <= tolerance * (1.0 + fabs(want[i])))) {
            fail_msg("%s[%lld] is %.17g, expected %.17g", name, (long long)i, have[i], want[i]);
        }
    }
    free(have);
}

enum { A = 4, B = 3, K = 6, COUNT = A * B * K };
static const hsize_t extents[] = {A, B, 2, 3};

static void fill(double *values, int64_t count, const char *name) {
    test_random random = test_random_for(name, 0);
    test_random_fill(&random, values, count, 1.0);
}

/* v, g and the weight that they stand for; the norms are those of axis `dim`. */
static void make_weight_norm(int dim, double *v, double *g, double *weight) {
    fill(v, COUNT, "v");
    fill(g, A, "g");
    for (int i = 0; i < COUNT; ++i) {
        const int r = dim == 0 ? i / (B * K) : i / K % B;
        double sum = 0.0;
        for (int k = 0; k < COUNT; ++k) {
            const int other = dim == 0 ? k / (B * K) : k / K % B;
            sum += other == r ? v[k] * v[k] : 0.0;
        }
        weight[i] = v[i] * g[r] / sqrt(sum);
    }
}

static void weight_norm_is_folded(void **state) {
    (void)state;
    static const char *const names[][2] = {
        {"main.0.weight_v", "main.0.weight_g"},
        {"module.main.0.weight_v", "module.main.0.weight_g"},
        {"main/0/parametrizations/weight/original1", "main/0/parametrizations/weight/original0"},
    };
    const hsize_t narrow[2][4] = {{A, 1, 1, 1}, {1, B, 1, 1}};
    const hsize_t biases[] = {A};
    double v[COUNT], g[A], weight[COUNT];
    for (size_t i = 0; i < 6; ++i) {
        const int dim = (int)(i % 2);
        const char *path = fixture_path("weight_norm.h5");
        make_weight_norm(dim, v, g, weight);
        const hid_t file = fixture_create(path);
        put(file, names[i / 2][0], 4, extents, v);
        put(file, names[i / 2][1], 4, narrow[dim], g);
        put(file, "main.0.bias", 1, biases, g);
        H5Fclose(file);
        bench b;
        bench_open(&b, i % 2 == 0 ? UF_F64 : UF_F32);
        fixture_declare(b.store, "main.0.weight", UF_SHAPE(A, B, 2, 3), UF_ROLE_PARAMETER);
        fixture_declare(b.store, "main.0.bias", UF_SHAPE(A), UF_ROLE_PARAMETER);
        uf_hdf5_load_options options = uf_hdf5_load_options_default();
        uf_hdf5_load_report report = uf_hdf5_load_report_default();
        options.report = &report;
        assert_ok(uf_store_load_hdf5(b.store, path, &options));
        assert_values(b.store, "main.0.weight", weight, COUNT, i % 2 == 0 ? 1e-15 : 1e-7);
        assert_values(b.store, "main.0.bias", g, A, i % 2 == 0 ? 0.0 : 1e-7);
        assert_int_equal(report.loaded, 2);
        assert_int_equal(report.missing, 0);
        assert_int_equal(report.unexpected, 0);
        bench_close(&b);
        /* As they are, where that is asked for. */
        bench_open(&b, UF_F64);
        fixture_declare(b.store, "main.0.weight", UF_SHAPE(A, B, 2, 3), UF_ROLE_PARAMETER);
        options.keep_norms = true;
        const uf_status status = uf_store_load_hdf5(b.store, path, &options);
        assert_int_equal(status, UF_ERROR_SHAPE);
        assert_non_null(strstr(uf_last_error(), "was made by torch.nn.utils."));
        bench_close(&b);
    }
}

static void one_norm_for_all(void **state) {
    (void)state;
    const char *path = fixture_path("scalar.h5");
    double v[COUNT], weight[COUNT], square = 0.0;
    const double g = 2.5;
    fill(v, COUNT, "v");
    for (int i = 0; i < COUNT; ++i) {
        square += v[i] * v[i];
    }
    for (int i = 0; i < COUNT; ++i) {
        weight[i] = v[i] * g / sqrt(square);
    }
    const hid_t file = fixture_create(path);
    put(file, "weight_v", 4, extents, v);
    put(file, "weight_g", 0, NULL, &g);
    H5Fclose(file);
    bench b;
    bench_open(&b, UF_F64);
    fixture_declare(b.store, "weight", UF_SHAPE(A, B, 2, 3), UF_ROLE_PARAMETER);
    assert_ok(uf_store_load_hdf5(b.store, path, NULL));
    assert_values(b.store, "weight", weight, COUNT, 1e-15);
    bench_close(&b);
}

/* A network's own part may be called as a wrapper is. */
static void names_like_wrappers(void **state) {
    (void)state;
    const char *path = fixture_path("wrapped.h5");
    const hsize_t narrow[] = {A, 1, 1, 1};
    double v[COUNT], g[A], weight[COUNT];
    make_weight_norm(0, v, g, weight);
    const hid_t file = fixture_create(path);
    put(file, "module.module.0.weight_v", 4, extents, v);
    put(file, "module.module.0.weight_g", 4, narrow, g);
    H5Fclose(file);
    bench b;
    bench_open(&b, UF_F64);
    fixture_declare(b.store, "module.0.weight", UF_SHAPE(A, B, 2, 3), UF_ROLE_PARAMETER);
    assert_ok(uf_store_load_hdf5(b.store, path, NULL));
    assert_values(b.store, "module.0.weight", weight, COUNT, 1e-15);
    bench_close(&b);
}

/* W of (rows, columns) from an element's place. */
static int row_of(int i, int dim, int b) {
    return dim == 0 ? i / (b * K) : i / K % b;
}

static int column_of(int i, int dim, int b) {
    return dim == 0 ? i % (b * K) : i / (b * K) * K + i % K;
}

/* u and v after so many power iterations, and sigma. */
static double iterate(const double *weight, int a, int b, int dim, int times, double *u,
                      double *v) {
    const int rows = dim == 0 ? a : b, columns = a * b * K / rows;
    double sums[64];
    fill(u, rows, "u");
    fill(v, columns, "start");
    for (int t = 0; t < 2 * times; ++t) {
        double *to = t % 2 == 0 ? v : u;
        const int count = t % 2 == 0 ? columns : rows;
        double square = 0.0;
        memset(sums, 0, sizeof sums);
        for (int i = 0; i < a * b * K; ++i) {
            const int r = row_of(i, dim, b), c = column_of(i, dim, b);
            sums[t % 2 == 0 ? c : r] += weight[i] * (t % 2 == 0 ? u[r] : v[c]);
        }
        for (int i = 0; i < count; ++i) {
            square += sums[i] * sums[i];
        }
        for (int i = 0; i < count; ++i) {
            to[i] = sums[i] / sqrt(square);
        }
    }
    double sigma = 0.0;
    for (int i = 0; i < a * b * K; ++i) {
        sigma += u[row_of(i, dim, b)] * weight[i] * v[column_of(i, dim, b)];
    }
    return sigma;
}

/* Square weights fit both axes: u and v tell. */
static void spectral_norm_is_folded(void **state) {
    (void)state;
    static const char *const names[][3] = {
        {"0.weight_orig", "0.weight_u", "0.weight_v"},
        {"0/parametrizations/weight/original", "0/parametrizations/weight/0/_u",
         "0/parametrizations/weight/0/_v"},
    };
    for (int i = 0; i < 8; ++i) {
        const int dim = i % 2, b = i / 2 % 2 == 0 ? B : A;
        const hsize_t shape[] = {A, (hsize_t)b, 2, 3};
        const hsize_t rows = (hsize_t)(dim == 0 ? A : b);
        const hsize_t columns = (hsize_t)(A * b * K) / rows;
        double original[A * A * K], u[A], v[64], weight[A * A * K];
        fill(original, A * b * K, "original");
        const double sigma = iterate(original, A, b, dim, 3, u, v);
        for (int k = 0; k < A * b * K; ++k) {
            weight[k] = original[k] / sigma;
        }
        const char *path = fixture_path("spectral_norm.h5");
        const hid_t file = fixture_create(path);
        put(file, names[i / 4][0], 4, shape, original);
        put(file, names[i / 4][1], 1, &rows, u);
        put(file, names[i / 4][2], 1, &columns, v);
        H5Fclose(file);
        bench one;
        bench_open(&one, UF_F64);
        fixture_declare(one.store, "0.weight", UF_SHAPE(A, b, 2, 3), UF_ROLE_PARAMETER);
        assert_ok(uf_store_load_hdf5(one.store, path, NULL));
        assert_values(one.store, "0.weight", weight, A * b * K, 1e-14);
        bench_close(&one);
        /* A store that has the parts takes them as they are, by either name. */
        bench_open(&one, UF_F64);
        fixture_declare(one.store, "0.weight_orig", UF_SHAPE(A, b, 2, 3), UF_ROLE_PARAMETER);
        fixture_declare(one.store, "0.weight_u", UF_SHAPE((int64_t)rows), UF_ROLE_BUFFER);
        fixture_declare(one.store, "0.weight_v", UF_SHAPE((int64_t)columns), UF_ROLE_BUFFER);
        assert_ok(uf_store_load_hdf5(one.store, path, NULL));
        assert_values(one.store, "0.weight_orig", original, A * b * K, 0.0);
        assert_values(one.store, "0.weight_u", u, (int64_t)rows, 0.0);
        bench_close(&one);
    }
}

static void refuse(const char *path, int64_t a, int64_t b, const char *sentence) {
    bench one;
    const double before[] = {1.0};
    bench_open(&one, UF_F64);
    fixture_declare(one.store, "0.weight", UF_SHAPE(a, b, 2, 3), UF_ROLE_PARAMETER);
    fixture_declare(one.store, "0.bias", UF_SHAPE(1), UF_ROLE_PARAMETER);
    uf_tensor *bias;
    assert_ok(uf_store_tensor(one.store, "0.bias", &bias));
    assert_ok(uf_tensor_upload(bias, before));
    const uf_status status = uf_store_load_hdf5(one.store, path, NULL);
    assert_int_equal(status, UF_ERROR_FORMAT);
    assert_string_equal(uf_last_error(), sentence);
    assert_values(one.store, "0.bias", before, 1, 0.0); /* nothing was loaded */
    bench_close(&one);
}

static void what_does_not_fit(void **state) {
    (void)state;
    const hsize_t square[] = {A, A, 2, 3}, four[] = {A}, many[] = {A * K}, one[] = {1},
                  narrow[] = {2, 1, 1, 1};
    double values[A * A * K], u[A] = {1.0}, v[A * K] = {0.0};
    const double bias = 7.0;
    fill(values, A * A * K, "original");
    const char *path = fixture_path("unfit.h5");
    hid_t file = fixture_create(path);
    put(file, "0.weight_orig", 4, square, values);
    put(file, "0.weight_u", 1, four, u);
    put(file, "0.weight_v", 1, many, v); /* W v is 0 along either axis */
    put(file, "0.bias", 1, one, &bias);
    H5Fclose(file);
    refuse(
        path, A, A,
        "0.weight: spectral norm of a weight of shape (4, 4, 2, 3) may be along axis 0 or 1, and "
        "u and v do not tell: remove it before the export");
    file = fixture_create(path);
    put(file, "0.weight_orig", 4, square, values);
    put(file, "0.weight_u", 1, four, u);
    put(file, "0.weight_v", 1, four, v);
    put(file, "0.bias", 1, one, &bias);
    H5Fclose(file);
    refuse(
        path, A, A,
        "0.weight: spectral norm has a weight of shape (4, 4, 2, 3), u of 4 and v of 4 elements");
    file = fixture_create(path);
    put(file, "0.weight_v", 4, square, values);
    put(file, "0.weight_g", 4, narrow, values);
    put(file, "0.bias", 1, one, &bias);
    H5Fclose(file);
    refuse(path, A, A,
           "0.weight: weight norm has v of shape (4, 4, 2, 3) and g of shape (2, 1, 1, 1)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weight_norm_is_folded), cmocka_unit_test(one_norm_for_all),
        cmocka_unit_test(names_like_wrappers),   cmocka_unit_test(spectral_norm_is_folded),
        cmocka_unit_test(what_does_not_fit),
    };
    return cmocka_run_group_tests_name("io.hdf5_fold", tests, fixture_setup, fixture_teardown);
}
