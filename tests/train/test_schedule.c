/* test_schedule.c - learning rates by the step: PyTorch's formulas, their corners, refusals. */
#include "support/test.h"

#include <math.h>

#include <unfurl/schedule.h>

static double rate_of(const uf_schedule *schedule, int64_t step) {
    double rate = -1.0;
    assert_ok(uf_schedule_rate(schedule, step, &rate));
    return rate;
}

static void expect_rate(const uf_schedule *schedule, int64_t step, double expected) {
    const double rate = rate_of(schedule, step);
    if (!(fabs(rate - expected) <= 1e-15 * fabs(expected))) {
        fail_msg("step %d: %.17g, expected %.17g", (int)step, rate, expected);
    }
}

static void test_constant(void **state) {
    (void)state;
    uf_schedule schedule = uf_schedule_default();
    expect_rate(NULL, 5, 1e-3);
    schedule.rate = 0.25;
    expect_rate(&schedule, 0, 0.25);
    expect_rate(&schedule, INT64_MAX, 0.25);
}

/* StepLR and ExponentialLR, by multiplication. */
static void test_powers(void **state) {
    (void)state;
    uf_schedule schedule = uf_schedule_default();
    schedule.kind = UF_SCHEDULE_STEP;
    schedule.rate = 0.5;
    schedule.factor = 0.25;
    schedule.period = 3;
    static const double steps[] = {0.5,   0.5,     0.5,     0.125,   0.125,
                                   0.125, 0.03125, 0.03125, 0.03125, 0.0078125};
    for (int64_t step = 0; step < COUNT_OF(steps); ++step) {
        expect_rate(&schedule, step, steps[step]);
    }
    schedule.kind = UF_SCHEDULE_EXPONENTIAL;
    schedule.factor = 0.5;
    double expected = 0.5;
    for (int64_t step = 0; step < 20; ++step) {
        expect_rate(&schedule, step, expected);
        expected *= 0.5;
    }
    expect_rate(&schedule, INT64_MAX, 0.0);
    schedule.factor = 0.0; /* 0^0 is 1 */
    expect_rate(&schedule, 0, 0.5);
    expect_rate(&schedule, 1, 0.0);
}

/* CosineAnnealingLR up to its T_max, then flat. */
static void test_cosine(void **state) {
    (void)state;
    uf_schedule schedule = uf_schedule_default();
    schedule.kind = UF_SCHEDULE_COSINE;
    schedule.rate = 1.0;
    schedule.minimum = 0.2;
    schedule.period = 6;
    const double third = sqrt(3.0) / 2.0;
    const double cosines[] = {1.0, third, 0.5, 0.0, -0.5, -third, -1.0, -1.0, -1.0};
    for (int64_t step = 0; step < COUNT_OF(cosines); ++step) {
        const double expected = 0.2 + 0.8 * (1.0 + cosines[step]) / 2.0;
        assert_true(fabs(rate_of(&schedule, step) - expected) < 1e-15);
    }
    assert_true(rate_of(&schedule, INT64_MAX) == 0.2);
}

/* Four steps of a climb, then the kind's own steps from 0. */
static void test_warmup(void **state) {
    (void)state;
    uf_schedule schedule = uf_schedule_default();
    schedule.kind = UF_SCHEDULE_EXPONENTIAL;
    schedule.rate = 2.0;
    schedule.factor = 0.5;
    schedule.warmup = 4;
    static const double expected[] = {0.5, 1.0, 1.5, 2.0, 2.0, 1.0, 0.5};
    for (int64_t step = 0; step < COUNT_OF(expected); ++step) {
        expect_rate(&schedule, step, expected[step]);
    }
    schedule.warmup = INT64_MAX;
    expect_rate(&schedule, INT64_MAX - 1, 2.0);
}

static void test_refusals(void **state) {
    (void)state;
    uf_schedule schedule = uf_schedule_default();
    double rate = 7.0;
    assert_error(uf_schedule_rate(&schedule, -1, &rate), UF_ERROR_INVALID_ARGUMENT, "step -1");
    assert_true(rate == 0.0);
    assert_error(uf_schedule_rate(&schedule, 0, NULL), UF_ERROR_INVALID_ARGUMENT, "NULL");
    schedule.rate = (double)NAN;
    assert_error(uf_schedule_rate(&schedule, 0, &rate), UF_ERROR_INVALID_ARGUMENT, "rate", "nan");
    schedule = uf_schedule_default();
    schedule.factor = -0.5;
    assert_error(uf_schedule_rate(&schedule, 0, &rate), UF_ERROR_INVALID_ARGUMENT, "factor",
                 "-0.5");
    schedule = uf_schedule_default();
    schedule.minimum = (double)INFINITY;
    assert_error(uf_schedule_rate(&schedule, 0, &rate), UF_ERROR_INVALID_ARGUMENT, "minimum");
    schedule = uf_schedule_default();
    schedule.period = 0;
    assert_error(uf_schedule_rate(&schedule, 0, &rate), UF_ERROR_INVALID_ARGUMENT, "period 0");
    schedule = uf_schedule_default();
    schedule.warmup = -3;
    assert_error(uf_schedule_rate(&schedule, 0, &rate), UF_ERROR_INVALID_ARGUMENT, "warmup -3");
    schedule = uf_schedule_default();
    schedule.kind = (uf_schedule_kind)(UF_SCHEDULE_COSINE + 1);
    assert_error(uf_schedule_rate(&schedule, 0, &rate), UF_ERROR_INVALID_ARGUMENT,
                 "no uf_schedule_kind");
    schedule.kind = UF_SCHEDULE_EXPONENTIAL; /* more than a double holds is no rate */
    schedule.factor = 10.0;
    assert_error(uf_schedule_rate(&schedule, 400, &rate), UF_ERROR_INVALID_ARGUMENT, "step 400",
                 "not finite");
    assert_true(rate == 0.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant), cmocka_unit_test(test_powers),
        cmocka_unit_test(test_cosine),   cmocka_unit_test(test_warmup),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
