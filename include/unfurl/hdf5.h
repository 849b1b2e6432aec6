/* hdf5.h - weights in and out, as `f[k] = v.cpu().numpy()` of a state_dict lays them out. */
#ifndef UNFURL_HDF5_H
#define UNFURL_HDF5_H

#include <unfurl/store.h>

UF_BEGIN_DECLS

/* How file and store agreed: tensors of the store that were loaded or are missing in the file,
 * datasets that the store has no tensor for or one of another shape or type, and datasets that hold
 * no numbers. */
typedef struct uf_hdf5_load_report {
    size_t struct_size;
    int64_t loaded, missing, unexpected, other_shape, other_type, not_numbers;
} uf_hdf5_load_report;

static inline uf_hdf5_load_report uf_hdf5_load_report_default(void) {
    uf_hdf5_load_report report;
    memset(&report, 0, sizeof report);
    report.struct_size = sizeof report;
    return report;
}

typedef struct uf_hdf5_load_options {
    size_t struct_size;
    bool strict; /* true: every missing, unexpected or wrongly shaped tensor is an error, reported
                    together. false: what matches is loaded, the rest is told to `report` and the
                    log */
    const char *group;                 /* only what is under this group; NULL: the file's root */
    const char *const *strip_prefixes; /* besides "module." and "_orig_mod."; may be NULL */
    int32_t strip_prefix_count;
    uf_hdf5_load_report *report; /* overwritten: counts after UF_OK and UF_ERROR_SHAPE, else 0; may
                                    be NULL */
    bool keep_norms; /* false: a weight that the store has and the file lacks is made of the tensors
                        that weight norm or spectral norm has in its place, as evaluation does */
} uf_hdf5_load_options;

static inline uf_hdf5_load_options uf_hdf5_load_options_default(void) {
    uf_hdf5_load_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.strict = true;
    return options;
}

/* Load the datasets of a file into a store by name. A dataset is named as in state_dict()
 * ("main.0.weight") or by nested groups ("main/0/weight"). A name that the store does not know
 * loses its prefixes, one after another, until the store knows it or none is left. f16, bf16, f32,
 * f64 in either byte order, and integers for counters, are converted. Into an empty open store:
 * declares every dataset (names ending in running_mean or running_var are buffers, integers are
 * counters, the rest parameters). Otherwise matches what is declared: where the store has X.weight
 * and the file does not, X.weight is computed from X.weight_v and X.weight_g, from X.weight_orig,
 * X.weight_u and X.weight_v, or from X.parametrizations.weight.* (torch.nn.utils.weight_norm and
 * spectral_norm, torch.nn.utils.parametrizations), in f64, unless `keep_norms`. Those tensors count
 * as one that was loaded. A store that has X.weight_v and the like takes
 * X.parametrizations.weight.* under these names. Seals the store. Overwrites; on failure the
 * store's contents are as they were. The first call of this header calls H5dont_atexit();
 * docs/hdf5.md says what that means for a program that uses libhdf5 itself. Errors: NOT_FOUND (no
 * such file), FORMAT (not HDF5, truncated, a type that is no number, parts of a weight that do not
 * fit together, strict and into an empty store: names of Keras, weight norm and the like), SHAPE
 * (names or shapes that do not match), IO, OUT_OF_MEMORY. */
UF_API UF_NODISCARD uf_status uf_store_load_hdf5(uf_store *store, const char *path,
                                                 const uf_hdf5_load_options *options);

/* Write every tensor of a store, under the names state_dict() gives them, as f32, f64 or i64
 * datasets at the file's root; an alias is written as a tensor of its own. h5py and, through it,
 * load_state_dict read the file. Written to a temporary file beside `path`, flushed to disk, then
 * renamed over it. Seals the store.
 * Errors: NOT_FOUND (no such directory), IO, OUT_OF_MEMORY, DEVICE. */
UF_API UF_NODISCARD uf_status uf_store_save_hdf5(uf_store *store, const char *path);

/* One dataset of a file, as `inspect` lists it. */
typedef struct uf_hdf5_entry {
    size_t struct_size;
    char name[UF_NAME_SIZE * 2]; /* path from the root without the leading slash */
    uf_shape shape;              /* rank -1 where there is none */
    bool is_tensor; /* false: strings, compound types, empty dataspaces, links to other files */
    char type[32];  /* "f32", "i64", "f16", or HDF5's class for what is no tensor: "string" */
    int64_t bytes;  /* in memory, in its own type */
} uf_hdf5_entry;

/* List every dataset under `group` (NULL: the root) in HDF5's name order. *entries is one
 * allocation that the caller frees with uf_hdf5_list_free. */
UF_API UF_NODISCARD uf_status uf_hdf5_list_sized(const char *path, const char *group,
                                                 uf_hdf5_entry **entries, int64_t *count,
                                                 size_t entry_size);
static inline UF_NODISCARD uf_status uf_hdf5_list(const char *path, const char *group,
                                                  uf_hdf5_entry **entries, int64_t *count) {
    return uf_hdf5_list_sized(path, group, entries, count, sizeof **entries);
}
UF_API void uf_hdf5_list_free(uf_hdf5_entry *entries);

/* Read one dataset into memory of the caller's, converted to `dtype` (UF_F32, UF_F64, UF_I64).
 * `shape` gets its extents. `data` NULL reads only the shape; else it holds `capacity` elements.
 * Errors: as uf_store_load_hdf5; SHAPE when it holds more than `capacity`. */
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
