/* weights.h - weights in and out, whatever the format of their file: HDF5 as `f[k] =
 * v.cpu().numpy()` of a state_dict lays them out, or safetensors. */
#ifndef UNFURL_WEIGHTS_H
#define UNFURL_WEIGHTS_H

#include <unfurl/keras.h>
#include <unfurl/store.h>

UF_BEGIN_DECLS

typedef enum uf_weights_format {
    UF_WEIGHTS_ANY = 0, /* reading: told by the contents; writing: safetensors where the name ends
                           in .safetensors, else HDF5 */
    UF_WEIGHTS_HDF5,
    UF_WEIGHTS_SAFETENSORS
} uf_weights_format;

/* "HDF5", "safetensors"; "any" else. */
UF_API const char *uf_weights_format_name(uf_weights_format format);

/* ---- into a store, and out of it ---- */

/* How file and store agreed: tensors of the store that were loaded or are missing in the file,
 * datasets that the store has no tensor for or one of another shape or type, and datasets that hold
 * no numbers. */
typedef struct uf_weights_load_report {
    size_t struct_size;
    int64_t loaded, missing, unexpected, other_shape, other_type, not_numbers;
} uf_weights_load_report;

static inline uf_weights_load_report uf_weights_load_report_default(void) {
    uf_weights_load_report report;
    memset(&report, 0, sizeof report);
    report.struct_size = sizeof report;
    return report;
}

typedef struct uf_weights_load_options {
    size_t struct_size;
    bool strict; /* true: every missing, unexpected or wrongly shaped tensor is an error, reported
                    together. false: what matches is loaded, the rest is told to `report` and the
                    log */
    const char *group;                 /* only what is under this group; NULL: the file's root */
    const char *const *strip_prefixes; /* besides "module." and "_orig_mod."; may be NULL */
    int32_t strip_prefix_count;
    uf_weights_load_report *report; /* overwritten: counts after UF_OK and UF_ERROR_SHAPE, else 0;
                                       may be NULL */
    bool keep_norms; /* false: a weight that the store has and the file lacks is made of the tensors
                        that weight norm or spectral norm has in its place, as evaluation does */
    bool untrusted;  /* true: the file may come from anybody. It is not mapped into memory, and of
                        HDF5 only the library's own reader opens it: what that does not know is an
                        error. false: libhdf5 reads the rest, and may crash on a damaged file */
    const uf_keras_mapping *keras; /* how a Keras file's layers are called here; may be NULL */
} uf_weights_load_options;

