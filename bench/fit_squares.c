/* fit_squares.c - rates of the least squares. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fit.h"

enum { RATES = 4, ROUNDS = 20, SWEEPS = 2000, CALLS_FOR_A_RATE = 8 };

/* Over the time, so that an estimate of 1 is right. */
typedef struct sample {
    double feature[RATES];
} sample;

static double estimate(const sample *s, const double *rate) {
    double sum = 0.0;
    for (int f = 0; f < RATES; ++f) {
        sum += rate[f] * s->feature[f];
    }
    return sum;
}

/* Weighted least squares without negative rates, by coordinate descent. Bits of `free`: rates that
 * may differ from 0. */
static void solve(const sample *samples, const double *weight, int64_t count, unsigned free,
                  double most_call, double *rate) {
    double square[RATES][RATES] = {{0.0}}, target[RATES] = {0.0};
    for (int64_t i = 0; i < count; ++i) {
        for (int f = 0; f < RATES; ++f) {
            target[f] += weight[i] * samples[i].feature[f];
            for (int g = 0; g < RATES; ++g) {
                square[f][g] += weight[i] * samples[i].feature[f] * samples[i].feature[g];
            }
        }
    }
    for (int sweep = 0; sweep < SWEEPS; ++sweep) {
        for (int f = 0; f < RATES; ++f) {
            double rest = target[f];
            for (int g = 0; g < RATES; ++g) {
                rest -= g != f ? square[f][g] * rate[g] : 0.0;
            }
            const double least = f == 0 ? BENCH_FIT_LEAST_WORK : 0.0;
            const double most = f == 1 ? most_call : HUGE_VAL;
            rate[f] = (free >> f & 1) != 0 && square[f][f] > 0.0
                          ? fmin(fmax(rest / square[f][f], least), most)
                          : least;
        }
    }
}

/* The sum of squares, of errors beyond BENCH_FIT_SURE linear. */
static double solve_robustly(const sample *samples, double *weight, int64_t count, unsigned free,
                             double most_call, double *rate) {
    double sum = 0.0;
    for (int round = 0; round <= ROUNDS; ++round) {
        for (int64_t i = 0; i < count; ++i) {
            const double off = round == 0 ? 0.0 : fabs(estimate(&samples[i], rate) - 1.0);
            weight[i] = off > BENCH_FIT_SURE ? BENCH_FIT_SURE / off : 1.0;
            sum += round < ROUNDS ? 0.0 : weight[i] * off * off;
        }
        if (round < ROUNDS) {
            solve(samples, weight, count, free, most_call, rate);
        }
    }
    return sum;
}

/* The factor on the model's work, microseconds of a call, and a rate more for so many calls: those
 * that fit best; a model without work leaves its rate to another. Without the time of a call layers
 * smaller than the measured ones would take none.
 */
static uf_conv_rate fit_robustly(const sample *samples, double *weight, int64_t count,
                                 double most_call) {
    const unsigned always = 3;
    const bool has_work = count > 0 && samples[0].feature[0] > 0.0;
    const int64_t most = (has_work ? 1 : 2) + count / CALLS_FOR_A_RATE;
    const int wanted = most > RATES ? RATES : most > 2 ? (int)most : 2;
    double best[RATES] = {0.0}, least = HUGE_VAL;
    for (unsigned free = always; free < 1u << RATES; ++free) {
        double rate[RATES] = {0.0};
        int rates = 0;
        for (int f = 0; f < RATES; ++f) {
            rates += (int)(free >> f & 1);
        }
        if (rates == wanted && (free & always) == always) {
            const double sum = solve_robustly(samples, weight, count, free, most_call, rate);
            if (sum < least) {
                least = sum;
                memcpy(best, rate, sizeof best);
            }
        }
    }
    return (uf_conv_rate){best[0], best[1], best[2], best[3]};
}

