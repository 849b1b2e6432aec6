/* fit_costs.c - writes select/gpu_h200.def from a matrix of measurements (bench_ops
 * --every-variant).
 *
 * For each main loop and arithmetic: rates of a call's cost, call, MB of w and MB of x and y, none
 * below 0, with the least sum of squares of relative errors; errors beyond 30 % weigh as if they
 * were 30 %. Main loops with fewer than 12 calls keep the rates that they have. */
#include "costs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 4, LEAST_CALLS = 12, ROUNDS = 20, SWEEPS = 2000, MOST_LOOPS = 64 };

typedef struct sample {
    double feature[FEATURES]; /* over the time, so that a prediction of 1 is right */
} sample;

typedef struct fitted {
    const uf_conv_loop *loop;
    const char *id;
    uf_conv_rates rates;
    int64_t calls[UF_CONV_RATES];
    double error[UF_CONV_RATES]; /* root mean square, of the relative error */
} fitted;

typedef struct fit {
    fitted loops[MOST_LOOPS];
    int count;
} fit;

static double predict(const sample *s, const double *rate) {
    double sum = 0.0;
    for (int f = 0; f < FEATURES; ++f) {
        sum += rate[f] * s->feature[f];
    }
    return sum;
}

/* Weighted least squares without negative rates, by coordinate descent. */
static void solve(const sample *samples, const double *weight, int64_t count, double *rate) {
    double square[FEATURES][FEATURES] = {{0.0}}, target[FEATURES] = {0.0};
    for (int64_t i = 0; i < count; ++i) {
        for (int f = 0; f < FEATURES; ++f) {
            target[f] += weight[i] * samples[i].feature[f];
            for (int g = 0; g < FEATURES; ++g) {
                square[f][g] += weight[i] * samples[i].feature[f] * samples[i].feature[g];
            }
        }
    }
    for (int sweep = 0; sweep < SWEEPS; ++sweep) {
        for (int f = 0; f < FEATURES; ++f) {
            double rest = target[f];
            for (int g = 0; g < FEATURES; ++g) {
                rest -= g != f ? square[f][g] * rate[g] : 0.0;
            }
            rate[f] = square[f][f] > 0.0 && rest > 0.0 ? rest / square[f][f] : 0.0;
        }
    }
}

static double fit_robustly(const sample *samples, int64_t count, uf_conv_rate *made) {
    const double sure = 0.3;
    double rate[FEATURES] = {1.0, 0.0, 0.0, 0.0}, squares = 0.0;
    double *weight = calloc((size_t)count, sizeof *weight);
    if (weight == NULL) {
        return -1.0;
    }
    for (int round = 0; round < ROUNDS; ++round) {
        for (int64_t i = 0; i < count; ++i) {
            const double off = round == 0 ? 0.0 : fabs(predict(&samples[i], rate) - 1.0);
            weight[i] = off > sure ? sure / off : 1.0;
        }
        solve(samples, weight, count, rate);
    }
    for (int64_t i = 0; i < count; ++i) {
        squares += pow(predict(&samples[i], rate) - 1.0, 2.0);
    }
    free(weight);
    *made = (uf_conv_rate){rate[0], rate[1], rate[2], rate[3]};
    return sqrt(squares / (double)count);
}

/* The calls of a main loop in one arithmetic. */
static int64_t gather(const bench_matrix *matrix, const fitted *of, int arithmetic,
                      sample *samples) {
    int64_t count = 0;
    for (int64_t i = 0; i < matrix->count; ++i) {
        const bench_matrix_row *const row = &matrix->rows[i];
        uf_conv_kernel_args args;
        uf_gpu gpu;
        uf_conv_problem problem;
        uf_conv_plan plan[2];
        /* Rates compare variants, each with the tile that it takes: others must not bend them. */
        if (row->ms <= 0.0 || !bench_is_own_tile(row) ||
            !bench_plan_row(row, &args, &gpu, &problem, plan) || plan->loop != of->loop ||
            uf_conv_arithmetic(&args) != arithmetic) {
            continue;
        }
        const uf_conv_features f = uf_conv_features_of(&problem, plan->cost, of->rates.most_filter);
        const double us = 1e3 * row->ms;
        samples[count++] = (sample){{f.work / us, f.call / us, f.filter / us, f.tensors / us}};
    }
    return count;
}

static const uf_conv_rates *rates_of(const uf_conv_loop *loop, void *user) {
    const fit *const all = user;
    for (int i = 0; i < all->count; ++i) {
        if (all->loops[i].loop == loop) {
            return &all->loops[i].rates;
        }
    }
    return NULL;
}

