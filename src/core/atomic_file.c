/* atomic_file.c - temporary file, fsync, rename, fsync of the directory. */
#define _GNU_SOURCE /* O_TMPFILE, F_OFD_SETLK, sigtimedwait */

#include "core/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <unfurl/file.h>

/* A temporary file is .NAME.0123456789abcdef.unfurl, with the beginning of the target's name: some
 * file systems take no more than 143 bytes. */
#define NAME_PART 100
#define PREFIX_SIZE (NAME_PART + 3)
#define DIGITS 16
#define SUFFIX ".unfurl"
#define ATTEMPTS 100
#define TEMPORARY_ROOM(directory) ((directory) + PREFIX_SIZE + DIGITS + sizeof SUFFIX)
#define MOST_LINKS 40 /* in a row: as many as Linux follows */

static void release(uf_atomic_file *file) {
    if (file->descriptor >= 0) {
        close(file->descriptor);
    }
    free(file->target);
    free(file->directory);
    free(file->temporary);
    *file = (uf_atomic_file){.descriptor = -1};
}

/* ---- paths ---- */

/* The length of the directory part of a path, its last slash included; 0 for a bare file name. */
static size_t directory_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/* The end of a chain of symbolic links: writing through a link changes or makes the file behind it.
 * NULL when memory is out. */
static char *follow_links(const char *path) {
    char *at = strdup(path);
    char link[PATH_MAX];
    for (int i = 0; at != NULL && i < MOST_LINKS; ++i) {
        const ssize_t length = readlink(at, link, sizeof link);
        if (length < 0) { /* no link */
            break;
        }
        const size_t kept = length > 0 && link[0] == '/' ? 0 : directory_length(at);
        char *next = malloc(kept + (size_t)length + 1);
        if (next != NULL) {
            memcpy(next, at, kept);
            memcpy(next + kept, link, (size_t)length);
            next[kept + (size_t)length] = '\0';
        }
        free(at);
        at = next;
    }
    return at;
}

/* ".NAME.", as much of the name as there is room for. */
static void make_prefix(const char *target, char prefix[PREFIX_SIZE]) {
    const char *name = target + directory_length(target);
    size_t length = strlen(name);
    if (length > NAME_PART) {
        length = NAME_PART;
        while (length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80) {
            --length; /* not within a character of UTF-8: some file systems refuse that */
        }
    }
    snprintf(prefix, PREFIX_SIZE, ".%.*s.", (int)length, name);
}

static bool is_temporary(const char *name, const char *prefix) {
    const size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 &&
           strspn(name + length, "0123456789abcdef") == DIGITS &&
           strcmp(name + length + DIGITS, SUFFIX) == 0;
}

/* A new temporary name beside the target. */
static uf_status draw_temporary(const char *path, uf_atomic_file *file) {
    char prefix[PREFIX_SIZE];
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
        UF_FAIL(UF_ERROR_IO, "cannot write %s: the system gives no random numbers", path);
    }
    const size_t length = directory_length(file->target);
    make_prefix(file->target, prefix);
    snprintf(file->temporary, TEMPORARY_ROOM(length), "%.*s%s%016" PRIx64 SUFFIX, (int)length,
             file->target, prefix, random);
    return UF_OK;
}

/* Set target, directory and temporary; the caller releases. */
static uf_status make_names(const char *path, uf_atomic_file *file) {
    file->target = follow_links(path);
    const size_t length = file->target != NULL ? directory_length(file->target) : 0;
    file->directory = length == 0 ? strdup(".") : strndup(file->target, length);
    file->temporary = malloc(TEMPORARY_ROOM(length));
    if (file->target == NULL || file->directory == NULL || file->temporary == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for the name of %s", path);
    }
    return draw_temporary(path, file);
}

/* ---- checks ---- */

static uf_status check_old(const char *path, const struct stat *old) {
    if (!S_ISREG(old->st_mode)) {
        /* Renaming over /dev/null or a pipe would destroy it. */
        UF_FAIL(UF_ERROR_IO, "cannot write %s: it is %s", path,
                S_ISDIR(old->st_mode) ? "a directory" : "not a regular file");
    }
    /* Root may write everything; a mode that lets nobody write says all the same that nobody
     * should. */
    if ((old->st_mode & 0222) == 0 || faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0) {
        UF_FAIL(UF_ERROR_IO, "cannot write %s: it is read-only", path);
    }
    return UF_OK;
}

