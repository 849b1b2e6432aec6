/* file.c - a file's bytes, and the superblock, which says where its contents begin.
 *
 * Bytes come by pread into memory of ours: a file that is cut while it is mapped would end the
 * process, and one that is changed would pass checks that its new contents fail. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/h5/internal.h"

#define SIGNATURE "\x89HDF\r\n\x1a\n"
#define SIGNATURE_SIZE 8
#define LARGEST_SUPERBLOCK 128

/* Metadata is read once for each object under each of its names, some of it again for its data and
 * its attributes. More than this says that a file leads in circles. */
#define LEAST_BUDGET ((uint64_t)4 << 20)
#define BUDGET_PER_BYTE 64

/* ---- sentences ---- */

const char *uf_h5_where(const uf_h5_file *file, char *text, size_t size) {
    const bool named = file->subject[0] != '\0';
    snprintf(text, size, "%s%s%s", file->subject, named ? " in " : "", file->path);
    return text;
}

uf_status uf_h5_damaged(const uf_h5_file *file, uint64_t address, const char *format, ...) {
    char where[UF_MESSAGE_SIZE / 2], reason[UF_MESSAGE_SIZE / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: %s (at byte %" PRIu64 ")",
            uf_h5_where(file, where, sizeof where), reason, address);
}

uf_status uf_h5_outside(const uf_h5_file *file, const char *format, ...) {
    char where[UF_MESSAGE_SIZE / 2], reason[UF_MESSAGE_SIZE / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    UF_FAIL(UF_ERROR_UNSUPPORTED, "%s %s", uf_h5_where(file, where, sizeof where), reason);
}

uf_status uf_h5_no_memory(const uf_h5_file *file, uint64_t bytes) {
    char where[UF_MESSAGE_SIZE / 2];
    UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory reading %s: %" PRIu64 " bytes",
            uf_h5_where(file, where, sizeof where), bytes);
}

/* ---- bytes ---- */

bool uf_h5_is_within(const uf_h5_file *file, uint64_t address, uint64_t size) {
    return address <= file->size && size <= file->size - address;
}

uf_status uf_h5_read_data(const uf_h5_file *file, uint64_t address, uint64_t size, void *bytes) {
    unsigned char *to = bytes;
    while (size > 0) {
        const size_t most = size < (1u << 30) ? (size_t)size : (size_t)1 << 30;
        const ssize_t got = pread(file->descriptor, to, most, (off_t)address);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            UF_FAIL(UF_ERROR_IO, "cannot read %s: %s", file->path, strerror(errno));
        }
        if (got == 0) {
            UF_FAIL(UF_ERROR_FORMAT, "%s became shorter while it was read", file->path);
        }
        to += got;
        address += (uint64_t)got;
        size -= (uint64_t)got;
    }
    return UF_OK;
}

uf_status uf_h5_spend(uf_h5_file *file, uint64_t address, uint64_t size) {
    if (size + 64 > file->budget - file->spent.metadata) {
        return uf_h5_damaged(file, address,
                             "its parts lead to each other, so that reading would not end");
    }
    file->spent.metadata += size + 64;
    return UF_OK;
}

uf_status uf_h5_read_metadata(uf_h5_file *file, uint64_t address, uint64_t size, const char *what,
                              void *bytes) {
    if (address == UF_H5_NOWHERE) {
        char where[UF_MESSAGE_SIZE / 2];
        UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: nothing says where %s lies",
                uf_h5_where(file, where, sizeof where), what);
    }
    if (!uf_h5_is_within(file, address, size)) {
        return uf_h5_damaged(file, address,
                             "%s of %" PRIu64 " bytes does not lie within the file's %" PRIu64
                             " bytes",
                             what, size, file->size);
    }
    UF_TRY(uf_h5_spend(file, address, size));
    return uf_h5_read_data(file, address, size, bytes);
}

