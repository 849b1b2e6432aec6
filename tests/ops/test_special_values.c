/* test_special_values.c - f32 convolutions of what f32 ends with: values near the largest float,
 * infinities, NaN and denormals. FP32 must do what a chain of fmaf does, element by element; an
 * element without such an input must not notice those that have one.
 *
 * What depends on the order of a sum (an overflow on the way to a small result) is not asked. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/accuracy.h"
#include "ops/special_fillings.h"

/* Ragged channel counts and padding: what fills up a tile is zeros, and zero times infinity is not
 * nothing. */
static const shape shapes[] = {
    {"3x3, 20 and 24 channels", 2, 20, 24, 1, 3, 1, 1, 1, 9, 7, 0},
    {"3x3, 64 channels", 2, 64, 64, 1, 3, 1, 1, 1, 9, 8, 0},
    {"4x4 stride 2, 24 and 40", 2, 24, 40, 1, 4, 2, 1, 1, 7, 6, 1},
    {"2x2 stride 2, 64 channels", 2, 64, 64, 1, 2, 2, 0, 1, 8, 8, 0},
    {"4x4 stride 2, 3 and 64", 2, 3, 64, 1, 4, 2, 1, 1, 9, 9, 0},
    {"3x3, depthwise", 2, 8, 8, 8, 3, 1, 1, 1, 9, 9, 0},
    {"5x5, depthwise, aligned rows", 2, 8, 8, 8, 5, 1, 2, 1, 13, 24, 0},
    {"3x3 stride 2, depthwise, aligned rows", 2, 8, 8, 8, 3, 2, 1, 1, 7, 16, 1},
    {"4x4 stride 2, 4 groups of 2 and 3", 2, 8, 12, 4, 4, 2, 1, 1, 9, 8, 0},
    {"4x4 of 1x1 pixels", 8, 32, 64, 1, 4, 1, 0, 1, 1, 1, 0},
    {"3x3, 32 and 1024", 1, 32, 1024, 1, 3, 1, 1, 1, 4, 4, 0},
    {"3x3, 16 and 24, large", 1, 16, 24, 1, 3, 1, 1, 1, 200, 260, 0},
    {"2x2 stride 2, large", 1, 56, 120, 1, 2, 2, 0, 1, 20, 24, 0},
    {"3x3, 16 and 24, long rows", 2, 16, 24, 1, 3, 1, 1, 1, 9, 96, 0},
    {"3x3 stride 2 dilated, long rows", 2, 32, 8, 1, 3, 2, 2, 2, 9, 64, 0},
    {"4x4 stride 2, 16 and 40, long rows", 1, 16, 40, 1, 4, 2, 1, 1, 7, 130, 0},
    {"4x4 stride 2, 3 and 64, aligned rows", 2, 3, 64, 1, 4, 2, 1, 1, 9, 16, 0},
    {"3x3 stride 2, 4 and 40, aligned rows", 2, 4, 40, 1, 3, 2, 1, 1, 7, 24, 1},
};

enum { SAMPLES = 4096, LONGEST_SUM = 16384 /* that is asked about */ };

typedef enum outcome { FINITE = 0, PLUS_INFINITY, MINUS_INFINITY, NOT_A_NUMBER, ANY } outcome;
static const char *const outcome_names[] = {"finite", "+inf", "-inf", "NaN", "any"};

static outcome outcome_of(float value) {
    return isnan(value)    ? NOT_A_NUMBER
           : !isinf(value) ? FINITE
           : value > 0.0F  ? PLUS_INFINITY
                           : MINUS_INFINITY;
}

static bool all_finite(const float *values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        if (!isfinite(values[i])) {
            return false;
        }
    }
    return true;
}

typedef struct sample {
    int64_t index, count;
    outcome expected;
    double exact, sizes;
    bool touched, nan; /* by a factor that is not finite; by one that is NaN */
} sample;

