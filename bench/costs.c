/* costs.c - the regret of the choice over a matrix of measurements. */
#include "costs.h"

#include <math.h>
#include <string.h>

#include "kernels/cuda/conv/select/choose.h"

static const uf_conv_direction direction_of[] = {UF_CONV_DGRAD, UF_CONV_FPROP, UF_CONV_WGRAD};

bool bench_plan_row(const bench_matrix_row *row, uf_conv_kernel_args *args, uf_gpu *gpu,
                    uf_conv_problem *problem, uf_conv_plan *plan) {
    *gpu = uf_gpu_h200();
    bench_kernel_args(&row->shape, row->dtype, row->math, args);
    *problem = uf_conv_problem_of(direction_of[row->op], args, gpu);
    plan[0].inner = &plan[1];
    plan[1].inner = NULL;
    problem->tile = row->tile < 0 ? UF_CONV_ANY_TILE : row->tile;
    return uf_conv_plan_variant(problem, uf_conv_forced_of(row->variant).variant, plan);
}

bool bench_is_own_tile(const bench_matrix_row *row) {
    bench_matrix_row any = *row;
    uf_conv_kernel_args args;
    uf_gpu gpu;
    uf_conv_problem problem;
    uf_conv_plan plan[2];
    any.tile = -1;
    return row->tile < 0 ||
           (bench_plan_row(&any, &args, &gpu, &problem, plan) && plan->tile == row->tile);
}

static bool same_cell(const bench_matrix_row *a, const bench_matrix_row *b) {
    return strcmp(a->shape.name, b->shape.name) == 0 && a->op == b->op && a->dtype == b->dtype &&
           a->math == b->math;
}

/* Microseconds that the cost model expects of a row; HUGE_VAL: none. */
static double expected(const bench_matrix_row *row, bench_rates_of *rates_of, void *user) {
    uf_conv_kernel_args args;
    uf_gpu gpu;
    uf_conv_problem problem;
    uf_conv_plan plan[2];
    if (!bench_plan_row(row, &args, &gpu, &problem, plan)) {
        return HUGE_VAL;
    }
    const uf_conv_rates *rates = rates_of == NULL ? NULL : rates_of(plan->loop, user);
    return uf_conv_microseconds_at(&problem, plan->cost,
                                   rates != NULL ? rates : uf_conv_rates_of(plan->loop));
}

bench_regret bench_regret_of(const bench_matrix *matrix, uf_dtype dtype, uf_math math, int op,
                             bench_rates_of *rates_of, void *user) {
    bench_regret regret = {0.0, 0.0, -1, 0};
    double logs = 0.0;
    for (int64_t first = 0, next; first < matrix->count; first = next) {
        const bench_matrix_row *const cell = &matrix->rows[first];
        double least = HUGE_VAL, taken = -1.0, best = HUGE_VAL;
        next = first;
        while (next < matrix->count && same_cell(cell, &matrix->rows[next])) {
            ++next;
        }
        if (cell->dtype != dtype || cell->math != math || (op >= 0 && (int)cell->op != op)) {
            continue;
        }
        for (int64_t i = first; i < next; ++i) {
            const bench_matrix_row *const row = &matrix->rows[i];
            /* The choice is among variants, each with its own tile; the best may be any row. */
            const double us = bench_is_own_tile(row) ? expected(row, rates_of, user) : HUGE_VAL;
            if (us < best) {
                best = us;
                taken = row->ms;
            }
            least = row->ms >= 0.0 && row->ms < least ? row->ms : least;
        }
        if (taken < 0.0) {
            continue; /* the choice was not timed */
        }
        const double ratio = taken / least;
        logs += log(ratio);
        ++regret.cells;
        if (ratio - 1.0 > regret.worst || regret.worst_row < 0) {
            regret.worst = ratio - 1.0;
            regret.worst_row = first;
        }
    }
    regret.mean = regret.cells > 0 ? expm1(logs / (double)regret.cells) : 0.0;
    return regret;
}
