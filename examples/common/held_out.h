/* held_out.h - PREFIX-test.csv: what is measured, now and then, on data that a training does not
 * learn from. A resumed training leaves the same table as an uninterrupted one. */
#ifndef EXAMPLES_COMMON_HELD_OUT_H
#define EXAMPLES_COMMON_HELD_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/csv.h"
#include "common/train.h"

typedef struct held_out {
    const char *prefix;  /* of the file */
    const char *columns; /* names with commas between, 8 at most */
    int64_t every;       /* steps */
    csv *table;          /* NULL at first */
} held_out;

/* Is it time to measure, after `step` steps? To be asked before every step: the first answer cuts
 * the table back to where the training is. */
bool held_out_due(held_out *table, int64_t step);

/* Append a row of one number for each column, to the disk, and say it. */
void held_out_add(held_out *table, train *run, int64_t step, const double *numbers);
void held_out_close(held_out *table);

#endif