/* The CPU's "gemm" is a matrix product over pixels with their padding, as other libraries'
 * convolutions are. */
static bool multiplies_padding(const char *variant) {
    return !test_on_gpu() && (variant == NULL || strcmp(variant, "gemm") == 0);
}

/* Does the order decide what becomes of a sum with these positive and negative parts? */
static bool order_decides(double positive, double negative) {
    const double larger = positive > negative ? positive : negative;
    const double smaller = positive > negative ? negative : positive;
    return larger > (double)FLT_MAX && smaller > 0.0 &&
           (smaller > (double)FLT_MAX || larger - smaller < 1.001 * (double)FLT_MAX);
}

static sample take_sample(const tensors *all, direction which, int64_t index) {
    sample taken = {.index = index, .count = products(all, which, index)};
    taken.exact = sum_exact(all, taken.count);
    taken.sizes = sum_sizes(all, taken.count);
    double parts[2] = {0.0, 0.0};
    for (int64_t i = 0; i < taken.count; ++i) {
        const double product = (double)all->a[i] * (double)all->b[i];
        parts[product < 0.0 ? 1 : 0] += fabs(product);
        taken.nan = taken.nan || isnan(all->a[i]) || isnan(all->b[i]);
    }
    taken.touched = !(all_finite(all->a, taken.count) && all_finite(all->b, taken.count));
    const outcome forwards = outcome_of(sum_chain(all, taken.count));
    const outcome backwards = outcome_of(sum_chain_reversed(all, taken.count));
    const bool unknown =
        forwards != backwards || (!taken.touched && order_decides(parts[0], parts[1]));
    taken.expected = unknown ? ANY : forwards;
    return taken;
}

static sample *take_samples(const tensors *all, direction which, int64_t *count) {
    const int64_t there = all->count[written_by(which)];
    const int64_t step = (there + SAMPLES - 1) / SAMPLES;
    sample *taken = test_allocate(SAMPLES * sizeof *taken);
    *count = 0;
    for (int64_t i = 0; i < SAMPLES && i * step < there; ++i) {
        const int64_t index = i * step + i % step;
        taken[(*count)++] = take_sample(all, which, index < there ? index : i * step);
    }
    return taken;
}

static bool is_right(const sample *expected, double underflow, float got) {
    if (expected->expected == ANY) {
        return true;
    }
    if (outcome_of(got) != expected->expected) {
        return false;
    }
    const double n = (double)(expected->count > 0 ? expected->count : 1);
    return expected->expected != FINITE ||
           fabs((double)got - expected->exact) <=
               8.0 * 0x1p-24 * sqrt(n) * expected->sizes + underflow * n;
}

/* How many samples are wrong; the first of them is printed. */
static int64_t count_wrong(const char *label, const sample *expected, int64_t count,
                           double underflow, const float *result) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; ++i) {
        const float got = result[expected[i].index];
        if (!is_right(&expected[i], underflow, got) && wrong++ == 0) {
            print_message(
                "WRONG %s: element %lld is %.9g; %s was expected, %.9g in f64, sizes %.9g\n", label,
                (long long)expected[i].index, (double)got, outcome_names[expected[i].expected],
                expected[i].exact, expected[i].sizes);
        }
    }
    return wrong;
}

static void fill_tensors(tensors *all, direction which, int64_t row, int64_t how) {
    test_random random =
        test_random_for("special values", (row * SPECIAL_FILLINGS + how) * DIRECTIONS + which);
    tensor first, second;
    read_by(which, &first, &second);
    memset(all->host[written_by(which)], 0, (size_t)all->count[written_by(which)] * sizeof(float));
    special_fillings[how].fill(&random, all->host[first], all->count[first], all->host[second],
                               all->count[second]);
    tensors_upload(all);
}

