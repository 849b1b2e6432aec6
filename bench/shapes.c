/* shapes.c - reads shapes.json: a list of objects of names, integers and pairs of integers. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

typedef struct reader {
    const char *at;
    int line;
    char *error;
    size_t error_size;
    bool failed;
} reader;

static void UF_PRINTF(2, 3) fail(reader *r, const char *format, ...) {
    if (!r->failed) {
        const int used = snprintf(r->error, r->error_size, "line %d: ", r->line);
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(r->error + used, r->error_size - (size_t)used, format, arguments);
        va_end(arguments);
        r->failed = true;
    }
}

static void skip_space(reader *r) {
    for (; isspace((unsigned char)*r->at); ++r->at) {
        r->line += *r->at == '\n';
    }
}

static bool accept(reader *r, char c) {
    skip_space(r);
    if (r->failed || *r->at != c) {
        return false;
    }
    ++r->at;
    return true;
}

static void expect(reader *r, char c) {
    if (!accept(r, c)) {
        fail(r, "'%c' was expected", c);
    }
}

static void read_text(reader *r, char *text, size_t size) {
    size_t used = 0;
    expect(r, '"');
    while (!r->failed && *r->at != '"') {
        if (*r->at == '\0' || *r->at == '\n' || *r->at == '\\' || used + 1 >= size) {
            fail(r, "a name must be short and plain");
            return;
        }
        text[used++] = *r->at++;
    }
    text[used] = '\0';
    expect(r, '"');
}

static int64_t read_integer(reader *r) {
    char *end = NULL;
    skip_space(r);
    const long long value = strtoll(r->at, &end, 10);
    if (r->failed || end == r->at || (*end != '\0' && strchr(".eE", *end) != NULL)) {
        fail(r, "an integer was expected");
        return 0;
    }
    r->at = end;
    return (int64_t)value;
}

static void read_pair(reader *r, int64_t pair[2]) {
    expect(r, '[');
    pair[0] = read_integer(r);
    expect(r, ',');
    pair[1] = read_integer(r);
    expect(r, ']');
}

static void read_field(reader *r, bench_shape *shape) {
    char key[64];
    read_text(r, key, sizeof key);
    expect(r, ':');
    const struct {
        const char *key;
        int64_t *value;
        bool pair;
    } fields[] = {
        {"n", &shape->n, false},
        {"c_in", &shape->c_in, false},
        {"c_out", &shape->c_out, false},
        {"h", &shape->h, false},
        {"w", &shape->w, false},
        {"groups", &shape->groups, false},
        {"kernel", shape->kernel, true},
        {"stride", shape->stride, true},
        {"padding", shape->padding, true},
        {"output_padding", shape->output_padding, true},
        {"dilation", shape->dilation, true},
    };
    if (!r->failed && strcmp(key, "name") == 0) {
        read_text(r, shape->name, sizeof shape->name);
        return;
    }
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i) {
        if (!r->failed && strcmp(key, fields[i].key) == 0) {
            if (fields[i].pair) {
                read_pair(r, fields[i].value);
            } else {
                *fields[i].value = read_integer(r);
            }
            return;
        }
    }
    fail(r, "\"%s\" is no field of a shape", key);
}

static void read_shape(reader *r, bench_shape *shape) {
    memset(shape, 0, sizeof *shape);
    shape->groups = 1;
    for (int axis = 0; axis < 2; ++axis) {
        shape->stride[axis] = shape->dilation[axis] = 1;
    }
    expect(r, '{');
    do {
        read_field(r, shape);
    } while (accept(r, ','));
    expect(r, '}');
    if (r->failed) {
        return;
    }
    uf_conv2d_params params = uf_conv2d_params_default();
    memcpy(params.stride, shape->stride, sizeof params.stride);
    memcpy(params.padding, shape->padding, sizeof params.padding);
    memcpy(params.output_padding, shape->output_padding, sizeof params.output_padding);
    memcpy(params.dilation, shape->dilation, sizeof params.dilation);
    params.groups = shape->groups;
    const int64_t in[2] = {shape->h, shape->w};
    if (shape->n < 1 || shape->c_in < 1 || shape->c_out < 1 || shape->groups < 1 ||
        shape->c_in % shape->groups != 0 || shape->c_out % shape->groups != 0) {
        fail(r, "%s: n and channels must be 1 or more, and channels divisible by groups",
             shape->name);
    } else if (uf_conv_transpose2d_output_size(&params, in, shape->kernel, shape->out) != UF_OK) {
        fail(r, "%s: %s", shape->name, uf_last_error());
    }
}

static char *read_file(const char *path) {
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

bench_shape *bench_read_shapes(const char *path, int64_t *count, char *error, size_t error_size) {
    reader r = {NULL, 1, error, error_size, false};
    char *text = read_file(path);
    bench_shape *shapes = NULL;
    int64_t capacity = 0;
    *count = 0;
    if (text == NULL) {
        (void)snprintf(error, error_size, "cannot be read");
        return NULL;
    }
    r.at = text;
    expect(&r, '[');
    do {
        if (*count == capacity) {
            capacity = capacity == 0 ? 32 : 2 * capacity;
            bench_shape *larger = realloc(shapes, (size_t)capacity * sizeof *shapes);
            if (larger == NULL) {
                fail(&r, "out of memory");
                break;
            }
            shapes = larger;
        }
        read_shape(&r, &shapes[(*count)++]);
    } while (!r.failed && accept(&r, ','));
    expect(&r, ']');
    skip_space(&r);
    if (!r.failed && *r.at != '\0') {
        fail(&r, "the list ends before the file does");
    }
    free(text);
    if (r.failed) {
        free(shapes);
        return NULL;
    }
    return shapes;
}
