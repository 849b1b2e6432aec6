/* timer_cpu.c - wall-clock times of a CPU context; what a build without CUDA has of the GPU's
 * side. */
#include <stdlib.h>
#include <time.h>

#include "bench.h"

#include "timer.h"

double bench_seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

bool bench_more(int runs, double spent, double budget_ms) {
    return runs == 0 || (runs < 3 && spent < 10 * budget_ms) ||
           (runs < BENCH_MOST_RUNS && spent < budget_ms);
}

/* Between neighbours where a quantile falls between them. */
static double quantile(const double *sorted, int count, double q) {
    const double at = q * (count - 1);
    const int below = (int)at;
    const int above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

void bench_summary(double *values, int count, bench_timing *timing) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    timing->ms = quantile(values, count, 0.5);
    timing->spread = (quantile(values, count, 0.75) - quantile(values, count, 0.25)) / timing->ms;
    timing->runs = count;
}

bool bench_time_cpu(const bench_work *work, double budget_ms, bench_timing *timing) {
    double times[BENCH_MOST_RUNS];
    double spent = 0;
    int runs = 0;
    timing->replayed = false;
    if (work->run(work->user, 0) != UF_OK) { /* warm-up */
        return false;
    }
    while (bench_more(runs, spent, budget_ms)) {
        const double begin = bench_seconds();
        if (work->run(work->user, runs % work->sets) != UF_OK) {
            return false;
        }
        times[runs] = 1e3 * (bench_seconds() - begin);
        spent += times[runs++];
    }
    bench_summary(times, runs, timing);
    return true;
}

#ifndef BENCH_CUDA
bool bench_time(uf_context *context, const bench_work *work, double budget_ms,
                bench_timing *timing) {
    (void)context;
    return bench_time_cpu(work, budget_ms, timing);
}

int64_t bench_kernels(uf_context *context, const bench_work *work) {
    (void)context;
    (void)work;
    return -1;
}

size_t bench_cache(uf_context *context) {
    (void)context;
    return (size_t)32 << 20;
}

double bench_copy_rate(uf_context *context) {
    (void)context;
    return 0;
}

int bench_convert(void *stream, void *to, const void *from, uf_dtype dtype, bool narrow,
                  const int64_t extent[4], const int64_t stride[4]) {
    (void)stream;
    (void)to;
    (void)from;
    (void)dtype;
    (void)narrow;
    (void)extent;
    (void)stride;
    return 1;
}

double bench_peak(uf_context *context, uf_dtype dtype, uf_math math) {
    (void)context;
    (void)dtype;
    (void)math;
    return 0;
}
#endif
