/* plot.c - `unfurl plot`: a table of numbers, as the losses of a training, as a picture. gnuplot
 * draws it: its script, the picture and its complaints go through files without names. */
#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"
#include "json.h"
#include "table.h"

enum { PATH_SIZE = 4096, WIDTH = 1000, HEIGHT = 600, FEW_ROWS = 50 };

extern char **environ;

struct plot_arguments {
    const char *path, *out, *columns;
    int64_t smooth;
    bool log, json;
};

/* Curves to draw: columns of the table. */
struct curves {
    int count;
    int column[TABLE_COLUMNS];
};

/* ---- the columns ---- */

static int add_curve(const struct plot_arguments *arguments, const struct table *table, int column,
                     struct curves *curves) {
    bool is_drawn = false;
    for (int64_t row = 0; row < table->rows; row++) {
        const double value = table->values[row * table->columns + column];
        is_drawn = is_drawn || (isfinite(value) && (value > 0.0 || !arguments->log));
    }
    if (!is_drawn) {
        return fail("%s: the column %s has no %s number to draw", arguments->path,
                    table->names[column], arguments->log ? "positive" : "finite");
    }
    curves->column[curves->count++] = column;
    return EXIT_DONE;
}

/* Those that --columns names, or all behind the first. */
static int choose_curves(const struct plot_arguments *arguments, const struct table *table,
                         struct curves *curves) {
    curves->count = 0;
    if (arguments->columns == NULL) {
        for (int column = 1; column < table->columns; column++) {
            TRY(add_curve(arguments, table, column, curves));
        }
        return EXIT_DONE;
    }
    const char *rest = arguments->columns;
    while (rest != NULL) {
        char name[256];
        const size_t length = strcspn(rest, ",");
        snprintf(name, sizeof name, "%.*s", (int)(length < 255 ? length : 255), rest);
        rest = rest[length] == ',' ? rest + length + 1 : NULL;
        const int column = table_find(table, name);
        if (column < 0) {
            const char *nearest =
                options_nearest(name, (const char *const *)table->names, (size_t)table->columns);
            return nearest != NULL ? fail("%s has no column '%s'; did you mean '%s'?",
                                          arguments->path, name, nearest)
                                   : fail("%s has no column '%s'", arguments->path, name);
        }
        if (curves->count == TABLE_COLUMNS) {
            return fail("--columns names more than %d columns", TABLE_COLUMNS);
        }
        TRY(add_curve(arguments, table, column, curves));
    }
    return EXIT_DONE;
}

/* The mean of the last `smooth` finite values up to `row`, fewer at the beginning; NaN where the
 * value itself is not finite. */
static double smoothed(const struct table *table, int64_t row, int column, int64_t smooth) {
    double sum = 0.0;
    int64_t count = 0;
    if (!isfinite(table->values[row * table->columns + column])) {
        return NAN;
    }
    for (int64_t i = row; i >= 0 && i > row - smooth; i--) {
        const double value = table->values[i * table->columns + column];
        if (isfinite(value)) {
            sum += value;
            count++;
        }
    }
    return sum / (double)count;
}

/* ---- gnuplot ---- */

/* A name between single quotes. gnuplot runs what stands between backticks and expands macros in
 * some of its strings: signs that mean anything to it become underscores. */
