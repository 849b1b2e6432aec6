/* tensor_file.h - a file of named tensors, whatever its format: one row of a table of functions for
 * each kind of file.
 *
 * Loads, lists and conversions call these functions and know no format. A format is told by a
 * file's contents and never by its name. To add one: write a uf_file_kind in a file of its own, and
 * name it in the list `kinds` of tensor_file.c. */
#ifndef UF_IO_TENSOR_FILE_H
#define UF_IO_TENSOR_FILE_H

#include <unfurl/weights.h>

#include "core/error.h"
#include "io/foreign.h"

/* One dataset, and what can be done with it. */
typedef struct uf_file_entry {
    uf_weights_entry entry;
    uf_dtype dtype;    /* of a tensor: the type its data are read as; I64 for every integer */
    bool is_numeric;   /* numbers, though perhaps none of them: a null or zero-size dataspace */
    bool has_checksum; /* verified by reading */
    char problem[96];  /* why it is no tensor, to follow "X in F.h5 "; "" for a tensor */
    int64_t offset;    /* of the data in the file, where the kind of file uses it */
} uf_file_entry;

typedef struct uf_file_listing {
    uf_file_entry *datasets;
    int64_t count, capacity;
} uf_file_listing;

/* A zeroed entry at the end of the list; NULL where memory is short. */
uf_file_entry *uf_file_listing_append(uf_file_listing *listing);
void uf_file_listing_free(uf_file_listing *listing);

/* An attribute: one or more texts, or one or more numbers. */
typedef struct uf_file_attribute {
    char *name;
    int64_t count;
    char **texts;    /* NULL of numbers, which are */
    double *numbers; /* NULL of texts; both are where it is neither */
} uf_file_attribute;

typedef struct uf_file_attributes {
    uf_file_attribute *each; /* with all that it points to, freed by uf_file_attributes_free */
    int64_t count;
} uf_file_attributes;

void uf_file_attributes_free(uf_file_attributes *attributes);

/* Make `one` an attribute of one text; false where memory is short, and it is to be freed all the
 * same. */
bool uf_file_attribute_text(uf_file_attribute *one, const char *name, const char *text);

/* Free what the attributes point to, and not `each` itself. */
void uf_file_attributes_clear(uf_file_attributes *attributes);

/* The beginning of a file whose kind is not known yet. */
typedef struct uf_file_head {
    int descriptor; /* open to read, for what tells its kind further on */
    int64_t size;   /* of the file */
    size_t count;   /* of the bytes here */
    int error;      /* an errno where they cannot be read; else 0 */
    unsigned char bytes[UF_FOREIGN_HEAD];
} uf_file_head;

typedef struct uf_file_kind uf_file_kind;

/* An open file. */
typedef struct uf_tensor_file {
    const uf_file_kind *kind;
    const char *path; /* for messages; borrowed */
    bool untrusted;   /* it may come from anybody: no kind that is trusted_only opens it */
    uf_file_listing listing;
    int64_t size; /* bytes on disk; set by the kind's open */
    void *state;  /* of the kind's own; freed by its close */
} uf_tensor_file;

/* One way to read one format. Two kinds may read the same format: the first whose `open` does not
 * answer UNSUPPORTED has the file. Functions that may be NULL say so. */
struct uf_file_kind {
    uf_weights_format format;
    const char *what;  /* "an HDF5 file", for messages */
    bool trusted_only; /* a damaged or hostile file can do harm: not for untrusted files */

    bool (*matches)(const uf_file_head *head);

    /* Fill `listing`, in name order, with what is under `group` (NULL: everything), named from the
     * root, and `size`. On failure nothing is left open. Errors: NOT_FOUND, IO, FORMAT,
     * OUT_OF_MEMORY; UNSUPPORTED: another kind may try. */
    uf_status (*open)(uf_tensor_file *file, const char *group);

    /* Around any number of check, read and attributes; no callback of the user's may run in
     * between. `end` returns `status`, or what went wrong with the reads that it closes. May be
     * NULL, both. */
    uf_status (*begin)(uf_tensor_file *file);
    uf_status (*end)(uf_tensor_file *file, uf_status status);

    /* Do the entry's data lie in the file as they should? To be called once before `read`, and
     * before memory is allocated for the data: a few bytes can claim any size. */
    uf_status (*check)(uf_tensor_file *file, const uf_file_entry *entry);