static inline uf_weights_load_options uf_weights_load_options_default(void) {
    uf_weights_load_options options;
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
 * store's contents are as they were. One failure is another: where a file has passed every check
 * and the disk fails while values go straight into a store with tensors, or somebody cuts the file
 * then, the tensors of the load are zero and count as never loaded, and the sentence says so. The
 * format is told by the contents and never by the name.
 * The first file of HDF5 calls H5dont_atexit(); docs/hdf5.md says what that means for a program
 * that uses libhdf5 itself. Errors: NOT_FOUND (no such file), FORMAT (no weights, damaged, a type
 * that is no number, parts of a weight that do not fit together, strict and into an empty store:
 * names of Keras, weight norm and the like), SHAPE (names or shapes that do not match), IO,
 * OUT_OF_MEMORY. */
UF_API UF_NODISCARD uf_status uf_weights_load(uf_store *store, const char *path,
                                              const uf_weights_load_options *options);

typedef struct uf_weights_save_options {
    size_t struct_size;
    uf_weights_format format;
    const char *const *metadata; /* names and texts in turn: metadata[2*i] names the text
                                    metadata[2*i + 1]; may be NULL */
    int32_t metadata_count;      /* pairs */
} uf_weights_save_options;

static inline uf_weights_save_options uf_weights_save_options_default(void) {
    uf_weights_save_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    return options;
}

/* Write every tensor of a store, under the names state_dict() gives them, as f32, f64 or i64; an
 * alias is written as a tensor of its own. HDF5 gets datasets and attributes at the root,
 * safetensors what `safetensors.torch.load_file` reads. Written to a temporary file beside `path`,
 * flushed to disk, then renamed over it. Seals the store. Errors: INVALID_ARGUMENT (metadata of one
 * name twice), NOT_FOUND (no such directory), IO, OUT_OF_MEMORY, DEVICE. */
UF_API UF_NODISCARD uf_status uf_weights_save(uf_store *store, const char *path,
                                              const uf_weights_save_options *options);

/* ---- what is in a file ---- */

/* One dataset of a file, as `unfurl inspect` lists it. */
typedef struct uf_weights_entry {
    size_t struct_size;
    char name[UF_NAME_SIZE * 2]; /* path from the root without the leading slash */
    uf_shape shape;              /* rank -1 where there is none */
    bool is_tensor;    /* false: strings, compound types, empty dataspaces, links to other files */
    char type[32];     /* "f32", "i64", "f16", or what it is if it is no tensor: "string" */
    int64_t bytes;     /* in memory, in its own type */
    bool has_checksum; /* of its values, which reading verifies */
} uf_weights_entry;

typedef struct uf_weights_file uf_weights_file;

typedef struct uf_weights_open_options {
    size_t struct_size;
    const char *group; /* only what is under this group; NULL: the file's root */
    bool untrusted;    /* as uf_weights_load_options.untrusted */
} uf_weights_open_options;

static inline uf_weights_open_options uf_weights_open_options_default(void) {
    uf_weights_open_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    return options;
}

/* Open a file and list it. The caller closes it; *file is NULL on failure. Errors: as
 * uf_weights_load. */
UF_API UF_NODISCARD uf_status uf_weights_open(const char *path,
                                              const uf_weights_open_options *options,
                                              uf_weights_file **file);
UF_API void uf_weights_close(uf_weights_file *file); /* NULL is legal */

/* Number of datasets, of pairs of metadata, and the format; of NULL 0. */
UF_API int64_t uf_weights_count(const uf_weights_file *file);
UF_API int64_t uf_weights_metadata_count(const uf_weights_file *file);
UF_API uf_weights_format uf_weights_format_of(const uf_weights_file *file);

/* The dataset at `index`, in name order. Overwrites *entry. Errors: INVALID_ARGUMENT. */
UF_API UF_NODISCARD uf_status uf_weights_entry_at_sized(const uf_weights_file *file, int64_t index,
                                                        uf_weights_entry *entry, size_t entry_size);
static inline UF_NODISCARD uf_status uf_weights_entry_at(const uf_weights_file *file, int64_t index,
                                                         uf_weights_entry *entry) {
    return uf_weights_entry_at_sized(file, index, entry, sizeof *entry);
}

/* A text about the whole file: safetensors' __metadata__, or an attribute of HDF5's root that is
 * one text. Both are the file's until it is closed, and NULL on failure. Errors:
 * INVALID_ARGUMENT. */
UF_API UF_NODISCARD uf_status uf_weights_metadata_at(const uf_weights_file *file, int64_t index,
                                                     const char **name, const char **text);

/* Read the tensor at `index` into memory of the caller's, converted to `dtype` (UF_F32, UF_F64,
 * UF_I64), C order; `data` holds `capacity` elements. Errors: as uf_weights_load; FORMAT: no
 * tensor, real numbers for UF_I64; SHAPE when it holds more than `capacity`. */
UF_API UF_NODISCARD uf_status uf_weights_read(uf_weights_file *file, int64_t index, uf_dtype dtype,
                                              void *data, int64_t capacity);

/* ---- from file to file ---- */

typedef enum uf_weights_names {
    UF_WEIGHTS_NAMES_KEPT = 0,
    UF_WEIGHTS_NAMES_DOTTED, /* main.0.weight, as state_dict() has them */
    UF_WEIGHTS_NAMES_NESTED  /* main/0/weight, in groups */
} uf_weights_names;

typedef struct uf_weights_convert_options {
    size_t struct_size;
    uf_weights_format format; /* of the file that is written */
    uf_weights_names names;
    bool keep_types;    /* true: every tensor keeps its type */
    uf_dtype dtype;     /* else of every tensor of real numbers: F16, BF16, F32 or F64 */
    int32_t gzip_level; /* 1 to 9: HDF5 in chunks, shuffled and deflated; 0: as it is */
    const char *group;  /* only what is under this group, named from it; NULL: the file's root */
    bool untrusted;     /* as uf_weights_load_options.untrusted */
} uf_weights_convert_options;

static inline uf_weights_convert_options uf_weights_convert_options_default(void) {
    uf_weights_convert_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.keep_types = true;
    return options;
}

/* Write the tensors and the metadata of file `from` to `to`, which may be the same file. Types that
 * are kept keep every bit, NaN's too; others are rounded once, to nearest even. A tensor with an
 * extent of 0 goes along. `to` is written as
 * uf_weights_save writes it. Errors: those of uf_weights_load and uf_weights_save; FORMAT where
 * `from` holds something that is no tensor, INVALID_ARGUMENT where two names become one, or where
 * HDF5 would have a tensor and its group under one name ("a" and "a/b"). */
UF_API UF_NODISCARD uf_status uf_weights_convert(const char *from, const char *to,
                                                 const uf_weights_convert_options *options);

UF_END_DECLS

#endif