static bool by_hand(const char *id) {
    static const char *const ids[] = {
        "naive",           "naive_wgrad",    "simt_depthwise",      "simt_gemm",
        "simt_gemm_wgrad", "space_to_depth", "space_to_depth_wgrad"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; ++i) {
        if (strcmp(id, ids[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void add_loop(fit *all, const char *id, const uf_conv_loop *loop) {
    all->loops[all->count++] = (fitted){.id = id, .loop = loop, .rates = *uf_conv_rates_of(loop)};
}

static void register_loops(fit *all) {
    all->count = 0;
#define UF_CONV_LOOP(ID, NAME, DIRECTIONS, TYPES) add_loop(all, #ID, loop++);
#define UF_CONV_VARIANT(ENUMERATOR, NAME, LEAST, MOST, LOOPS)                                      \
    {                                                                                              \
        const uf_conv_loop *loop = uf_conv_variants[UF_CUDA_CONV_##ENUMERATOR].loops;              \
        LOOPS                                                                                      \
    }
#include "kernels/cuda/conv/registry.def"
#undef UF_CONV_VARIANT
#undef UF_CONV_LOOP
}

static void write_rate(FILE *file, const uf_conv_rate *rate, const char *end) {
    (void)fprintf(file, "{%.3g, %.3g, %.3g, %.3g}%s", rate->work, rate->call, rate->filter,
                  rate->tensors, end);
}

static void write_def(FILE *file, const bench_matrix_head *head, const fit *all) {
    (void)fprintf(
        file,
        "/* gpu_h200.def - how fast an H200 is at each main loop. Data, written by bench/fit_costs "
        "from a\n"
        " * matrix of measurements: %s, driver %s, CUDA %s, %s. select/cost.c has the formula.\n"
        " *\n"
        " *   UF_CONV_COST(id, {{FP32}, {TF32}, {BF16 of f32 tensors}, {bf16 tensors}}, "
        "most_filter)\n"
        " *\n"
        " * Each brace has the factor on the main loop's own cost, microseconds of any call, of a "
        "MB of w,\n"
        " * of a MB of x and y. most_filter: MB of w beyond which more of w takes no longer; 0: "
        "none. */\n"
        "/* clang-format off */\n",
        head->gpu, head->driver, head->cuda, head->date);
    for (int i = 0; i < all->count; ++i) {
        const uf_conv_rates *const r = &all->loops[i].rates;
        (void)fprintf(file, "UF_CONV_COST(%s, {", all->loops[i].id);
        for (int a = 0; a < UF_CONV_RATES; ++a) {
            write_rate(file, &r->of[a],
                       a == UF_CONV_RATES - 1 ? "}, "
                       : a % 2 == 1           ? ",\n    "
                                              : ", ");
        }
        (void)fprintf(file, "%.3g)\n", r->most_filter);
    }
    (void)fputs("/* clang-format on */\n", file);
}

static void print_regret(const bench_matrix *matrix, fit *all) {
    static const struct {
        const char *name;
        uf_dtype dtype;
        uf_math math;
    } kinds[] = {{"f32 FP32", UF_F32, UF_MATH_FP32},
                 {"f32 TF32", UF_F32, UF_MATH_TF32},
                 {"bf16", UF_BF16, UF_MATH_BF16}};
    (void)printf("%-10s %8s %14s %14s\n", "", "cells", "regret now", "after the fit");
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; ++k) {
        const bench_regret now =
            bench_regret_of(matrix, kinds[k].dtype, kinds[k].math, -1, NULL, NULL);
        const bench_regret then =
            bench_regret_of(matrix, kinds[k].dtype, kinds[k].math, -1, rates_of, all);
        (void)printf("%-10s %8lld %13.2f%% %13.2f%%\n", kinds[k].name, (long long)now.cells,
                     100.0 * now.mean, 100.0 * then.mean);
    }
}

int main(int argc, char **argv) {
    static fit all;
    char error[256];
    if (argc != 2 && argc != 3) {
        (void)fprintf(stderr, "usage: fit_costs MATRIX [GPU.def]\n");
        return 2;
    }
    bench_matrix *const matrix = bench_matrix_read(argv[1], error, sizeof error);
    if (matrix == NULL) {
        (void)fprintf(stderr, "fit_costs: %s\n", error);
        return 1;
    }
    sample *const samples = calloc((size_t)matrix->count + 1, sizeof *samples);
    register_loops(&all);
    for (int i = 0; i < all.count && samples != NULL; ++i) {
        fitted *const of = &all.loops[i];
        for (int a = 0; a < UF_CONV_RATES && !by_hand(of->id); ++a) {
            of->calls[a] = gather(matrix, of, a, samples);
            if (of->calls[a] >= LEAST_CALLS) {
                of->error[a] = fit_robustly(samples, of->calls[a], &of->rates.of[a]);
                (void)printf("%-26s arithmetic %d: %4lld calls, %5.1f %% off\n", of->id, a,
                             (long long)of->calls[a], 100.0 * of->error[a]);
            }
        }
    }
    print_regret(matrix, &all);
    int status = samples == NULL;
    if (argc == 3) {
        FILE *const file = fopen(argv[2], "w");
        if (file != NULL) {
            write_def(file, &matrix->head, &all);
        }
        status = file == NULL || fclose(file) != 0;
    }
    free(samples);
    bench_matrix_destroy(matrix);
    return status;
}
