/* matrix.c - writes and reads the JSON lines of bench_ops --every-variant. */
#include "matrix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "options.h"

static void write_text(FILE *file, const char *key, const char *text) {
    (void)fprintf(file, ", \"%s\": \"", key);
    for (; *text != '\0'; ++text) {
        const bool plain = (unsigned char)*text >= ' ' && *text != '"' && *text != '\\';
        (void)fputc(plain ? *text : '\'', file);
    }
    (void)fputc('"', file);
}

static void write_number(FILE *file, const char *key, double value) {
    if (isfinite(value) && value >= 0) {
        (void)fprintf(file, ", \"%s\": %.7g", key, value);
    } else {
        (void)fprintf(file, ", \"%s\": null", key);
    }
}

void bench_matrix_write_head(FILE *file, const bench_matrix_head *head) {
    (void)fprintf(file, "{\"matrix\": %d", BENCH_MATRIX_VERSION);
    write_text(file, "gpu", head->gpu);
    (void)fprintf(file, ", \"capability\": %d", head->capability);
    write_text(file, "driver", head->driver);
    write_text(file, "cuda", head->cuda);
    write_text(file, "cudnn", head->cudnn);
    write_text(file, "version", head->version);
    write_text(file, "commit", head->commit);
    write_text(file, "date", head->date);
    write_number(file, "copy_bytes_per_s", head->copy_rate);
    write_number(file, "budget_ms", head->budget_ms);
    (void)fputs("}\n", file);
}

void bench_matrix_write_row(FILE *file, const bench_matrix_row *row) {
    const bench_shape *const s = &row->shape;
    (void)fprintf(
        file,
        "{\"list\": \"%s\", \"name\": \"%s\", \"op\": \"%s\", \"dtype\": \"%s\", \"math\": \"%s\"",
        s->list, s->name, bench_op_names[row->op], uf_dtype_name(row->dtype),
        bench_math_names[row->math]);
    write_text(file, "variant", row->variant);
    write_text(file, "main_loop", row->main_loop);
    write_number(file, "ms", row->ms);
    write_number(file, "spread", row->ms >= 0 ? row->spread : -1);
    write_number(file, "estimate_us", row->estimate_us);
    if (row->tile >= 0) {
        (void)fprintf(file, ", \"tile\": %d, \"own_tile\": %s", row->tile,
                      row->own_tile ? "true" : "false");
    }
    (void)fprintf(file, ", \"chosen\": %s", row->chosen ? "true" : "false");
    write_text(file, "untimed", row->untimed);
    write_text(file, "plan", row->plan);
    (void)fprintf(file, ", \"n\": %lld, \"c_in\": %lld, \"c_out\": %lld, \"h\": %lld, \"w\": %lld",
                  (long long)s->n, (long long)s->c_in, (long long)s->c_out, (long long)s->h,
                  (long long)s->w);
    const struct {
        const char *key;
        const int64_t *pair;
    } pairs[] = {{"kernel", s->kernel},
                 {"stride", s->stride},
                 {"padding", s->padding},
                 {"output_padding", s->output_padding},
                 {"dilation", s->dilation}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; ++i) {
        (void)fprintf(file, ", \"%s\": [%lld, %lld]", pairs[i].key, (long long)pairs[i].pair[0],
                      (long long)pairs[i].pair[1]);
    }
    (void)fprintf(file, ", \"groups\": %lld}\n", (long long)s->groups);
}

/* One of `count` names, read as a text. */
static int read_name(bench_json *json, const char *const *names, int count) {
    char text[32];
    bench_json_text(json, text, sizeof text);
    for (int i = 0; i < count && !json->failed; ++i) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    bench_json_fail(json, "\"%s\" is no name that was expected", text);
    return 0;
}

/* Fields of either kind of line. */
typedef struct field {
    const char *key;
    char *text;
    size_t size;
    double *number;
} field;

static bool read_known(bench_json *json, const char *key, const field *fields, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        if (strcmp(key, fields[i].key) == 0) {
            if (fields[i].text != NULL) {
                bench_json_text(json, fields[i].text, fields[i].size);
            } else {
                *fields[i].number = bench_json_number(json);
            }
            return true;
        }
    }
    return false;
}

static void read_key(bench_json *json, char key[64]) {
    bench_json_text(json, key, 64);
    bench_json_expect(json, ':');
}

#define TEXT(name, member)                                                                         \
    { name, member, sizeof(member), NULL }
#define NUMBER(name, member)                                                                       \
    { name, NULL, 0, &(member) }

