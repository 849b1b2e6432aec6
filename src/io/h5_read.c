/* h5_read.c - single datasets and attributes of HDF5 files, through the library's own reader. */
#include "io/h5_read.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <unfurl/hdf5.h>

#include "core/crc32c.h"
#include "core/tensor.h"
#include "io/tensor_file.h"

#define PIECE                                                                                      \
    ((int64_t)1 << 17) /* elements at a time: they are still in a cache when they are used */

/* A dataset on its way. */
typedef struct reading {
    uf_h5_file *file;
    const uf_h5_object *object;
    uf_dtype dtype;        /* wanted */
    unsigned char *values; /* the caller's; NULL: they are not kept */
    void *staging;         /* where types differ, or values are not kept; room for one piece */
    bool is_checked;       /* it has a checksum: */
    int64_t stored;
    uint32_t crc;
} reading;

static uf_status read_piece(reading *state, int64_t first, int64_t count) {
    const uf_dtype from = state->object->type.dtype;
    const size_t size = uf_dtype_size(state->dtype);
    unsigned char *to = state->values != NULL ? state->values + (size_t)first * size : NULL;
    void *read = state->staging != NULL ? state->staging : to;
    UF_TRY(uf_h5_read(state->file, state->object, first, count, read));
    if (state->is_checked) {
        state->crc = uf_crc32c_more(state->crc, read, count, (int64_t)uf_dtype_size(from));
    }
    if (state->staging != NULL && to != NULL) {
        uf_convert(to, state->dtype, read, from, count);
    }
    return UF_OK;
}

static uf_status read_pieces(reading *state, int64_t piece) {
    const int64_t count = uf_shape_count(&state->object->shape);
    for (int64_t first = 0; first < count; first += piece) {
        UF_TRY(read_piece(state, first, count - first < piece ? count - first : piece));
    }
    return state->is_checked ? uf_file_verify(uf_h5_path(state->file), state->object->name,
                                              state->stored, state->crc)
                             : UF_OK;
}

/* Only where the file holds as many bytes as the values have in memory do they have a checksum. */
static uf_status find_checksum(reading *state) {
    const uf_h5_type *type = &state->object->type;
    UF_TRY(uf_h5_read_integer(state->file, state->object, UF_FILE_CHECKSUM, &state->is_checked,
                              &state->stored));
    if (state->is_checked && type->size != (int64_t)uf_dtype_size(type->dtype)) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s holds %s values, which have no checksum of the library",
                state->object->name, uf_h5_path(state->file), type->name);
    }
    return UF_OK;
}

uf_status uf_h5_read_verified(uf_h5_file *file, const uf_h5_object *object, uf_dtype dtype,
                              bool needs_checksum, void *values) {
    reading state = {.file = file, .object = object, .dtype = dtype, .values = values};
    int64_t span;
    UF_TRY(find_checksum(&state));
    if (needs_checksum && !state.is_checked) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s has no checksum", object->name, uf_h5_path(file));
    }
    if (values == NULL && !state.is_checked) {
        return UF_OK;
    }
    UF_TRY(uf_h5_span(file, object, &span));
    const int64_t piece = span >= PIECE ? span : PIECE / span * span;
    if (dtype != object->type.dtype || values == NULL) {
        state.staging = malloc((size_t)piece * uf_dtype_size(object->type.dtype));
        if (state.staging == NULL) {
            UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for %s in %s: %" PRId64 " elements",
                    object->name, uf_h5_path(file), piece);
        }
    }
    const uf_status status = read_pieces(&state, piece);
    free(state.staging);
    return status;
}

/* ---- the public functions ---- */

uf_status uf_h5_settle(uf_status status) {
    return status == UF_ERROR_UNSUPPORTED ? uf_file_refuse_untrusted() : status;
}

static uf_status refuse_other_file(const char *path) {
    UF_FAIL(UF_ERROR_FORMAT,
            "%s needs another file through an external link, which is not followed", path);
}

