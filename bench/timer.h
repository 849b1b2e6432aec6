/* timer.h - what both timers share. */
#ifndef BENCH_TIMER_H
#define BENCH_TIMER_H

#include "bench.h"

UF_BEGIN_DECLS

enum { BENCH_MOST_RUNS = 100 };

double bench_seconds(void);
/* Is another run to be made, after `runs` that took `spent` milliseconds? */
bool bench_more(int runs, double spent, double budget_ms);
void bench_summary(double *values, int count, bench_timing *timing); /* sorts them */
bool bench_time_cpu(const bench_work *work, double budget_ms, bench_timing *timing);

UF_END_DECLS

#endif
