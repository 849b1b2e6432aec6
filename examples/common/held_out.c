#include "common/held_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_COLUMNS = 8 };

/* The row of `step` itself may have been written before the training stopped; it comes again. */
static void open_table(held_out *table, int64_t step) {
    char path[4096];
    if (table->table == NULL) {
        snprintf(path, sizeof path, "%s-test.csv", table->prefix);
        table->table = csv_open(path, table->columns, step - 1);
        csv_flush(table->table); /* the head is there before the first checkpoint is */
    }
}

bool held_out_due(held_out *table, int64_t step) {
    open_table(table, step);
    return step > 0 && step % table->every == 0;
}

void held_out_add(held_out *table, train *run, int64_t step, const double *numbers) {
    char text[512];
    size_t length = 0;
    int count = 0;
    const char *name = table->columns;
    do {
        name += count > 0;
        const int name_length = (int)strcspn(name, ",");
        length += (size_t)snprintf(text + length, sizeof text - length, "%s %.*s %.6g",
                                   count > 0 ? "," : "", name_length, name, numbers[count]);
        name += name_length;
        ++count;
    } while (*name == ',' && count < MOST_COLUMNS && length < sizeof text);
    train_say(run, "step %" PRId64 ":%s", step, text);
    open_table(table, step);
    csv_row(table->table, step, numbers, count);
    csv_flush(table->table);
}

void held_out_close(held_out *table) {
    csv_close(table->table);
    table->table = NULL;
}
