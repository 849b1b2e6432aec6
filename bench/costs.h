/* costs.h - what a matrix of measurements says about the choice of variants. Needs the CUDA toolkit
 * and no GPU. */
#ifndef BENCH_COSTS_H
#define BENCH_COSTS_H

#include "kernels/cuda/conv/select/cost.h"
#include "matrix.h"

UF_BEGIN_DECLS

/* Rates of a main loop by another source than gpu_h200.def; NULL: those of the file. */
typedef const uf_conv_rates *bench_rates_of(const uf_conv_loop *loop, void *user);

typedef struct bench_regret {
    double mean;  /* of time of the choice over the least of all variants and tiles that the matrix
                     has, less 1: geometric, over cells */
    double worst; /* of a cell */
    int64_t worst_row; /* of the matrix: a row of that cell */
    int64_t cells;
} bench_regret;

/* Over the cells of a type and math; op -1: of every direction. The rows of a cell stand together.
 */
bench_regret bench_regret_of(const bench_matrix *matrix, uf_dtype dtype, uf_math math, int op,
                             bench_rates_of *rates_of, void *user);

/* A plan of the row's variant and tile for its layer, on an H200; false where the variant does not
 * take it. plan has two elements. args is filled; *problem borrows it and gpu. */
bool bench_plan_row(const bench_matrix_row *row, uf_conv_kernel_args *args, uf_gpu *gpu,
                    uf_conv_problem *problem, uf_conv_plan *plan);

/* Does the variant take the row's tile by itself now, whatever it took when the row was measured?
 */
bool bench_is_own_tile(const bench_matrix_row *row);

UF_END_DECLS

#endif