static void put_name(const char *name, FILE *script) {
    static const char harmless[] = " ._-+/()=:;<>*!?";
    fputc('\'', script);
    for (; *name != '\0'; name++) {
        const unsigned char byte = (unsigned char)*name;
        const bool is_safe = byte >= 0x80 || (byte >= '0' && byte <= '9') ||
                             (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
                             strchr(harmless, byte) != NULL;
        fputc(is_safe ? byte : '_', script);
    }
    fputc('\'', script);
}

static int write_script(const struct plot_arguments *arguments, const struct table *table,
                        const struct curves *curves, FILE *script) {
    fprintf(
        script,
        "set encoding utf8\n"
        "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) set terminal pngcairo noenhanced size %d,%d; "
        "else set terminal png noenhanced size %d,%d\n"
        "set grid\n%sset xlabel ",
        WIDTH, HEIGHT, WIDTH, HEIGHT, arguments->log ? "set logscale y\n" : "");
    put_name(table->names[0], script);
    fputs("\n$table << END_OF_TABLE\n", script);
    for (int64_t row = 0; row < table->rows; row++) {
        fprintf(script, "%.15g", table->values[row * table->columns]);
        for (int i = 0; i < curves->count; i++) {
            const double value = smoothed(table, row, curves->column[i], arguments->smooth);
            fprintf(script, isfinite(value) ? " %.9g" : " NaN", value);
        }
        fputc('\n', script);
    }
    fputs("END_OF_TABLE\nplot ", script);
    for (int i = 0; i < curves->count; i++) {
        fprintf(script, "%s$table using 1:%d with %s title ", i > 0 ? ", " : "", i + 2,
                table->rows <= FEW_ROWS ? "linespoints pointtype 7" : "lines");
        put_name(table->names[curves->column[i]], script);
    }
    fputc('\n', script);
    return fflush(script) == 0 && fseek(script, 0, SEEK_SET) == 0
               ? EXIT_DONE
               : fail("cannot write a temporary file: %s", strerror(errno));
}

/* The first line that gnuplot complained with, without its end. */
static void first_complaint(FILE *complaints, char *text, size_t size) {
    text[0] = '\0';
    rewind(complaints);
    while (text[0] == '\0' && fgets(text, (int)size, complaints) != NULL) {
        text[strcspn(text, "\n")] = '\0';
    }
}

static int wait_for(pid_t child, FILE *complaints) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return fail("cannot wait for gnuplot: %s", strerror(errno));
        }
    }
    if (WIFSIGNALED(status)) {
        return fail("gnuplot was killed by signal %d", WTERMSIG(status));
    }
    if (WEXITSTATUS(status) != 0) {
        char text[512];
        first_complaint(complaints, text, sizeof text);
        return fail("gnuplot failed with status %d%s%s", WEXITSTATUS(status),
                    text[0] != '\0' ? ": " : "", text);
    }
    return EXIT_DONE;
}

/* Run gnuplot, as PATH finds it, with its three streams in files. No shell has a part in it. */
static int run_gnuplot(FILE *const streams[3]) {
    char *const words[] = {(char[]){"gnuplot"}, (char[]){"--default-settings"}, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    pid_t child;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return fail("cannot start gnuplot: %s", strerror(error));
    }
    error = posix_spawnattr_init(&attributes);
    if (error != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return fail("cannot start gnuplot: %s", strerror(error));
    }
    sigemptyset(&defaults); /* this program ignores both */
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGXFSZ);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    for (int i = 0; i < 3 && error == 0; i++) {
        error = posix_spawn_file_actions_adddup2(&actions, fileno(streams[i]), i);
    }
    if (error == 0) {
        error = posix_spawnp(&child, words[0], &actions, &attributes, words, environ);
    }
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error == ENOENT || error == EACCES) {
        return fail("gnuplot draws the plot and is not in PATH: install it (Debian's gnuplot-nox)");
    }
    return error != 0 ? fail("cannot start gnuplot: %s", strerror(error))
                      : wait_for(child, streams[2]);
}

/* Let gnuplot draw, and read the picture. */
static int draw(const struct plot_arguments *arguments, const struct table *table,
                const struct curves *curves, FILE *const streams[3], uf_picture *picture) {
    TRY(write_script(arguments, table, curves, streams[0]));
    TRY(run_gnuplot(streams));
    char path[64];
    snprintf(path, sizeof path, "/dev/fd/%d", fileno(streams[1]));
    if (uf_png_read(path, picture) != UF_OK) {
        return fail("gnuplot drew no picture: %s", uf_last_error());
    }
    return EXIT_DONE;
}

static int draw_in_files(const struct plot_arguments *arguments, const struct table *table,
                         const struct curves *curves, uf_picture *picture) {
    FILE *streams[3];
    int status = EXIT_DONE;
    for (int i = 0; i < 3; i++) {
        streams[i] = tmpfile();
        if (streams[i] == NULL && status == EXIT_DONE) {
            status = fail("cannot make a temporary file: %s", strerror(errno));
        }
    }
    if (status == EXIT_DONE) {
        status = draw(arguments, table, curves, streams, picture);
    }
    for (int i = 0; i < 3; i++) {
        if (streams[i] != NULL) {
            fclose(streams[i]);
        }
    }
    return status;
}

/* ---- the command ---- */