uf_status uf_h5_find_dataset(uf_h5_file *file, const char *name, uf_h5_object *object) {
    const char *path = uf_h5_path(file);
    name += strspn(name, "/");
    UF_TRY(uf_file_check_name(path, name));
    const uf_status status = uf_h5_find(file, name, object);
    if (status == UF_ERROR_NOT_FOUND) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "%s has no dataset %s", path, name);
    }
    UF_TRY(status);
    if (object->kind == UF_H5_OTHER_FILE) {
        return refuse_other_file(path);
    }
    if (object->kind != UF_H5_DATASET) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is a %s, not a dataset", name, path,
                object->kind == UF_H5_GROUP ? "group" : "named type");
    }
    if (!object->is_tensor) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s %s", name, path, object->problem);
    }
    return UF_OK;
}

static uf_status read_dataset(uf_h5_file *file, const char *name, uf_dtype dtype, uf_shape *shape,
                              void *data, int64_t capacity) {
    uf_h5_object object;
    char text[128];
    UF_TRY(uf_h5_find_dataset(file, name, &object));
    const int64_t count = uf_shape_count(&object.shape);
    *shape = object.shape;
    if (dtype == UF_I64 && object.type.dtype != UF_I64) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s holds %s values, not integers", object.name,
                uf_h5_path(file), object.type.name);
    }
    if (data == NULL) {
        return UF_OK;
    }
    if (count > capacity) {
        UF_FAIL(UF_ERROR_SHAPE, "%s in %s is %s, %" PRId64 " elements; there is room for %" PRId64,
                object.name, uf_h5_path(file), uf_shape_format(&object.shape, text, sizeof text),
                count, capacity);
    }
    UF_TRY(uf_h5_check(file, &object));
    return uf_h5_read_verified(file, &object, dtype, false, data);
}

uf_status uf_hdf5_read(const char *path, const char *dataset_name, uf_dtype dtype, uf_shape *shape,
                       void *data, int64_t capacity) {
    UF_CHECK_ARG(path != NULL && dataset_name != NULL && shape != NULL,
                 "uf_hdf5_read: path, dataset or shape is NULL");
    UF_CHECK_ARG(dtype == UF_F32 || dtype == UF_F64 || dtype == UF_I64,
                 "uf_hdf5_read converts to f32, f64 or i64, not to %s", uf_dtype_name(dtype));
    UF_CHECK_ARG(capacity >= 0, "uf_hdf5_read: capacity is %" PRId64, capacity);
    uf_h5_file *file;
    uf_status status = uf_h5_open(path, &file);
    if (status == UF_OK) {
        status = read_dataset(file, dataset_name, dtype, shape, data, capacity);
    }
    uf_h5_close(file);
    return uf_h5_settle(status);
}

static uf_status read_numbers(uf_h5_file *file, const char *path, const char *object,
                              const char *name, double *values, int32_t capacity, int32_t *count) {
    uf_h5_object owner;
    bool found = false;
    const uf_status status = uf_h5_find(file, object, &owner);
    if (status == UF_OK && owner.kind == UF_H5_OTHER_FILE) {
        return refuse_other_file(path);
    }
    if (status == UF_OK) {
        UF_TRY(uf_h5_read_numbers(file, &owner, name, values, capacity, &found, count));
    }
    if (status == UF_ERROR_NOT_FOUND || (status == UF_OK && !found)) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "%s in %s has no attribute %s", object, path, name);
    }
    return status;
}

uf_status uf_hdf5_read_attribute(const char *path, const char *object, const char *name,
                                 double *values, int32_t capacity, int32_t *count) {
    UF_CHECK_ARG(path != NULL && object != NULL && name != NULL && values != NULL && count != NULL,
                 "uf_hdf5_read_attribute: an argument is NULL");
    *count = 0;
    const size_t slashes = strspn(object, "/");
    if (slashes == 0 || object[slashes] != '\0') { /* "/" is the root, which has no name */
        object += slashes;
        UF_TRY(uf_file_check_name(path, object));
    }
    uf_h5_file *file;
    uf_status status = uf_h5_open(path, &file);
    if (status == UF_OK) {
        status = read_numbers(file, path, object, name, values, capacity, count);
    }
    uf_h5_close(file);
    return uf_h5_settle(status);
}
