/* special_fillings.c - see special_fillings.h. */
#include "ops/special_fillings.h"

#include <float.h>
#include <math.h>

static double either_sign(test_random *random, double low, double high) {
    const double size = test_random_real(random, low, high);
    return test_random_one_in(random, 2) ? size : -size;
}

void spread(test_random *random, float *values, int64_t count, double low, double high) {
    for (int64_t i = 0; i < count; ++i) {
        values[i] = (float)either_sign(random, low, high);
    }
}

/* `value` in a few places, with either sign. */
static void plant(test_random *random, float *values, int64_t count, float value) {
    for (int64_t i = 0; i < 1 + count / 2048; ++i) {
        values[test_random_integer(random, 0, count - 1)] =
            test_random_one_in(random, 2) ? value : -value;
    }
}

static void some_zeros(test_random *random, float *values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        values[i] = test_random_one_in(random, 4) ? 0.0F : values[i];
    }
}

static void large_first(test_random *random, float *a, int64_t a_count, float *b, int64_t b_count) {
    spread(random, a, a_count, 0.0, 1.0);
    spread(random, b, b_count, 0.0, 0.45);
    plant(random, a, a_count, 3.2e38F);
}

static void large_second(test_random *random, float *a, int64_t a_count, float *b,
                         int64_t b_count) {
    large_first(random, b, b_count, a, a_count);
}

/* Rounded to TF32 or bfloat16 this is infinite. */
static void largest_first(test_random *random, float *a, int64_t a_count, float *b,
                          int64_t b_count) {
    spread(random, a, a_count, 0.0, 1e-3);
    for (int64_t i = 0; i < b_count; ++i) {
        b[i] = (float)ldexp(test_random_one_in(random, 2) ? 1.0 : -1.0,
                            -(int)test_random_integer(random, 0, 3));
    }
    plant(random, a, a_count, FLT_MAX);
}

static void largest_second(test_random *random, float *a, int64_t a_count, float *b,
                           int64_t b_count) {
    largest_first(random, b, b_count, a, a_count);
}

/* All near the end, sums as well: some overflow, some do not. */
static void sums_near_the_end(test_random *random, float *a, int64_t a_count, float *b,
                              int64_t b_count) {
    for (int64_t i = 0; i < a_count; ++i) {
        a[i] = (float)test_random_real(random, 1e37, 2e37);
    }
    for (int64_t i = 0; i < b_count; ++i) {
        b[i] = (float)test_random_real(random, 0.05, 0.1);
    }
}

static void overflowing(test_random *random, float *a, int64_t a_count, float *b, int64_t b_count) {
    sums_near_the_end(random, a, a_count, b, b_count);
    plant(random, a, a_count, 1e30F);
    plant(random, b, b_count, 3e38F);
}

/* The products are ordinary. A factor in two TF32 halves is held to no less than 2^-136, where f32
 * goes on to 2^-149: so each product may be off by that times the other factor, which is far less
 * than flushing denormals does. */
static void huge_and_tiny(test_random *random, float *a, int64_t a_count, float *b,
                          int64_t b_count) {
    spread(random, a, a_count, 0.5e38, 1e38);
    spread(random, b, b_count, 2e-38, 4e-38);
}

static void tiny_and_huge(test_random *random, float *a, int64_t a_count, float *b,
                          int64_t b_count) {
    huge_and_tiny(random, b, b_count, a, a_count);
}

void infinite_first(test_random *random, float *a, int64_t a_count, float *b, int64_t b_count) {
    spread(random, a, a_count, 0.0, 1.0);
    spread(random, b, b_count, 0.0, 1.0);
    some_zeros(random, b, b_count);
    plant(random, a, a_count, INFINITY);
}

static void infinite_second(test_random *random, float *a, int64_t a_count, float *b,
                            int64_t b_count) {
    infinite_first(random, b, b_count, a, a_count);
}

void nan_first(test_random *random, float *a, int64_t a_count, float *b, int64_t b_count) {
    spread(random, a, a_count, 0.0, 1.0);
    spread(random, b, b_count, 0.0, 1.0);
    some_zeros(random, b, b_count);
    plant(random, a, a_count, NAN);
}

static void nan_second(test_random *random, float *a, int64_t a_count, float *b, int64_t b_count) {
    nan_first(random, b, b_count, a, a_count);
}

static void both_infinite(test_random *random, float *a, int64_t a_count, float *b,
                          int64_t b_count) {
    infinite_first(random, a, a_count, b, b_count);
    plant(random, b, b_count, INFINITY);
}

static void denormal_first(test_random *random, float *a, int64_t a_count, float *b,
                           int64_t b_count) {
    spread(random, a, a_count, 0.0, 1e-38);
    spread(random, b, b_count, 0.0, 1.0);
}

static void denormal_second(test_random *random, float *a, int64_t a_count, float *b,
                            int64_t b_count) {
    denormal_first(random, b, b_count, a, a_count);
}

static void denormal_results(test_random *random, float *a, int64_t a_count, float *b,
                             int64_t b_count) {
    spread(random, a, a_count, 0.5e-20, 1e-20);
    spread(random, b, b_count, 0.5e-20, 1e-20);
}

const special_filling special_fillings[SPECIAL_FILLINGS] = {
    {"3.2e38 among small ones, first", large_first, 0.0, false},
    {"3.2e38 among small ones, second", large_second, 0.0, false},
    {"FLT_MAX, first", largest_first, 0.0, false},
    {"FLT_MAX, second", largest_second, 0.0, false},
    {"sums near FLT_MAX", sums_near_the_end, 0.0, false},
    {"overflowing products", overflowing, 0.0, false},
    {"1e38 times 2e-38", huge_and_tiny, 0x1p-136 * 1e38, false},
    {"2e-38 times 1e38", tiny_and_huge, 0x1p-136 * 1e38, false},
    {"infinities, first", infinite_first, 0.0, false},
    {"infinities, second", infinite_second, 0.0, true},
    {"infinities, both", both_infinite, 0.0, true},
    {"NaN, first", nan_first, 0.0, false},
    {"NaN, second", nan_second, 0.0, true},
    {"denormals, first", denormal_first, FLT_MIN, false},
    {"denormals, second", denormal_second, FLT_MIN, false},
    {"denormal results", denormal_results, FLT_MIN, false},
};