static uf_status check_directory(const char *path, const char *directory, const struct stat *old) {
    struct stat info;
    if (stat(directory, &info) != 0 ||
        faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) != 0) {
        UF_FAIL(errno == ENOENT ? UF_ERROR_NOT_FOUND : UF_ERROR_IO, "cannot write %s: %s", path,
                errno == ENOENT   ? "its directory does not exist"
                : errno == EACCES ? "its directory is not writable"
                                  : strerror(errno));
    }
    const uid_t user = geteuid();
    if (old != NULL && (info.st_mode & S_ISVTX) != 0 && user != 0 && user != old->st_uid &&
        user != info.st_uid) {
        UF_FAIL(UF_ERROR_IO, "cannot write %s: it is another user's, and its directory is sticky",
                path);
    }
    return UF_OK;
}

/* Find where `path` leads and whether it can be written. `exists`: is there a file, described by
 * `old`? The caller releases, on failure too. */
static uf_status resolve(const char *path, uf_atomic_file *file, struct stat *old, bool *exists) {
    *file = (uf_atomic_file){.descriptor = -1};
    UF_CHECK_ARG(path != NULL && path[0] != '\0', "the name of a file to write is empty");
    /* By the kernel, links included: it may refuse to follow one, in /tmp say. */
    *exists = stat(path, old) == 0;
    if (!*exists && errno != ENOENT) {
        UF_FAIL(UF_ERROR_IO, "cannot write %s: %s", path, strerror(errno));
    }
    if (*exists) {
        UF_TRY(check_old(path, old));
    }
    UF_TRY(make_names(path, file));
    return check_directory(path, file->directory, *exists ? old : NULL);
}

uf_status uf_file_check_output(const char *path) {
    uf_atomic_file file;
    struct stat old;
    bool exists;
    const uf_status status = resolve(path, &file, &old, &exists);
    release(&file);
    return status;
}

/* ---- temporary files ---- */

/* Take the lock that says "alive". Not by flock(): libhdf5 takes that of every file it opens, and a
 * reader would fail on a file that has just come into place. Not by F_SETLK, which another
 * descriptor of this process would give away. */
static bool lock(int descriptor) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(descriptor, F_OFD_SETLK, &whole) == 0;
}

/* Remove what dead savers of this target left. A lock that can be taken is nobody's: it ends with
 * its process. */
static void remove_stale(const uf_atomic_file *file) {
    char prefix[PREFIX_SIZE];
    make_prefix(file->target, prefix);
    DIR *directory = opendir(file->directory);
    if (directory == NULL) { /* one may write there and not read */
        return;
    }
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        struct stat info;
        if (!is_temporary(entry->d_name, prefix)) {
            continue;
        }
        const int descriptor =
            openat(dirfd(directory), entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (descriptor < 0) {
            continue;
        }
        if (fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) && lock(descriptor)) {
            unlinkat(dirfd(directory), entry->d_name, 0);
        }
        close(descriptor);
    }
    closedir(directory);
}

/* Keep a new file: false when a clean-up came first and the file's name is gone or going. Where
 * there are no locks nobody cleans up either. */
static bool keep(int descriptor) {
    struct stat info;
    return (lock(descriptor) || (errno != EAGAIN && errno != EACCES)) &&
           fstat(descriptor, &info) == 0 && info.st_nlink > 0;
}

/* The name under which a file without one can be linked. */
typedef struct self_path {
    char text[32];
} self_path;

static self_path self(int descriptor) {
    self_path path;
    snprintf(path.text, sizeof path.text, "/proc/self/fd/%d", descriptor);
    return path;
}

/* -1 where the file system has no such files, or there is no /proc to give them a name by. */
static int open_nameless(const char *directory) {
    const int descriptor = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (descriptor >= 0 && access(self(descriptor).text, F_OK) != 0) {
        close(descriptor);
        return -1;
    }
    if (descriptor >= 0) {
        (void)lock(descriptor); /* for the moment that it has a temporary name */
    }
    return descriptor;
}

