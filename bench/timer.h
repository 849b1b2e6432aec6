/* timer.h - what both timers share. */
#ifndef BENCH_TIMER_H
#define BENCH_TIMER_H

#include "bench.h"

UF_BEGIN_DECLS

enum { BENCH_MOST_RUNS = 100 };

double bench_seconds(void);
double bench_median(double *values, int count); /* sorts them */
double bench_time_cpu(const bench_work *work, double budget_ms);

UF_END_DECLS

#endif
