/* test_accuracy.c - how far f32 convolutions are from exact sums, and that they are the same bits
 * each time. The first argument says which: sums, repeats (and then few).
 *
 * FP32 promises single-precision accuracy, whichever units compute. The measure is max|result -
 * exact| / sum of |products|; what it may be is twice what the plainest f32 arithmetic has, a chain
 * of fmaf over the same products, whose length goes up to 16384. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/accuracy.h"
#ifdef TEST_POISON_SHARED
#include "cuda/poison.h"
#endif

/* Reductions from 25 to 16384 long, in each regime that has a kernel of its own. */
static const shape shapes[] = {
    {"1x1, 32 channels", 2, 32, 32, 1, 1, 1, 0, 1, 4, 4, 0},
    {"3x3, 64 channels", 2, 64, 64, 1, 3, 1, 1, 1, 16, 16, 0},
    {"3x3, 512 channels", 1, 512, 512, 1, 3, 1, 1, 1, 8, 8, 0},
    {"4x4 stride 2, 64 and 512", 2, 64, 512, 1, 4, 2, 1, 1, 8, 8, 0},
    {"2x2 stride 2, 64 and 1024", 2, 64, 1024, 1, 2, 2, 0, 1, 8, 8, 0},
    {"4x4 stride 2, 3 and 64", 2, 3, 64, 1, 4, 2, 1, 1, 32, 32, 0},
    {"5x5 stride 2, depthwise", 4, 32, 32, 32, 5, 2, 2, 1, 16, 16, 1},
    {"3x3 stride 2 dilated, 8 groups", 2, 64, 64, 8, 3, 2, 2, 2, 16, 16, 0},
    {"4x4, 64 and 1024", 2, 64, 1024, 1, 4, 1, 3, 1, 11, 11, 0},
    {"4x4, 1024 and 64", 2, 1024, 64, 1, 4, 1, 0, 1, 8, 8, 0},
    {"3x3, 16384 pixels", 16, 16, 64, 1, 3, 1, 1, 1, 32, 32, 0},
    {"3x3, 16 and 24, large", 1, 16, 24, 1, 3, 1, 1, 1, 200, 260, 0},
    {"2x2 stride 2, large", 1, 64, 128, 1, 2, 2, 0, 1, 16, 32, 0},
    {"1x1, large", 1, 128, 256, 1, 1, 1, 0, 1, 16, 32, 0},
    {"2x2 stride 2, 64 and 32, large", 1, 64, 32, 1, 2, 2, 0, 1, 16, 32, 0},
    {"1x1, 48 and 64, large", 1, 48, 64, 1, 1, 1, 0, 1, 16, 32, 0},
    {"3x3, 16 and 24, long rows", 2, 16, 24, 1, 3, 1, 1, 1, 9, 96, 0},
    {"3x3 stride 2 dilated, long rows", 2, 32, 8, 1, 3, 2, 2, 2, 9, 64, 0},
    {"4x4 stride 2, 16 and 40, long rows", 1, 16, 40, 1, 4, 2, 1, 1, 7, 130, 0},
};

enum { SAMPLES = 1024 };

/* A chain of a few products is as exact as f32 gets. Two TF32 halves hold a factor to 2^-23 and
 * their three products leave 2^-22: a sum that is little more than one product may be off by 2^-21,
 * and where nobody but the caller who forces it would use a tensor core, by as much again for what
 * its accumulator drops. */
enum { LONG_SUM = 32, FORCED_SUM = 32 };

typedef enum spread {
    UNIFORM = 0,
    NORMAL,
    POSITIVE,
    BY_ELEMENT,
    BY_CHANNEL,
    BY_ROW, /* the second half of the rows is smaller by 2^-40: as it were, another tensor */
    SPECKS, /* zeros, and elements smaller by 2^-45, among others */
    SPREADS
} spread;
static const char *const spread_names[SPREADS] = {
    "uniform", "normal", "positive", "scaled elements", "scaled channels", "scaled rows", "specks"};

