#include "values.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "command.h"
#include "npy.h"
#include "signals.h"

int values_create(uf_dtype dtype, uf_shape shape, struct values *values) {
    char text[128];
    const int64_t count = uf_shape_count(&shape);
    *values = (struct values){.dtype = dtype, .shape = shape};
    if (count < 1 || (uint64_t)count > SIZE_MAX / 8) {
        return fail("values of shape %s do not fit in memory",
                    uf_shape_format(&shape, text, sizeof text));
    }
    values->data = malloc((size_t)count * 8);
    return values->data != NULL ? EXIT_DONE
                                : fail("out of memory for values of shape %s",
                                       uf_shape_format(&shape, text, sizeof text));
}

void values_free(struct values *values) {
    free(values->data);
    *values = (struct values){0};
}

static bool is_npy(const char *path) {
    const size_t length = strlen(path);
    return length > 4 && strcasecmp(path + length - 4, ".npy") == 0;
}

/* ---- numbers that are made ---- */

/* ":64,100,1,1" or nothing. */
static int read_shape(const char *name, const char *word, const char *at, const uf_shape *usual,
                      uf_shape *shape) {
    *shape = *usual;
    if (*at == '\0') {
        return EXIT_DONE;
    }
    *shape = UF_SCALAR;
    do {
        char *end;
        errno = 0;
        const long long extent = at[1] >= '0' && at[1] <= '9' ? strtoll(at + 1, &end, 10) : 0;
        if (extent < 1 || errno != 0 || shape->rank == UF_MAX_RANK) {
            return fail_usage("run: --input %s=%s: a shape is 1 to %d extents of 1 or more, as in "
                              "randn:64,100,1,1",
                              name, word, UF_MAX_RANK);
        }
        shape->extent[shape->rank++] = extent;
        at = end;
    } while (*at == ',');
    return *at == '\0' ? EXIT_DONE
                       : fail_usage("run: --input %s=%s: '%s' ends no shape", name, word, at);
}

/* By the library's initialisers, as a parameter of the input's name. */
static int draw(uf_context *context, const char *name, bool normal, struct values *values) {
    uf_store_options options = uf_store_options_default();
    options.dtype = UF_F64;
    uf_store *store = NULL;
    uf_tensor *drawn = NULL;
    TRY_LIBRARY(uf_store_create_with(context, "inputs", &options, &store));
    uf_status status = uf_store_declare(store, name, values->shape, UF_ROLE_PARAMETER);
    if (status == UF_OK) {
        status =
            normal ? uf_init_normal(store, name, 0.0, 1.0) : uf_init_uniform(store, name, 0.0, 1.0);
    }
    if (status == UF_OK) {
        status = uf_store_tensor(store, name, &drawn);
    }
    if (status == UF_OK) {
        status = uf_tensor_download(drawn, values->data);
    }
    uf_store_destroy(store);
    TRY_LIBRARY(status);
    return EXIT_DONE;
}

enum made_kind { MADE_RANDN, MADE_RAND, MADE_ZEROS, MADE_RANDINT, MADE_NOT };

static enum made_kind kind_of(const char *word, const char **rest) {
    static const char *const names[] = {"randn", "rand", "zeros", "randint"};
    for (int i = 0; i < MADE_NOT; i++) {
        const size_t length = strlen(names[i]);
        if (strncmp(word, names[i], length) == 0 && (word[length] == '\0' || word[length] == ':')) {
            *rest = word + length;
            return (enum made_kind)i;
        }
    }
    return MADE_NOT;
}

/* Indices 0 to `classes` - 1: uniform numbers, rounded down. */
static int draw_indices(uf_context *context, const char *name, int64_t classes,
                        struct values *values) {
    struct values uniform;
    TRY(values_create(UF_F64, values->shape, &uniform));
    const int status = draw(context, name, false, &uniform);
    for (int64_t i = 0; status == EXIT_DONE && i < uf_shape_count(&values->shape); i++) {
        const int64_t index = (int64_t)(((const double *)uniform.data)[i] * (double)classes);
        ((int64_t *)values->data)[i] = index < classes ? index : classes - 1;
    }
    values_free(&uniform);
    return status;
}

