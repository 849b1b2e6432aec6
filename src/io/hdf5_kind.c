/* hdf5_kind.c - libhdf5 as a kind of tensor file. */
#include <stdlib.h>

#include "io/hdf5_file.h"

/* ---- opening ---- */

/* The file is open between begin and end only: libhdf5's lock belongs to the process. */
static uf_status open_file(uf_tensor_file *file, const char *group) {
    uf_hdf5_file opened;
    UF_TRY(uf_hdf5_open(file->path, &opened));
    file->size = opened.size;
    return uf_hdf5_close(&opened, uf_hdf5_scan(&opened, group, &file->listing));
}

static void close_file(uf_tensor_file *file) {
    (void)file;
}

static uf_status begin(uf_tensor_file *file) {
    uf_hdf5_file *opened = malloc(sizeof *opened);
    if (opened == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory opening %s", file->path);
    }
    const uf_status status = uf_hdf5_open(file->path, opened);
    if (status != UF_OK) {
        free(opened);
        return status;
    }
    file->state = opened;
    return UF_OK;
}

static uf_status end(uf_tensor_file *file, uf_status status) {
    uf_hdf5_file *opened = file->state;
    file->state = NULL;
    status = uf_hdf5_close(opened, status);
    free(opened);
    return status;
}

static uf_status check(uf_tensor_file *file, const uf_file_entry *entry) {
    return uf_hdf5_check_listed(file->state, entry);
}

static uf_status read_entry(uf_tensor_file *file, const uf_file_entry *entry, void *data) {
    return uf_hdf5_read_listed(file->state, entry, data);
}

static uf_status attributes(uf_tensor_file *file, const char *object,
                            uf_file_attributes *attributes) {
    return uf_hdf5_read_attributes(file->state, object, attributes);
}

const uf_file_kind uf_file_libhdf5 = {
    .format = UF_WEIGHTS_HDF5,
    .what = "an HDF5 file",
    .trusted_only = true,
    .matches = uf_file_is_hdf5,
    .open = open_file,
    .begin = begin,
    .end = end,
    .check = check,
    .read = read_entry,
    .attributes = attributes,
    .close = close_file,
};
