/* fit.h - rates of the cost model from matrices of measurements: least squares, then a search for
 * the least regret. */
#ifndef BENCH_FIT_H
#define BENCH_FIT_H

#include "costs.h"

UF_BEGIN_DECLS

enum { BENCH_FIT_LEAST_CALLS = 12 };

/* Relative errors beyond it weigh as if they were it: the models miss some layers by far. */
#define BENCH_FIT_SURE 0.3

/* The least factor on a model's work: of few layers a fit may put all time on calls and bytes, and
 * would then expect nothing of the work of a larger one. */
#define BENCH_FIT_LEAST_WORK 0.4

/* A main loop whose estimates stay off by more is not described by these rates: it has the model's
 * own cost, and 5 microseconds for a call. Else layers smaller than those of the matrix would meet
 * rates that only make up for a model. */
#define BENCH_FIT_MOST_ERROR (1.0 / 3.0)

/* The most microseconds of a call where calls are few: else two large layers would say that none is
 * small. */
#define BENCH_FIT_MOST_CALL 8.0

/* As the file has numbers. */
#define BENCH_FIT_DIGITS "%.3g"

typedef struct bench_fit {
    bench_rates rates;
    int64_t calls[BENCH_MOST_LOOPS][UF_CONV_RATES];
    bool unfit[BENCH_MOST_LOOPS]; /* see BENCH_FIT_MOST_ERROR; naive's are never fitted: its model's
                                     constants are, and it must not win small layers by a rate */
} bench_fit;

/* Rates of the least squares of the relative error of the estimates, none below 0. An arithmetic
 * with fewer than BENCH_FIT_LEAST_CALLS takes what the calls of all arithmetics say. without: a
 * list of layers that does not count, or NULL. False: out of memory. */
bool bench_fit_squares(const bench_costs *costs, const char *without, bench_fit *fit);

/* Moves rates by steps while what the choice loses, and what the estimates are off, becomes less;
 * rounds them to what the file holds. False: out of memory. */
bool bench_fit_search(const bench_costs *costs, const char *without, bench_fit *fit);

/* gpu_h200.def for these rates. */
void bench_fit_write(FILE *file, const bench_matrix *const *matrices, int count,
                     const bench_costs *costs, const bench_fit *fit);

UF_END_DECLS

#endif
