/* hdf5_file.h - what the library does with libhdf5, and the only place that calls it.
 *
 * hdf5_file.c opens files and tells datasets apart, hdf5_list.c finds them, hdf5_data.c moves their
 * data, hdf5_attribute.c has checksums and attributes of the library's own, hdf5_attributes.c all
 * of an object; hdf5_kind.c is the row of tensor_file.h through which loads come here, of files
 * that are trusted and that h5/ does not know. */
#ifndef UF_IO_HDF5_FILE_H
#define UF_IO_HDF5_FILE_H

#define H5_USE_110_API /* later versions of libhdf5 keep the functions of 1.10 under it */
#include <hdf5.h>

#include <unfurl/hdf5.h>

#include "core/atomic_file.h"
#include "core/error.h"
#include "io/tensor_file.h"

#define UF_HDF5_REASON_SIZE 192

/* An open file. From uf_hdf5_open (or _create) to uf_hdf5_close the process-wide lock is held: no
 * callback of the user's may run in between. */
typedef struct uf_hdf5_file {
    const char *path; /* for messages; borrowed */
    int64_t size;     /* bytes on disk */
    hid_t id;
    hid_t access;          /* how links are followed: inside the file only */
    bool met_other_file;   /* a link to another file was met, and refused */
    uf_atomic_file atomic; /* of a file that is being written */
    H5E_auto2_t printer;   /* the process's own error printing, put back by close */
    void *printer_data;
    bool out_of_memory; /* HDF5 had no memory for one of our calls; `reason` is its sentence */
    char reason[UF_HDF5_REASON_SIZE];
    unsigned plugins; /* that the process lets HDF5 load, put back by close */
} uf_hdf5_file;

/* One dataset, or link to one. */
typedef uf_file_entry uf_hdf5_dataset;
typedef uf_file_listing uf_hdf5_listing;

/* Open for reading. Errors: NOT_FOUND, IO, FORMAT, each in its own sentence. */
uf_status uf_hdf5_open(const char *path, uf_hdf5_file *file);

/* Begin a file that takes the place of `path` on uf_hdf5_finish; until then it is in memory. */
uf_status uf_hdf5_create(const char *path, uf_hdf5_file *file);

/* Close a file that uf_hdf5_create began: into place when `status` is UF_OK, else away with it.
 * Returns `status`, or what went wrong in finishing. */
uf_status uf_hdf5_finish(uf_hdf5_file *file, uf_status status);

/* Close what uf_hdf5_open opened. Returns `status`, or OUT_OF_MEMORY when HDF5 had no memory for a
 * call in between: then neither its results nor the sentence about them hold. */
uf_status uf_hdf5_close(uf_hdf5_file *file, uf_status status);

/* HDF5's words about the place where its newest call failed; its next call forgets them.
 * `text` is always terminated. */
const char *uf_hdf5_reason(char *text, size_t size);

/* Open a name from the root. UF_OK with *id < 0 when nothing answers to it; an error when only
 * another file would. */
uf_status uf_hdf5_open_object(uf_hdf5_file *file, const char *name, hid_t *id);

/* Fill everything but entry.name, which is used in messages, from an open dataset. */
uf_status uf_hdf5_describe(const uf_hdf5_file *file, hid_t id, uf_hdf5_dataset *dataset);

/* Every dataset under `group` (NULL: the root), in name order, named from the root. */
uf_status uf_hdf5_scan(uf_hdf5_file *file, const char *group, uf_hdf5_listing *listing);

/* The dataset `name`, which stays open as *id when there is no error. */
uf_status uf_hdf5_find(uf_hdf5_file *file, const char *name, uf_hdf5_dataset *dataset, hid_t *id);

/* Read a dataset that a list had, in two steps: refuse a claim that the file is too short for,
 * before memory is allocated; then read into that memory. FORMAT where the dataset is no longer the
 * one of the list. */
uf_status uf_hdf5_check_listed(uf_hdf5_file *file, const uf_hdf5_dataset *listed);
uf_status uf_hdf5_read_listed(uf_hdf5_file *file, const uf_hdf5_dataset *listed, void *data);

/* How a dataset is stored. */
typedef struct uf_hdf5_storage {
    bool checksum;      /* with a CRC-32C of its values, which reading verifies */
    int32_t gzip_level; /* 1 to 9: in chunks, shuffled and deflated; 0: as one block */
    const char *type;   /* as uf_hdf5_entry has it: an integer's that the numbers fit; NULL: that of
                           the data */
} uf_hdf5_storage;

/* Add one dataset to a file that is being written, in C order. */
uf_status uf_hdf5_write_tensor(uf_hdf5_file *file, const char *name, uf_dtype dtype,
                               const uf_shape *shape, const void *data, uf_hdf5_storage storage);

/* Make the groups on the way to `name`. A failure shows when something is made in them. */
void uf_hdf5_make_groups(uf_hdf5_file *file, const char *name);

/* Attributes of the object `object` ("/": the root). An attribute of a text holds at most
 * UF_HDF5_MAX_TEXT bytes, its terminator included: HDF5 keeps it in a header of 64 KiB. */
#define UF_HDF5_MAX_TEXT ((size_t)32768)
uf_status uf_hdf5_write_integer(uf_hdf5_file *file, const char *object, const char *name,
                                int64_t value);
uf_status uf_hdf5_write_text(uf_hdf5_file *file, const char *object, const char *name,
                             const char *text);

/* All attributes of an object; see tensor_file.h. */
uf_status uf_hdf5_read_attributes(uf_hdf5_file *file, const char *object,
                                  uf_file_attributes *attributes);
/* Write a dataset of one string of fixed length, as one block. */
uf_status uf_hdf5_write_string(uf_hdf5_file *file, const char *name, const char *text, size_t size);

/* The checksum of an open dataset's values. check: FORMAT unless it is that of `values`, which have
 * just been read as dataset->dtype. */
bool uf_hdf5_has_checksum(hid_t dataset);
bool uf_hdf5_write_checksum(hid_t dataset, const void *values, int64_t count, int64_t size);
uf_status uf_hdf5_check_checksum(const uf_hdf5_file *file, hid_t id, const uf_hdf5_dataset *dataset,
                                 const void *values);

#endif
