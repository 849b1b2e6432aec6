/* cell.h - one cell of a benchmark: a layer, an operation, a type and a math. */
#ifndef BENCH_CELL_H
#define BENCH_CELL_H

#include "bench.h"

UF_BEGIN_DECLS

typedef struct bench_cell {
    uf_context *context;
    bench_op op;
    uf_conv2d_args args;
    uf_view views[BENCH_TENSORS];
    char *memory[BENCH_TENSORS];
    size_t bytes[BENCH_TENSORS]; /* of one set */
    int sets;
    void *workspace;
    size_t workspace_size;
} bench_cell;

/* Allocates and fills the tensors. The cell is to be destroyed even when that fails. */
uf_status bench_cell_create(bench_cell *cell, uf_context *context, const bench_shape *shape,
                            bench_op op, uf_dtype dtype, uf_math math);
void bench_cell_destroy(bench_cell *cell);

/* The variant of the calls that follow, NULL for the library's choice, and its workspace. */
uf_status bench_cell_force(bench_cell *cell, const char *variant);

/* As bench_work wants it. */
uf_status bench_cell_run(void *cell, int set);

/* The result of set 0, which every kind of run has written, against samples. */
uf_status bench_cell_check(const bench_cell *cell, const bench_samples *samples, double *error);

/* Makes the result of set 0 NaN; is it finite again, at its begin, its middle and its end? */
uf_status bench_cell_clear(const bench_cell *cell);
uf_status bench_cell_finite(const bench_cell *cell, bool *finite);

UF_END_DECLS

#endif
