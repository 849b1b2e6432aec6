/* h5_read.h - tensors of HDF5 files, converted and verified on their way. */
#ifndef UF_IO_H5_READ_H
#define UF_IO_H5_READ_H

#include "io/h5/h5.h"

/* Read a whole tensor that uf_h5_check has let pass, as `dtype`, and compare its checksum where it
 * has one. FORMAT when it is another. */
uf_status uf_h5_read_verified(uf_h5_file *file, const uf_h5_object *object, uf_dtype dtype,
                              void *values);

#endif