static double normal(test_random *random) {
    const double angle = test_random_real(random, 0.0, 2.0 * 3.14159265358979323846);
    return sqrt(-2.0 * log(1.0 - test_random_real(random, 0.0, 1.0))) * cos(angle);
}

/* 2^+-power for each index of an axis. */
static double *axis_scales(test_random *random, int64_t extent, int power) {
    double *scales = test_allocate((size_t)extent * sizeof *scales);
    for (int64_t i = 0; i < extent; ++i) {
        scales[i] = ldexp(1.0, test_random_one_in(random, 2) ? power : -power);
    }
    return scales;
}

static void fill(test_random *random, spread how, tensor which, tensors *all) {
    const int64_t *extent = all->extent[which];
    const int64_t inner = extent[2] * extent[3];
    float *values = all->host[which];
    /* A weight's channels are on two axes. */
    double *outer_scale = axis_scales(random, extent[0], which == W ? 15 : 0);
    double *channel_scale = axis_scales(random, extent[1], which == W ? 15 : 30);
    for (int64_t i = 0; i < all->count[which]; ++i) {
        switch (how) {
        case NORMAL:
            values[i] = (float)normal(random);
            break;
        case POSITIVE:
            values[i] = (float)test_random_real(random, 0.0, 1.0);
            break;
        case BY_ELEMENT:
            values[i] = (float)ldexp(test_random_real(random, -1.0, 1.0),
                                     (int)test_random_integer(random, -20, 20));
            break;
        case BY_CHANNEL:
            values[i] =
                (float)(test_random_real(random, -1.0, 1.0) * channel_scale[i / inner % extent[1]] *
                        outer_scale[i / inner / extent[1]]);
            break;
        case BY_ROW:
            values[i] = (float)ldexp(test_random_real(random, -1.0, 1.0),
                                     which != W && i % inner >= inner / 2 ? -40 : 0);
            break;
        case SPECKS:
            values[i] = test_random_one_in(random, 8)
                            ? 0.0F
                            : (float)ldexp(test_random_real(random, -1.0, 1.0),
                                           test_random_one_in(random, 8) ? -45 : 0);
            break;
        default:
            values[i] = (float)test_random_real(random, -1.0, 1.0);
        }
    }
    free(outer_scale);
    free(channel_scale);
}

/* What some elements of a direction's result are. */
typedef struct samples {
    int64_t count, longest;
    int64_t index[SAMPLES];
    double exact[SAMPLES], sizes[SAMPLES];
    double chain; /* the error of the chain */
} samples;

static samples *take_samples(const tensors *all, direction which) {
    samples *taken = test_allocate(sizeof *taken);
    const int64_t there = all->count[written_by(which)];
    memset(taken, 0, sizeof *taken);
    taken->count = there < SAMPLES ? there : SAMPLES;
    for (int64_t i = 0; i < taken->count; ++i) {
        /* Spread over all, and over the columns too. */
        taken->index[i] =
            there <= SAMPLES ? i : (i * (there / SAMPLES) + i % (there / SAMPLES)) % there;
        const int64_t count = products(all, which, taken->index[i]);
        taken->exact[i] = sum_exact(all, count);
        taken->sizes[i] = sum_sizes(all, count);
        taken->longest = count > taken->longest ? count : taken->longest;
        if (taken->sizes[i] > 0.0) {
            const double error =
                fabs((double)sum_chain(all, count) - taken->exact[i]) / taken->sizes[i];
            taken->chain = error > taken->chain ? error : taken->chain;
        }
    }
    return taken;
}

static double worst_error(const samples *taken, const float *result) {
    double worst = 0.0;
    for (int64_t i = 0; i < taken->count; ++i) {
        const double got = (double)result[taken->index[i]];
        const double difference = fabs(got - taken->exact[i]);
        const double error = taken->sizes[i] > 0.0 ? difference / taken->sizes[i] : difference;
        if (!(error <= worst)) {
            worst = isfinite(got) ? error : HUGE_VAL;
        }
    }
    return worst;
}