uf_status uf_h5_fetch(uf_h5_file *file, uint64_t address, uint64_t size, const char *what,
                      unsigned char **bytes) {
    /* Before the allocation: a size of a damaged file may be anything. */
    const bool is_within = uf_h5_is_within(file, address, size);
    *bytes = is_within ? malloc(size > 0 ? (size_t)size : 1) : NULL;
    if (is_within && *bytes == NULL) {
        return uf_h5_no_memory(file, size);
    }
    const uf_status status = uf_h5_read_metadata(file, address, size, what, *bytes);
    if (status != UF_OK) {
        free(*bytes);
        *bytes = NULL;
    }
    return status;
}

uf_status uf_h5_fetch_checked(uf_h5_file *file, uint64_t address, uint64_t size,
                              const char *signature, int version, const char *what,
                              unsigned char **bytes) {
    *bytes = NULL;
    if (size < 9) {
        return uf_h5_damaged(file, address, "%s has %" PRIu64 " bytes", what, size);
    }
    UF_TRY(uf_h5_fetch(file, address, size, what, bytes));
    const unsigned char *at = *bytes;
    uf_status status = UF_OK;
    if (memcmp(at, signature, 4) != 0) {
        status = uf_h5_damaged(file, address, "%s does not begin with %s", what, signature);
    } else if (uf_h5_checksum(at, size - 4) != uf_h5_number_at(at + size - 4, 4)) {
        status = uf_h5_damaged(file, address, "%s fails its checksum", what);
    } else if (at[4] != version) {
        status = uf_h5_outside(file, "has %s of version %d, which is not known", what, at[4]);
    }
    if (status != UF_OK) {
        free(*bytes);
        *bytes = NULL;
    }
    return status;
}

void *uf_h5_grow(void *block, int64_t *capacity, size_t element) {
    const int64_t wanted = *capacity == 0 ? 16 : *capacity * 2;
    void *grown = realloc(block, (size_t)wanted * element);
    if (grown != NULL) {
        *capacity = wanted;
    }
    return grown;
}

char *uf_h5_copy_text(const unsigned char *bytes, uint64_t length) {
    const unsigned char *end = length > 0 ? memchr(bytes, '\0', (size_t)length) : NULL;
    const size_t size = end != NULL ? (size_t)(end - bytes) : (size_t)length;
    char *text = malloc(size + 1);
    if (text != NULL) {
        memcpy(text, bytes, size);
        text[size] = '\0';
    }
    return text;
}

/* ---- the superblock ---- */

/* It lies at byte 0, or at 512, 1024, 2048... behind what others put there. */
static uf_status find_superblock(uf_h5_file *file, bool *found) {
    unsigned char head[SIGNATURE_SIZE];
    *found = false;
    for (uint64_t at = 0; uf_h5_is_within(file, at, SIGNATURE_SIZE); at = at == 0 ? 512 : 2 * at) {
        UF_TRY(uf_h5_read_data(file, at, SIGNATURE_SIZE, head));
        if (memcmp(head, SIGNATURE, SIGNATURE_SIZE) == 0) {
            *found = true;
            file->base = at;
            return UF_OK;
        }
        if (at > file->size / 2) {
            break;
        }
    }
    return UF_OK;
}

/* The sizes of addresses and lengths; the cursor has just passed them. */
static uf_status check_sizes(uf_h5_file *file, const uf_h5_cursor *cursor) {
    if (cursor->is_short) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is truncated: its %" PRIu64 " bytes do not hold a superblock",
                file->path, file->size);
    }
    if ((file->offset_size != 2 && file->offset_size != 4 && file->offset_size != 8) ||
        (file->length_size != 2 && file->length_size != 4 && file->length_size != 8)) {
        return uf_h5_damaged(file, file->base, "its addresses have %u bytes and its lengths %u",
                             file->offset_size, file->length_size);
    }
    return UF_OK;
}

/* Addresses count from the superblock, which says where it lies itself. */
static uf_status check_ends(const uf_h5_file *file, uint64_t base, uint64_t end) {
    if (base != file->base) {
        return uf_h5_outside(file,
                             "was moved: its superblock lies at byte %" PRIu64 " and says %" PRIu64,
                             file->base, base);
    }
    if (end > file->size) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s is truncated: its %" PRIu64 " bytes are not all of it, which is %" PRIu64,
                file->path, file->size, end);
    }
    return UF_OK;
}

