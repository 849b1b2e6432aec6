/* table.h - a table of numbers from a CSV file, as the examples' losses.csv: a line of names, then
 * rows of as many numbers. */
#ifndef UF_TOOLS_TABLE_H
#define UF_TOOLS_TABLE_H

#include <stdint.h>

enum { TABLE_COLUMNS = 64 }; /* at most */

struct table {
    int columns;
    char *names[TABLE_COLUMNS]; /* owned */
    int64_t rows;
    double *values; /* [rows][columns], owned; NaN and infinities as the file has them */
};

/* Read the whole file. A last line that has no end and too few numbers is being written, and is
 * left out. Everything else that is no table is a failure that names the line; nothing is to be
 * freed then. Returns an exit status. */
int table_read(const char *path, struct table *table);
void table_free(struct table *table);

/* The number of a column, -1 where there is none. */
int table_find(const struct table *table, const char *name);

#endif
