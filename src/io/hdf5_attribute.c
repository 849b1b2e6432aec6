/* hdf5_attribute.c - attributes of the library's own: checksums of tensors, numbers and texts. */
#include "io/hdf5_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/crc32c.h"
#include "core/tensor.h"

/* ---- one attribute ---- */

static bool write_one(hid_t object, const char *name, hid_t stored, hid_t memory,
                      const void *value) {
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t id = H5Acreate2(object, name, stored, space, H5P_DEFAULT, H5P_DEFAULT);
    const bool written = id >= 0 && H5Awrite(id, memory, value) >= 0;
    if (id >= 0) {
        H5Aclose(id);
    }
    H5Sclose(space);
    return written;
}

static uf_status write_to(uf_hdf5_file *file, const char *object, const char *name, hid_t stored,
                          hid_t memory, const void *value) {
    char reason[UF_HDF5_REASON_SIZE];
    const hid_t id = H5Oopen(file->id, object, H5P_DEFAULT);
    const bool written = id >= 0 && write_one(id, name, stored, memory, value);
    uf_status status = UF_OK;
    if (!written) {
        status = uf_fail(UF_ERROR_IO, "cannot write attribute %s to %s (HDF5: %s)", name,
                         file->path, uf_hdf5_reason(reason, sizeof reason));
    }
    if (id >= 0) {
        H5Oclose(id);
    }
    return status;
}

uf_status uf_hdf5_write_integer(uf_hdf5_file *file, const char *object, const char *name,
                                int64_t value) {
    return write_to(file, object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

uf_status uf_hdf5_write_text(uf_hdf5_file *file, const char *object, const char *name,
                             const char *text) {
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, strlen(text) + 1);
    H5Tset_cset(type, H5T_CSET_UTF8);
    const uf_status status = write_to(file, object, name, type, type, text);
    H5Tclose(type);
    return status;
}

/* An attribute that holds one value of `class`; *type and *id are closed by the caller, and are
 * below 0 on failure. */
static uf_status open_one(uf_hdf5_file *file, const char *object, const char *name,
                          H5T_class_t class, hid_t *id, hid_t *type) {
    hid_t owner;
    *id = *type = H5I_INVALID_HID;
    UF_TRY(uf_hdf5_open_object(file, object, &owner));
    if (owner >= 0) {
        *id = H5Aexists(owner, name) > 0 ? H5Aopen(owner, name, H5P_DEFAULT) : H5I_INVALID_HID;
        H5Oclose(owner);
    }
    if (*id < 0) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "%s in %s has no attribute %s", object, file->path, name);
    }
    *type = H5Aget_type(*id);
    const hid_t space = H5Aget_space(*id);
    const bool fits = H5Tget_class(*type) == class && H5Sget_simple_extent_npoints(space) == 1 &&
                      (class != H5T_STRING || H5Tis_variable_str(*type) == 0);
    if (space >= 0) {
        H5Sclose(space);
    }
    if (!fits) {
        UF_FAIL(UF_ERROR_FORMAT, "attribute %s of %s in %s is not one %s", name, object, file->path,
                class == H5T_STRING ? "text of fixed length" : "integer");
    }
    return UF_OK;
}

static void close_one(hid_t id, hid_t type) {
    if (type >= 0) {
        H5Tclose(type);
    }
    if (id >= 0) {
        H5Aclose(id);
    }
}

uf_status uf_hdf5_read_integer(uf_hdf5_file *file, const char *object, const char *name,
                               int64_t *value) {
    hid_t id, type;
    uf_status status = open_one(file, object, name, H5T_INTEGER, &id, &type);
    if (status == UF_OK && H5Aread(id, H5T_NATIVE_INT64, value) < 0) {
        status = uf_fail(UF_ERROR_FORMAT, "attribute %s in %s cannot be read", name, file->path);
    }
    close_one(id, type);
    return status;
}

static uf_status read_text(const uf_hdf5_file *file, const char *name, hid_t id, hid_t type,
                           char *text, size_t size) {
    const size_t length = H5Tget_size(type);
    char *whole = length > 0 && length <= UF_HDF5_MAX_TEXT ? calloc(length + 1, 1) : NULL;
    if (whole == NULL) {
        UF_FAIL(length > UF_HDF5_MAX_TEXT ? UF_ERROR_FORMAT : UF_ERROR_OUT_OF_MEMORY,
                "attribute %s in %s is a text of %zu bytes", name, file->path, length);
    }
    uf_status status = UF_OK;
    if (H5Aread(id, type, whole) < 0) {
        status = uf_fail(UF_ERROR_FORMAT, "attribute %s in %s cannot be read", name, file->path);
    } else if (strlen(whole) >= size) {
        status =
            uf_fail(UF_ERROR_SHAPE, "attribute %s in %s has %zu characters; there is room for %zu",
                    name, file->path, strlen(whole), size - 1);
    } else {
        memcpy(text, whole, strlen(whole) + 1);
    }
    free(whole);
    return status;
}

uf_status uf_hdf5_read_text(uf_hdf5_file *file, const char *object, const char *name, char *text,
                            size_t size) {
    hid_t id, type;
    uf_status status = open_one(file, object, name, H5T_STRING, &id, &type);
    if (status == UF_OK) {
        status = read_text(file, name, id, type, text, size);
    }
    close_one(id, type);
    return status;
}

/* ---- checksums ---- */

bool uf_hdf5_has_checksum(hid_t dataset) {
    return H5Aexists(dataset, UF_FILE_CHECKSUM) > 0;
}

bool uf_hdf5_write_checksum(hid_t dataset, const void *values, int64_t count, int64_t size) {
    const uint32_t checksum = uf_crc32c(values, count, size);
    return write_one(dataset, UF_FILE_CHECKSUM, H5T_STD_U32LE, H5T_NATIVE_UINT32, &checksum);
}

uf_status uf_hdf5_check_checksum(uf_hdf5_file *file, const uf_hdf5_dataset *dataset,
                                 const void *values) {
    int64_t stored;
    const int64_t count = uf_shape_count(&dataset->entry.shape);
    const int64_t size = (int64_t)uf_dtype_size(dataset->dtype);
    UF_TRY(uf_hdf5_read_integer(file, dataset->entry.name, UF_FILE_CHECKSUM, &stored));
    if (dataset->entry.bytes != count * size) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s holds %s values, which have no checksum of the library",
                dataset->entry.name, file->path, dataset->entry.type);
    }
    return uf_file_verify(file->path, dataset->entry.name, stored, uf_crc32c(values, count, size));
}
