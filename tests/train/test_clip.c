/* test_clip.c - the kernels of gradient clipping against loops in double. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "support/compare.h"
#include "support/random.h"

/* Gradients in device memory, `skipped` elements behind an aligned address. */
typedef struct gradients {
    uf_context *context;
    uf_dtype dtype;
    int64_t count, skipped;
    char *memory;
    double *partials;
} gradients;

static size_t size_of(const gradients *g) {
    return (size_t)(g->count + g->skipped) * uf_dtype_size(g->dtype);
}

static void put(gradients *g, const double *values) {
    char *bytes = test_allocate(size_of(g));
    memset(bytes, 0xff, size_of(g)); /* NaN before the first */
    uf_convert(bytes + (size_t)g->skipped * uf_dtype_size(g->dtype), g->dtype, values, UF_F64,
               g->count);
    assert_ok(g->context->device->upload(g->context, g->memory, bytes, size_of(g)));
    free(bytes);
}

static void get(const gradients *g, double *values) {
    char *bytes = test_allocate(size_of(g));
    assert_ok(g->context->device->download(g->context, bytes, g->memory, size_of(g)));
    uf_convert(values, UF_F64, bytes + (size_t)g->skipped * uf_dtype_size(g->dtype), g->dtype,
               g->count);
    free(bytes);
}

static gradients open_gradients(uf_context *context, uf_dtype dtype, int64_t count,
                                int64_t skipped) {
    gradients g = {.context = context, .dtype = dtype, .count = count, .skipped = skipped};
    void *memory = NULL;
    void *partials = NULL;
    assert_ok(uf_context_allocate(context, size_of(&g), UF_MEMORY_DEVICE, &memory));
    assert_ok(uf_context_allocate(context, UF_CLIP_PARTIALS * sizeof(double), UF_MEMORY_DEVICE,
                                  &partials));
    g.memory = memory;
    g.partials = partials;
    return g;
}

static void close_gradients(gradients *g) {
    uf_context_release(g->context, g->memory, size_of(g), UF_MEMORY_DEVICE);
    uf_context_release(g->context, g->partials, UF_CLIP_PARTIALS * sizeof(double),
                       UF_MEMORY_DEVICE);
}

/* In two spans, cut at `cut`. */
static void clip(gradients *g, int64_t cut, double norm, double value) {
    const int64_t begins[3] = {0, cut, g->count};
    uf_clip_kernel_args args = {
        .dtype = g->dtype, .partials = g->partials, .norm = norm, .value = value};
    double poison[UF_CLIP_PARTIALS];
    for (int i = 0; i < UF_CLIP_PARTIALS; ++i) {
        poison[i] = (double)NAN;
    }
    assert_ok(g->context->device->upload(g->context, g->partials, poison, sizeof poison));
    for (int pass = 0; pass < 2; ++pass) {
        for (int i = 0; i < 2; ++i) {
            args.count = begins[i + 1] - begins[i];
            args.gradient = g->memory + (size_t)(g->skipped + begins[i]) * uf_dtype_size(g->dtype);
            if (args.count == 0 || (pass == 0 && norm == 0.0)) {
                continue;
            }
            assert_ok(uf_clip_check(&args, pass == 0));
            assert_ok(pass == 0 ? g->context->kernels->gradient_squares(g->context, &args)
                                : g->context->kernels->gradient_clip(g->context, &args));
            args.mode = UF_ACCUMULATE;
        }
    }
}

static double cut_to(double g, double value) {
    return value == 0.0 ? g : g > value ? value : g < -value ? -value : g;
}

static const int64_t counts[] = {1, 7, 1024, 5003, 524365};

static void test_limits(void **state) {
    (void)state;
    uf_context *context = test_context(2);
    for (int c = 0; c < 2 * COUNT_OF(counts); ++c) {
        const int64_t count = counts[c / 2];
        const uf_dtype dtype = c % 2 == 0 ? UF_F64 : UF_F32;
        double *x = test_allocate((size_t)count * sizeof *x);
        double *y = test_allocate((size_t)count * sizeof *y);
        double *got = test_allocate((size_t)count * sizeof *got);
        gradients g = open_gradients(context, dtype, count, c / 2 % 2); /* aligned or not */
        test_random random = test_random_for("clip", c);
        test_random_fill(&random, x, count, 1.0);
        put(&g, x);
        get(&g, x); /* as stored */
        double squares = 0.0;
        for (int64_t i = 0; i < count; ++i) {
            squares += x[i] * x[i];
        }
        /* Below the norm, above it, no norm; each with and without a limit of the elements. */
        for (int kind = 0; kind < 6; ++kind) {
            const double norm = kind / 2 == 0   ? 0.3 * sqrt(squares)
                                : kind / 2 == 1 ? 1.25 * sqrt(squares)
                                                : 0.0;
            const double value = kind % 2 == 0 ? 0.0 : 0.125;
            put(&g, x);
            clip(&g, count / 3, norm, value);
            get(&g, got);
            const double factor = kind / 2 == 0 ? norm / (sqrt(squares) + 1e-6) : 1.0;
            for (int64_t i = 0; i < count; ++i) {
                y[i] = cut_to(x[i] * factor, value);
            }
            if (kind >= 2 && kind % 2 == 0) {
                assert_same_bits("untouched", got, x, count * (int64_t)sizeof *got);
            }
            assert_close("clip", compare_values(got, y, count, 0.0),
                         dtype == UF_F64 ? 1e-13 : 1e-6);
        }
        close_gradients(&g);
        free(got);
        free(y);
        free(x);
    }
    uf_context_destroy(context);
}