/* Versions 0 and 1. */
static uf_status parse_old(uf_h5_file *file, int version, uf_h5_cursor *cursor) {
    (void)uf_h5_take(cursor, 4); /* versions of parts, which say it themselves */
    file->offset_size = (unsigned)uf_h5_number(cursor, 1);
    file->length_size = (unsigned)uf_h5_number(cursor, 1);
    UF_TRY(check_sizes(file, cursor));
    /* Nodes of trees say how many entries they have, and their largest numbers are not needed. */
    (void)uf_h5_take(cursor, 1 + 2 + 2 + 4 + (version == 1 ? 4 : 0));
    const uint64_t base = uf_h5_number(cursor, file->offset_size);
    (void)uf_h5_take(cursor, file->offset_size); /* free space */
    const uint64_t end = uf_h5_number(cursor, file->offset_size);
    const uint64_t driver = uf_h5_address(file, cursor);
    (void)uf_h5_take(cursor, file->offset_size); /* the root's name */
    file->root = uf_h5_address(file, cursor);
    if (cursor->is_short) {
        return uf_h5_damaged(file, file->base, "its superblock is not whole");
    }
    UF_TRY(check_ends(file, base, end));
    if (driver != UF_H5_NOWHERE) {
        return uf_h5_outside(file, "is written by a driver that splits a file");
    }
    return UF_OK;
}

/* Messages about the file as a whole. */
static uf_status check_extension(uf_h5_file *file, uint64_t address) {
    uf_h5_header header;
    UF_TRY(uf_h5_header_read(file, address, &header));
    uf_status status = UF_OK;
    if (uf_h5_header_find(&header, UF_H5_MESSAGE_DRIVER) != NULL) {
        status = uf_h5_outside(file, "is written by a driver that splits a file");
    }
    const uf_h5_message *image = uf_h5_header_find(&header, UF_H5_MESSAGE_CACHE_IMAGE);
    if (image != NULL && status == UF_OK) {
        uf_h5_cursor cursor = uf_h5_cursor_over(image->bytes, image->size);
        (void)uf_h5_take(&cursor, 1);
        if (uf_h5_address(file, &cursor) != UF_H5_NOWHERE) {
            status = uf_h5_outside(file, "holds its metadata in the image of a cache");
        }
    }
    uf_h5_header_free(&header);
    return status;
}

/* Versions 2 and 3. */
static uf_status parse_new(uf_h5_file *file, int version, const unsigned char *bytes,
                           uf_h5_cursor *cursor) {
    file->offset_size = (unsigned)uf_h5_number(cursor, 1);
    file->length_size = (unsigned)uf_h5_number(cursor, 1);
    const uint64_t flags = uf_h5_number(cursor, 1);
    UF_TRY(check_sizes(file, cursor));
    const uint64_t base = uf_h5_number(cursor, file->offset_size);
    const uint64_t extension = uf_h5_address(file, cursor);
    const uint64_t end = uf_h5_number(cursor, file->offset_size);
    file->root = uf_h5_address(file, cursor);
    const uint64_t size = (uint64_t)(cursor->at - bytes);
    const uint64_t checksum = uf_h5_number(cursor, 4);
    if (cursor->is_short) {
        return uf_h5_damaged(file, file->base, "its superblock is not whole");
    }
    if (uf_h5_checksum(bytes, size) != checksum) {
        return uf_h5_damaged(file, file->base, "its superblock fails its checksum");
    }
    UF_TRY(check_ends(file, base, end));
    if (version == 3 && (flags & 1) != 0) { /* version 2 does not say so */
        UF_FAIL(UF_ERROR_FORMAT, "%s was not closed by the program that wrote it, or is still open",
                file->path);
    }
    return extension == UF_H5_NOWHERE ? UF_OK : check_extension(file, extension);
}

