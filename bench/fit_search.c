/* fit_search.c - rates of the least regret. Least squares treat an error of a variant that never
 * wins as one of a variant that does; here the rates move by steps while the loss becomes less:
 *
 *     mean over cells of log(time / least time), of the choice and of what errors might choose,
 *     and of the choice that a GPU of 8.0 has
 *     + ESTIMATES * mean over calls of the squared relative error of the estimates
 *
 * The second term keeps estimates near times, so that layers nobody measured have them too. Rates
 * have the digits that the file has, so that the rates which are judged are those of the file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fit.h"

enum { ROUNDS = 60, FEATURES = 4, MOST_CANDIDATES = 32 };

/* 10 and 30 do no better on lists held out: docs/lab/choice.md. */
static const double ESTIMATES = 3.0;
static const double SPREAD = 0.1;  /* of estimates, relative: what an error might choose */
static const double CHOICE = 0.5;  /* weight of the choice itself, beside what errors choose */
static const double UNKNOWN = 0.1; /* added to transforms with an inner plan that was not timed */
/* More than this against the choice of the matrix' day weighs a hundred times: no layer may pay for
 * the mean of all. */
static const double WORSE = 0.025;
static const double WORSE_WEIGHT = 100.0;
static const double OLDER = 1.0; /* weight of the choice among variants that run from 8.0 on */
static const double LEAST_GAIN = 1e-7;

typedef struct search {
    const bench_costs *costs;
    const char *without;
    int arithmetic;
    bench_rates *rates;
    double *loss;   /* by choice; their sum becomes less */
    bool *concerns; /* by choice and main loop: its rates may change the loss */
    int64_t cells, calls;
} search;

static double rounded(double value) {
    char text[32];
    (void)snprintf(text, sizeof text, BENCH_FIT_DIGITS, value);
    return strtod(text, NULL);
}

static double squared_error(double estimate, double us) {
    const double off = fabs(estimate / us - 1.0);
    return off < BENCH_FIT_SURE ? off * off : BENCH_FIT_SURE * (2.0 * off - BENCH_FIT_SURE);
}

/* The candidates of a cell, or some of them. */
typedef struct field {
    double estimate[MOST_CANDIDATES], us[MOST_CANDIDATES];
    double best; /* of all times */
    double was;  /* of an earlier choice; 0: not known */
    int count;
} field;

/* The chance that a candidate is chosen falls with its distance from the least estimate. */
static double regret_of(const field *of) {
    int least = 0;
    double sum = 0.0, chances = 0.0;
    for (int i = 1; i < of->count; ++i) {
        least = of->estimate[i] < of->estimate[least] ? i : least;
    }
    for (int i = 0; i < of->count; ++i) {
        const double chance = pow(of->estimate[i] / of->estimate[least], -1.0 / SPREAD);
        sum += chance * log(of->us[i] / of->best);
        chances += chance;
    }
    const double worse = of->was > 0.0 ? log(of->us[least] / of->was) - WORSE : 0.0;
    return sum / chances + CHOICE * log(of->us[least] / of->best) +
           (worse > 0.0 ? WORSE_WEIGHT * worse : 0.0);
}

static void enter(field *to, const bench_candidate *one, double estimate, double us) {
    if (to->count < MOST_CANDIDATES) {
        to->estimate[to->count] = estimate;
        to->us[to->count++] = us;
        to->best = one->row->ms > 0.0 ? fmin(to->best, one->us) : to->best;
    }
}

static double loss_of(const search *of, const bench_choice *choice) {
    field all = {.best = HUGE_VAL, .was = choice->was}, older = {.best = HUGE_VAL};
    double squares = 0.0;
    for (int64_t i = choice->first; i < choice->first + choice->count; ++i) {
        const bench_candidate *const one = &of->costs->rows.at[i];
        int64_t inner;
        const double estimate = bench_costs_estimate(of->costs, one, of->rates, &inner);
        const double us = one->us * (inner == one->inner_measured ? 1.0 : 1.0 + UNKNOWN);
        squares += one->row->ms > 0.0 ? squared_error(estimate, one->us) : 0.0;
        enter(&all, one, estimate, us);
        if (one->from_80) {
            enter(&older, one, estimate, us);
        }
    }
    return (regret_of(&all) + (isfinite(older.best) ? OLDER * regret_of(&older) : 0.0)) /
               (double)of->cells +
           ESTIMATES * squares / (double)of->calls;
}

static bool counts(const search *of, const bench_choice *choice) {
    return choice->count > 0 && isfinite(choice->best) && choice->arithmetic == of->arithmetic &&
           (of->without == NULL ||
            strcmp(of->costs->rows.at[choice->first].row->shape.list, of->without) != 0);
}

/* The sum of losses, after those that a main loop's rates may have changed are made anew. */
static double total_after(search *of, int loop) {
    double sum = 0.0;
    for (int64_t i = 0; i < of->costs->choice_count; ++i) {
        if (of->concerns[i * BENCH_MOST_LOOPS + loop]) {
            of->loss[i] = loss_of(of, &of->costs->choices[i]);
        }
        sum += of->loss[i];
    }
    return sum;
}

