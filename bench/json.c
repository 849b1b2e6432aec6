/* json.c - a reader of the JSON that the benchmarks have. */
#include "json.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_json_fail(bench_json *json, const char *format, ...) {
    if (!json->failed) {
        const int used = snprintf(json->error, json->error_size, "line %d: ", json->line);
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(json->error + used, json->error_size - (size_t)used, format, arguments);
        va_end(arguments);
        json->failed = true;
    }
}

void bench_json_skip_space(bench_json *json) {
    for (; isspace((unsigned char)*json->at); ++json->at) {
        json->line += *json->at == '\n';
    }
}

bool bench_json_accept(bench_json *json, char c) {
    bench_json_skip_space(json);
    if (json->failed || *json->at != c) {
        return false;
    }
    ++json->at;
    return true;
}

void bench_json_expect(bench_json *json, char c) {
    if (!bench_json_accept(json, c)) {
        bench_json_fail(json, "'%c' was expected", c);
    }
}

void bench_json_text(bench_json *json, char *text, size_t size) {
    size_t used = 0;
    bench_json_expect(json, '"');
    while (!json->failed && *json->at != '"') {
        if (*json->at == '\0' || *json->at == '\n' || *json->at == '\\' || used + 1 >= size) {
            bench_json_fail(json, "a name must be short and plain");
            return;
        }
        text[used++] = *json->at++;
    }
    text[used] = '\0';
    bench_json_expect(json, '"');
}

int64_t bench_json_integer(bench_json *json) {
    char *end = NULL;
    bench_json_skip_space(json);
    const long long value = strtoll(json->at, &end, 10);
    if (json->failed || end == json->at || (*end != '\0' && strchr(".eE", *end) != NULL)) {
        bench_json_fail(json, "an integer was expected");
        return 0;
    }
    json->at = end;
    return (int64_t)value;
}

void bench_json_pair(bench_json *json, int64_t pair[2]) {
    bench_json_expect(json, '[');
    pair[0] = bench_json_integer(json);
    bench_json_expect(json, ',');
    pair[1] = bench_json_integer(json);
    bench_json_expect(json, ']');
}

double bench_json_number(bench_json *json) {
    char *end = NULL;
    bench_json_skip_space(json);
    if (!json->failed && strncmp(json->at, "null", 4) == 0) {
        json->at += 4;
        return -1;
    }
    const double value = strtod(json->at, &end);
    if (json->failed || end == json->at || !isfinite(value)) {
        bench_json_fail(json, "a finite number or null was expected");
        return -1;
    }
    json->at = end;
    return value;
}

bool bench_json_bool(bench_json *json) {
    const bool value = bench_json_accept(json, 't');
    const char *const rest = value ? "rue" : "alse";
    if (!value) {
        bench_json_expect(json, 'f');
    }
    if (json->failed || strncmp(json->at, rest, strlen(rest)) != 0) {
        bench_json_fail(json, "true or false was expected");
        return false;
    }
    json->at += strlen(rest);
    return value;
}

char *bench_read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    size_t used = 0;
    size_t size = 1 << 16;
    char *text = malloc(size);
    while (text != NULL) {
        used += fread(text + used, 1, size - used - 1, file);
        if (used + 1 < size) {
            text[used] = '\0';
            break;
        }
        size *= 2;
        char *larger = realloc(text, size);
        if (larger == NULL) {
            free(text);
        }
        text = larger;
    }
    (void)fclose(file);
    return text;
}
