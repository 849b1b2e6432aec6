/* layer_run.h - one layer's steps, forward and backward, timed by themselves. */
#ifndef BENCH_LAYER_RUN_H
#define BENCH_LAYER_RUN_H

#include "bench.h"
#include "layer_rows.h"

UF_BEGIN_DECLS

enum { BENCH_LAYER_FORWARD = 0, BENCH_LAYER_BACKWARD, BENCH_LAYER_DIRECTIONS };

extern const char *const bench_layer_directions[BENCH_LAYER_DIRECTIONS];

/* The step of one direction. */
typedef struct bench_layer_time {
    bool there; /* false: the layer has no such step, or one that does nothing */
    bench_timing timing;
    int64_t kernels; /* launched by the step; -1 where that is not known */
    double bytes;    /* that the step must read and write, each once */
    double again;    /* of them, those that a kernel reads twice which sums before it writes */
} bench_layer_time;

typedef struct bench_layer_result {
    const char *layer; /* of layers.def */
    uf_shape input, output;
    bench_layer_time times[BENCH_LAYER_DIRECTIONS];
} bench_layer_result;

/* Builds, compiles and times a row in `context`, and frees all that again. The values lie in memory
 * of their own, so a step that may work in place does not. With `quick` the results of the timed
 * steps begin as NaN and are looked at in the end. Errors: those of the library; INTERNAL where one
 * is not finite. */
uf_status bench_layer_measure(uf_context *context, const bench_layer_row *row, uf_dtype dtype,
                              bool quick, double budget_ms, bench_layer_result *result);

/* Bytes read and written in a second by a large copy: on a GPU bench_copy_rate, on a CPU memcpy by
 * the context's threads, of `size` bytes. 0 where there is no memory for it. */
double bench_layer_copy_rate(uf_context *context, size_t size);

UF_END_DECLS

#endif