static void test_special_values(void **state) {
    const char *variants[CONV_VARIANTS];
    const int64_t variant_count = variants_there_are(variants);
    int64_t taken[CONV_VARIANTS] = {0}, wrong[CONV_VARIANTS] = {0}, outcomes[ANY + 1] = {0};
    int64_t all_wrong = 0;
    uf_context *context = test_context(2);
    (void)state;
    for (int64_t row = 0; row < COUNT_OF(shapes); ++row) {
        tensors all = tensors_create(context, &shapes[row]);
        for (int64_t task = 0; task < SPECIAL_FILLINGS * DIRECTIONS; ++task) {
            const int64_t how = task / DIRECTIONS;
            const direction which = (direction)(task % DIRECTIONS);
            if (which == WGRAD && shapes[row].n * shapes[row].p * shapes[row].q > LONGEST_SUM) {
                continue;
            }
            int64_t count;
            fill_tensors(&all, which, row, how);
            sample *expected = take_samples(&all, which, &count);
            float *result = test_allocate((size_t)all.count[written_by(which)] * sizeof *result);
            for (int64_t i = 0; i < count; ++i) {
                ++outcomes[expected[i].expected];
            }
            for (int64_t v = 0; v < variant_count; ++v) {
                char label[256];
                if (special_fillings[how].beyond && multiplies_padding(variants[v])) {
                    continue;
                }
                if (run_direction(context, &all, which, UF_MATH_FP32, variants[v], 0xff, result)) {
                    (void)snprintf(label, sizeof label, "%s, %s, %s, %s",
                                   variant_label(variants[v]), direction_names[which],
                                   shapes[row].label, special_fillings[how].name);
                    const int64_t found = count_wrong(label, expected, count,
                                                      special_fillings[how].underflow, result);
                    ++taken[v];
                    wrong[v] += found > 0 ? 1 : 0;
                    all_wrong += found;
                }
            }
            free(result);
            free(expected);
        }
        tensors_destroy(&all);
    }
    for (int64_t v = 0; v < variant_count; ++v) {
        print_message("%s: %lld of %lld, %lld with something wrong\n", variant_label(variants[v]),
                      (long long)taken[v],
                      (long long)(COUNT_OF(shapes) * SPECIAL_FILLINGS * DIRECTIONS),
                      (long long)wrong[v]);
    }
    for (int o = 0; o <= ANY; ++o) {
        print_message("%lld results are to be %s\n", (long long)outcomes[o], outcome_names[o]);
        assert_true(outcomes[o] > 0 || o == ANY);
    }
    assert_true(taken[1] > 0);
    assert_int_equal(all_wrong, 0);
    uf_context_destroy(context);
}

/* With rounded inputs: NaN stays NaN and an infinity stays infinite or becomes NaN, in those
 * elements alone. Only pixels are planted: a kernel may multiply its padding with a weight. */
static void test_rounded_math(void **state) {
    static const struct {
        filling fill;
        const char *name;
    } planted[] = {{infinite_first, "infinities"}, {nan_first, "NaN"}};
    static const uf_math maths[] = {UF_MATH_TF32, UF_MATH_BF16};
    const char *variants[CONV_VARIANTS];
    const int64_t variant_count = variants_there_are(variants);
    int64_t checked = 0, wrong = 0;
    uf_context *context = test_context(2);
    (void)state;
    for (int64_t row = 0; row < COUNT_OF(shapes); ++row) {
        tensors all = tensors_create(context, &shapes[row]);
        for (int64_t task = 0; task < COUNT_OF(planted) * 2 * WGRAD; ++task) {
            const direction which = (direction)(task % WGRAD);
            const uf_math math = maths[task / WGRAD % 2];
            const int64_t how = task / WGRAD / 2;
            test_random random = test_random_for("special values, rounded", row * 100 + task);
            tensor first, second;
            int64_t count;
            read_by(which, &first, &second);
            planted[how].fill(&random, all.host[first], all.count[first], all.host[second],
                              all.count[second]);
            memset(all.host[written_by(which)], 0,
                   (size_t)all.count[written_by(which)] * sizeof(float));
            tensors_upload(&all);
            sample *expected = take_samples(&all, which, &count);
            float *result = test_allocate((size_t)all.count[written_by(which)] * sizeof *result);
            for (int64_t v = 0; v < variant_count; ++v) {
                if (!run_direction(context, &all, which, math, variants[v], 0xff, result)) {
                    continue;
                }
                int64_t found = 0;
                for (int64_t i = 0; i < count; ++i) {
                    const float got = result[expected[i].index];
                    found += expected[i].nan ? !isnan(got) : isfinite(got) == expected[i].touched;
                }
                ++checked;
                wrong += found;
                if (found > 0) {
                    print_message("WRONG %s, %s, %s, %s, math %d: %lld elements\n",
                                  variant_label(variants[v]), direction_names[which],
                                  shapes[row].label, planted[how].name, (int)math,
                                  (long long)found);
                }
            }
            free(result);
            free(expected);
        }
        tensors_destroy(&all);
    }
    print_message("%lld runs\n", (long long)checked);
    assert_true(checked > 0);
    assert_int_equal(wrong, 0);
    uf_context_destroy(context);
}

