/* fit_write.c - the file of a GPU's rates. */
#include <math.h>

#include "fit.h"

static void write_head(FILE *file, const bench_matrix *const *matrices, int count) {
    (void)fputs("/* gpu_h200.def - how fast an H200 is at each main loop. Data, written by "
                "bench/fit_costs: no row is\n"
                " * changed by hand. select/cost.c has the formula. From forced variants:\n",
                file);
    for (int i = 0; i < count; ++i) {
        const bench_matrix_head *const head = &matrices[i]->head;
        (void)fprintf(file, " *   %s, driver %s, CUDA %s, %s, commit %s, %lld rows\n", head->gpu,
                      head->driver, head->cuda, head->date, head->commit,
                      (long long)matrices[i]->count);
    }
    (void)fprintf(
        file,
        " *\n"
        " *   UF_CONV_COST(id, {{FP32}, {TF32}, {BF16 of f32 tensors}, {bf16 tensors}})\n"
        " *\n"
        " * Each brace has the factor on the main loop's own cost, microseconds of any call, of a "
        "MB of w,\n"
        " * of a MB of x and y. Comments: calls by arithmetic, and how far estimates are off (root "
        "mean\n"
        " * square). few: fewer than %d calls of an arithmetic, whose rates begin from those of "
        "all "
        "calls.\n"
        " * unfit: naive, and fitted estimates that are off by more than a third: the rates are 1 "
        "and 5 us\n"
        " * a call.\n"
        " * An arithmetic without calls has the rates of TF32, else of bf16 tensors, else of FP32. "
        "*/\n"
        "/* clang-format off */\n",
        BENCH_FIT_LEAST_CALLS);
}

/* Root mean square of the relative error of the estimates, in per cent. */
static double error_of(const bench_costs *costs, const bench_fit *fit, int loop, int arithmetic) {
    double squares = 0.0;
    int64_t count = 0;
    for (int64_t i = 0; i < costs->rows.count; ++i) {
        const bench_candidate *const one = &costs->rows.at[i];
        if (one->loop == loop && one->arithmetic == arithmetic && one->row->ms > 0.0) {
            int64_t inner;
            const double us = bench_costs_estimate(costs, one, &fit->rates, &inner);
            squares += (us / one->us - 1.0) * (us / one->us - 1.0);
            ++count;
        }
    }
    return 100.0 * sqrt(squares / (double)count);
}

static void write_comment(FILE *file, const bench_costs *costs, const bench_fit *fit, int loop) {
    const int64_t *const calls = fit->calls[loop];
    bool few = false;
    (void)fputs("/*", file);
    for (int a = 0; a < UF_CONV_RATES; ++a) {
        if (calls[a] > 0) {
            (void)fprintf(file, " %lld (%.0f %%)", (long long)calls[a],
                          error_of(costs, fit, loop, a));
        } else {
            (void)fputs(" 0", file);
        }
        few = few || (calls[a] > 0 && calls[a] < BENCH_FIT_LEAST_CALLS);
    }
    (void)fprintf(file, "%s */\n", fit->unfit[loop] ? ", unfit" : few ? ", few" : "");
}

static void write_rate(FILE *file, const uf_conv_rate *rate, const char *end) {
    const double rates[] = {rate->work, rate->call, rate->filter, rate->tensors};
    for (int i = 0; i < 4; ++i) {
        (void)fputs(i == 0 ? "{" : ", ", file);
        (void)fprintf(file, BENCH_FIT_DIGITS, rates[i]);
    }
    (void)fprintf(file, "}%s", end);
}

static bool has_calls(const bench_fit *fit, int loop) {
    for (int a = 0; a < UF_CONV_RATES; ++a) {
        if (fit->calls[loop][a] > 0) {
            return true;
        }
    }
    return false;
}

void bench_fit_write(FILE *file, const bench_matrix *const *matrices, int count,
                     const bench_costs *costs, const bench_fit *fit) {
    write_head(file, matrices, count);
    for (int i = 0; i < fit->rates.count; ++i) {
        if (!has_calls(fit, i)) {
            continue; /* without a row it counts as not measured */
        }
        const uf_conv_rate *const rate = fit->rates.of[i].of;
        write_comment(file, costs, fit, i);
        (void)fprintf(file, "UF_CONV_COST(%s, {", fit->rates.id[i]);
        write_rate(file, &rate[0], ", ");
        write_rate(file, &rate[1], ",\n    ");
        write_rate(file, &rate[2], ", ");
        write_rate(file, &rate[3], "})\n");
    }
    (void)fputs("/* clang-format on */\n", file);
}
