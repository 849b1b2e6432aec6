/* csv.h - a table of numbers by step that grows while a training runs: one line a step, the step
 * first. A resumed run cuts it back to its step, so that the file is that of an uninterrupted one.
 */
#ifndef EXAMPLES_COMMON_CSV_H
#define EXAMPLES_COMMON_CSV_H

#include <stdint.h>

typedef struct csv csv;

/* `columns` is the header behind "step,": names with commas. `done` 0 begins the file anew; above 0
 * the rows up to that step stay, what follows them is cut off, and a missing file begins there. A
 * file with another header is an error. */
csv *csv_open(const char *path, const char *columns, int64_t done);

/* One row, in the hands of the system when the call returns. Numbers have 9 significant digits. */
void csv_row(csv *table, int64_t step, const double *numbers, int count);

void csv_flush(csv *table); /* to the disk: rows before a checkpoint are never lost behind it */
void csv_close(csv *table); /* NULL is legal */

#endif
