/* fit_costs.c - writes select/gpu_h200.def from matrices of measurements (bench_ops
 * --every-variant), and says what the choice loses with it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fit.h"
#include "options.h"

enum { MOST_LISTS = 16, MOST_MATRICES = 8 };

static const struct {
    const char *name;
    int arithmetic;
} kinds[] = {{"f32 in FP32", UF_CONV_RATE_FP32},
             {"f32 in TF32", UF_CONV_RATE_TF32},
             {"bf16", UF_CONV_RATE_BF16}};
enum { KINDS = (int)(sizeof kinds / sizeof kinds[0]) };

static void print_regret(const char *name, const bench_costs *costs, int matrix, const char *list,
                         const bench_rates *rates) {
    (void)printf("  %-24s", name);
    for (int k = 0; k < KINDS; ++k) {
        const bench_regret of = bench_regret_of(costs, kinds[k].arithmetic, matrix, list, rates);
        if (of.cells + of.unknown == 0) {
            (void)printf(" %18s", "-");
            continue;
        }
        (void)printf(" %6.2f %% (%5.1f %%)", 100.0 * of.mean, 100.0 * of.worst);
        if (of.unknown > 0) {
            (void)printf(" without %lld", (long long)of.unknown);
        }
    }
    (void)putchar('\n');
}

/* Matrix by matrix, and over all of them. */
static void print_regrets(const char *rates_name, const bench_costs *costs, int count,
                          const bench_rates *rates) {
    char name[32];
    (void)printf("%s\n", rates_name);
    for (int i = -1; i < count; ++i) {
        (void)snprintf(name, sizeof name, i < 0 ? "all" : "matrix %d", i + 1);
        print_regret(name, costs, i, NULL, rates);
    }
}

/* The lists of layers of the matrices. */
static int lists_of(const bench_costs *costs, const char *lists[MOST_LISTS]) {
    int count = 0;
    for (int64_t i = 0; i < costs->rows.count; ++i) {
        const char *const list = costs->rows.at[i].row->shape.list;
        int at = 0;
        while (at < count && strcmp(lists[at], list) != 0) {
            ++at;
        }
        if (at == count && count < MOST_LISTS) {
            lists[count++] = list;
        }
    }
    return count;
}

/* Rates from all lists but one are judged on that one. */
static bool cross_validate(const bench_costs *costs) {
    static bench_fit fit;
    const char *lists[MOST_LISTS];
    const int count = lists_of(costs, lists);
    for (int i = 0; i < count && count > 1; ++i) {
        (void)printf("fitted without %s, judged there\n", lists[i]);
        if (!bench_fit_squares(costs, lists[i], &fit)) {
            return false;
        }
        print_regret("least squares", costs, -1, lists[i], &fit.rates);
        if (!bench_fit_search(costs, lists[i], &fit)) {
            return false;
        }
        print_regret("least regret", costs, -1, lists[i], &fit.rates);
    }
    return true;
}

/* Cells whose choice is another than by the rates of the build. */
static void print_changes(const bench_costs *costs, const bench_rates *before,
                          const bench_rates *now) {
    (void)puts("choices that change");
    for (int64_t i = 0; i < costs->choice_count; ++i) {
        bool known[2];
        const bench_choice *const choice = &costs->choices[i];
        const bench_candidate *const from = bench_costs_chosen(costs, choice, before, &known[0]);
        const bench_candidate *const to = bench_costs_chosen(costs, choice, now, &known[1]);
        if (to != NULL && (from != to || known[0] != known[1])) {
            (void)printf("  %-12s %-11s %-5s %-5s %-23s %8.1f us -> %-23s %8.1f us %+6.1f %%%s\n",
                         to->row->shape.name, bench_op_names[to->row->op],
                         uf_dtype_name(to->row->dtype), bench_math_names[to->row->math],
                         from->row->variant, from->us, to->row->variant, to->us,
                         100.0 * (to->us / from->us - 1.0), known[1] ? "" : ", not timed");
        }
    }
}

static bool write_file(const char *path, const bench_matrix *const *matrices, int count,
                       const bench_costs *costs, const bench_fit *fit) {
    FILE *const file = fopen(path, "w");
    if (file == NULL) {
        return false;
    }
    bench_fit_write(file, matrices, count, costs, fit);
    return fclose(file) == 0;
}

/* path NULL: nothing is written, and lists are held out. */
static bool run(const bench_matrix *const *matrices, int count, const char *path) {
    static bench_fit fit;
    bench_rates before;
    bench_rates_built_in(&before);
    bench_costs *const costs = bench_costs_create(matrices, count, &before);
    bool done = costs != NULL && bench_fit_squares(costs, NULL, &fit);
    if (done) {
        (void)printf("%lld rows of plans that there are no longer are ignored; for %lld plans that "
                     "were not timed stands the variant's own tile of that day\n",
                     (long long)costs->gone, (long long)costs->changed);
        (void)printf("mean regret (of the worst cell)");
        for (int k = 0; k < KINDS; ++k) {
            (void)printf("%s%s", k == 0 ? ": " : ", ", kinds[k].name);
        }
        (void)putchar('\n');
        print_regrets("rates of this build", costs, count, &before);
        print_regrets("least squares", costs, count, &fit.rates);
        done = bench_fit_search(costs, NULL, &fit);
    }
    if (done) {
        print_regrets("least regret", costs, count, &fit.rates);
        print_changes(costs, &before, &fit.rates);
        done =
            path != NULL ? write_file(path, matrices, count, costs, &fit) : cross_validate(costs);
    }
    bench_costs_destroy(costs);
    return done;
}

int main(int argc, char **argv) {
    static bench_matrix *matrices[MOST_MATRICES];
    char error[256];
    const bool writes = argc > 2 && strcmp(argv[1], "--write") == 0;
    char **const paths = argv + (writes ? 3 : 1);
    const int count = argc - (writes ? 3 : 1);
    if (count < 1 || count > MOST_MATRICES) {
        (void)fprintf(stderr,
                      "usage: fit_costs [--write GPU.def] MATRIX... (at most %d)\n"
                      "Without GPU.def it judges rates of all lists of layers but one on that "
                      "one.\n",
                      MOST_MATRICES);
        return 2;
    }
    bool done = true;
    for (int i = 0; i < count && done; ++i) {
        matrices[i] = bench_matrix_read(paths[i], error, sizeof error);
        done = matrices[i] != NULL;
    }
    if (!done) {
        (void)fprintf(stderr, "fit_costs: %s\n", error);
    } else if (!run((const bench_matrix *const *)matrices, count, writes ? argv[2] : NULL)) {
        (void)fprintf(stderr, "fit_costs: out of memory, or %s cannot be written\n",
                      writes ? argv[2] : "nothing");
        done = false;
    }
    for (int i = 0; i < count; ++i) {
        bench_matrix_destroy(matrices[i]);
    }
    return done ? 0 : 1;
}
