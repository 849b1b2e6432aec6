/* files.h - names of files: kinds, results, and the data files shipped with unfurl. */
#ifndef UF_TOOLS_FILES_H
#define UF_TOOLS_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include <unfurl/unfurl.h>

enum file_kind { FILE_OTHER, FILE_PNG, FILE_HDF5 };

/* By its extension, .png, or .h5 or .hdf5, in either case. */
enum file_kind file_kind_of(const char *path);

/* The format of a picture of this name: .png, .jpg or .jpeg, in either case. False: none. */
bool file_picture_format(const char *path, uf_picture_format *format);

/* How to write a picture of this name, with `threads` as below. */
uf_picture_write_options file_picture_options(const char *path, int64_t threads, int64_t quality);

/* Write a picture in the format of its name. */
int file_write_picture(const char *path, const uf_picture *picture, int64_t threads,
                       int64_t quality);

/* Write a result: `values` as the dataset `name` of an HDF5 file, or the picture in the format of
 * its name where that is NULL, with `threads` threads, all usable cores with less than 1. */
int file_write(const char *path, const char *name, uf_dtype dtype, uf_shape shape,
               const void *values, const uf_picture *picture, int64_t threads);

/* Write a file of these bytes, whole or not at all. */
int file_write_bytes(const char *path, const void *bytes, size_t size);

/* Find `name` among the shipped weights: in $UNFURL_DATA_DIR/weights when that is set; else beside
 * the executable (../share/unfurl/weights), else where this build was to be installed. */
int file_find_weights(const char *name, char *path, size_t size);

/* Find the model file `name` of a network that scripts/fetch-networks has made: in
 * $UNFURL_DATA_DIR/networks when that is set; else in $XDG_DATA_HOME/unfurl/networks or
 * ~/.local/share/unfurl/networks. `model` is what to fetch where it is not there. */
int file_find_network(const char *model, const char *name, char *path, size_t size);

#endif
