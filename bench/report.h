/* report.h - what bench_ops prints. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "bench.h"

UF_BEGIN_DECLS

/* One cell. */
typedef struct bench_result {
    const char *variant;
    double ms, error, tflops, floor_ms;
    bool replayed, valid;
    bench_rival nchw, nhwc;
} bench_result;

typedef struct bench_loss {
    const char *shape;
    bench_op op;
    double ratio;
} bench_loss;

/* Sums of logarithms of time ratios, for the geometric means at the end, and the cells that cuDNN
 * wins in NCHW. */
typedef struct bench_means {
    double nchw, best;
    int cells, count, slower;
    bench_loss *losses; /* room for every cell */
} bench_means;

void bench_print_head(uf_context *context, bool rival, double copy_rate);

/* A cell: takes part in the means where both sides have a time. */
void bench_print_row(bool json, const bench_shape *shape, bench_op op, const char *dtype,
                     const char *math, const bench_result *result, bench_means *means);

/* Nothing where no cell had cuDNN beside it. */
void bench_print_means(const char *math, const bench_means *means);

UF_END_DECLS

#endif
