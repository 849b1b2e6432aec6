/* json.h - a reader of the JSON that the benchmarks have: objects, lists, plain texts, numbers. */
#ifndef BENCH_JSON_H
#define BENCH_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench.h"

UF_BEGIN_DECLS

typedef struct bench_json {
    const char *at;
    int line;
    char *error;
    size_t error_size;
    bool failed;
} bench_json;

/* Keeps the first message, with its line. */
void UF_PRINTF(2, 3) bench_json_fail(bench_json *json, const char *format, ...);

void bench_json_skip_space(bench_json *json);
/* After white space: is it c? Then it is passed. */
bool bench_json_accept(bench_json *json, char c);
void bench_json_expect(bench_json *json, char c);

/* A text without escapes that fits. */
void bench_json_text(bench_json *json, char *text, size_t size);
int64_t bench_json_integer(bench_json *json);
void bench_json_pair(bench_json *json, int64_t pair[2]); /* of integers */
double bench_json_number(bench_json *json);              /* finite, or null: -1 */
bool bench_json_bool(bench_json *json);

/* The value of a field of a shape (shapes.json) behind its key and colon; false: no such field. */
bool bench_json_shape_field(bench_json *json, const char *key, bench_shape *shape);
/* A shape whose fields have been read: computes its extents, or fails. */
void bench_json_shape_begin(bench_shape *shape);
void bench_json_shape_end(bench_json *json, bench_shape *shape);

/* The whole file and a 0 behind it; NULL when it cannot be read. The caller frees it. */
char *bench_read_file(const char *path);

UF_END_DECLS

#endif