/* Of tensors of more than 2^20 elements f16 halves are scaled by a sample (split_f16/launch.cu),
 * which has none of what is planted here: whatever it was wrong about must come out as three TF32
 * products give it. */
static const shape sampled = {"3x3, 64 channels, sampled", 8, 64, 64, 1, 3, 1, 1, 1, 96, 96, 0};

typedef struct planting {
    const char *name;
    float x, y;                  /* planted; 0: nothing is */
    float x_scale, y_scale;      /* of everything */
    double x_channel, y_channel; /* one channel is multiplied by */
} planting;

static const planting plantings[] = {
    {"nothing", 0.0F, 0.0F, 1.0F, 1.0F, 1.0, 1.0},
    {"8", 8.0F, 8.0F, 1.0F, 1.0F, 1.0, 1.0},
    {"1e4, first", 1e4F, 0.0F, 1.0F, 1.0F, 1.0, 1.0},
    {"1e4, second", 0.0F, 1e4F, 1.0F, 1.0F, 1.0, 1.0},
    {"1e-12 and 1e-20", 1e-12F, 1e-20F, 1.0F, 1.0F, 1.0, 1.0},
    {"a channel of 1e-11, first", 0.0F, 0.0F, 1.0F, 1.0F, 1e-11, 1.0},
    {"channels of 1e-6", 0.0F, 0.0F, 1.0F, 1.0F, 1e-6, 1e-6},
    {"channels of 1e-15", 0.0F, 0.0F, 1.0F, 1.0F, 1e-15, 1e-15},
    {"channels of 0, and 1e-12", 1e-12F, 1e-12F, 1.0F, 1.0F, 0.0, 0.0},
    {"zeros, first", 0.0F, 0.0F, 0.0F, 1.0F, 1.0, 1.0},
    {"zeros, both", 0.0F, 0.0F, 0.0F, 0.0F, 1.0, 1.0},
    {"1e-30 by 1e30", 0.0F, 0.0F, 1e-30F, 1e30F, 1.0, 1.0},
    {"1e-30 by 1e-15", 0.0F, 0.0F, 1e-30F, 1e-15F, 1.0, 1.0},
    {"1e25 by 1e15", 0.0F, 0.0F, 1e25F, 1e15F, 1.0, 1.0},
    {"1e15, a channel of 1e-35, first", 0.0F, 0.0F, 1e15F, 1.0F, 1e-50, 1.0},
    {"1e15, a channel of 1e-35, second", 0.0F, 0.0F, 1.0F, 1e15F, 1.0, 1e-50},
    {"infinities", INFINITY, 0.0F, 1.0F, 1.0F, 1.0, 1.0},
    {"NaN", 0.0F, NAN, 1.0F, 1.0F, 1.0, 1.0},
};

