/* model_run.h - a model compiled, filled with numbers, and timed. */
#ifndef BENCH_MODEL_RUN_H
#define BENCH_MODEL_RUN_H

#include "bench.h"
#include "kernel_times.h"
#include "models/model.h"

UF_BEGIN_DECLS

enum { BENCH_MODEL_FIGURES = BENCH_MODEL_PASSES * BENCH_MODEL_LOSSES };

typedef struct bench_model_result {
    bench_timing queued;             /* of a run, where many are queued before the host waits */
    bench_timing waited;             /* of a run that the host waits for */
    int64_t kernels;                 /* of a run; -1 where it is not known */
    bench_kernel_times kernel_times; /* of profiled runs, where the setting wants them */
    int64_t profiled;                /* runs */
    int64_t runs;                    /* in all, from the first to the last figures */
    size_t bytes, peak;              /* of the device's memory: at the end, at most */
    size_t program, stores;          /* parts of `bytes`; stores: with gradients and optimizers */
    /* Losses of the first, the third and the last run in the order of the passes; without passes
     * one number, the mean of the picture's absolute values. */
    int32_t figure_count;
    const char *names[BENCH_MODEL_FIGURES];
    double first[BENCH_MODEL_FIGURES], third[BENCH_MODEL_FIGURES], last[BENCH_MODEL_FIGURES];
} bench_model_result;

typedef struct bench_model_setting {
    const bench_model_row *row;
    bench_model_size size;
    uf_dtype dtype;
    uf_math math;
    bool capture, profile;
    double budget_ms;
} bench_model_setting;

/* In a context that has nothing else. Weights and inputs are numbers that bench/peer_models.py
 * computes too, so that both sides begin with the same. Errors: those of the library; INTERNAL
 * where a figure is not finite. */
uf_status bench_model_measure(uf_context *context, const bench_model_setting *setting,
                              bench_model_result *result);

UF_END_DECLS

#endif
