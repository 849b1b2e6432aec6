/* test_exp.c - the CPU kernels' own exp of a float, over a share of all floats. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/math_f32.h"

/* Half a unit is the rounding; the rest, where two floats are as near but for that. */
#define MOST_UNITS 0.505

/* A unit in the last place of a float of this size. */
static double unit(double size) {
    int exponent = 0;
    (void)frexp(size, &exponent);
    return ldexp(1.0, exponent - 24 > -149 ? exponent - 24 : -149);
}

static void hold(float x) {
    const float got = uf_expf(x);
    const double exact = exp((double)x);
    if (isnan(x) ? isnan(got) : got == (float)exact) {
        return;
    }
    if (!(fabs((double)got - exact) <= MOST_UNITS * unit(exact))) {
        fail_msg("exp(%.9g) is %.9g, %.17g is right", (double)x, (double)got, exact);
    }
}

/* Tries every 499th pattern of bits, so that each power of two has as many, and all near the ends.
 */
static void test_floats(void **state) {
    (void)state;
    for (uint64_t pattern = 0; pattern <= UINT32_MAX; pattern += 499) {
        const uint32_t bits = (uint32_t)pattern;
        float x;
        memcpy(&x, &bits, sizeof x);
        hold(x);
    }
}

static void test_ends(void **state) {
    (void)state;
    static const float ends[] = {0.0F,         -0.0F,        88.7228394F, 88.7228470F,
                                 -87.3365479F, -103.972084F, -103.98F,    -104.0F,
                                 110.0F,       -110.0F,      INFINITY,    -INFINITY};
    for (int64_t i = 0; i < COUNT_OF(ends); ++i) {
        float low = ends[i], high = ends[i];
        for (int step = 0; step < 100; ++step) {
            hold(low);
            hold(high);
            low = nextafterf(low, -INFINITY);
            high = nextafterf(high, INFINITY);
        }
    }
    hold(NAN);
    hold(-NAN);
    assert_true(uf_expf(0.0F) == 1.0F && uf_expf(-INFINITY) == 0.0F && isinf(uf_expf(INFINITY)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
