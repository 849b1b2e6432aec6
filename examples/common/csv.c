#include "common/csv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/common.h"

struct csv {
    FILE *file;
    char path[4096];
};

enum { LONGEST_LINE = 1024 };

static _Noreturn void fail_at(const csv *table, const char *action) {
    fail("%s %s: %s", action, table->path, strerror(errno));
}

/* Go behind the last row that stays. A line without its end was being written when the process
 * died. */
static void cut_back(const csv *table, const char *header, int64_t done) {
    char line[LONGEST_LINE];
    if (fgets(line, sizeof line, table->file) == NULL || strcmp(line, header) != 0) {
        fail("%s does not begin with the line %.*s: it is of another training", table->path,
             (int)strcspn(header, "\n"), header);
    }
    long end = ftell(table->file);
    while (fgets(line, sizeof line, table->file) != NULL && strchr(line, '\n') != NULL) {
        char *comma;
        const long long step = strtoll(line, &comma, 10);
        if (comma == line || *comma != ',') {
            fail("%s: '%.*s' is no row of a training", table->path, (int)strcspn(line, "\n"), line);
        }
        if (step > done) {
            break;
        }
        end = ftell(table->file);
    }
    if (end < 0 || ferror(table->file) || fseek(table->file, end, SEEK_SET) != 0 ||
        ftruncate(fileno(table->file), end) != 0) {
        fail_at(table, "cannot go back to its step in");
    }
}

csv *csv_open(const char *path, const char *columns, int64_t done) {
    csv *table = allocate(1, sizeof *table);
    char header[LONGEST_LINE];
    snprintf(table->path, sizeof table->path, "%s", path);
    snprintf(header, sizeof header, "step,%s\n", columns);
    if (done > 0) {
        table->file = fopen(path, "r+");
        if (table->file == NULL && errno != ENOENT) {
            fail_at(table, "cannot open");
        }
    }
    if (table->file != NULL) {
        cut_back(table, header, done);
        return table;
    }
    table->file = fopen(path, "w");
    if (table->file == NULL || fputs(header, table->file) == EOF) {
        fail_at(table, "cannot write");
    }
    return table;
}

void csv_row(csv *table, int64_t step, const double *numbers, int count) {
    char line[LONGEST_LINE];
    size_t length = (size_t)snprintf(line, sizeof line, "%" PRId64, step);
    for (int i = 0; i < count && length < sizeof line - 32; ++i) {
        length += (size_t)snprintf(line + length, sizeof line - length, ",%.9g", numbers[i]);
    }
    line[length] = '\n';
    if (fwrite(line, 1, length + 1, table->file) != length + 1 || fflush(table->file) != 0) {
        fail_at(table, "cannot write");
    }
}

void csv_flush(csv *table) {
    /* A pipe or a terminal cannot be flushed to a disk. */
    if (fflush(table->file) != 0 || (fsync(fileno(table->file)) != 0 && errno != EINVAL)) {
        fail_at(table, "cannot write");
    }
}

void csv_close(csv *table) {
    if (table != NULL) {
        if (fclose(table->file) != 0) {
            fail_at(table, "cannot write");
        }
        free(table);
    }
}
