/* atomic_file.h - a file that is either wholly there or not at all. */
#ifndef UF_CORE_ATOMIC_FILE_H
#define UF_CORE_ATOMIC_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/error.h"

/* A temporary file in the directory of its target, which it replaces when it is complete. Where the
 * file system has O_TMPFILE it has no name until then, and ends with its process. Elsewhere the
 * next save of the same target removes what a killed process left: a living one holds a lock
 * (flock) on its file. */
typedef struct uf_atomic_file {
    char *target;    /* the path with symbolic links followed */
    char *directory; /* of the target: a rename does not cross file systems */
    char *temporary; /* the file's name until the rename */
    bool named;      /* does `temporary` exist? */
    int descriptor;  /* of the temporary file, open for reading and writing */
} uf_atomic_file;

/* Create the temporary file, with the permissions of the file it will replace, and if possible its
 * owner. On failure nothing is left. Errors: those of uf_file_check_output. */
uf_status uf_atomic_begin(const char *path, uf_atomic_file *file);

/* Append to the temporary file. The caller aborts after a failure. Errors: IO. */
uf_status uf_atomic_write(uf_atomic_file *file, const void *data, size_t size);

/* Flush the temporary file to disk, put it in the target's place, flush the directory. On failure
 * the temporary file is gone and the target is as it was. Errors: IO. */
uf_status uf_atomic_commit(uf_atomic_file *file);

/* Remove the temporary file. */
void uf_atomic_abort(uf_atomic_file *file);

#endif