static void read_head(bench_json *json, bench_matrix_head *head) {
    double version = 0, capability = 0;
    const field fields[] = {TEXT("gpu", head->gpu),
                            TEXT("driver", head->driver),
                            TEXT("cuda", head->cuda),
                            TEXT("cudnn", head->cudnn),
                            TEXT("version", head->version),
                            TEXT("commit", head->commit),
                            TEXT("date", head->date),
                            NUMBER("copy_bytes_per_s", head->copy_rate),
                            NUMBER("budget_ms", head->budget_ms),
                            NUMBER("capability", capability),
                            NUMBER("matrix", version)};
    bench_json_expect(json, '{');
    do {
        char key[64];
        read_key(json, key);
        if (!json->failed && !read_known(json, key, fields, sizeof fields / sizeof fields[0])) {
            bench_json_fail(json, "\"%s\" is no field of a matrix' head", key);
        }
    } while (bench_json_accept(json, ','));
    bench_json_expect(json, '}');
    head->capability = (int)capability;
    if (version != BENCH_MATRIX_VERSION) {
        bench_json_fail(json, "this is no matrix of version %d", BENCH_MATRIX_VERSION);
    }
}

static void read_row(bench_json *json, bench_matrix_row *row) {
    static const char *const dtypes[] = {"f32", "f64", "bf16"};
    static const uf_dtype dtype_of[] = {UF_F32, UF_F64, UF_BF16};
    double tile = -1;
    const field fields[] = {TEXT("variant", row->variant),
                            TEXT("main_loop", row->main_loop),
                            TEXT("untimed", row->untimed),
                            TEXT("plan", row->plan),
                            TEXT("list", row->shape.list),
                            NUMBER("tile", tile),
                            NUMBER("ms", row->ms),
                            NUMBER("spread", row->spread),
                            NUMBER("estimate_us", row->estimate_us)};
    memset(row, 0, sizeof *row);
    row->ms = row->spread = row->estimate_us = -1;
    row->own_tile = true; /* without a tile, the row is of the variant's own */
    bench_json_shape_begin(&row->shape);
    bench_json_expect(json, '{');
    do {
        char key[64];
        read_key(json, key);
        if (json->failed) {
            return;
        }
        if (strcmp(key, "op") == 0) {
            row->op = (bench_op)read_name(json, bench_op_names, BENCH_OPS);
        } else if (strcmp(key, "math") == 0) {
            row->math = (uf_math)read_name(json, bench_math_names, BENCH_MATHS);
        } else if (strcmp(key, "dtype") == 0) {
            row->dtype = dtype_of[read_name(json, dtypes, 3)];
        } else if (strcmp(key, "chosen") == 0) {
            row->chosen = bench_json_bool(json);
        } else if (strcmp(key, "own_tile") == 0) {
            row->own_tile = bench_json_bool(json);
        } else if (!read_known(json, key, fields, sizeof fields / sizeof fields[0]) &&
                   !bench_json_shape_field(json, key, &row->shape)) {
            bench_json_fail(json, "\"%s\" is no field of a row", key);
        }
    } while (bench_json_accept(json, ','));
    bench_json_expect(json, '}');
    bench_json_shape_end(json, &row->shape);
    row->tile = (int)tile;
    if (row->variant[0] == '\0') {
        bench_json_fail(json, "a row has no variant");
    }
}

bench_matrix *bench_matrix_read(const char *path, char *error, size_t error_size) {
    bench_json json = {NULL, 1, error, error_size, false};
    char *const text = bench_read_file(path);
    bench_matrix *const matrix = calloc(1, sizeof *matrix);
    int64_t capacity = 0;
    if (text == NULL || matrix == NULL) {
        (void)snprintf(error, error_size, "%s", text == NULL ? "cannot be read" : "out of memory");
        free(text);
        free(matrix);
        return NULL;
    }
    json.at = text;
    read_head(&json, &matrix->head);
    for (bench_json_skip_space(&json); !json.failed && *json.at != '\0';
         bench_json_skip_space(&json)) {
        if (matrix->count == capacity) {
            capacity = capacity == 0 ? 256 : 2 * capacity;
            bench_matrix_row *larger =
                realloc(matrix->rows, (size_t)capacity * sizeof *matrix->rows);
            if (larger == NULL) {
                bench_json_fail(&json, "out of memory");
                break;
            }
            matrix->rows = larger;
        }
        read_row(&json, &matrix->rows[matrix->count++]);
    }
    free(text);
    if (json.failed) {
        bench_matrix_destroy(matrix);
        return NULL;
    }
    return matrix;
}

void bench_matrix_destroy(bench_matrix *matrix) {
    if (matrix != NULL) {
        free(matrix->rows);
        free(matrix);
    }
}
