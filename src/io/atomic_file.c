/* atomic_file.c - temporary file, fsync, rename, fsync of the directory. */
#define _XOPEN_SOURCE 700 /* realpath */

#include "io/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ATTEMPTS 100

static void release(uf_atomic_file *file) {
    if (file->descriptor >= 0) {
        close(file->descriptor);
    }
    free(file->target);
    free(file->temporary);
    *file = (uf_atomic_file){.descriptor = -1};
}

/* The length of the directory part of a path, its last slash included; 0 for a bare file name. */
static size_t directory_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/* What `path` leads to: writing through a symbolic link changes the file behind it, not the link.
 */
static char *resolve(const char *path) {
    struct stat link;
    if (lstat(path, &link) == 0 && S_ISLNK(link.st_mode)) {
        char *real = realpath(path, NULL);
        if (real != NULL) {
            return real;
        }
    }
    return strdup(path);
}

uf_status uf_atomic_begin(const char *path, uf_atomic_file *file) {
    *file = (uf_atomic_file){.descriptor = -1};
    UF_CHECK_ARG(path != NULL && path[0] != '\0', "the name of a file to write is empty");
    file->target = resolve(path);
    const size_t room = strlen(path) + (file->target != NULL ? strlen(file->target) : 0) + 64;
    file->temporary = malloc(room);
    if (file->target == NULL || file->temporary == NULL) {
        release(file);
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for the name of %s", path);
    }
    struct stat old;
    mode_t mode = 0666; /* less the umask */
    const bool exists = stat(file->target, &old) == 0;
    if (exists && !S_ISREG(old.st_mode)) {
        release(file);
        /* Renaming over /dev/null or a pipe would destroy it. */
        UF_FAIL(UF_ERROR_IO, "cannot write %s: it is %s", path,
                S_ISDIR(old.st_mode) ? "a directory" : "not a regular file");
    }
    const int directory = (int)directory_length(file->target);
    for (int attempt = 0; attempt < ATTEMPTS && file->descriptor < 0; ++attempt) {
        snprintf(file->temporary, room, "%.*s.%.32s.%" PRIdMAX ".%d", directory, file->target,
                 file->target + directory, (intmax_t)getpid(), attempt);
        file->descriptor = open(file->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (file->descriptor < 0 && errno != EEXIST) {
            break;
        }
    }
    if (file->descriptor < 0) {
        const int error = errno;
        release(file);
        UF_FAIL(error == ENOENT ? UF_ERROR_NOT_FOUND : UF_ERROR_IO, "cannot write %s: %s", path,
                error == ENOENT ? "its directory does not exist" : strerror(error));
    }
    if (exists) {
        /* Best effort: where the mode cannot be kept the umask's stands. */
        (void)fchmod(file->descriptor, old.st_mode & 0777);
    }
    return UF_OK;
}

uf_status uf_atomic_write(uf_atomic_file *file, const void *data, size_t size) {
    const char *at = data;
    while (size > 0) {
        const ssize_t written = write(file->descriptor, at, size);
        if (written < 0 && errno != EINTR) {
            UF_FAIL(UF_ERROR_IO, "cannot write %s: %s", file->target, strerror(errno));
        }
        if (written > 0) {
            at += written;
            size -= (size_t)written;
        }
    }
    return UF_OK;
}

/* After the rename the entry itself must reach the disk. Some file systems do not let a directory
 * be synchronised (EINVAL); the file is in place all the same. */
static int sync_directory(const char *path) {
    const size_t length = directory_length(path);
    char *name = length == 0 ? strdup(".") : strndup(path, length);
    if (name == NULL) {
        return ENOMEM;
    }
    const int descriptor = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(name);
    if (descriptor < 0) {
        return errno;
    }
    const int error = fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
    close(descriptor);
    return error;
}

uf_status uf_atomic_commit(uf_atomic_file *file) {
    int error = fsync(file->descriptor) == 0 ? 0 : errno;
    if (error == 0 && rename(file->temporary, file->target) != 0) {
        error = errno;
    }
    if (error != 0) {
        uf_fail(UF_ERROR_IO, "cannot write %s: %s", file->target, strerror(error));
        uf_atomic_abort(file);
        return UF_ERROR_IO;
    }
    error = sync_directory(file->target);
    if (error == EACCES) {
        error = 0; /* a directory one may write but not read */
    }
    if (error != 0) {
        uf_fail(UF_ERROR_IO, "%s is written, but its directory could not be flushed to disk: %s",
                file->target, strerror(error));
    }
    release(file);
    return error == 0 ? UF_OK : UF_ERROR_IO;
}

void uf_atomic_abort(uf_atomic_file *file) {
    if (file->temporary != NULL && file->descriptor >= 0) {
        unlink(file->temporary);
    }
    release(file);
}
