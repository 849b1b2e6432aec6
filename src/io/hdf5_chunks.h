/* hdf5_chunks.h - datasets that are stored in chunks, read without libhdf5's filters. */
#ifndef UF_IO_HDF5_CHUNKS_H
#define UF_IO_HDF5_CHUNKS_H

#include "io/hdf5_file.h"

/* Each filter that is read may occur once, so a pipeline has three at most. */
#define UF_HDF5_MAX_FILTERS 3

typedef struct uf_hdf5_filter {
    H5Z_filter_t id;
    int64_t element; /* shuffle: bytes of one element */
} uf_hdf5_filter;

/* How a dataset is cut into chunks; zero for one that is not. */
typedef struct uf_hdf5_chunks {
    int rank;
    int64_t extent[UF_MAX_RANK]; /* of the dataset */
    int64_t chunk[UF_MAX_RANK];  /* of one chunk */
    int64_t element;             /* bytes of one element in the file */
    int64_t bytes;               /* of one chunk without filters; partial chunks are stored whole */
    int64_t stored;              /* chunks that are */
    int64_t missing;             /* chunks that are not stored and read as the fill value */
    int filter_count;
    uf_hdf5_filter filters[UF_HDF5_MAX_FILTERS]; /* in the order in which they were applied */
    bool partial_unfiltered; /* chunks that reach beyond the extents are stored without filters */
} uf_hdf5_chunks;

/* Fill `chunks` from an open chunked dataset, and refuse what is not read or cannot be: other
 * filters than deflate, shuffle and Fletcher-32, more chunks than the file has bytes, more data
 * than its stored bytes can hold. *unstored gets how many of the dataset's bytes no chunk holds. */
uf_status uf_hdf5_check_chunks(const uf_hdf5_file *file, hid_t id, const uf_hdf5_dataset *dataset,
                               uf_hdf5_chunks *chunks, int64_t *unstored);

/* Read the whole dataset as `type`, an HDF5 type in memory, into `data`. Overwrites. */
uf_status uf_hdf5_read_chunks(const uf_hdf5_file *file, hid_t id, const uf_hdf5_dataset *dataset,
                              const uf_hdf5_chunks *chunks, hid_t type, void *data);

#endif