/* Uniform, one channel of it scaled; `planted` in eight places. */
static void plant_tensor(test_random *random, tensors *all, tensor which, float scale,
                         double of_channel, float planted) {
    const int64_t *extent = all->extent[which];
    const int64_t plane = extent[2] * extent[3];
    float *const values = all->host[which];
    spread(random, values, all->count[which], 0.0, 1.0);
    for (int64_t i = 0; i < all->count[which]; ++i) {
        const double by = i / plane % extent[1] == 5 ? of_channel : 1.0;
        values[i] = (float)((double)values[i] * (double)scale * by);
    }
    for (int i = 0; planted != 0.0F && i < 8; ++i) {
        values[test_random_integer(random, 0, all->count[which] - 1)] = planted;
    }
}

static void sizes_of(float *values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        values[i] = isfinite(values[i]) ? fabsf(values[i]) : 0.0F;
    }
}

static void test_sampled_scales(void **state) {
    static const int poisons[] = {0x00, 0xff, 0x55};
    (void)state;
    if (!test_on_gpu()) {
        skip();
    }
    uf_context *context = test_context(2);
    tensors all = tensors_create(context, &sampled);
    const size_t bytes = (size_t)all.count[W] * sizeof(float);
    float *expected = test_allocate(bytes), *sizes = test_allocate(bytes);
    float *result = test_allocate(bytes), *again = test_allocate(bytes);
    int64_t wrong = 0;
    for (int64_t row = 0; row < COUNT_OF(plantings); ++row) {
        const planting *how = &plantings[row];
        test_random random = test_random_for("sampled scales", row);
        plant_tensor(&random, &all, X, how->x_scale, how->x_channel, how->x);
        plant_tensor(&random, &all, Y, how->y_scale, how->y_channel, how->y);
        tensors_upload(&all);
        if (!run_direction(context, &all, WGRAD, UF_MATH_FP32, "wgmma_split_f16", poisons[0],
                           result)) {
            break; /* a GPU without it */
        }
        for (int64_t i = 1; i < COUNT_OF(poisons); ++i) {
            assert_true(run_direction(context, &all, WGRAD, UF_MATH_FP32, "wgmma_split_f16",
                                      poisons[i], again));
            if (memcmp(result, again, bytes) != 0) {
                fail_msg("%s: run %lld has other bits than the first", how->name, (long long)i + 1);
            }
        }
        assert_true(
            run_direction(context, &all, WGRAD, UF_MATH_FP32, "wgmma_implicit_gemm", 0, expected));
        sizes_of(all.host[X], all.count[X]);
        sizes_of(all.host[Y], all.count[Y]);
        tensors_upload(&all);
        assert_true(
            run_direction(context, &all, WGRAD, UF_MATH_FP32, "wgmma_implicit_gemm", 0, sizes));
        double most = 0.0;
        int64_t found = 0;
        for (int64_t i = 0; i < all.count[W]; ++i) {
            /* Denormal results are rounded in units of their own. */
            const double difference =
                fabs((double)result[i] - (double)expected[i]) - (double)FLT_MIN;
            if (outcome_of(result[i]) != outcome_of(expected[i])) {
                ++found;
            } else if (isfinite(result[i]) && difference > 0.0) {
                most = fmax(most, difference / (double)sizes[i]);
            }
        }
        print_message("%s: at most %.2g of the sums' sizes apart, %lld of another kind\n",
                      how->name, most, (long long)found);
        wrong += found + (most > 0x1p-20 ? 1 : 0);
    }
    assert_int_equal(wrong, 0);
    free(expected);
    free(sizes);
    free(result);
    free(again);
    tensors_destroy(&all);
    uf_context_destroy(context);
}

/* Sums of nearly equal elements, 2^-46 of the largest of their tensor, with either sign and as many
 * of each: f16 halves round the elements to one number, so that all such sums are zero. Which are
 * not so must be the sums of others: of another image, or, of a weight gradient, another channel.
 */