/* One direction of one shape with every variant; prints a line, returns how many are not accurate.
 */
static int64_t check_direction(uf_context *context, const tensors *all, direction which, spread how,
                               int64_t *taken, double *most) {
    const char *variants[CONV_VARIANTS];
    const int64_t count = variants_there_are(variants);
    samples *expected = take_samples(all, which);
    float *result = test_allocate((size_t)all->count[written_by(which)] * sizeof *result);
    char line[160 + 48 * CONV_VARIANTS];
    int64_t wrong = 0;
    size_t used = (size_t)snprintf(line, sizeof line, "%s, %-30s %-15s n %5lld: chain %.2e",
                                   direction_names[which], all->of->label, spread_names[how],
                                   (long long)expected->longest, expected->chain);
    for (int64_t v = 0; v < count; ++v) {
        if (!run_direction(context, all, which, UF_MATH_FP32, variants[v], 0xff, result)) {
            continue;
        }
        const double error = worst_error(expected, result);
        const bool asked = variants[v] == NULL || expected->longest >= FORCED_SUM;
        const double floor = expected->longest >= LONG_SUM ? 0.0 : asked ? 0x1p-21 : 0x1p-20;
        const bool good = error <= 2.0 * expected->chain || error <= floor;
        used += (size_t)snprintf(line + used, sizeof line - used, ", %s %.2e%s",
                                 variant_label(variants[v]), error, good ? "" : " (!)");
        wrong += good ? 0 : 1;
        ++taken[v];
        most[v] = asked ? fmax(most[v], error / expected->chain) : most[v];
    }
    print_message("%s\n", line);
    free(result);
    free(expected);
    return wrong;
}

static void test_sums(void **state) {
    const char *variants[CONV_VARIANTS];
    const int64_t count = variants_there_are(variants);
    int64_t taken[CONV_VARIANTS] = {0};
    double most[CONV_VARIANTS] = {0};
    int64_t wrong = 0, runs = 0;
    uf_context *context = test_context(2);
    (void)state;
    for (int64_t row = 0; row < COUNT_OF(shapes); ++row) {
        tensors all = tensors_create(context, &shapes[row]);
        for (int how = 0; how < SPREADS; ++how) {
            test_random random = test_random_for("accuracy", row * SPREADS + how);
            for (int t = 0; t < TENSORS; ++t) {
                fill(&random, (spread)how, (tensor)t, &all);
            }
            tensors_upload(&all);
            for (int d = 0; d < DIRECTIONS; ++d) {
                wrong += check_direction(context, &all, (direction)d, (spread)how, taken, most);
                ++runs;
            }
        }
        tensors_destroy(&all);
    }
    for (int64_t v = 0; v < count; ++v) {
        print_message("%s took %lld of %lld, at most %.2f of the chain's error\n",
                      variant_label(variants[v]), (long long)taken[v], (long long)runs, most[v]);
    }
    assert_int_equal(taken[0], runs);
    assert_true(taken[1] > 0);
    if (wrong > 0) {
        fail_msg(
            "%lld results are further from the exact sums than twice the error of a chain of fmaf: "
            "they are marked (!) above",
            (long long)wrong);
    }
    uf_context_destroy(context);
}

/* What a sanitizer, some hundred times slower, has time for: small shapes, once each. */
static bool few = false;
enum { FEW_PRODUCTS = 10000000 };

static bool is_small(const shape *of) {
    return of->n * of->k * of->p * of->q * (of->c / of->groups) * of->kernel * of->kernel <=
           FEW_PRODUCTS;
}

