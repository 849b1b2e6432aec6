/* test_determinism.c - twenty steps of a GAN give the same weights, bit for bit, in every run, for
 * 1, 2 and 3 threads and for every plan of the memory. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gan.h"
#include "support/compare.h"

enum { STEPS = 20 };

static unsigned char *train(int32_t threads, uf_dtype dtype, uf_plan plan, int64_t steps,
                            size_t *size, double losses[3]) {
    gan one = gan_open(threads, dtype, plan);
    for (int64_t step = 0; step < steps; ++step) {
        gan_step(&one, step);
    }
    int64_t finished;
    bool finite;
    assert_ok(uf_context_synchronize(one.context));
    assert_ok(uf_program_losses(one.program, losses, 3, &finished, &finite));
    assert_int_equal(finished, steps);
    assert_true(finite || steps == 0);
    unsigned char *bytes = gan_contents(&one, size);
    gan_close(&one);
    return bytes;
}

static void check(uf_dtype dtype) {
    size_t size, other_size;
    double losses[3] = {0}, other_losses[3] = {0};
    unsigned char *expected = train(1, dtype, UF_PLAN_REUSE, STEPS, &size, losses);
    static const struct {
        const char *label;
        int32_t threads;
        uf_plan plan;
    } runs[] = {
        {"a second run", 1, UF_PLAN_REUSE},
        {"2 threads", 2, UF_PLAN_REUSE},
        {"3 threads", 3, UF_PLAN_REUSE},
        {"memory not shared", 2, UF_PLAN_NO_REUSE},
        {"dead memory poisoned", 1, UF_PLAN_POISON},
    };
    for (int64_t i = 0; i < COUNT_OF(runs); ++i) {
        unsigned char *got =
            train(runs[i].threads, dtype, runs[i].plan, STEPS, &other_size, other_losses);
        assert_int_equal(other_size, size);
        assert_same_bits(runs[i].label, got, expected, (int64_t)size);
        assert_same_bits(runs[i].label, other_losses, losses, sizeof losses);
        free(got);
    }
    /* The comparison can fail: a step less gives other weights, and training changes them at all.
     */
    for (int64_t steps = STEPS - 1; steps >= 0; steps -= STEPS - 1) {
        unsigned char *got = train(1, dtype, UF_PLAN_REUSE, steps, &other_size, other_losses);
        assert_int_equal(other_size, size);
        assert_memory_not_equal(got, expected, size);
        free(got);
    }
    free(expected);
}

static void test_f32(void **state) {
    (void)state;
    check(UF_F32);
}

static void test_f64(void **state) {
    (void)state;
    check(UF_F64);
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_f64)};
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