    /* Read a tensor: entry.shape's elements of type entry->dtype in this machine's byte order, into
     * memory that the caller has allocated for them. */
    uf_status (*read)(uf_tensor_file *file, const uf_file_entry *entry, void *data);

    /* The same elements where they lie in memory until the file is closed; NULL where they do not,
     * or where a file that is not trusted could change under the caller. May be NULL. */
    const void *(*map)(uf_tensor_file *file, const uf_file_entry *entry);

    /* The elements that `map` gave are not needed any more, though they may be asked for again. May
     * be NULL where `map` is. */
    void (*drop)(uf_tensor_file *file, const uf_file_entry *entry);

    /* Does the tensor lie in the file as `read` gives it, so that after `verify` nothing but the
     * medium can fail? `verify` compares checksums of the values, if there are any. Then
     * `read_flat` reads bytes, from byte `from` of the tensor on, and allocates nothing. May be
     * NULL, all three; `verify` alone where values have no checksums. */
    bool (*is_flat)(uf_tensor_file *file, const uf_file_entry *entry);
    uf_status (*verify)(uf_tensor_file *file, const uf_file_entry *entry);
    uf_status (*read_flat)(const uf_tensor_file *file, const uf_file_entry *entry, int64_t from,
                           int64_t bytes, void *to);

    /* All attributes of an object ("/": the root), in name order. *attributes is empty on failure.
     * Errors: NOT_FOUND (no such object), FORMAT. */
    uf_status (*attributes)(uf_tensor_file *file, const char *object,
                            uf_file_attributes *attributes);

    void (*close)(uf_tensor_file *file);
};

extern const uf_file_kind uf_file_h5, uf_file_libhdf5, uf_file_safetensors;

bool uf_file_is_hdf5(const uf_file_head *head);

/* Open a file of this format, UF_WEIGHTS_ANY for every one that is known; `path` is borrowed until
 * the close. On failure nothing is left open. */
uf_status uf_tensor_file_open(const char *path, uf_weights_format format, const char *group,
                              bool untrusted, uf_tensor_file *file);
void uf_tensor_file_close(uf_tensor_file *file);

/* `begin` and `end` of the kind, where it has them. */
uf_status uf_tensor_file_begin(uf_tensor_file *file);
uf_status uf_tensor_file_end(uf_tensor_file *file, uf_status status);

/* Check and read one tensor, into one allocation that free() frees. Between begin and end. */
uf_status uf_tensor_file_read(uf_tensor_file *file, const uf_file_entry *entry, void **data);

/* The two steps of it; the first leaves nothing to free. */
uf_status uf_tensor_file_check(uf_tensor_file *file, const uf_file_entry *entry);
uf_status uf_tensor_file_read_checked(uf_tensor_file *file, const uf_file_entry *entry,
                                      void **data);

/* The most bytes that a stored byte stands for: deflate's limit. */
#define UF_FILE_LARGEST_EXPANSION 1032

/* Below this a claim does no harm: a small dataset that was never written reads as its fill value.
 */
#define UF_FILE_HARMLESS_BYTES (INT64_C(1) << 20)

/* Refuse a size that a file of this size cannot be the source of: a few bytes can claim any extent.
 */
uf_status uf_file_check_claim(const char *path, int64_t file_size, const char *what, int64_t bytes);

/* The attribute with the CRC-32C of a dataset's values, and the answer to it: FORMAT unless
 * `stored` is the checksum of what was read. */
#define UF_FILE_CHECKSUM "unfurl_crc32c"
uf_status uf_file_verify(const char *path, const char *name, int64_t stored, uint32_t checksum);

/* The last failure was UNSUPPORTED, and no other kind may read the file. FORMAT, with a sentence
 * that says so. */
uf_status uf_file_refuse_untrusted(void);

/* The checks that need no format, so that each mistake has its own sentence; `what` is "an HDF5
 * file". */
uf_status uf_file_check_readable(const char *path, const char *what, int64_t *size);

/* May the name, from the root and without a slash before it, be read and written? False when a part
 * between slashes is empty, "." or "..". */
bool uf_file_is_name(const char *name);

/* The same, and that it is not too long, for a name from the caller; `path` is for the message.
 * Errors: INVALID_ARGUMENT. */
uf_status uf_file_check_name(const char *path, const char *name);

/* The sentence about a file of another format, with the way out where it is known. FORMAT. */
uf_status uf_file_refuse_format(const char *path, const char *what);

#endif
