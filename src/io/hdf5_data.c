/* hdf5_data.c - tensors in and out of HDF5 files, and the public functions for single datasets. */
#include "io/hdf5_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"

/* Chunks of deflated datasets; a smaller dataset would gain less than its index of chunks takes. */
#define CHUNK_BYTES (INT64_C(1) << 20)
#define LEAST_DEFLATED 4096

/* The type to read into: for floats the file's own in this machine's byte order, so that HDF5 at
 * most swaps bytes and every rounding is done in one place, uf_convert; for integers a 64-bit one.
 */
static hid_t memory_type(hid_t id, const uf_hdf5_dataset *dataset) {
    if (dataset->dtype == UF_I64) {
        return H5Tcopy(dataset->entry.type[0] == 'u' ? H5T_NATIVE_UINT64 : H5T_NATIVE_INT64);
    }
    const hid_t stored = H5Dget_type(id);
    const hid_t type = H5Tcopy(stored);
    H5Tset_order(type, H5Tget_order(H5T_NATIVE_INT));
    H5Tclose(stored);
    return type;
}

static uf_status refuse_large_counters(const uf_hdf5_file *file, const uf_hdf5_dataset *dataset,
                                       const uint64_t *values) {
    const int64_t count = uf_shape_count(&dataset->entry.shape);
    for (int64_t i = 0; i < count; ++i) {
        if (values[i] > (uint64_t)INT64_MAX) {
            UF_FAIL(UF_ERROR_FORMAT,
                    "%s in %s holds %" PRIu64 ", which is too large for 64 bits with a sign",
                    dataset->entry.name, file->path, values[i]);
        }
    }
    return UF_OK;
}

static uf_status read_opened(uf_hdf5_file *file, hid_t id, const uf_hdf5_dataset *dataset,
                             void *data) {
    char reason[192];
    const hid_t type = memory_type(id, dataset);
    const herr_t read = H5Dread(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    H5Tclose(type);
    if (read < 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s cannot be read (HDF5: %s)", dataset->entry.name,
                file->path, uf_hdf5_reason(reason, sizeof reason));
    }
    if (dataset->has_checksum) {
        UF_TRY(uf_hdf5_check_checksum(file, id, dataset, data));
    }
    return strcmp(dataset->entry.type, "u64") == 0 ? refuse_large_counters(file, dataset, data)
                                                   : UF_OK;
}

/* Open a dataset again that a list had. */
static uf_status find_listed(uf_hdf5_file *file, const uf_hdf5_dataset *listed,
                             uf_hdf5_dataset *now, hid_t *id) {
    UF_TRY(uf_hdf5_find(file, listed->entry.name, now, id));
    if (!now->entry.is_tensor || now->dtype != listed->dtype ||
        !uf_shape_equal(&now->entry.shape, &listed->entry.shape)) {
        H5Oclose(*id);
        UF_FAIL(UF_ERROR_FORMAT, "%s changed while it was read", file->path);
    }
    return UF_OK;
}

uf_status uf_hdf5_check_listed(uf_hdf5_file *file, const uf_hdf5_dataset *listed) {
    return uf_file_check_claim(file->path, file->size, listed->entry.name, listed->entry.bytes);
}

uf_status uf_hdf5_read_listed(uf_hdf5_file *file, const uf_hdf5_dataset *listed, void *data) {
    hid_t id;
    uf_hdf5_dataset now;
    UF_TRY(find_listed(file, listed, &now, &id));
    const uf_status status = read_opened(file, id, &now, data);
    H5Oclose(id);
    return status;
}

/* ---- writing ---- */