static void mark(search *of, int64_t choice_index) {
    const bench_choice *const choice = &of->costs->choices[choice_index];
    bool *const concerns = &of->concerns[choice_index * BENCH_MOST_LOOPS];
    ++of->cells;
    for (int64_t i = choice->first; i < choice->first + choice->count; ++i) {
        const bench_candidate *const one = &of->costs->rows.at[i];
        concerns[one->loop] = true;
        of->calls += one->row->ms > 0.0;
        for (int64_t j = one->inner; j < one->inner + one->inners; ++j) {
            concerns[of->costs->inner.at[j].loop] = true;
        }
    }
}

static double *rate_of(uf_conv_rate *rate, int feature) {
    double *const rates[FEATURES] = {&rate->work, &rate->call, &rate->filter, &rate->tensors};
    return rates[feature];
}

/* The best of several steps of one rate; false: it stays. */
static bool step(search *of, int loop, int feature, bool few, double *total) {
    static const double factors[] = {0.0,  0.5,  0.8,  0.9, 0.95, 0.98, 0.99,
                                     1.01, 1.02, 1.05, 1.1, 1.25, 2.0};
    /* Rates that are 0 begin here; a MB takes a part of a microsecond. */
    static const double first[FEATURES][3] = {
        {0.05, 0.2, 0.8}, {0.2, 1.0, 4.0}, {0.1, 0.5, 2.0}, {0.01, 0.05, 0.2}};
    double *const rate = rate_of(&of->rates->of[loop].of[of->arithmetic], feature);
    const double was = *rate;
    const size_t count = was > 0.0 ? sizeof factors / sizeof factors[0] : few ? 0 : 3;
    double best = was;
    for (size_t i = 0; i < count; ++i) {
        const double stepped = was > 0.0 ? was * factors[i] : first[feature][i];
        *rate = rounded(fmax(stepped, feature == 0 ? BENCH_FIT_LEAST_WORK : 0.0));
        if (few && feature == 1 && *rate > BENCH_FIT_MOST_CALL) {
            break;
        }
        const double now = total_after(of, loop);
        if (now < *total - LEAST_GAIN) {
            *total = now;
            best = *rate;
        }
    }
    *rate = best;
    (void)total_after(of, loop);
    return best != was;
}

static void descend(search *of, const bench_fit *fit) {
    double total = 0.0;
    for (int loop = 0; loop < fit->rates.count; ++loop) {
        total = total_after(of, loop);
    }
    bool moved = true;
    for (int round = 0; round < ROUNDS && moved; ++round) {
        moved = false;
        for (int loop = 0; loop < fit->rates.count; ++loop) {
            const int64_t calls = fit->unfit[loop] ? 0 : fit->calls[loop][of->arithmetic];
            for (int f = 0; f < FEATURES && calls > 0; ++f) {
                moved = step(of, loop, f, calls < BENCH_FIT_LEAST_CALLS, &total) || moved;
            }
        }
    }
}

static void search_arithmetic(search *of, bench_fit *fit) {
    const int64_t choices = of->costs->choice_count;
    memset(of->loss, 0, (size_t)choices * sizeof *of->loss);
    memset(of->concerns, 0, (size_t)choices * BENCH_MOST_LOOPS * sizeof *of->concerns);
    of->cells = of->calls = 0;
    for (int64_t i = 0; i < choices; ++i) {
        if (counts(of, &of->costs->choices[i])) {
            mark(of, i);
        }
    }
    if (of->calls > 0) {
        descend(of, fit);
    }
}

/* An arithmetic without calls takes another's rates: TF32's rather than bf16's, since most main
 * loops compute BF16 of f32 tensors as TF32. */
static void fill(bench_fit *fit) {
    static const int order[] = {UF_CONV_RATE_TF32, UF_CONV_RATE_BF16, UF_CONV_RATE_FP32};
    for (int loop = 0; loop < fit->rates.count; ++loop) {
        int from = 0;
        while (from < 3 && fit->calls[loop][order[from]] == 0) {
            ++from;
        }
        for (int a = 0; a < UF_CONV_RATES && from < 3; ++a) {
            if (fit->calls[loop][a] == 0) {
                fit->rates.of[loop].of[a] = fit->rates.of[loop].of[order[from]];
            }
        }
    }
}

bool bench_fit_search(const bench_costs *costs, const char *without, bench_fit *fit) {
    const size_t choices = (size_t)costs->choice_count + 1;
    search of = {.costs = costs, .without = without, .rates = &fit->rates};
    of.loss = calloc(choices, sizeof *of.loss);
    of.concerns = calloc(choices * BENCH_MOST_LOOPS, sizeof *of.concerns);
    const bool memory = of.loss != NULL && of.concerns != NULL;
    for (int loop = 0; loop < fit->rates.count; ++loop) {
        for (int a = 0; a < UF_CONV_RATES; ++a) {
            for (int f = 0; f < FEATURES; ++f) {
                double *const rate = rate_of(&fit->rates.of[loop].of[a], f);
                *rate = rounded(*rate);
            }
        }
    }
    for (of.arithmetic = 0; of.arithmetic < UF_CONV_RATES && memory; ++of.arithmetic) {
        search_arithmetic(&of, fit);
    }
    fill(fit);
    free(of.loss);
    free(of.concerns);
    return memory;
}
