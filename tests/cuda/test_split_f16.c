/* test_split_f16.c - scales of f16 halves from the ranges of two tensors, and which sums are
 * doubtful: against what arch/split_f16.h promises. Needs no GPU. */
#include "support/test.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/cuda/arch/split_f16.h"
#include "support/random.h"

enum { CASES = 20000 };

static float as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t as_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uf_split_f16_range range_of(float largest, float least) {
    const uf_split_f16_range range = {as_bits(largest), as_bits(least) - 1};
    return range;
}

static uf_split_f16_scales scales_of(uf_split_f16_range a, uf_split_f16_range b, float products) {
    return uf_split_f16_scales_of(a, b, products, as_float, as_bits);
}

static bool doubtful(const uf_split_f16_scales *scales, float sum) {
    return !(fabsf(sum) >= scales->limit);
}

/* From 2^low to 2^high. */
static float size_between(test_random *random, int low, int high) {
    return (float)ldexp(test_random_real(random, 1.0, 2.0),
                        (int)test_random_integer(random, low, high - 1));
}

static void test_scales(void **state) {
    int64_t fit = 0, some_flagged = 0;
    (void)state;
    for (int64_t i = 0; i < CASES; ++i) {
        test_random random = test_random_for("wgmma_split_f16", i);
        const int reach = test_random_one_in(&random, 2) ? 40 : 127;
        float largest[2], least[2];
        int under[2];
        for (int t = 0; t < 2; ++t) {
            largest[t] = size_between(&random, -reach, reach);
            least[t] = largest[t] * size_between(&random, -60, 0);
            least[t] = least[t] > largest[t] ? largest[t] : least[t];
            least[t] = least[t] < FLT_MIN || test_random_one_in(&random, 9) ? 0x1p-149F : least[t];
            under[t] = ilogbf(largest[t]) - ilogbf(least[t]);
        }
        const float products = (float)test_random_integer(&random, 1, 1 << 20);
        const uf_split_f16_scales scales =
            scales_of(range_of(largest[0], least[0]), range_of(largest[1], least[1]), products);
        const double product = (double)largest[0] * (double)largest[1];
        if (scales.fits == 0) {
            assert_true(fabs(log2(product)) + log2((double)products) > UF_SPLIT_F16_SUMS - 4 ||
                        fabs(log2((double)largest[0])) > UF_SPLIT_F16_SUMS - 1 ||
                        fabs(log2((double)largest[1])) > UF_SPLIT_F16_SUMS - 1);
            continue;
        }
        ++fit;
        assert_true(product * (double)products < (double)FLT_MAX && product > (double)FLT_MIN);
        for (int t = 0; t < 2; ++t) {
            const float scaled = largest[t] * (t == 0 ? scales.a : scales.b);
            assert_true(scaled >= 0x1p14F && scaled < 0x1p15F);
        }
        assert_true((double)scales.a * (double)scales.b * (double)scales.back == 1.0);
        const bool exact = under[0] <= UF_SPLIT_F16_EXACT && under[1] <= UF_SPLIT_F16_EXACT;
        assert_int_equal(doubtful(&scales, 4.0F * products * 0.999F), !exact);
        assert_int_equal(doubtful(&scales, -1.0F), !exact);
        assert_false(doubtful(&scales, 4.0F * products));
        assert_false(doubtful(&scales, -4.1F * products));
        some_flagged += exact ? 0 : 1;
        assert_int_equal(doubtful(&scales, 0.0F), !exact);
        assert_int_equal(doubtful(&scales, -0.0F), !exact);
    }
    print_message("%lld of %d fit, %lld with doubtful sums\n", (long long)fit, CASES,
                  (long long)some_flagged);
    assert_true(fit > CASES / 2 && fit < CASES);
    assert_true(some_flagged > 0 && some_flagged < fit);
}

static void test_ends(void **state) {
    const uf_split_f16_range ones = range_of(1.0F, 1.0F), zeros = {0, 0xffffffffu};
    (void)state;
    assert_int_equal(scales_of(ones, range_of(INFINITY, 1.0F), 64.0F).fits, 0);
    assert_int_equal(scales_of(range_of(NAN, 1.0F), ones, 64.0F).fits, 0);
    assert_int_equal(scales_of(ones, range_of(FLT_MAX, 1.0F), 64.0F).fits, 0);
    assert_int_equal(scales_of(range_of(FLT_MIN, FLT_MIN), ones, 64.0F).fits, 0);
    const uf_split_f16_scales none = scales_of(zeros, ones, 64.0F);
    assert_int_equal(none.fits, 1);
    assert_false(doubtful(&none, 0.0F));
    const uf_split_f16_scales both = scales_of(zeros, zeros, 64.0F);
    assert_int_equal(both.fits, 1);
    assert_false(doubtful(&both, 0.0F));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
