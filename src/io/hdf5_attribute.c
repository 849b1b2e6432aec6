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

/* An attribute that is one integer. */
static bool read_integer(hid_t attribute, int64_t *value) {
    const hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    const bool read = H5Tget_class(type) == H5T_INTEGER &&
                      H5Sget_simple_extent_npoints(space) == 1 &&
                      H5Aread(attribute, H5T_NATIVE_INT64, value) >= 0;
    if (space >= 0) {
        H5Sclose(space);
    }
    if (type >= 0) {
        H5Tclose(type);
    }
    return read;
}

/* ---- checksums ---- */

bool uf_hdf5_has_checksum(hid_t dataset) {
    return H5Aexists(dataset, UF_FILE_CHECKSUM) > 0;
}

bool uf_hdf5_write_checksum(hid_t dataset, const void *values, int64_t count, int64_t size) {
    const uint32_t checksum = uf_crc32c(values, count, size);
    return write_one(dataset, UF_FILE_CHECKSUM, H5T_STD_U32LE, H5T_NATIVE_UINT32, &checksum);
}

uf_status uf_hdf5_check_checksum(const uf_hdf5_file *file, hid_t id, const uf_hdf5_dataset *dataset,
                                 const void *values) {
    int64_t stored = 0;
    const int64_t count = uf_shape_count(&dataset->entry.shape);
    const int64_t size = (int64_t)uf_dtype_size(dataset->dtype);
    const hid_t attribute = H5Aopen(id, UF_FILE_CHECKSUM, H5P_DEFAULT);
    const bool read = attribute >= 0 && read_integer(attribute, &stored);
    if (attribute >= 0) {
        H5Aclose(attribute);
    }
    if (!read) {
        UF_FAIL(UF_ERROR_FORMAT, "attribute %s of %s in %s is not one integer", UF_FILE_CHECKSUM,
                dataset->entry.name, file->path);
    }
    if (dataset->entry.bytes != count * size) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s holds %s values, which have no checksum of the library",
                dataset->entry.name, file->path, dataset->entry.type);
    }
    return uf_file_verify(file->path, dataset->entry.name, stored, uf_crc32c(values, count, size));
}
