/* files.h - names of files: kinds, places to write, and the data files shipped with unfurl. */
#ifndef UF_TOOLS_FILES_H
#define UF_TOOLS_FILES_H

#include <stddef.h>

enum file_kind { FILE_OTHER, FILE_PNG, FILE_HDF5 };

/* By its extension, .png, or .h5 or .hdf5, in either case. */
enum file_kind file_kind_of(const char *path);

/* Refuse, before long work, an output whose folder does not exist or cannot be written to, or that
 * is a folder itself. */
int file_check_output(const char *path);

/* Find `name` among the shipped weights: in $UNFURL_DATA_DIR/weights when that is set; else beside
 * the executable (../share/unfurl/weights), else where this build was to be installed. */
int file_find_weights(const char *name, char *path, size_t size);

#endif
