/* test_rounding.c - TF32 and BF16 round the factors of products to nearest. A kernel that hands f32
 * to the tensor cores as it is truncates, which loses a bit and, worse, all on one side.
 *
 * One operand has values between two neighbours of the rounded format, the other powers of two, and
 * most of both are zeros. So every sum of rounded products is exact in f32, in any order, and the
 * result must be that one: or that of the unrounded products, from a kernel that computes as in
 * FP32. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/accuracy.h"

static const shape shapes[] = {
    {"1x1, 32 channels", 2, 32, 32, 1, 1, 1, 0, 1, 9, 9, 0},
    {"3x3, 20 and 24 channels", 2, 20, 24, 1, 3, 1, 1, 1, 9, 7, 0},
    {"3x3, 64 channels", 2, 64, 64, 1, 3, 1, 1, 1, 9, 8, 0},
    {"4x4 stride 2, 64 and 128", 2, 64, 128, 1, 4, 2, 1, 1, 8, 8, 0},
    {"2x2 stride 2, 64 channels", 2, 64, 64, 1, 2, 2, 0, 1, 8, 8, 0},
    {"2x2 stride 2, 64 and 256", 1, 64, 256, 1, 2, 2, 0, 1, 9, 16, 0},
    {"4x4 stride 2, 3 and 64", 2, 3, 64, 1, 4, 2, 1, 1, 9, 9, 0},
    {"3x3, depthwise", 2, 8, 8, 8, 3, 1, 1, 1, 9, 9, 0},
    {"4x4 of 1x1 pixels", 8, 32, 64, 1, 4, 1, 0, 1, 1, 1, 0},
    {"3x3, 64 and 512", 1, 64, 512, 1, 3, 1, 1, 1, 8, 8, 0},
    {"3x3, 16 and 24, large", 1, 16, 24, 1, 3, 1, 1, 1, 200, 260, 0},
    {"2x2 stride 2, large", 1, 56, 120, 1, 2, 2, 0, 1, 20, 24, 0},
    {"1x1, 64 and 512", 1, 64, 512, 1, 1, 1, 0, 1, 9, 8, 0},
    {"3x3, 16 and 24, long rows", 2, 16, 24, 1, 3, 1, 1, 1, 9, 96, 0},
    {"4x4 stride 2, 3 and 64, aligned rows", 2, 3, 64, 1, 4, 2, 1, 1, 9, 16, 0},
};

enum { SAMPLES = 2048, NONZERO = 24 /* products of a sum, about */ };

/* Where a value lies between its two neighbours. */
typedef enum place { ABOVE_HALF = 0, BELOW_HALF, ANYWHERE, TIE, PLACES } place;
static const char *const place_names[PLACES] = {"just above half", "just below half", "anywhere",
                                                "ties"};

typedef enum rounding { NEAREST = 0, TOWARDS_ZERO, AWAY_FROM_ZERO } rounding;

static int dropped_bits(uf_math math) {
    return math == UF_MATH_TF32 ? 13 : 16;
}

/* NEAREST takes ties to even. */
static float rounded(float value, uf_math math, rounding how) {
    const uint32_t unit = UINT32_C(1) << dropped_bits(math);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t rest = bits & (unit - 1);
    bits -= rest;
    if (how == AWAY_FROM_ZERO
            ? rest > 0
            : how == NEAREST && (rest > unit / 2 || (rest == unit / 2 && (bits & unit) != 0))) {
        bits += unit;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* 1.xxx: a value that the format has and a part of the distance to the next. `share` of them are
 * not zero. */
static void between(test_random *random, uf_math math, place where, int64_t share, float *values,
                    int64_t count) {
    const int64_t unit = INT64_C(1) << dropped_bits(math);
    for (int64_t i = 0; i < count; ++i) {
        const int64_t whole = test_random_integer(random, 0, (INT64_C(1) << 23) / unit - 1) * unit;
        const int64_t near = test_random_integer(random, 1, unit / 16);
        const int64_t rest = where == ABOVE_HALF   ? unit / 2 + near
                             : where == BELOW_HALF ? unit / 2 - near
                             : where == TIE        ? unit / 2
                                                   : test_random_integer(random, 0, unit - 1);
        /* A tie "anywhere" would have two answers in TF32. */
        const int64_t mantissa = whole + (where == ANYWHERE && rest == unit / 2 ? 0 : rest);
        const double sign = where == ANYWHERE && test_random_one_in(random, 2) ? -1.0 : 1.0;
        values[i] = test_random_one_in(random, share)
                        ? (float)(sign * (1.0 + ldexp((double)mantissa, -23)))
                        : 0.0F;
    }
}

static void powers_of_two(test_random *random, float *values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        values[i] = (float)ldexp(1.0, (int)test_random_integer(random, -1, 1));
    }
}

typedef struct sample {
    int64_t index;
    double nearest, plain, lowest, highest; /* sums of rounded and of unrounded products */
} sample;

static double rounded_sum(const tensors *all, int64_t count, uf_math math, rounding how) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        sum += (double)rounded(all->a[i], math, how) * (double)rounded(all->b[i], math, how);
    }
    return sum;
}

