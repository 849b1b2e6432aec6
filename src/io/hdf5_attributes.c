/* hdf5_attributes.c - all attributes of an object of an HDF5 file: texts and numbers. */
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "io/hdf5_file.h"

typedef struct names {
    char **each;
    size_t count, capacity;
    int64_t left; /* how many more the file has room for */
} names;

/* Called by HDF5 for each attribute. */
static herr_t on_attribute(hid_t object, const char *name, const H5A_info_t *info, void *data) {
    (void)object, (void)info;
    names *to = data;
    if (--to->left < 0) {
        return -1;
    }
    if (to->count == to->capacity) {
        const size_t capacity = to->capacity == 0 ? 16 : to->capacity * 2;
        char **grown = realloc(to->each, capacity * sizeof *grown);
        if (grown == NULL) {
            return -1;
        }
        to->each = grown;
        to->capacity = capacity;
    }
    to->each[to->count] = strdup(name);
    return to->each[to->count++] != NULL ? 0 : -1;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Texts of fixed length, `size` bytes each: cut at their first zero byte. */
static bool read_fixed(hid_t id, hid_t type, uf_file_attribute *one, size_t size) {
    char *block = calloc((size_t)one->count * size + 1, 1);
    bool whole = block != NULL && H5Aread(id, type, block) >= 0;
    for (int64_t i = 0; i < one->count && whole; ++i) {
        one->texts[i] = strndup(block + (size_t)i * size, size);
        whole = one->texts[i] != NULL;
    }
    free(block);
    return whole;
}

/* Texts of any length each, which HDF5 allocates. */
static bool read_varying(hid_t id, hid_t type, hid_t space, uf_file_attribute *one) {
    char **found = calloc((size_t)one->count, sizeof *found);
    bool whole = found != NULL && H5Aread(id, type, found) >= 0;
    for (int64_t i = 0; i < one->count && whole; ++i) {
        one->texts[i] = strdup(found[i] != NULL ? found[i] : "");
        whole = one->texts[i] != NULL;
    }
    if (found != NULL) {
        H5Dvlen_reclaim(type, space, H5P_DEFAULT, found);
    }
    free(found);
    return whole;
}

static bool read_texts(hid_t id, hid_t type, hid_t space, uf_file_attribute *one) {
    one->texts = calloc((size_t)one->count, sizeof *one->texts);
    return one->texts != NULL &&
           (H5Tis_variable_str(type) > 0 ? read_varying(id, type, space, one)
                                         : read_fixed(id, type, one, H5Tget_size(type)));
}

/* The values of an open attribute; an attribute that is neither texts nor numbers has none. */
static bool read_values(const uf_hdf5_file *file, hid_t id, hid_t type, hid_t space,
                        uf_file_attribute *one) {
    const H5T_class_t class = H5Tget_class(type);
    const hssize_t points = H5Sget_simple_extent_npoints(space);
    int64_t bytes;
    /* Attributes are stored as they are, so the file is longer than each. */
    if (points < 0 || uf_mul_overflows(points, (int64_t)H5Tget_size(type), &bytes) ||
        bytes > file->size) {
        return false;
    }
    if (points == 0 || (class != H5T_STRING && class != H5T_FLOAT && class != H5T_INTEGER)) {
        return true;
    }
    one->count = points;
    if (class == H5T_STRING) {
        return read_texts(id, type, space, one);
    }
    one->numbers = calloc((size_t)points, sizeof *one->numbers);
    return one->numbers != NULL && H5Aread(id, H5T_NATIVE_DOUBLE, one->numbers) >= 0;
}

static bool read_one(const uf_hdf5_file *file, hid_t object, uf_file_attribute *one) {
    const hid_t id = H5Aopen(object, one->name, H5P_DEFAULT);
    const hid_t type = id < 0 ? H5I_INVALID_HID : H5Aget_type(id);
    const hid_t space = id < 0 ? H5I_INVALID_HID : H5Aget_space(id);
    const bool whole = type >= 0 && space >= 0 && read_values(file, id, type, space, one);
    if (space >= 0) {
        H5Sclose(space);
    }
    if (type >= 0) {
        H5Tclose(type);
    }
    if (id >= 0) {
        H5Aclose(id);
    }
    return whole;
}

/* HDF5's name order builds a table that a damaged file can break: the sort is ours, as in
 * hdf5_list.c. */
static uf_status read_all(const uf_hdf5_file *file, hid_t id, const char *object, names *found,
                          uf_file_attributes *attributes) {
    char reason[UF_HDF5_REASON_SIZE];
    hsize_t from = 0;
    if (H5Aiterate2(id, H5_INDEX_NAME, H5_ITER_NATIVE, &from, on_attribute, found) < 0) {
        UF_FAIL(UF_ERROR_FORMAT, "the attributes of %s in %s cannot be listed (HDF5: %s)", object,
                file->path, uf_hdf5_reason(reason, sizeof reason));
    }
    if (found->count == 0) {
        return UF_OK;
    }
    qsort(found->each, found->count, sizeof *found->each, by_name);
    attributes->each = calloc(found->count, sizeof *attributes->each);
    if (attributes->each == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory reading %s", file->path);
    }
    for (size_t i = 0; i < found->count; ++i) {
        uf_file_attribute *one = &attributes->each[attributes->count++];
        one->name = found->each[i];
        found->each[i] = NULL;
        if (!read_one(file, id, one)) {
            UF_FAIL(UF_ERROR_FORMAT, "attribute %s of %s in %s cannot be read (HDF5: %s)",
                    one->name, object, file->path, uf_hdf5_reason(reason, sizeof reason));
        }
    }
    return UF_OK;
}

uf_status uf_hdf5_read_attributes(uf_hdf5_file *file, const char *object,
                                  uf_file_attributes *attributes) {
    hid_t id;
    names found = {.left = file->size};
    memset(attributes, 0, sizeof *attributes);
    UF_TRY(uf_hdf5_open_object(file, object, &id));
    if (id < 0) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "%s has no object %s", file->path, object);
    }
    const uf_status status = read_all(file, id, object, &found, attributes);
    for (size_t i = 0; i < found.count; ++i) {
        free(found.each[i]);
    }
    free(found.each);
    H5Oclose(id);
    if (status != UF_OK) {
        uf_file_attributes_free(attributes);
    }
    return status;
}
