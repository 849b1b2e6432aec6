/* shapes.c - reads shapes.json: a list of objects of names, integers and pairs of integers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

bool bench_json_shape_field(bench_json *json, const char *key, bench_shape *shape) {
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
    if (strcmp(key, "name") == 0) {
        bench_json_text(json, shape->name, sizeof shape->name);
        return true;
    }
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i) {
        if (strcmp(key, fields[i].key) == 0) {
            if (fields[i].pair) {
                bench_json_pair(json, fields[i].value);
            } else {
                *fields[i].value = bench_json_integer(json);
            }
            return true;
        }
    }
    return false;
}

void bench_json_shape_begin(bench_shape *shape) {
    memset(shape, 0, sizeof *shape);
    shape->groups = 1;
    for (int axis = 0; axis < 2; ++axis) {
        shape->stride[axis] = shape->dilation[axis] = 1;
    }
}

void bench_json_shape_end(bench_json *json, bench_shape *shape) {
    if (json->failed) {
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
        bench_json_fail(json,
                        "%s: n and channels must be 1 or more, and channels divisible by groups",
                        shape->name);
    } else if (uf_conv_transpose2d_output_size(&params, in, shape->kernel, shape->out) != UF_OK) {
        bench_json_fail(json, "%s: %s", shape->name, uf_last_error());
    }
}

static void read_shape(bench_json *json, bench_shape *shape) {
    bench_json_shape_begin(shape);
    bench_json_expect(json, '{');
    do {
        char key[64];
        bench_json_text(json, key, sizeof key);
        bench_json_expect(json, ':');
        if (!json->failed && !bench_json_shape_field(json, key, shape)) {
            bench_json_fail(json, "\"%s\" is no field of a shape", key);
        }
    } while (bench_json_accept(json, ','));
    bench_json_expect(json, '}');
    bench_json_shape_end(json, shape);
}

/* folder/shapes-other.json is the list "shapes-other". */
static void name_list(const char *path, bench_shape *shape) {
    const char *const slash = strrchr(path, '/');
    const char *const name = slash != NULL ? slash + 1 : path;
    const size_t length = strcspn(name, ".");
    const size_t most = sizeof shape->list - 1;
    memset(shape->list, 0, sizeof shape->list);
    memcpy(shape->list, name, length < most ? length : most);
}

bench_shape *bench_read_shapes(const char *path, int64_t *count, char *error, size_t error_size) {
    bench_json r = {NULL, 1, error, error_size, false};
    char *text = bench_read_file(path);
    bench_shape *shapes = NULL;
    int64_t capacity = 0;
    *count = 0;
    if (text == NULL) {
        (void)snprintf(error, error_size, "cannot be read");
        return NULL;
    }
    r.at = text;
    bench_json_expect(&r, '[');
    do {
        if (*count == capacity) {
            capacity = capacity == 0 ? 32 : 2 * capacity;
            bench_shape *larger = realloc(shapes, (size_t)capacity * sizeof *shapes);
            if (larger == NULL) {
                bench_json_fail(&r, "out of memory");
                break;
            }
            shapes = larger;
        }
        read_shape(&r, &shapes[(*count)++]);
    } while (!r.failed && bench_json_accept(&r, ','));
    bench_json_expect(&r, ']');
    bench_json_skip_space(&r);
    if (!r.failed && *r.at != '\0') {
        bench_json_fail(&r, "the list ends before the file does");
    }
    free(text);
    if (r.failed) {
        free(shapes);
        return NULL;
    }
    for (int64_t i = 0; i < *count; ++i) {
        name_list(path, &shapes[i]);
    }
    return shapes;
}

void bench_kernel_args(const bench_shape *shape, uf_dtype dtype, uf_math math,
                       uf_conv_kernel_args *args) {
    uf_view *const views[BENCH_TENSORS] = {&args->x, &args->w, &args->y};
    memset(args, 0, sizeof *args);
    for (int t = 0; t < BENCH_TENSORS; ++t) {
        int64_t e[4];
        bench_extent(shape, (bench_tensor)t, e);
        *views[t] = uf_view_nchw(NULL, dtype, e[0], e[1], e[2], e[3]);
    }
    memcpy(args->stride, shape->stride, sizeof args->stride);
    memcpy(args->padding, shape->padding, sizeof args->padding);
    memcpy(args->dilation, shape->dilation, sizeof args->dilation);
    args->groups = shape->groups;
    args->math = math;
}