/* Sums that f32 does not hold in any order would not prove anything. */
static bool is_exact(const tensors *all, int64_t count, uf_math math, rounding how) {
    const double unit = ldexp(1.0, dropped_bits(math) - 23 - 1);
    double sizes = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        sizes +=
            fabs((double)rounded(all->a[i], math, how) * (double)rounded(all->b[i], math, how));
    }
    return sizes < ldexp(unit, 22);
}

static sample *take_samples(const tensors *all, direction which, uf_math math, place where,
                            int64_t *count) {
    const int64_t there = all->count[written_by(which)];
    const int64_t step = (there + SAMPLES - 1) / SAMPLES;
    sample *taken = test_allocate(SAMPLES * sizeof *taken);
    int64_t told_apart = 0;
    *count = 0;
    for (int64_t i = 0; i * step < there; ++i) {
        const int64_t index = i * step + i % step < there ? i * step + i % step : i * step;
        const int64_t terms = products(all, which, index);
        if (!is_exact(all, terms, math, AWAY_FROM_ZERO)) {
            continue;
        }
        sample *one = &taken[(*count)++];
        one->index = index;
        one->plain = sum_exact(all, terms);
        one->nearest = rounded_sum(all, terms, math, NEAREST);
        one->lowest = rounded_sum(all, terms, math, TOWARDS_ZERO);
        one->highest = rounded_sum(all, terms, math, AWAY_FROM_ZERO);
        /* What a kernel that truncates would give must be neither answer. */
        const double margin = 0x1p-16 * one->plain;
        told_apart +=
            one->lowest != one->nearest && fabs(one->lowest - one->plain) > margin ? 1 : 0;
        if (where == ABOVE_HALF && one->plain > 0.0) {
            assert_true(one->lowest < one->plain - margin && one->plain + margin < one->nearest);
        }
    }
    assert_true(*count > 0);
    assert_true(where != ABOVE_HALF || 2 * told_apart > *count);
    return taken;
}

typedef enum verdict { ROUNDS, COMPUTES_IN_F32, TRUNCATES, WRONG } verdict;

static verdict judge(const sample *expected, int64_t count, uf_math math, place where,
                     const float *result) {
    bool nearest = true, plain = true, truncated = true;
    for (int64_t i = 0; i < count; ++i) {
        const double got = (double)result[expected[i].index];
        /* In TF32 a tie may go either way (cvt.rna: away from zero); in BF16 it goes to even. */
        nearest = nearest && (where == TIE && math == UF_MATH_TF32
                                  ? expected[i].lowest <= got && got <= expected[i].highest
                                  : got == expected[i].nearest);
        plain =
            plain && fabs(got - expected[i].plain) <= 0x1p-16 * fabs(expected[i].highest) + 0x1p-16;
        truncated = truncated && got == expected[i].lowest;
    }
    /* The unrounded sum lies between a tie's two answers: so it is asked first. */
    return plain && where == TIE ? COMPUTES_IN_F32
           : nearest             ? ROUNDS
           : plain               ? COMPUTES_IN_F32
           : truncated           ? TRUNCATES
                                 : WRONG;
}