/* --out, or the table's name with .png in place of its ending. */
static int find_out(const struct plot_arguments *arguments, char *out) {
    const char *from = arguments->out != NULL ? arguments->out : arguments->path;
    size_t kept = strlen(from);
    if (arguments->out == NULL) {
        const char *slash = strrchr(from, '/'), *name = slash != NULL ? slash + 1 : from;
        const char *dot = strrchr(name, '.');
        kept = dot != NULL && dot != name ? (size_t)(dot - from) : kept;
    } else if (file_kind_of(from) != FILE_PNG) {
        return fail_usage("--out takes a name that ends in .png, not '%s'", from);
    }
    if (kept + sizeof ".png" > PATH_SIZE) {
        return fail("the name %.40s... has more than %d bytes", from, PATH_SIZE);
    }
    snprintf(out, PATH_SIZE, "%.*s%s", (int)kept, from, arguments->out != NULL ? "" : ".png");
    return EXIT_DONE;
}

static void report(const struct plot_arguments *arguments, const struct table *table,
                   const struct curves *curves, const char *out) {
    if (!arguments->json) {
        say("%s: %d of %d columns, %" PRId64 " rows; %s", arguments->path, curves->count,
            table->columns - 1, table->rows, out);
        return;
    }
    struct json json = json_begin(stdout);
    json_open(&json, NULL, '{');
    json_text(&json, "file", arguments->path);
    json_integer(&json, "rows", table->rows);
    json_open(&json, "columns", '[');
    for (int i = 0; i < curves->count; i++) {
        json_text(&json, NULL, table->names[curves->column[i]]);
    }
    json_close(&json, ']');
    json_text(&json, "out", out);
    json_close(&json, '}');
}

static int plot_table(const struct plot_arguments *arguments, const struct table *table,
                      const char *out) {
    struct curves curves;
    uf_picture picture;
    TRY(choose_curves(arguments, table, &curves));
    TRY(draw_in_files(arguments, table, &curves, &picture));
    const int status = file_write(out, NULL, UF_F32, UF_SHAPE(0), NULL, &picture, 1);
    uf_picture_free(&picture);
    if (status == EXIT_DONE) {
        report(arguments, table, &curves, out);
    }
    return status;
}

static int plot_run(const void *parsed) {
    const struct plot_arguments *arguments = parsed;
    struct table table;
    char out[PATH_SIZE];
    TRY(find_out(arguments, out));
    TRY(table_read(arguments->path, &table));
    const int status = plot_table(arguments, &table, out);
    table_free(&table);
    return status;
}

static const struct option plot_options[] = {
    {.kind = OPTION_OPERAND,
     .name = "FILE.csv",
     .help = "a line of names, then rows of numbers; the first column is where they stand",
     .offset = offsetof(struct plot_arguments, path)},
    {.kind = OPTION_TEXT,
     .name = "out",
     .value = "FILE.png",
     .help = "the picture; FILE.png beside FILE.csv unless given",
     .offset = offsetof(struct plot_arguments, out)},
    {.kind = OPTION_TEXT,
     .name = "columns",
     .value = "NAME",
     .help = "columns to draw, with commas between their names; all unless given",
     .offset = offsetof(struct plot_arguments, columns)},
    {.kind = OPTION_INTEGER,
     .name = "smooth",
     .value = "N",
     .help = "draw the mean of the last N rows",
     .offset = offsetof(struct plot_arguments, smooth),
     .minimum = 1,
     .maximum = 1000,
     .fallback = 1},
    {.kind = OPTION_FLAG,
     .name = "log",
     .help = "a logarithmic scale; what is not positive is left out",
     .offset = offsetof(struct plot_arguments, log)},
    {.kind = OPTION_FLAG,
     .name = "json",
     .help = "print the report as JSON",
     .offset = offsetof(struct plot_arguments, json)},
};

const struct command command_plot = {
    .name = "plot",
    .summary = "Draw the curves of a CSV file, as a training's losses, through gnuplot.",
    .example = "unfurl plot garments-losses.csv --smooth 50\n"
               "unfurl plot garments-losses.csv --columns d,g --out losses.png",
    .options = plot_options,
    .option_count = sizeof plot_options / sizeof plot_options[0],
    .arguments_size = sizeof(struct plot_arguments),
    .run = plot_run,
};