/* What kernels before may have left in the GPU's shared memory; of no use to one run alone. */
static void leave_in_shared_memory(int byte) {
#ifdef TEST_POISON_SHARED
    assert_true(few || !test_on_gpu() || poison_shared(byte));
#else
    (void)byte;
#endif
}

/* The same bits each time, whatever is in the scratch and was in shared memory. */
static int64_t repeats_of(uf_context *context, const tensors *all, direction which, uf_math math,
                          const char *variant) {
    static const int poisons[] = {0x00, 0xff, 0x55};
    const size_t bytes = (size_t)all->count[written_by(which)] * sizeof(float);
    float *first = test_allocate(bytes), *again = test_allocate(bytes);
    leave_in_shared_memory(poisons[0]);
    const bool takes = run_direction(context, all, which, math, variant, poisons[0], first);
    for (int64_t i = 1; takes && !few && i < COUNT_OF(poisons); ++i) {
        leave_in_shared_memory(poisons[i]);
        assert_true(run_direction(context, all, which, math, variant, poisons[i], again));
        if (memcmp(first, again, bytes) != 0) {
            fail_msg("%s, %s, math %d, variant %s: run %lld has other bits than the first",
                     direction_names[which], all->of->label, (int)math, variant_label(variant),
                     (long long)i + 1);
        }
    }
    free(first);
    free(again);
    return takes ? 1 : 0;
}

static void test_repeats(void **state) {
    static const uf_math maths[] = {UF_MATH_FP32, UF_MATH_TF32, UF_MATH_BF16};
    const char *variants[CONV_VARIANTS];
    const int64_t count = variants_there_are(variants);
    int64_t taken[CONV_VARIANTS] = {0};
    bool wanted[CONV_VARIANTS] = {false};
    int64_t runs = 0, all_taken = 0;
    uf_context *context = test_context(2);
    (void)state;
    for (int64_t row = 0; row < COUNT_OF(shapes); ++row) {
        if ((few && !is_small(&shapes[row])) || !test_row_wanted(row)) {
            continue;
        }
        test_random random = test_random_for("repeats", row);
        tensors all = tensors_create(context, &shapes[row]);
        for (int t = 0; t < TENSORS; ++t) {
            fill(&random, UNIFORM, (tensor)t, &all);
        }
        tensors_upload(&all);
        for (int d = 0; d < DIRECTIONS; ++d) {
            for (int64_t m = 0; m < COUNT_OF(maths); ++m) {
                for (int64_t v = 0; v < count; ++v) {
                    if (test_variant_wanted(variants[v])) {
                        taken[v] += repeats_of(context, &all, (direction)d, maths[m], variants[v]);
                        wanted[v] = true;
                    }
                }
                ++runs;
            }
        }
        tensors_destroy(&all);
    }
    for (int64_t v = 0; v < count; ++v) {
        print_message("%s: %lld of %lld, %s each\n", variant_label(variants[v]),
                      (long long)taken[v], (long long)runs, few ? "once" : "three times");
        all_taken += taken[v];
    }
    assert_true(test_rows_shared() || all_taken > 0);
    assert_true(!wanted[0] || taken[0] == runs);
    uf_context_destroy(context);
}

int main(int argc, char **argv) {
    const int skipped = test_device_or_skip();
    if (skipped != 0) {
        return skipped;
    }
    const struct CMUnitTest sums[] = {cmocka_unit_test(test_sums)};
    const struct CMUnitTest repeats[] = {cmocka_unit_test(test_repeats)};
    if (argc == 2 && strcmp(argv[1], "sums") == 0) {
        return cmocka_run_group_tests(sums, NULL, NULL);
    }
    few = argc == 3 && strcmp(argv[2], "few") == 0;
    if ((argc == 2 || few) && strcmp(argv[1], "repeats") == 0) {
        return cmocka_run_group_tests(repeats, NULL, NULL);
    }
    fprintf(stderr, "usage: test_accuracy sums|repeats [few]\n");
    return 2;
}
