/* hdf5_string.c - writing a dataset of one string: the text of a model. h5/string.c reads it. */
#include "io/hdf5_file.h"

uf_status uf_hdf5_write_string(uf_hdf5_file *file, const char *name, const char *text,
                               size_t size) {
    char reason[UF_HDF5_REASON_SIZE];
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, size > 0 ? size : 1);
    H5Tset_strpad(type, H5T_STR_NULLPAD);
    H5Tset_cset(type, H5T_CSET_UTF8);
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(properties, false); /* the same text gives the same bytes */
    const hid_t id = H5Dcreate2(file->id, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    const bool written = id >= 0 && H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) >= 0;
    uf_status status = UF_OK;
    if (!written) {
        status = uf_fail(UF_ERROR_IO, "cannot write %s to %s (HDF5: %s)", name, file->path,
                         uf_hdf5_reason(reason, sizeof reason));
    }
    if (id >= 0) {
        H5Dclose(id);
    }
    H5Pclose(properties);
    H5Sclose(space);
    H5Tclose(type);
    return status;
}