static uf_status read_superblock(uf_h5_file *file) {
    unsigned char bytes[LARGEST_SUPERBLOCK];
    bool found;
    UF_TRY(find_superblock(file, &found));
    if (!found) {
        return uf_file_refuse_format(file->path, "an HDF5 file");
    }
    const uint64_t left = file->size - file->base;
    const uint64_t size = left < sizeof bytes ? left : sizeof bytes;
    UF_TRY(uf_h5_read_metadata(file, file->base, size, "its superblock", bytes));
    uf_h5_cursor cursor = uf_h5_cursor_over(bytes, size);
    (void)uf_h5_take(&cursor, SIGNATURE_SIZE);
    const int version = (int)uf_h5_number(&cursor, 1);
    if (version > 3) {
        return uf_h5_outside(file, "has a superblock of version %d; 0 to 3 are known", version);
    }
    return version < 2 ? parse_old(file, version, &cursor)
                       : parse_new(file, version, bytes, &cursor);
}

/* ---- opening ---- */

static uf_status open_descriptor(const char *path, int *descriptor, uint64_t *size) {
    struct stat info;
    UF_CHECK_ARG(path != NULL && path[0] != '\0', "the name of a file to read is empty");
    /* Without waiting: opening a pipe would. */
    *descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*descriptor < 0 || fstat(*descriptor, &info) != 0) {
        UF_FAIL(errno == ENOENT || errno == ENOTDIR ? UF_ERROR_NOT_FOUND : UF_ERROR_IO,
                "cannot open %s: %s", path, strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is %s, not an HDF5 file", path,
                S_ISDIR(info.st_mode) ? "a directory" : "not a regular file");
    }
    if (info.st_size == 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is empty, not an HDF5 file", path);
    }
    /* libhdf5 locks what it writes. File systems that cannot lock are no reason to fail. */
    if (flock(*descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        UF_FAIL(UF_ERROR_IO, "%s is locked: another program has it open to write", path);
    }
    (void)flock(*descriptor, LOCK_UN); /* nothing here relies on the file staying as it is */
    *size = (uint64_t)info.st_size;
    return UF_OK;
}

uf_status uf_h5_open(const char *path, uf_h5_file **opened) {
    int descriptor = -1;
    uint64_t size = 0;
    *opened = NULL;
    const uf_status status = open_descriptor(path, &descriptor, &size);
    uf_h5_file *file = status == UF_OK ? calloc(1, sizeof *file) : NULL;
    char *copy = file == NULL ? NULL : strdup(path);
    if (copy == NULL) {
        free(file);
        if (descriptor >= 0) {
            close(descriptor);
        }
        return status != UF_OK
                   ? status
                   : uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory opening %s", path);
    }
    *file = (uf_h5_file){.path = copy,
                         .descriptor = descriptor,
                         .size = size,
                         .root = UF_H5_NOWHERE,
                         .subject = "",
                         .names_left = size,
                         .budget = size > UINT64_MAX / BUDGET_PER_BYTE / 2
                                       ? UINT64_MAX / 2
                                       : LEAST_BUDGET + BUDGET_PER_BYTE * size};
    const uf_status read = read_superblock(file);
    if (read != UF_OK) {
        uf_h5_close(file);
        return read;
    }
    *opened = file;
    return UF_OK;
}

void uf_h5_close(uf_h5_file *file) {
    if (file == NULL) {
        return;
    }
    uf_h5_data_free(file->data);
    uf_h5_groups_free(file);
    close(file->descriptor);
    free(file->path);
    free(file);
}

uf_h5_cost uf_h5_spent(const uf_h5_file *file) {
    return file->spent;
}

void uf_h5_refund(uf_h5_file *file, uf_h5_cost cost) {
    file->spent.metadata -= cost.metadata;
    file->spent.unstored -= cost.unstored;
}

int64_t uf_h5_size(const uf_h5_file *file) {
    return (int64_t)file->size;
}

const char *uf_h5_path(const uf_h5_file *file) {
    return file->path;
}