static int make(uf_context *context, const char *name, const char *word, enum made_kind kind,
                const char *rest, uf_dtype dtype, const uf_shape *usual, struct values *values) {
    uf_shape shape;
    int64_t classes = 0;
    if (kind == MADE_RANDINT) {
        char *end = NULL;
        classes =
            *rest == ':' && rest[1] >= '0' && rest[1] <= '9' ? strtoll(rest + 1, &end, 10) : 0;
        if (classes < 1 || classes > (INT64_C(1) << 40)) {
            return fail_usage("run: --input %s=%s: randint:K draws indices 0 to K - 1", name, word);
        }
        rest = end;
    }
    if ((kind == MADE_RANDINT) != (dtype == UF_I64) && kind != MADE_ZEROS) {
        return fail_usage("run: --input %s=%s: the input has %s", name, word,
                          dtype == UF_I64 ? "indices, which randint:K draws" : "real numbers");
    }
    TRY(read_shape(name, word, rest, usual, &shape));
    TRY(values_create(dtype, shape, values));
    memset(values->data, 0, (size_t)uf_shape_count(&shape) * 8);
    if (kind == MADE_RANDINT) {
        return draw_indices(context, name, classes, values);
    }
    return kind == MADE_ZEROS ? EXIT_DONE : draw(context, name, kind == MADE_RANDN, values);
}

/* ---- files ---- */

static int read_dataset(const char *path, const char *dataset, uf_dtype dtype,
                        struct values *values) {
    uf_shape shape;
    TRY_LIBRARY(uf_hdf5_read(path, dataset, dtype, &shape, NULL, 0));
    TRY(values_create(dtype, shape, values));
    TRY_LIBRARY(uf_hdf5_read(path, dataset, dtype, &shape, values->data, uf_shape_count(&shape)));
    return EXIT_DONE;
}

static int read_hdf5(const char *name, const char *path, const char *dataset, uf_dtype dtype,
                     struct values *values) {
    char nested[2 * UF_NAME_SIZE];
    uf_shape shape;
    if (dataset != NULL) {
        return read_dataset(path, dataset, dtype, values);
    }
    snprintf(nested, sizeof nested, "inputs/%s", name);
    const bool is_nested = uf_hdf5_read(path, nested, dtype, &shape, NULL, 0) == UF_OK;
    return read_dataset(path, is_nested ? nested : name, dtype, values);
}

enum contents {
    CONTENTS_PICTURE,
    CONTENTS_SOUND,
    CONTENTS_NPY,
    CONTENTS_HDF5,
    CONTENTS_OTHER,
    CONTENTS_NONE
};

/* By the first bytes of a file; CONTENTS_NONE: it cannot be read, and errno says why. */
static enum contents contents_of(const char *path) {
    enum { FURTHEST = 1 << 20 }; /* HDF5 may begin at 512, 1024, ... */
    unsigned char head[12] = {0};
    const size_t sign = 8; /* bytes that HDF5 begins with */
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return CONTENTS_NONE;
    }
    enum contents contents = CONTENTS_OTHER;
    const size_t count = fread(head, 1, sizeof head, file);
    if (count == 0 && ferror(file)) {
        contents = CONTENTS_NONE;
    } else if (memcmp(head, "\x89PNG", 4) == 0 || memcmp(head, "\xff\xd8", 2) == 0) {
        contents = CONTENTS_PICTURE;
    } else if (memcmp(head, "\x93NUMPY", 6) == 0) {
        contents = CONTENTS_NPY;
    } else if (memcmp(head, "RIFF", 4) == 0 && memcmp(head + 8, "WAVE", 4) == 0) {
        contents = CONTENTS_SOUND;
    }
    for (long at = 0; contents == CONTENTS_OTHER && at < FURTHEST; at = at == 0 ? 512 : 2 * at) {
        if (fseek(file, at, SEEK_SET) == 0 && fread(head, 1, sign, file) == sign &&
            memcmp(head, "\x89HDF\r\n\x1a\n", sign) == 0) {
            contents = CONTENTS_HDF5;
        }
    }
    const int reason = errno;
    fclose(file);
    errno = reason;
    return contents;
}