static int open_named(const char *path, uf_atomic_file *file) {
    int descriptor = -1;
    for (int attempt = 0; attempt < ATTEMPTS; ++attempt) {
        descriptor = open(file->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor < 0 || keep(descriptor)) {
            break;
        }
        /* A clean-up of another saver has it, and may not have removed the name yet. */
        close(descriptor);
        descriptor = -1;
        errno = EAGAIN;
        if (draw_temporary(path, file) != UF_OK) {
            break;
        }
    }
    return descriptor;
}

uf_status uf_atomic_begin(const char *path, uf_atomic_file *file) {
    struct stat old;
    bool exists;
    const uf_status status = resolve(path, file, &old, &exists);
    if (status != UF_OK) {
        release(file);
        return status;
    }
    remove_stale(file);
    file->descriptor = open_nameless(file->directory);
    if (file->descriptor < 0) {
        file->descriptor = open_named(path, file);
        file->named = true;
    }
    if (file->descriptor < 0) {
        const int error = errno;
        release(file);
        UF_FAIL(UF_ERROR_IO, "cannot write %s: %s", path, strerror(error));
    }
    if (exists) {
        /* Best effort: the owner first, since a change of it clears bits of the mode. */
        if (fchown(file->descriptor, old.st_uid, old.st_gid) != 0) {
            (void)!fchown(file->descriptor, (uid_t)-1, old.st_gid);
        }
        (void)fchmod(file->descriptor, old.st_mode & 0777);
    }
    return UF_OK;
}

/* Returns an errno; 0 when all is written. */
static int write_all(int descriptor, const char *at, size_t size) {
    while (size > 0) {
        const ssize_t written = write(descriptor, at, size);
        if (written < 0 && errno != EINTR) {
            return errno;
        }
        if (written > 0) {
            at += written;
            size -= (size_t)written;
        }
    }
    return 0;
}

/* Beyond RLIMIT_FSIZE a write raises SIGXFSZ in its thread, which ends a process that did not
 * provide for it. The signal is held back and taken, so that EFBIG remains, unless the caller holds
 * it back himself: then one that waits may be his. */
uf_status uf_atomic_write(uf_atomic_file *file, const void *data, size_t size) {
    sigset_t too_large, before;
    sigemptyset(&too_large);
    sigaddset(&too_large, SIGXFSZ);
    const bool held = pthread_sigmask(SIG_BLOCK, &too_large, &before) == 0;
    const int error = write_all(file->descriptor, data, size);
    if (held && sigismember(&before, SIGXFSZ) == 0) {
        if (error == EFBIG) {
            (void)sigtimedwait(&too_large, NULL, &(const struct timespec){0});
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (error != 0) {
        UF_FAIL(UF_ERROR_IO, "cannot write %s: %s", file->target, strerror(error));
    }
    return UF_OK;
}

/* Returns an errno; 0 when the file is in place. */
static int put_in_place(uf_atomic_file *file) {
    if (!file->named) {
        const self_path from = self(file->descriptor);
        if (linkat(AT_FDCWD, from.text, AT_FDCWD, file->target, AT_SYMLINK_FOLLOW) == 0) {
            return 0;
        }
        /* A link replaces nothing: it takes a name of its own, and a rename. */
        if (errno != EEXIST ||
            linkat(AT_FDCWD, from.text, AT_FDCWD, file->temporary, AT_SYMLINK_FOLLOW) != 0) {
            return errno;
        }
        file->named = true;
    }
    return rename(file->temporary, file->target) == 0 ? 0 : errno;
}

/* After the rename the entry itself must reach the disk. Some file systems do not let a directory
 * be synchronised (EINVAL); the file is in place all the same. */
static int sync_directory(const char *directory) {
    const int descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) {
        return errno;
    }
    const int error = fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
    close(descriptor);
    return error;
}

uf_status uf_atomic_commit(uf_atomic_file *file) {
    int error = fsync(file->descriptor) == 0 ? 0 : errno;
    if (error == 0) {
        error = put_in_place(file);
    }
    if (error != 0) {
        uf_fail(UF_ERROR_IO, "cannot write %s: %s", file->target, strerror(error));
        uf_atomic_abort(file);
        return UF_ERROR_IO;
    }
    error = sync_directory(file->directory);
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
    if (file->named && file->descriptor >= 0) {
        unlink(file->temporary);
    }
    release(file);
}