/* As torch's clip_grad_norm_: a NaN makes all NaN, an infinity makes itself NaN and the rest 0.
 * Limits of the elements keep a NaN and cut an infinity. */
static void test_not_finite(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    gradients g = open_gradients(context, UF_F32, 5, 0);
    double x[5] = {1.0, -2.0, (double)NAN, 4.0, 0.0}, got[5];
    put(&g, x);
    clip(&g, 2, 1.0, 0.0);
    get(&g, got);
    for (int i = 0; i < 5; ++i) {
        assert_true(isnan(got[i]));
    }
    put(&g, x);
    clip(&g, 2, 0.0, 1.5);
    get(&g, got);
    assert_true(got[0] == 1.0 && got[1] == -1.5 && isnan(got[2]) && got[3] == 1.5);
    x[2] = (double)-INFINITY;
    put(&g, x);
    clip(&g, 2, 1.0, 0.0);
    get(&g, got);
    assert_true(got[0] == 0.0 && got[1] == 0.0 && isnan(got[2]) && got[3] == 0.0);
    put(&g, x);
    clip(&g, 2, 0.0, 1.5);
    get(&g, got);
    assert_true(got[2] == -1.5);
    close_gradients(&g);
    uf_context_destroy(context);
}

/* Squares that f32 does not hold: 1e30 and 1e-30. */
static void test_range(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    gradients g = open_gradients(context, UF_F32, 4, 0);
    double got[4];
    put(&g, (const double[]){3e30, -4e30, 0.0, 0.0});
    clip(&g, 0, 10.0, 0.0);
    get(&g, got);
    assert_true(fabs(got[0] - 6.0) < 1e-5 && fabs(got[1] + 8.0) < 1e-5);
    put(&g, (const double[]){3e-30, -4e-30, 0.0, 0.0});
    clip(&g, 0, 1e-30, 0.0); /* 1e-6 is much more than the norm, as torch has it */
    get(&g, got);
    assert_true(got[0] >= 0.0 && got[0] < 1e-30);
    close_gradients(&g);
    uf_context_destroy(context);
}

static void test_threads(void **state) {
    (void)state;
    enum { COUNT = 524365 };
    double *x = test_allocate(COUNT * sizeof *x);
    double *results[3];
    for (int32_t threads = 1; threads <= 3; ++threads) {
        uf_context *context = test_context(threads);
        gradients g = open_gradients(context, UF_F32, COUNT, 0);
        test_random random = test_random_for("clip", 99);
        test_random_fill(&random, x, COUNT, 1.0);
        put(&g, x);
        clip(&g, 70001, 1.0, 0.0);
        results[threads - 1] = test_allocate(COUNT * sizeof *x);
        get(&g, results[threads - 1]);
        close_gradients(&g);
        uf_context_destroy(context);
    }
    assert_true(results[0][COUNT - 1] != x[COUNT - 1]);
    assert_same_bits("2 threads", results[1], results[0], COUNT * (int64_t)sizeof *x);
    assert_same_bits("3 threads", results[2], results[0], COUNT * (int64_t)sizeof *x);
    for (int i = 0; i < 3; ++i) {
        free(results[i]);
    }
    free(x);
}

static void test_refusals(void **state) {
    (void)state;
    double memory[4] = {0};
    uf_clip_kernel_args args = {
        .dtype = UF_F64, .count = 4, .gradient = memory, .partials = memory, .norm = 1.0};
    assert_ok(uf_clip_check(&args, true));
    args.partials = NULL;
    assert_error(uf_clip_check(&args, false), UF_ERROR_INVALID_ARGUMENT, "partials");
    args.norm = 0.0;
    args.value = 1.0;
    assert_ok(uf_clip_check(&args, false));
    args.value = -1.0;
    assert_error(uf_clip_check(&args, false), UF_ERROR_INVALID_ARGUMENT, "value -1");
    args.value = 1.0;
    args.dtype = UF_BF16;
    assert_error(uf_clip_check(&args, false), UF_ERROR_UNSUPPORTED, "bf16");
    args.dtype = UF_F64;
    args.count = 0;
    assert_error(uf_clip_check(&args, false), UF_ERROR_INVALID_ARGUMENT, "count is 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),   cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_range),    cmocka_unit_test(test_threads),
        cmocka_unit_test(test_refusals),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests_name("clip", tests, NULL, NULL);
}