/* The judge must see what a kernel that truncates would give. */
static void judge_truncation(const sample *expected, int64_t count, uf_math math, place where,
                             float *result) {
    for (int64_t i = 0; i < count; ++i) {
        result[expected[i].index] = (float)expected[i].lowest;
    }
    if (where == ABOVE_HALF || where == ANYWHERE) {
        assert_int_equal(judge(expected, count, math, where, result), TRUNCATES);
    }
}

typedef struct tally {
    int64_t taken[CONV_VARIANTS], rounds[CONV_VARIANTS], wrong;
} tally;

static void check(uf_context *context, tensors *all, direction which, uf_math math, place where,
                  bool swapped, tally *sums) {
    const char *variants[CONV_VARIANTS];
    const int64_t variant_count = variants_there_are(variants);
    test_random random = test_random_for(
        all->of->label, (((int64_t)which * 3 + math) * PLACES + where) * 2 + swapped);
    tensor first, second;
    int64_t count;
    read_by(which, &first, &second);
    if (swapped) {
        const tensor other = first;
        first = second;
        second = other;
    }
    const shape *of = all->of;
    const int64_t longest = which == WGRAD   ? of->n * of->p * of->q
                            : which == FPROP ? of->c / of->groups * of->kernel * of->kernel
                                             : of->k / of->groups * of->kernel * of->kernel;
    memset(all->host[written_by(which)], 0, (size_t)all->count[written_by(which)] * sizeof(float));
    between(&random, math, where, longest / NONZERO > 1 ? longest / NONZERO : 1, all->host[first],
            all->count[first]);
    powers_of_two(&random, all->host[second], all->count[second]);
    tensors_upload(all);
    sample *expected = take_samples(all, which, math, where, &count);
    float *result = test_allocate((size_t)all->count[written_by(which)] * sizeof *result);
    judge_truncation(expected, count, math, where, result);
    for (int64_t v = 0; v < variant_count; ++v) {
        if (!run_direction(context, all, which, math, variants[v], 0xff, result)) {
            continue;
        }
        const verdict found = judge(expected, count, math, where, result);
        ++sums->taken[v];
        sums->rounds[v] += found == ROUNDS ? 1 : 0;
        if (found == TRUNCATES || found == WRONG) {
            ++sums->wrong;
            print_message("WRONG %s, %s, %s, %s %s, %s operand: %s\n", variant_label(variants[v]),
                          direction_names[which], of->label, math == UF_MATH_TF32 ? "TF32" : "BF16",
                          place_names[where], swapped ? "second" : "first",
                          found == TRUNCATES ? "it truncates"
                                             : "neither rounded to nearest nor computed in f32");
        }
    }
    free(result);
    free(expected);
}

static void test_math(uf_math math) {
    const char *variants[CONV_VARIANTS];
    const int64_t variant_count = variants_there_are(variants);
    tally sums = {{0}, {0}, 0};
    uf_context *context = test_context(2);
    for (int64_t row = 0; row < COUNT_OF(shapes); ++row) {
        tensors all = tensors_create(context, &shapes[row]);
        for (int task = 0; task < DIRECTIONS * PLACES * 2; ++task) {
            check(context, &all, (direction)(task / (2 * PLACES)), math, (place)(task / 2 % PLACES),
                  task % 2 == 1, &sums);
        }
        tensors_destroy(&all);
    }
    for (int64_t v = 0; v < variant_count; ++v) {
        print_message(
            "%s took %lld of %lld; %lld of them were rounded, the others computed in f32\n",
            variant_label(variants[v]), (long long)sums.taken[v],
            (long long)(COUNT_OF(shapes) * DIRECTIONS * PLACES * 2), (long long)sums.rounds[v]);
    }
    assert_true(sums.taken[1] > 0);
    assert_int_equal(sums.wrong, 0);
    uf_context_destroy(context);
}

static void test_tf32(void **state) {
    (void)state;
    test_math(UF_MATH_TF32);
}

static void test_bf16(void **state) {
    (void)state;
    test_math(UF_MATH_BF16);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tf32), cmocka_unit_test(test_bf16)};
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