/* Root mean square of the relative error. */
static double error_of(const sample *samples, int64_t count, const uf_conv_rate *rate) {
    const double rates[RATES] = {rate->work, rate->call, rate->filter, rate->tensors};
    double squares = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        const double off = estimate(&samples[i], rates) - 1.0;
        squares += off * off;
    }
    return sqrt(squares / (double)count);
}

static bool is_sample(const bench_candidate *one, int loop, const char *without) {
    return one->loop == loop && one->row->ms > 0.0 &&
           (without == NULL || strcmp(one->row->shape.list, without) != 0);
}

/* The timed calls of a main loop in an arithmetic, or in all: -1. */
static int64_t gather(const bench_costs *costs, const char *without, const bench_fit *fit, int loop,
                      int arithmetic, sample *samples) {
    int64_t count = 0;
    for (int64_t i = 0; i < costs->rows.count; ++i) {
        const bench_candidate *const one = &costs->rows.at[i];
        int64_t inner;
        if (!is_sample(one, loop, without) || (arithmetic >= 0 && one->arithmetic != arithmetic)) {
            continue;
        }
        const uf_conv_features f = bench_costs_features(costs, one, &fit->rates, &inner);
        samples[count++] =
            (sample){{f.work / one->us, 1.0 / one->us, f.filter / one->us, f.tensors / one->us}};
    }
    return count;
}

static bool is_transform(const bench_costs *costs, int loop) {
    for (int64_t i = 0; i < costs->rows.count; ++i) {
        if (costs->rows.at[i].loop == loop) {
            return costs->rows.at[i].inners > 0;
        }
    }
    return false;
}

/* naive, which computes what nothing else takes. */
static bool is_general(const uf_conv_loop *loop) {
    for (const uf_conv_loop *one = uf_conv_variants[UF_CUDA_CONV_NAIVE].loops; one->name != NULL;
         ++one) {
        if (one == loop) {
            return true;
        }
    }
    return false;
}

static void fit_loop(const bench_costs *costs, const char *without, bench_fit *fit, int loop,
                     sample *samples, double *weight) {
    uf_conv_rates made = {.measured = true};
    const int64_t all = gather(costs, without, fit, loop, -1, samples);
    const uf_conv_rate pooled = fit_robustly(samples, weight, all, BENCH_FIT_MOST_CALL);
    if (all == 0) {
        return; /* the rates that it has are those of a main loop without a row */
    }
    const double off = error_of(samples, all, &pooled);
    for (int a = 0; a < UF_CONV_RATES; ++a) {
        fit->calls[loop][a] = gather(costs, without, fit, loop, a, samples);
        made.of[a] = fit->calls[loop][a] < BENCH_FIT_LEAST_CALLS
                         ? pooled
                         : fit_robustly(samples, weight, fit->calls[loop][a], HUGE_VAL);
    }
    fit->unfit[loop] = is_general(fit->rates.loop[loop]) || off > BENCH_FIT_MOST_ERROR;
    for (int a = 0; a < UF_CONV_RATES && fit->unfit[loop]; ++a) {
        made.of[a] = (uf_conv_rate){.work = 1.0, .call = 5.0};
    }
    fit->rates.of[loop] = made;
}

bool bench_fit_squares(const bench_costs *costs, const char *without, bench_fit *fit) {
    const size_t room = (size_t)costs->rows.count + 1;
    sample *const samples = calloc(room, sizeof *samples);
    double *const weight = calloc(room, sizeof *weight);
    memset(fit, 0, sizeof *fit);
    bench_rates_built_in(&fit->rates);
    /* Transforms wait for the rates of their inner plans. */
    for (int pass = 0; pass < 2 && samples != NULL && weight != NULL; ++pass) {
        for (int i = 0; i < fit->rates.count; ++i) {
            if (is_transform(costs, i) == (pass == 1)) {
                fit_loop(costs, without, fit, i, samples, weight);
            }
        }
    }
    free(samples);
    free(weight);
    return samples != NULL && weight != NULL;
}
