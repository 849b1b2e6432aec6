/* test_random.c - the uniforms are cuRAND's, the normals are the inverse normal distribution
 * function, and both have the same bits for any number of threads. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "kernels/kernels.h"
#include "kernels/random_math.h"
#include "support/compare.h"

#ifdef TEST_CURAND
#include <curand.h>
#endif

/* Host memory of a random fill; on a GPU through a tensor. */
static void *drawn(uf_context *context, uf_dtype dtype, uf_random_kind kind, uint64_t seed,
                   double a, double b, int64_t count) {
    uf_tensor *tensor;
    assert_ok(uf_tensor_create(context, dtype, UF_SHAPE(count), &tensor));
    const uf_shape shape = UF_SHAPE(count);
    const uf_random_kernel_args args = {.kind = kind,
                                        .seed = seed,
                                        .a = a,
                                        .b = b,
                                        .output =
                                            uf_view_of(uf_tensor_data(tensor), dtype, &shape)};
    assert_ok(uf_random_check(&args));
    assert_ok(context->kernels->random_fill(context, &args));
    assert_ok(uf_context_synchronize(context));
    void *host = test_allocate((size_t)count * uf_dtype_size(dtype));
    assert_ok(uf_tensor_download(tensor, host));
    uf_tensor_destroy(tensor);
    return host;
}

/* Drawn by cuRAND 10's host generator. Element 262,144 is where the counter's third word wraps. */
static void test_pinned(void **state) {
    (void)state;
    static const struct {
        uint64_t seed;
        int64_t index;
        float value;
    } pins[] = {
#include "train/random_pins.inc"
    };
    uf_context *context = test_context(2);
    for (int64_t i = 0; i < COUNT_OF(pins); ++i) {
        float *u =
            drawn(context, UF_F32, UF_RANDOM_UNIFORM, pins[i].seed, 0.0, 1.0, pins[i].index + 1);
        if (memcmp(&u[pins[i].index], &pins[i].value, sizeof(float)) != 0) {
            fail_msg("seed %llu, element %lld: %.9g, cuRAND has %.9g",
                     (unsigned long long)pins[i].seed, (long long)pins[i].index,
                     (double)u[pins[i].index], (double)pins[i].value);
        }
        free(u);
    }
    uf_context_destroy(context);
}

#ifdef TEST_CURAND
static void test_curand(void **state) {
    (void)state;
    static const uint64_t seeds[] = {0, 42, UINT64_C(1) << 32, UINT64_C(0x123456789abcdef0),
                                     UINT64_MAX};
    enum { COUNT = 4194304 + 5 };
    uf_context *context = test_context(2);
    float *expected = test_allocate(COUNT * sizeof *expected);
    for (int64_t i = 0; i < COUNT_OF(seeds); ++i) {
        curandGenerator_t generator;
        assert_int_equal(curandCreateGeneratorHost(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10), 0);
        assert_int_equal(curandSetPseudoRandomGeneratorSeed(generator, seeds[i]), 0);
        assert_int_equal(curandGenerateUniform(generator, expected, COUNT), 0);
        assert_int_equal(curandDestroyGenerator(generator), 0);
        float *u = drawn(context, UF_F32, UF_RANDOM_UNIFORM, seeds[i], 0.0, 1.0, COUNT);
        assert_same_bits("uniforms against cuRAND", u, expected, COUNT * (int64_t)sizeof *u);
        free(u);
    }
    free(expected);
    uf_context_destroy(context);
}
#endif

/* The z with Phi(z) = p, from libm's erfc by Newton's method in long double: nothing in common with
 * AS 241. */
static double inverse_normal(float u) {
    const double p = u < 1.0f ? (double)u : 1.0 - ldexp(1.0, -25);
    const bool upper = p > 0.5;
    const long double tail = upper ? 1.0L - (long double)p : (long double)p;
    long double z = 0.0L;
    for (int i = 0; i < 200; ++i) {
        const long double phi = expl(-0.5L * z * z) * 0.398942280401432677939946L;
        const long double step = (0.5L * erfcl(-z / sqrtl(2.0L)) - tail) / phi;
        z -= step;
        if (fabsl(step) <= 1e-18L * fabsl(z)) {
            break;
        }
    }
    return (double)(upper ? -z : z);
}

static void check_normal(float u) {
    const double got = uf_normal_of(u);
    const double expected = inverse_normal(u);
    if (!(fabs(got - expected) <= 1e-12 * fabs(expected))) {
        fail_msg("u = %.9g: %.17g, expected %.17g", (double)u, got, expected);
    }
}

