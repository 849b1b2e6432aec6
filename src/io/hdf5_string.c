/* hdf5_string.c - datasets of one string: the text of a model. */
#include "io/hdf5_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

/* Refuse what is no single string of fixed length, stored as one block; *size is its length. */
static uf_status check_string(const uf_hdf5_file *file, const char *name, hid_t id, hid_t type,
                              size_t most, size_t *size) {
    const hid_t space = H5Dget_space(id);
    const hid_t properties = H5Dget_create_plist(id);
    const bool single = space >= 0 && H5Sget_simple_extent_type(space) == H5S_SCALAR;
    const H5D_layout_t layout = properties >= 0 ? H5Pget_layout(properties) : H5D_LAYOUT_ERROR;
    const bool foreign = properties < 0 || H5Pget_external_count(properties) != 0;
    if (space >= 0) {
        H5Sclose(space);
    }
    if (properties >= 0) {
        H5Pclose(properties);
    }
    if (type < 0 || H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) != 0 || !single ||
        (layout != H5D_CONTIGUOUS && layout != H5D_COMPACT) || foreign) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is not one string of fixed length, stored as one block",
                name, file->path);
    }
    *size = H5Tget_size(type);
    if (*size == 0 || *size > most) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is a string of %zu bytes; there may be 1 to %zu", name,
                file->path, *size, most);
    }
    return uf_file_check_claim(file->path, file->size, name, (int64_t)*size);
}

static uf_status read_string(const uf_hdf5_file *file, const char *name, hid_t id, hid_t type,
                             char **text, size_t size) {
    char reason[UF_HDF5_REASON_SIZE];
    char *made = calloc(size + 1, 1);
    if (made == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory reading %s in %s: %zu bytes", name,
                file->path, size);
    }
    if (H5Dread(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, made) < 0) {
        free(made);
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s cannot be read (HDF5: %s)", name, file->path,
                uf_hdf5_reason(reason, sizeof reason));
    }
    *text = made;
    return UF_OK;
}

uf_status uf_hdf5_read_string(uf_hdf5_file *file, const char *name, size_t most, char **text,
                              size_t *size) {
    hid_t object;
    UF_TRY(uf_hdf5_open_object(file, name, &object));
    if (object < 0 || H5Iget_type(object) != H5I_DATASET) {
        if (object >= 0) {
            H5Oclose(object);
        }
        UF_FAIL(UF_ERROR_FORMAT, "%s is no model file: it has no dataset %s", file->path, name);
    }
    const hid_t type = H5Dget_type(object);
    uf_status status = check_string(file, name, object, type, most, size);
    if (status == UF_OK) {
        status = read_string(file, name, object, type, text, *size);
    }
    /* Zeros fill a string up. */
    while (status == UF_OK && *size > 0 && (*text)[*size - 1] == '\0') {
        *size -= 1;
    }
    if (type >= 0) {
        H5Tclose(type);
    }
    H5Oclose(object);
    return status;
}

/* ---- writing ---- */

uf_status uf_hdf5_write_string(uf_hdf5_file *file, const char *name, const char *text,
                               size_t size) {
    char reason[UF_HDF5_REASON_SIZE];
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, size > 0 ? size : 1);
    H5Tset_strpad(type, H5T_STR_NULLPAD);
    H5Tset_cset(type, H5T_CSET_UTF8);
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t id = H5Dcreate2(file->id, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const bool written = id >= 0 && H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) >= 0;
    uf_status status = UF_OK;
    if (!written) {
        status = uf_fail(UF_ERROR_IO, "cannot write %s to %s (HDF5: %s)", name, file->path,
                         uf_hdf5_reason(reason, sizeof reason));
    }
    if (id >= 0) {
        H5Dclose(id);
    }
    H5Sclose(space);
    H5Tclose(type);
    return status;
}
