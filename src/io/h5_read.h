/* h5_read.h - tensors of HDF5 files, converted and verified on their way. */
#ifndef UF_IO_H5_READ_H
#define UF_IO_H5_READ_H

#include "io/h5/h5.h"

/* The dataset of this name, which is a tensor. Errors: NOT_FOUND, FORMAT. */
uf_status uf_h5_find_dataset(uf_h5_file *file, const char *name, uf_h5_object *object);

/* Read a whole tensor that uf_h5_check has let pass, as `dtype`, and compare its checksum where it
 * has one. FORMAT when it is another, or missing where one is needed. `values` NULL: it is compared
 * and not kept, and what has none is not read. */
uf_status uf_h5_read_verified(uf_h5_file *file, const uf_h5_object *object, uf_dtype dtype,
                              bool needs_checksum, void *values);

/* The status for callers who have no other reader: UNSUPPORTED is FORMAT, and the sentence says who
 * reads that. */
uf_status uf_h5_settle(uf_status status);

#endif
