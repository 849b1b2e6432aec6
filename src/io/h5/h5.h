/* h5.h - HDF5 files, read without libhdf5.
 *
 * A reader for a stated part of the format (docs/hdf5.md), made for files from strangers: every
 * number of a file is checked before it is used, memory is allocated in proportion to what the file
 * stores, and the work has a budget that is a multiple of the file's size. Written from the HDF5
 * File Format Specification, version 3.
 *
 * Functions return UF_ERROR_UNSUPPORTED for what is legal and outside that part, and for that
 * alone; UF_ERROR_FORMAT says that a file is damaged, or refused whoever wrote it. No call asks
 * libhdf5, a store or a context. A file is used by one thread at a time. */
#ifndef UF_IO_H5_H5_H
#define UF_IO_H5_H5_H

#include <stdbool.h>
#include <stdint.h>

#include <unfurl/store.h>

#include "core/error.h"
#include "io/tensor_file.h"

UF_BEGIN_DECLS

/* The size of a whole path from the root, its terminator included. */
#define UF_H5_NAME_SIZE (UF_NAME_SIZE * 2)

typedef struct uf_h5_file uf_h5_file;

typedef enum uf_h5_kind {
    UF_H5_DATASET,
    UF_H5_GROUP,
    UF_H5_NAMED_TYPE,
    UF_H5_OTHER_FILE /* a link to another file, which is not followed */
} uf_h5_kind;

/* The type of one element. */
typedef struct uf_h5_type {
    int class;          /* HDF5's number: 0 integer, 1 float, 3 string, 9 of varying length... */
    int64_t size;       /* bytes in the file */
    bool is_number;     /* an integer or a float of a format that is read */
    bool is_text;       /* a string, of fixed or of varying length */
    bool is_varying;    /* of varying length */
    bool is_big_endian; /* numbers */
    bool is_signed;     /* integers */
    uf_dtype dtype;     /* of numbers: what they are read as; I64 for every integer */
    char name[32];      /* "f32", "u8"; HDF5's class for what is no number: "string" */
} uf_h5_type;

/* One object, under one of its names. */
typedef struct uf_h5_object {
    char name[UF_H5_NAME_SIZE]; /* from the root, without a slash before it */
    uf_h5_kind kind;
    uint64_t address; /* of its header, from the file's beginning */
    /* These are a dataset's: */
    uf_h5_type type;
    uf_shape shape;  /* rank -1 where there is none */
    int64_t bytes;   /* as stored without filters */
    bool is_numeric; /* numbers, though perhaps none of them: a null or zero-size dataspace */
    bool is_tensor;
    char problem[96]; /* why it is no tensor, to follow "X in F.h5 "; "" for a tensor */
} uf_h5_object;

typedef struct uf_h5_list {
    uf_h5_object *objects;
    int64_t count, capacity;
} uf_h5_list;

/* Bytes that a file may cost no more than so many of: those of its metadata, read again and again,
 * and those that it claims and does not store, which read as fill values. */
typedef struct uf_h5_cost {
    uint64_t metadata;
    int64_t unstored;
} uf_h5_cost;

/* Open for reading; *file is NULL on failure. `path` is copied. Errors: NOT_FOUND, IO, FORMAT,
 * UNSUPPORTED, OUT_OF_MEMORY. */
uf_status uf_h5_open(const char *path, uf_h5_file **file);
void uf_h5_close(uf_h5_file *file); /* NULL is legal */

/* The cost of the file so far, and some of it given back: a reader that repeats itself is not the
 * file's doing. */
uf_h5_cost uf_h5_spent(const uf_h5_file *file);
void uf_h5_refund(uf_h5_file *file, uf_h5_cost cost);

int64_t uf_h5_size(const uf_h5_file *file);
const char *uf_h5_path(const uf_h5_file *file);

/* Every dataset under `group` ("": the root), and every link to another file, in the order of their
 * names. A group is entered once, under the first of its names. Errors: NOT_FOUND (no such group),
 * FORMAT, UNSUPPORTED, OUT_OF_MEMORY. On failure the list is empty. */
uf_status uf_h5_list_all(uf_h5_file *file, const char *group, uf_h5_list *list);
void uf_h5_list_free(uf_h5_list *list);

/* The object of this name, from the root ("": the root itself); soft links are followed. NOT_FOUND
 * where nothing answers to it. */
uf_status uf_h5_find(uf_h5_file *file, const char *name, uf_h5_object *object);

/* Does the file store what a tensor claims? To be called once before it is read, and before memory
 * is allocated for it. */
uf_status uf_h5_check(uf_h5_file *file, const uf_h5_object *object);

/* How many elements are cheap to read together: see uf_h5_read. */
uf_status uf_h5_span(uf_h5_file *file, const uf_h5_object *object, int64_t *elements);

/* Does a tensor lie in the file as it is in memory, as one block? Then uf_h5_read_flat reads from
 * its address, and nothing but the file system can make that fail. */
bool uf_h5_is_flat(uf_h5_file *file, const uf_h5_object *object, uint64_t *address);
uf_status uf_h5_read_flat(const uf_h5_file *file, uint64_t address, uint64_t bytes, void *to);

/* Read `count` elements of a tensor, in C order from element `first` on, as type.dtype in this
 * machine's byte order. A reader of a part takes a multiple of that many elements, from a multiple
 * of it on: other parts undo the filters of a chunk several times. Overwrites; after an error the
 * values mean nothing. */
uf_status uf_h5_read(uf_h5_file *file, const uf_h5_object *object, int64_t first, int64_t count,
                     void *values);

/* An attribute that is one integer; *found is false where the object has none of this name. */
uf_status uf_h5_read_integer(uf_h5_file *file, const uf_h5_object *object, const char *name,
                             bool *found, int64_t *value);

/* An attribute that is numbers, as many as `capacity`; *count gets how many. Errors: SHAPE (there
 * is no room), FORMAT (no numbers). */
uf_status uf_h5_read_numbers(uf_h5_file *file, const uf_h5_object *object, const char *name,
                             double *values, int32_t capacity, bool *found, int32_t *count);

/* An attribute that is one text of fixed length, cut at its first zero. Errors: NOT_FOUND (no such
 * attribute), FORMAT, SHAPE (more than `size`, its terminator included). */
uf_status uf_h5_read_text(uf_h5_file *file, const uf_h5_object *object, const char *name,
                          char *text, size_t size);

/* A dataset of one string of fixed length, of at most `most` bytes, stored as one block: one
 * allocation that the caller frees, ended by a zero behind *size bytes. *text is NULL on failure.
 * Errors: FORMAT, UNSUPPORTED, OUT_OF_MEMORY. */
uf_status uf_h5_read_string(uf_h5_file *file, const uf_h5_object *object, int64_t most, char **text,
                            size_t *size);

/* All attributes of an object, in name order: texts of fixed and of varying length, and numbers.
 * *attributes is empty on failure. */
uf_status uf_h5_read_attributes(uf_h5_file *file, const uf_h5_object *object,
                                uf_file_attributes *attributes);

UF_END_DECLS

#endif
