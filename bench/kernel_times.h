/* kernel_times.h - how long each kernel of a GPU takes, as CUPTI's activity records say. */
#ifndef BENCH_KERNEL_TIMES_H
#define BENCH_KERNEL_TIMES_H

#include <stdbool.h>
#include <stdint.h>

enum { BENCH_KERNEL_NAMES = 64, BENCH_KERNEL_NAME = 64 };

/* All launches of the kernels of one name; template arguments are left out. */
typedef struct bench_kernel_time {
    char name[BENCH_KERNEL_NAME];
    int64_t count;
    double us; /* that all together add: each from the latest end of another to its own */
} bench_kernel_time;

typedef struct bench_kernel_times {
    bench_kernel_time rows[BENCH_KERNEL_NAMES]; /* by descending time; the rest in the last row */
    int32_t row_count;
    int64_t count; /* of all launches */
    double us;
} bench_kernel_times;

/* False where CUPTI was not found when the benchmarks were built. */
bool bench_kernel_times_known(void);

/* Begin to record, and stop; the caller waits for the GPU before either. False where CUPTI refuses,
 * under another profiler for instance. */
bool bench_kernel_times_begin(void);
bool bench_kernel_times_end(bench_kernel_times *times);

#endif
