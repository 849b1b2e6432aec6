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

double bench_median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count % 2 == 1 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

double bench_time_cpu(const bench_work *work, double budget_ms) {
    double times[BENCH_MOST_RUNS];
    double spent = 0;
    int runs = 0;
    if (work->run(work->user, 0) != UF_OK) { /* warm-up */
        return -1;
    }
    while (runs < 3 || (runs < BENCH_MOST_RUNS && spent < budget_ms)) {
        const double begin = bench_seconds();
        if (work->run(work->user, runs % work->sets) != UF_OK) {
            return -1;
        }
        times[runs] = 1e3 * (bench_seconds() - begin);
        spent += times[runs++];
    }
    return bench_median(times, runs);
}

#ifndef BENCH_CUDA
double bench_time(uf_context *context, const bench_work *work, double budget_ms, bool *replayed) {
    (void)context;
    *replayed = false;
    return bench_time_cpu(work, budget_ms);
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
