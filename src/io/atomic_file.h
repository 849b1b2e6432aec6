/* atomic_file.h - a file that is either wholly there or not at all. */
#ifndef UF_IO_ATOMIC_FILE_H
#define UF_IO_ATOMIC_FILE_H

#include <stddef.h>

#include "core/error.h"

/* A temporary file in the directory of its target, which it replaces when it is complete. */
typedef struct uf_atomic_file {
    char *target;    /* what `path` leads to, symbolic links followed */
    char *temporary; /* beside it: a rename does not cross file systems */
    int descriptor;  /* of the temporary file, open for reading and writing */
} uf_atomic_file;

/* Create the temporary file, with the permissions of the file it will replace. On failure nothing
 * is left. Errors: NOT_FOUND (no such directory), IO, OUT_OF_MEMORY. */
uf_status uf_atomic_begin(const char *path, uf_atomic_file *file);

/* Append to the temporary file. The caller aborts after a failure. Errors: IO. */
uf_status uf_atomic_write(uf_atomic_file *file, const void *data, size_t size);

/* Flush the temporary file to disk, rename it over the target, flush the directory. On failure the
 * temporary file is gone and the target is as it was. Errors: IO. */
uf_status uf_atomic_commit(uf_atomic_file *file);

/* Remove the temporary file. */
void uf_atomic_abort(uf_atomic_file *file);

#endif
