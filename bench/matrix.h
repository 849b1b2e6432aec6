/* matrix.h - the times of every variant and tile in every cell, as JSON lines: a head, then a row
 * for each.
 */
#ifndef BENCH_MATRIX_H
#define BENCH_MATRIX_H

#include <stdio.h>

#include "bench.h"

UF_BEGIN_DECLS

enum { BENCH_MATRIX_VERSION = 1 };

/* Texts are empty and numbers 0 where something is not known, or not there. */
typedef struct bench_matrix_head {
    char gpu[96], driver[32], cuda[16], cudnn[16], version[32], commit[64], date[16];
    int capability;   /* 90 is 9.0 */
    double copy_rate; /* bytes per second */
    double budget_ms; /* of a row */
} bench_matrix_head;

typedef struct bench_matrix_row {
    bench_shape shape;
    bench_op op;
    uf_dtype dtype;
    uf_math math;
    char variant[32], main_loop[64];
    double ms;          /* median; below 0: not timed */
    double spread;      /* distance of the quartiles, over the median */
    double estimate_us; /* below 0: none */
    int tile;           /* below 0: that which the variant takes by itself, unknown to the row */
    bool own_tile;      /* the variant took this tile by itself */
    bool chosen;        /* the library takes this variant, and this tile, for the cell */
    char untimed[160];  /* why there is no time */
    char plan[192];
} bench_matrix_row;

typedef struct bench_matrix {
    bench_matrix_head head;
    bench_matrix_row *rows;
    int64_t count;
} bench_matrix;

/* Numbers that are not finite become null; quotes, backslashes and control characters become "'".
 */
void bench_matrix_write_head(FILE *file, const bench_matrix_head *head);
void bench_matrix_write_row(FILE *file, const bench_matrix_row *row);

/* NULL with a sentence in `error` on failure. */
bench_matrix *bench_matrix_read(const char *path, char *error, size_t error_size);
void bench_matrix_destroy(bench_matrix *matrix);

UF_END_DECLS

#endif