/* Without the time of their making, which HDF5 gives the groups that it makes itself. */
void uf_hdf5_make_groups(uf_hdf5_file *file, const char *name) {
    const hid_t properties = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_obj_track_times(properties, false);
    for (const char *slash = strchr(name, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        char group[UF_NAME_SIZE * 2];
        const size_t length = (size_t)(slash - name);
        if (length >= sizeof group) {
            break;
        }
        memcpy(group, name, length);
        group[length] = '\0';
        if (H5Lexists(file->id, group, H5P_DEFAULT) == 0) {
            const hid_t id = H5Gcreate2(file->id, group, H5P_DEFAULT, properties, H5P_DEFAULT);
            if (id >= 0) {
                H5Gclose(id);
            }
        }
    }
    H5Pclose(properties);
}

/* Whole slices of the last axes, about CHUNK_BYTES of them. */
static bool set_chunks(hid_t properties, const uf_shape *shape, int64_t element, int32_t level) {
    hsize_t chunk[UF_MAX_RANK];
    int64_t room = CHUNK_BYTES / element;
    for (int32_t i = shape->rank - 1; i >= 0; --i) {
        const int64_t extent = shape->extent[i] < room ? shape->extent[i] : room;
        chunk[i] = (hsize_t)extent;
        room = room / extent > 1 ? room / extent : 1;
    }
    return H5Pset_chunk(properties, shape->rank, chunk) >= 0 && H5Pset_shuffle(properties) >= 0 &&
           H5Pset_deflate(properties, (unsigned)level) >= 0;
}

/* The type of a dataset in the file, closed by the caller. Little endian whatever the machine: what
 * h5py writes on nearly every machine. */
static hid_t stored_type(const char *type) {
    static const struct {
        const char *type;
        size_t exponent, bias;
    } halves[] = {{"f16", 5, 15}, {"bf16", 8, 127}};
    for (size_t i = 0; i < sizeof halves / sizeof halves[0]; ++i) {
        if (strcmp(type, halves[i].type) == 0) {
            const size_t mantissa = 15 - halves[i].exponent;
            const hid_t made = H5Tcopy(H5T_IEEE_F32LE);
            H5Tset_fields(made, 15, mantissa, halves[i].exponent, 0, mantissa);
            H5Tset_size(made, 2);
            H5Tset_ebias(made, halves[i].bias);
            return made;
        }
    }
    const size_t bits = (size_t)strtoul(type + 1, NULL, 10);
    if (type[0] == 'f') {
        return H5Tcopy(bits == 64 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE);
    }
    const hid_t made = H5Tcopy(type[0] == 'u' ? H5T_STD_U64LE : H5T_STD_I64LE);
    H5Tset_size(made, bits / 8);
    return made;
}

uf_status uf_hdf5_write_tensor(uf_hdf5_file *file, const char *name, uf_dtype dtype,
                               const uf_shape *shape, const void *data, uf_hdf5_storage storage) {
    const int64_t count = uf_shape_count(shape), element = (int64_t)uf_dtype_size(dtype);
    char reason[192];
    hsize_t extent[UF_MAX_RANK] = {0};
    for (int32_t i = 0; i < shape->rank; ++i) {
        extent[i] = (hsize_t)shape->extent[i];
    }
    const hid_t stored = stored_type(storage.type != NULL ? storage.type : uf_dtype_name(dtype));
    const hid_t memory = H5Tcopy(stored);
    if (dtype == UF_I64) {
        H5Tset_size(memory, sizeof(int64_t));
        H5Tset_precision(memory, 8 * sizeof(int64_t));
        H5Tset_sign(memory, H5T_SGN_2);
    }
    H5Tset_order(memory, H5Tget_order(H5T_NATIVE_INT));
    const hid_t space =
        shape->rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(shape->rank, extent, NULL);
    uf_hdf5_make_groups(file, name);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(properties, false); /* the same tensors give the same bytes */
    const bool small = shape->rank == 0 || count < LEAST_DEFLATED / element;
    const bool prepared = storage.gzip_level == 0 || small ||
                          set_chunks(properties, shape, element, storage.gzip_level);
    const hid_t id =
        prepared ? H5Dcreate2(file->id, name, stored, space, H5P_DEFAULT, properties, H5P_DEFAULT)
                 : H5I_INVALID_HID;
    const bool written = id >= 0 &&
                         H5Dwrite(id, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0 &&
                         (!storage.checksum || uf_hdf5_write_checksum(id, data, count, element));
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
    H5Tclose(memory);
    H5Tclose(stored);
    return status;
}

uf_status uf_hdf5_write(const char *path, const char *dataset, uf_dtype dtype, uf_shape shape,
                        const void *data) {
    char text[128];
    UF_CHECK_ARG(path != NULL && dataset != NULL, "uf_hdf5_write: path or dataset is NULL");
    dataset += strspn(dataset, "/");
    UF_TRY(uf_file_check_name(path, dataset));
    UF_CHECK_ARG(dtype == UF_F32 || dtype == UF_F64 || dtype == UF_I64,
                 "uf_hdf5_write takes f32, f64 or i64, not %s", uf_dtype_name(dtype));
    const int64_t count = uf_shape_count(&shape);
    UF_CHECK_ARG(shape.rank >= 0 && count >= 0, "uf_hdf5_write: %s is not a shape",
                 uf_shape_format(&shape, text, sizeof text));
    UF_CHECK_ARG(data != NULL || count == 0, "uf_hdf5_write: data is NULL");
    uf_hdf5_file file;
    UF_TRY(uf_hdf5_create(path, &file));
    const uf_status status =
        uf_hdf5_write_tensor(&file, dataset, dtype, &shape, data, (uf_hdf5_storage){0});
    return uf_hdf5_finish(&file, status);
}