static const shape cancelling[] = {
    {"1x1, 128 channels, cancelling", 4, 128, 128, 1, 1, 1, 0, 1, 16, 32, 0},
    {"3x3, 64 channels, cancelling", 3, 64, 64, 1, 3, 1, 0, 1, 16, 32, 0},
    {"4x4 stride 2, 64 and 96, cancelling", 3, 64, 96, 1, 4, 2, 0, 1, 18, 24, 0},
    {"3x3, 40 and 44 channels, cancelling", 3, 40, 44, 1, 3, 1, 0, 1, 19, 30, 0},
    {"3x3, 64 channels, cancelling, large", 16, 64, 64, 1, 3, 1, 0, 1, 96, 96, 0},
};

static void fill_cancelling(test_random *random, tensors *all, direction which) {
    tensor first, second;
    read_by(which, &first, &second);
    const int64_t *extent = all->extent[first];
    const int64_t plane = extent[2] * extent[3];
    for (int64_t i = 0; i < all->count[first]; ++i) {
        const int64_t channel = i / plane % extent[1], image = i / plane / extent[1];
        const double value = test_random_real(random, 0.5, 1.0);
        all->host[first][i] =
            (float)((which == WGRAD ? channel : image) == 0 ? value
                                                            : ldexp(1.0 + value / 128.0, -46));
    }
    const int64_t *other = all->extent[second];
    for (int64_t i = 0; i < all->count[second]; ++i) {
        const int64_t tap = i % (other[2] * other[3]), row = i / (other[2] * other[3]);
        const int64_t turn = which == WGRAD ? tap % other[3] : row % other[1] + row / other[1];
        all->host[second][i] = (turn + (which == WGRAD ? row : tap / 2)) % 2 == 0 ? 1.0F : -1.0F;
    }
    memset(all->host[written_by(which)], 0, (size_t)all->count[written_by(which)] * sizeof(float));
}

static void test_cancelling(void **state) {
    enum { FEW_SAMPLES = 256 };
    (void)state;
    if (!test_on_gpu()) {
        skip();
    }
    uf_context *context = test_context(2);
    int64_t wrong = 0;
    for (int64_t row = 0; row < COUNT_OF(cancelling); ++row) {
        tensors all = tensors_create(context, &cancelling[row]);
        for (int d = 0; d < DIRECTIONS; ++d) {
            const direction which = (direction)d;
            const int64_t count = all.count[written_by(which)];
            const int64_t samples = count < FEW_SAMPLES ? count : FEW_SAMPLES;
            float *result = test_allocate((size_t)count * sizeof *result);
            test_random random = test_random_for("cancelling", row * DIRECTIONS + d);
            fill_cancelling(&random, &all, which);
            tensors_upload(&all);
            double most = 0.0;
            int64_t zeros = 0;
            const bool taken =
                run_direction(context, &all, which, UF_MATH_FP32, "wgmma_split_f16", 0xff, result);
            for (int64_t i = 0; taken && i < samples; ++i) {
                const int64_t index = i * (count / samples) + i % (count / samples);
                const int64_t sum = products(&all, which, index);
                const double apart = fabs((double)result[index] - sum_exact(&all, sum));
                zeros += result[index] == 0.0F ? 1 : 0;
                most = apart <= most * sum_sizes(&all, sum) ? most : apart / sum_sizes(&all, sum);
            }
            print_message("%s, %s: %s, at most %.2g of the sums' sizes apart, %lld of %lld zero\n",
                          cancelling[row].label, direction_names[which],
                          taken ? "taken" : "not taken", most, (long long)zeros,
                          (long long)samples);
            wrong += most <= 0x1p-20 ? 0 : 1;
            free(result);
        }
        tensors_destroy(&all);
    }
    assert_int_equal(wrong, 0);
    uf_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_rounded_math),
        cmocka_unit_test(test_sampled_scales),
        cmocka_unit_test(test_cancelling),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
