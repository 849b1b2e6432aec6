#include "table.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

struct reader {
    const char *path;
    FILE *file;
    char *line; /* without its end */
    size_t line_size;
    int64_t number; /* of the line, from 1 */
    bool ended;     /* had the line an end? */
    int64_t room;   /* rows that the table's memory holds */
};

static int out_of_memory(const struct reader *reader) {
    return fail("out of memory reading %s", reader->path);
}

/* *more is false behind the last line. */
static int next_line(struct reader *reader, bool *more) {
    errno = 0;
    const ssize_t length = getline(&reader->line, &reader->line_size, reader->file);
    *more = length > 0;
    if (length <= 0) {
        return feof(reader->file) ? EXIT_DONE
                                  : fail("cannot read %s: %s", reader->path, strerror(errno));
    }
    reader->number++;
    if (strlen(reader->line) != (size_t)length) {
        return fail("%s is no table: line %" PRId64 " holds a zero byte", reader->path,
                    reader->number);
    }
    char *end = reader->line + length - 1;
    reader->ended = *end == '\n';
    if (reader->ended) {
        *end = '\0';
        if (end > reader->line && end[-1] == '\r') {
            end[-1] = '\0';
        }
    }
    return EXIT_DONE;
}

static bool is_number(const char *text) {
    char *end;
    (void)strtod(text, &end);
    return end != text && *end == '\0';
}

/* Cut the next field off; NULL behind the last one. */
static char *next_field(char **rest) {
    char *field = *rest;
    if (field != NULL) {
        char *comma = strchr(field, ',');
        *rest = comma != NULL ? comma + 1 : NULL;
        if (comma != NULL) {
            *comma = '\0';
        }
    }
    return field;
}

static int read_names(struct reader *reader, struct table *table) {
    bool more;
    TRY(next_line(reader, &more));
    if (!more) {
        return fail("%s is empty: a table begins with the names of its columns", reader->path);
    }
    bool has_name = false;
    char *rest = reader->line;
    for (char *name; (name = next_field(&rest)) != NULL;) {
        if (table->columns == TABLE_COLUMNS) {
            return fail("%s has more than %d columns", reader->path, TABLE_COLUMNS);
        }
        if (*name == '\0') {
            return fail("%s: column %d has no name", reader->path, table->columns + 1);
        }
        if (table_find(table, name) >= 0) {
            return fail("%s has two columns that are called '%s'", reader->path, name);
        }
        has_name = has_name || !is_number(name);
        table->names[table->columns] = strdup(name);
        if (table->names[table->columns] == NULL) {
            return out_of_memory(reader);
        }
        table->columns++;
    }
    if (!has_name) {
        return fail("%s does not begin with the names of its columns, but with numbers",
                    reader->path);
    }
    return table->columns >= 2 ? EXIT_DONE
                               : fail("%s has one column; a table has two or more", reader->path);
}

static int make_room(struct reader *reader, struct table *table) {
    if (table->rows == reader->room) {
        const int64_t room = reader->room == 0 ? 1024 : 2 * reader->room;
        double *grown =
            realloc(table->values, (size_t)room * (size_t)table->columns * sizeof *grown);
        if (grown == NULL) {
            return out_of_memory(reader);
        }
        table->values = grown;
        reader->room = room;
    }
    return EXIT_DONE;
}

static int read_row(struct reader *reader, struct table *table) {
    TRY(make_room(reader, table));
    double *row = table->values + table->rows * table->columns;
    int have = 0;
    char *rest = reader->line;
    for (char *field; (field = next_field(&rest)) != NULL; have++) {
        char *end;
        const double value = strtod(field, &end);
        if (have < table->columns) {
            row[have] = value;
        }
        if (end == field || *end != '\0') {
            return reader->ended ? fail("%s is no table of numbers: line %" PRId64 " has '%.40s'",
                                        reader->path, reader->number, field)
                                 : EXIT_DONE;
        }
    }
    if (have < table->columns && !reader->ended) {
        return EXIT_DONE;
    }
    if (have != table->columns) {
        return fail("%s: line %" PRId64 " has %d numbers, %d columns have names", reader->path,
                    reader->number, have, table->columns);
    }
    if (!isfinite(row[0])) {
        return fail("%s: line %" PRId64 " has %g in the column %s, where a place is needed",
                    reader->path, reader->number, row[0], table->names[0]);
    }
    table->rows++;
    return EXIT_DONE;
}

static int read_all(struct reader *reader, struct table *table) {
    TRY(read_names(reader, table));
    for (bool more = true; more;) {
        TRY(next_line(reader, &more));
        if (more) {
            TRY(read_row(reader, table));
        }
    }
    return table->rows > 0 ? EXIT_DONE : fail("%s has no rows yet", reader->path);
}

int table_read(const char *path, struct table *table) {
    *table = (struct table){0};
    struct reader reader = {.path = path, .file = fopen(path, "rbe")};
    if (reader.file == NULL) {
        return fail("cannot open %s: %s", path, strerror(errno));
    }
    const int status = read_all(&reader, table);
    fclose(reader.file);
    free(reader.line);
    if (status != EXIT_DONE) {
        table_free(table);
    }
    return status;
}

void table_free(struct table *table) {
    for (int i = 0; i < table->columns; i++) {
        free(table->names[i]);
    }
    free(table->values);
    *table = (struct table){0};
}

int table_find(const struct table *table, const char *name) {
    for (int i = 0; i < table->columns; i++) {
        if (strcmp(table->names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}
