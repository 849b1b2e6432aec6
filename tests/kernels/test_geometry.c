/* test_geometry.c - the phase arithmetic of geometry.h by brute force: every (element, tap) pair of
 * an axis that the definition i = o*stride - padding + r*dilation allows is walked exactly once,
 * and no other. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/conv_plan.h"
#include "support/random.h"

typedef struct axis {
    int64_t in, out, kernel, stride, padding,
        dilation; /* in: the large side, out: the small side */
} axis;

/* How often each (large element, filter index) pair was walked, and from which small element. */
typedef struct tally {
    int64_t *count, *from;
} tally;

static void check_axis(const axis *a) {
    const int64_t cells = a->in * a->kernel;
    tally walked = {test_allocate((size_t)cells * sizeof(int64_t)),
                    test_allocate((size_t)cells * sizeof(int64_t))};
    int64_t *written = test_allocate((size_t)a->in * sizeof *written);
    memset(walked.count, 0, (size_t)cells * sizeof(int64_t));
    memset(written, 0, (size_t)a->in * sizeof *written);
    for (int64_t phase = 0; phase < a->stride; ++phase) {
        const uf_axis_walk walk =
            uf_axis_dgrad(a->in, a->kernel, a->stride, a->padding, a->dilation, phase);
        for (int64_t j = 0; j < walk.out_count; ++j) {
            const int64_t i = walk.out_first + j * walk.out_step;
            assert_in_range(i, 0, a->in - 1);
            assert_true((i + a->padding) % a->stride == phase);
            ++written[i];
            for (int64_t t = 0; t < walk.taps; ++t) {
                const int64_t r = walk.tap_first + t * walk.tap_step;
                const int64_t o = j * walk.in_step + walk.in_first + t * walk.in_tap_step;
                assert_in_range(r, 0, a->kernel - 1);
                /* Also outside of the small side, where the walk is cut, the relation is exact. */
                assert_true(o * a->stride - a->padding + r * a->dilation == i);
                if (o >= 0 && o < a->out) {
                    ++walked.count[i * a->kernel + r];
                    walked.from[i * a->kernel + r] = o;
                }
            }
        }
    }
    /* The definition, over the small side. */
    for (int64_t o = 0; o < a->out; ++o) {
        for (int64_t r = 0; r < a->kernel; ++r) {
            const int64_t i = o * a->stride - a->padding + r * a->dilation;
            if (i >= 0 && i < a->in) {
                const int64_t cell = i * a->kernel + r;
                assert_int_equal(walked.count[cell], 1);
                assert_int_equal(walked.from[cell], o);
                walked.count[cell] = 0;
            }
        }
    }
    for (int64_t i = 0; i < a->in; ++i) {
        assert_int_equal(written[i], 1); /* every element belongs to one phase */
        for (int64_t r = 0; r < a->kernel; ++r) {
            assert_int_equal(walked.count[i * a->kernel + r], 0);
        }
    }
    const uf_axis_walk direct =
        uf_axis_fprop(a->out, a->kernel, a->stride, a->padding, a->dilation);
    assert_int_equal(direct.out_count, a->out);
    assert_int_equal(direct.taps, a->kernel);
    for (int64_t o = 0; o < a->out; ++o) {
        assert_int_equal(direct.out_first + o * direct.out_step, o);
        for (int64_t r = 0; r < a->kernel; ++r) {
            assert_int_equal(direct.tap_first + r * direct.tap_step, r);
            assert_int_equal(o * direct.in_step + direct.in_first + r * direct.in_tap_step,
                             o * a->stride - a->padding + r * a->dilation);
        }
    }
    free(walked.count);
    free(walked.from);
    free(written);
}

static void test_small_axes(void **state) {
    (void)state;
    axis a;
    int64_t count = 0;
    for (a.stride = 1; a.stride <= 6; ++a.stride) {
        for (a.dilation = 1; a.dilation <= 6; ++a.dilation) {
            for (a.kernel = 1; a.kernel <= 5; ++a.kernel) {
                for (a.padding = 0; a.padding <= 7; ++a.padding) {
                    for (a.out = 1; a.out <= 3; ++a.out) {
                        const int64_t limit = a.stride > a.dilation ? a.stride : a.dilation;
                        const int64_t minimum = (a.out - 1) * a.stride - 2 * a.padding +
                                                a.dilation * (a.kernel - 1) + 1;
                        a.in = minimum + count % limit;
                        if (a.in >= 1) {
                            check_axis(&a);
                            ++count;
                        }
                    }
                }
            }
        }
    }
    print_message("%lld axes\n", (long long)count);
    assert_true(count > 3000);
}

static void test_random_axes(void **state) {
    (void)state;
    for (int64_t i = 0; i < 5000; ++i) {
        test_random random = test_random_for("axes", i);
        axis a;
        a.stride = test_random_log(&random, 1, 40);
        a.dilation = test_random_log(&random, 1, 40);
        a.kernel = test_random_log(&random, 1, 12);
        a.padding = test_random_integer(&random, 0, 50);
        a.out = test_random_log(&random, 1, 12);
        /* Any large side at all: kernels may also see sizes that no output_padding explains. */
        a.in = test_random_log(&random, 1, 300);
        check_axis(&a);
    }
}

static void test_gcd(void **state) {
    (void)state;
    for (int64_t a = 1; a <= 60; ++a) {
        for (int64_t b = 1; b <= 60; ++b) {
            int64_t expected = 1;
            for (int64_t d = 1; d <= a && d <= b; ++d) {
                expected = a % d == 0 && b % d == 0 ? d : expected;
            }
            assert_int_equal(uf_gcd(a, b), expected);
        }
    }
}

/* The number of products, counted phase by phase. */
static double products_by_phase(const axis *a) {
    double products = 0.0;
    for (int64_t phase = 0; phase < a->stride; ++phase) {
        const uf_axis_walk walk =
            uf_axis_dgrad(a->in, a->kernel, a->stride, a->padding, a->dilation, phase);
        products += (double)walk.out_count * (double)walk.taps;
    }
    return products;
}

static void test_products(void **state) {
    (void)state;
    for (int64_t i = 0; i < 20000; ++i) {
        test_random random = test_random_for("products", i);
        const axis a = {
            .in = test_random_log(&random, 1, 300),
            .kernel = test_random_log(&random, 1, 100),
            .stride = test_random_log(&random, 1, 100),
            .padding = test_random_log(&random, 1, 200) - 1,
            .dilation = test_random_log(&random, 1, 100),
        };
        assert_true(uf_conv_dgrad_products(a.in, a.kernel, a.stride, a.padding, a.dilation) ==
                    products_by_phase(&a));
    }
    /* Sizes that no loop gets through: every element has one tap, one element has all, each has
     * each. */
    const int64_t large = INT64_C(1) << 57;
    assert_true(uf_conv_dgrad_products(large, large, large, 0, 1) == 0x1p57);
    assert_true(uf_conv_dgrad_products(1, large, large, 0, large) == 0x1p57);
    assert_true(uf_conv_dgrad_products(large, large, 1, 0, 1) == 0x1p114);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_axes),
        cmocka_unit_test(test_random_axes),
        cmocka_unit_test(test_gcd),
        cmocka_unit_test(test_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