static void test_normal_accuracy(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 20000; ++i) {
        check_normal(uf_uniform_block(7, i).u[0]);
    }
    /* The ends: the smallest uniform, the largest below 1, and 1 itself, which cuRAND can give. */
    check_normal(uf_uniform_of(0));
    for (uint32_t i = 1; i < 3000; ++i) {
        check_normal(uf_uniform_of(i * i));
        check_normal(uf_uniform_of(UINT32_MAX - i * i));
    }
    assert_true(uf_uniform_of(UINT32_MAX) == 1.0f);
    check_normal(1.0f);
    assert_true(isfinite(uf_normal_of(1.0f)));
    assert_true(uf_normal_of(1.0f) > uf_normal_of(1.0f - 0x1p-24f));
    assert_true(uf_normal_of(0.5f) == 0.0);
}

/* The logarithm against libm's over the range that uf_normal_of asks for. */
static void test_log(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 100000; ++i) {
        const double x = 0.075 * (double)uf_uniform_block(9, i).u[1];
        const double expected = log(x);
        assert_true(fabs(uf_random_log(x) - expected) <= 4e-16 * fabs(expected));
    }
}

/* Bits of the normal transform: what a GPU has to give, too. */
static void test_normal_pinned(void **state) {
    (void)state;
    static const struct {
        float u;
        uint64_t bits;
    } pins[] = {
#include "train/normal_pins.inc"
    };
    for (int64_t i = 0; i < COUNT_OF(pins); ++i) {
        const double z = uf_normal_of(pins[i].u);
        uint64_t bits;
        memcpy(&bits, &z, sizeof bits);
        if (bits != pins[i].bits) {
            fail_msg("u = %.9g: bits %016llx, pinned %016llx", (double)pins[i].u,
                     (unsigned long long)bits, (unsigned long long)pins[i].bits);
        }
    }
}

/* Mean and variance within 5 standard errors. */
static void check_moments(const char *label, const double *x, int64_t count, double mean,
                          double variance, double fourth) {
    double sum = 0.0, square = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        sum += x[i];
        square += (x[i] - mean) * (x[i] - mean);
    }
    const double n = (double)count;
    const double mean_error = (sum / n - mean) / sqrt(variance / n);
    const double variance_error =
        (square / n - variance) / sqrt((fourth - variance * variance) / n);
    if (!(fabs(mean_error) < 5.0) || !(fabs(variance_error) < 5.0)) {
        fail_msg("%s: the mean is off by %.2f standard errors, the variance by %.2f", label,
                 mean_error, variance_error);
    }
}

static void test_moments(void **state) {
    (void)state;
    enum { COUNT = 1000000 };
    static const uint64_t seeds[] = {1, 42, UINT64_C(0xfedcba9876543210)};
    uf_context *context = test_context(2);
    for (int64_t i = 0; i < COUNT_OF(seeds); ++i) {
        double *x = drawn(context, UF_F64, UF_RANDOM_UNIFORM, seeds[i], -3.0, 5.0, COUNT);
        check_moments("uniform", x, COUNT, 1.0, 64.0 / 12.0, 4096.0 / 80.0);
        free(x);
        x = drawn(context, UF_F64, UF_RANDOM_NORMAL, seeds[i], 2.0, 0.5, COUNT);
        check_moments("normal", x, COUNT, 2.0, 0.25, 3.0 * 0.0625);
        free(x);
    }
    uf_context_destroy(context);
}

/* f32 is f64 rounded, and no number of threads changes a bit. */
static void test_types_and_threads(void **state) {
    (void)state;
    enum { COUNT = 70001 };
    for (int kind = 0; kind < 2; ++kind) {
        uf_context *one = test_context(1);
        double *wide = drawn(one, UF_F64, (uf_random_kind)kind, 5, -0.25, 0.75, COUNT);
        float *narrow = drawn(one, UF_F32, (uf_random_kind)kind, 5, -0.25, 0.75, COUNT);
        for (int64_t i = 0; i < COUNT; ++i) {
            assert_true(narrow[i] == (float)wide[i]);
        }
        for (int32_t threads = 2; threads <= 3; ++threads) {
            uf_context *context = test_context(threads);
            double *other = drawn(context, UF_F64, (uf_random_kind)kind, 5, -0.25, 0.75, COUNT);
            assert_same_bits("threads", other, wide, COUNT * (int64_t)sizeof *wide);
            free(other);
            uf_context_destroy(context);
        }
        free(wide);
        free(narrow);
        uf_context_destroy(one);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pinned),
#ifdef TEST_CURAND
        cmocka_unit_test(test_curand),
#endif
        cmocka_unit_test(test_normal_accuracy),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_normal_pinned),
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_types_and_threads),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