bool values_is_picture(const char *path) {
    return contents_of(path) == CONTENTS_PICTURE;
}

static int read_file(const char *name, const char *word, uf_dtype dtype, const uf_shape *usual,
                     struct values *values) {
    char path[4096];
    const char *colon = strrchr(word, ':'), *dataset = NULL;
    enum contents contents = contents_of(word);
    const int reason = errno;
    const size_t length =
        contents == CONTENTS_NONE && colon != NULL ? (size_t)(colon - word) : strlen(word);
    if (length >= sizeof path) {
        return fail("the name of the input %s's file is too long", name);
    }
    snprintf(path, sizeof path, "%.*s", (int)length, word);
    if (word[length] == ':') {
        dataset = colon + 1;
        contents = contents_of(path);
    }
    switch (contents) {
    case CONTENTS_NPY:
        return npy_read(path, dtype, values);
    case CONTENTS_HDF5:
        return read_hdf5(name, path, dataset, dtype, values);
    case CONTENTS_SOUND:
        return dtype == UF_I64 ? fail("%s is a sound where indices are needed", path)
                               : values_read_sound(path, name, usual, values);
    case CONTENTS_NONE:
        return fail("cannot read %s: %s; randn, rand, zeros and randint:K make numbers", word,
                    strerror(reason));
    default:
        return fail("%s is no picture (PNG, JPEG), no sound (.wav) and no array (.npy, HDF5)",
                    word);
    }
}

int values_read(uf_context *context, const char *name, const char *word, uf_dtype dtype,
                const uf_shape *usual, struct values *values) {
    const char *rest;
    const enum made_kind kind = kind_of(word, &rest);
    *values = (struct values){0};
    return kind != MADE_NOT ? make(context, name, word, kind, rest, dtype, usual, values)
                            : read_file(name, word, dtype, usual, values);
}

static int write_hdf5(const char *path, const char *name, uf_dtype dtype,
                      const struct values *values) {
    const int64_t count = uf_shape_count(&values->shape);
    float *narrow = NULL;
    if (values->dtype == UF_F64 && dtype != UF_F64) {
        narrow = malloc((size_t)count * sizeof *narrow);
        if (narrow == NULL) {
            return fail("out of memory writing %s", path);
        }
        for (int64_t i = 0; i < count; i++) {
            narrow[i] = (float)((const double *)values->data)[i];
        }
    }
    signals_hold();
    const uf_status status =
        uf_hdf5_write(path, name, narrow != NULL ? UF_F32 : values->dtype, values->shape,
                      narrow != NULL ? (const void *)narrow : values->data);
    signals_release();
    free(narrow);
    TRY_LIBRARY(status);
    return EXIT_DONE;
}

int values_write(const char *path, const char *name, uf_dtype dtype, const struct values *values) {
    return is_npy(path) ? npy_write(path, dtype, values) : write_hdf5(path, name, dtype, values);
}

int values_append(const char *name, struct values *values, const struct values *more) {
    char text[128], other[128];
    uf_shape same = more->shape, whole = values->shape;
    if (values->shape.rank < 1 || same.rank != whole.rank) {
        return fail("input %s: %s and %s cannot be one batch", name,
                    uf_shape_format(&values->shape, text, sizeof text),
                    uf_shape_format(&more->shape, other, sizeof other));
    }
    same.extent[0] = whole.extent[0];
    whole.extent[0] += more->shape.extent[0];
    if (!uf_shape_equal(&same, &values->shape) || uf_shape_count(&whole) < 1) {
        return fail("input %s: %s and %s cannot be one batch", name,
                    uf_shape_format(&values->shape, text, sizeof text),
                    uf_shape_format(&more->shape, other, sizeof other));
    }
    const size_t before = (size_t)uf_shape_count(&values->shape) * 8;
    const size_t behind = (size_t)uf_shape_count(&more->shape) * 8;
    char *joined = realloc(values->data, before + behind);
    if (joined == NULL) {
        return fail("out of memory for the input %s", name);
    }
    memcpy(joined + before, more->data, behind);
    values->data = joined;
    values->shape = whole;
    return EXIT_DONE;
}
