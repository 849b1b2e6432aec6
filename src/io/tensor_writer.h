/* tensor_writer.h - a file of named tensors that is written, in whatever format; it takes the place
 * of its target when it is whole. */
#ifndef UF_IO_TENSOR_WRITER_H
#define UF_IO_TENSOR_WRITER_H

#include <unfurl/weights.h>

#include "core/atomic_file.h"

/* One tensor to come. */
typedef struct uf_written {
    const char *name; /* borrowed until the end */
    const char *type; /* in the file: "f32", or an integer's that its numbers fit: "i32" */
    uf_dtype dtype;   /* of the data that are handed in: `type`'s own, I64 of integers */
    uf_shape shape;
} uf_written;

typedef struct uf_tensor_writer {
    const struct uf_writer_kind *kind;
    const char *path;          /* borrowed */
    const uf_written *entries; /* borrowed */
    int64_t count;
    int64_t *order; /* the numbers of the entries as the file wants them, one after another */
    int64_t done;   /* of the order */
    const char *const *metadata; /* as uf_weights_save_options has it */
    int32_t metadata_count;
    int32_t gzip_level; /* HDF5: 1 to 9 deflates; 0: as they are */
    void *state;        /* of the kind */
} uf_tensor_writer;

/* The functions of one format: `begin` may change the order. A file that `begin` began ends by
 * `finish`, into place when `status` is UF_OK. */
typedef struct uf_writer_kind {
    uf_status (*begin)(uf_tensor_writer *writer);
    uf_status (*write)(uf_tensor_writer *writer, const uf_written *entry, const void *data);
    uf_status (*finish)(uf_tensor_writer *writer, uf_status status);
} uf_writer_kind;

extern const uf_writer_kind uf_hdf5_writer, uf_safetensors_writer;

/* Begin a file. The caller fills path, entries, count, metadata and gzip_level, zero the rest.
 * Errors: INVALID_ARGUMENT (names twice, or that are none), those of uf_file_check_output. */
uf_status uf_tensor_writer_begin(uf_tensor_writer *writer, uf_weights_format format);

/* The number of the entry whose data come next; -1 after the last. */
int64_t uf_tensor_writer_next(const uf_tensor_writer *writer);
uf_status uf_tensor_writer_write(uf_tensor_writer *writer, const void *data);

/* Put the file into place when `status` is UF_OK, else away with it. Returns `status`, or what went
 * wrong. */
uf_status uf_tensor_writer_finish(uf_tensor_writer *writer, uf_status status);

/* The format of a file of this name, where none is given. */
uf_weights_format uf_weights_format_for(const char *path, uf_weights_format given);

#endif
