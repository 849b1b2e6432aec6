/* schedule.c - learning rates as functions of the step. */
#include <unfurl/schedule.h>

#include <inttypes.h>
#include <math.h>

#include "core/error.h"

static uf_status check(const uf_schedule *schedule, int64_t step) {
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"rate", schedule->rate}, {"factor", schedule->factor}, {"minimum", schedule->minimum}};
    UF_CHECK_ARG((unsigned)schedule->kind <= UF_SCHEDULE_COSINE,
                 "uf_schedule_rate: %d is no uf_schedule_kind", (int)schedule->kind);
    for (int i = 0; i < 3; ++i) {
        UF_CHECK_ARG(isfinite(numbers[i].value) && numbers[i].value >= 0.0,
                     "uf_schedule_rate: %s is %g; it must be 0 or more", numbers[i].name,
                     numbers[i].value);
    }
    UF_CHECK_ARG(schedule->period >= 1 && schedule->warmup >= 0 && step >= 0,
                 "uf_schedule_rate: period %" PRId64 " must be 1 or more, warmup %" PRId64
                 " and step %" PRId64 " 0 or more",
                 schedule->period, schedule->warmup, step);
    return UF_OK;
}

static double rate_behind_warmup(const uf_schedule *schedule, int64_t t) {
    switch (schedule->kind) {
    case UF_SCHEDULE_STEP:
        return schedule->rate * pow(schedule->factor, (double)(t / schedule->period));
    case UF_SCHEDULE_EXPONENTIAL:
        return schedule->rate * pow(schedule->factor, (double)t);
    case UF_SCHEDULE_COSINE: {
        const double pi = 3.14159265358979323846;
        const double along = t < schedule->period ? (double)t / (double)schedule->period : 1.0;
        return schedule->minimum +
               (schedule->rate - schedule->minimum) * 0.5 * (1.0 + cos(pi * along));
    }
    case UF_SCHEDULE_CONSTANT:
        break;
    }
    return schedule->rate;
}

uf_status uf_schedule_rate(const uf_schedule *given, int64_t step, double *rate) {
    uf_schedule schedule = uf_schedule_default();
    UF_CHECK_ARG(rate != NULL, "uf_schedule_rate: rate is NULL");
    *rate = 0.0;
    UF_TRY(uf_read_struct("uf_schedule", given, &schedule, sizeof schedule));
    UF_TRY(check(&schedule, step));
    const double made =
        step < schedule.warmup
            ? rate_behind_warmup(&schedule, 0) * ((double)(step + 1) / (double)schedule.warmup)
            : rate_behind_warmup(&schedule, step - schedule.warmup);
    UF_CHECK_ARG(isfinite(made),
                 "uf_schedule_rate: the rate of step %" PRId64 " is not finite: factor is %g", step,
                 schedule.factor);
    *rate = made;
    return UF_OK;
}
