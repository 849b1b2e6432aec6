/* schedule.h - learning rates as functions of the step. */
#ifndef UNFURL_SCHEDULE_H
#define UNFURL_SCHEDULE_H

#include <stdint.h>
#include <string.h>

#include <unfurl/status.h>

UF_BEGIN_DECLS

/* Rates at step t behind the warm-up, t from 0. */
typedef enum uf_schedule_kind {
    UF_SCHEDULE_CONSTANT = 0, /* rate */
    UF_SCHEDULE_STEP,         /* rate * factor^floor(t / period) */
    UF_SCHEDULE_EXPONENTIAL,  /* rate * factor^t */
    UF_SCHEDULE_COSINE /* minimum + (rate - minimum) * (1 + cos(pi*t/period)) / 2 up to t = period,
                          then minimum */
} uf_schedule_kind;

/* The first `warmup` steps climb in a line: step s has (s + 1)/warmup of the rate at t = 0.
 * https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate */
typedef struct uf_schedule {
    size_t struct_size;
    uf_schedule_kind kind; /* CONSTANT */
    double rate;           /* 1e-3; 0 or more */
    double factor;         /* 0.1; of STEP and EXPONENTIAL; 0 or more */
    double minimum;        /* 0; of COSINE; 0 or more */
    int64_t period;        /* 1; of STEP and COSINE; 1 or more */
    int64_t warmup;        /* 0 */
} uf_schedule;

static inline uf_schedule uf_schedule_default(void) {
    uf_schedule schedule;
    memset(&schedule, 0, sizeof schedule);
    schedule.struct_size = sizeof schedule;
    schedule.rate = 1e-3;
    schedule.factor = 0.1;
    schedule.period = 1;
    return schedule;
}

/* The rate of step `step`, from 0: a pure function, to be given to uf_optimizer_set_learning_rate
 * before the step is queued; recorded programs follow it. NULL has all defaults. Errors:
 * INVALID_ARGUMENT; *rate is 0 then. */
UF_API UF_NODISCARD uf_status uf_schedule_rate(const uf_schedule *schedule, int64_t step,
                                               double *rate);

UF_END_DECLS

#endif
