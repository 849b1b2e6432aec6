/* hdf5.h - weights in and out, as `f[k] = v.cpu().numpy()` of a state_dict lays them out. */
#ifndef UNFURL_HDF5_H
#define UNFURL_HDF5_H

#include <unfurl/weights.h>

UF_BEGIN_DECLS

/* How a load goes, and how it went: what every format has. */
typedef uf_weights_load_report uf_hdf5_load_report;
typedef uf_weights_load_options uf_hdf5_load_options;

static inline uf_hdf5_load_report uf_hdf5_load_report_default(void) {
    return uf_weights_load_report_default();
}

static inline uf_hdf5_load_options uf_hdf5_load_options_default(void) {
    return uf_weights_load_options_default();
}

/* uf_weights_load of a file that has to be HDF5: any other is FORMAT. The first call of this header
 * calls H5dont_atexit(); docs/hdf5.md says what that means for a program that uses libhdf5
 * itself. */
UF_API UF_NODISCARD uf_status uf_store_load_hdf5(uf_store *store, const char *path,
                                                 const uf_hdf5_load_options *options);

/* uf_weights_save as HDF5, whatever the name, without metadata. h5py and, through it,
 * load_state_dict read the file. */
UF_API UF_NODISCARD uf_status uf_store_save_hdf5(uf_store *store, const char *path);

/* One dataset of a file. */
typedef uf_weights_entry uf_hdf5_entry;

/* List every dataset under `group` (NULL: the root) in HDF5's name order, without libhdf5: the file
 * may come from anybody. *entries is one
 * allocation that the caller frees with uf_hdf5_list_free. */
UF_API UF_NODISCARD uf_status uf_hdf5_list_sized(const char *path, const char *group,
                                                 uf_hdf5_entry **entries, int64_t *count,
                                                 size_t entry_size);
static inline UF_NODISCARD uf_status uf_hdf5_list(const char *path, const char *group,
                                                  uf_hdf5_entry **entries, int64_t *count) {
    return uf_hdf5_list_sized(path, group, entries, count, sizeof **entries);
}
UF_API void uf_hdf5_list_free(uf_hdf5_entry *entries);

/* Read one dataset, without libhdf5 as well, into memory of the caller's, converted to `dtype`
 * (UF_F32, UF_F64, UF_I64). `shape` gets its extents. `data` NULL reads only the shape; else it
 * holds `capacity` elements. Errors: as uf_store_load_hdf5; SHAPE when it holds more than
 * `capacity`. */
UF_API UF_NODISCARD uf_status uf_hdf5_read(const char *path, const char *dataset, uf_dtype dtype,
                                           uf_shape *shape, void *data, int64_t capacity);

/* Read a numeric attribute of a group or dataset ("/" for the root): up to `capacity` numbers,
 * converted to double; *count gets how many there are. Errors: NOT_FOUND (no such object or
 * attribute), FORMAT (not numbers), SHAPE (more than `capacity`). */
UF_API UF_NODISCARD uf_status uf_hdf5_read_attribute(const char *path, const char *object,
                                                     const char *name, double *values,
                                                     int32_t capacity, int32_t *count);

/* Create `path` with one dataset holding `data` (UF_F32, UF_F64 or UF_I64, C order). Written to a
 * temporary file beside it, flushed to disk, then renamed over `path`. */
UF_API UF_NODISCARD uf_status uf_hdf5_write(const char *path, const char *dataset, uf_dtype dtype,
                                            uf_shape shape, const void *data);

UF_END_DECLS

#endif
