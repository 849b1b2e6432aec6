/* tensor_file.c - the list of the kinds of files, and what they have in common. */
#include "io/tensor_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/tensor.h"

/* In the order in which they are asked. */
static const uf_file_kind *const kinds[] = {&uf_file_h5, &uf_file_libhdf5, &uf_file_safetensors};
enum { KINDS = (int)(sizeof kinds / sizeof kinds[0]) };

/* How a sentence calls a file of each format. */
static const char *const format_names[] = {
    [UF_WEIGHTS_ANY] = "a file of weights",
    [UF_WEIGHTS_HDF5] = "an HDF5 file",
    [UF_WEIGHTS_SAFETENSORS] = "a safetensors file",
};

/* ---- lists ---- */

uf_file_entry *uf_file_listing_append(uf_file_listing *listing) {
    if (listing->count == listing->capacity) {
        const int64_t capacity = listing->capacity == 0 ? 64 : listing->capacity * 2;
        uf_file_entry *grown = realloc(listing->datasets, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            return NULL;
        }
        listing->datasets = grown;
        listing->capacity = capacity;
    }
    uf_file_entry *entry = &listing->datasets[listing->count++];
    memset(entry, 0, sizeof *entry);
    return entry;
}

void uf_file_listing_free(uf_file_listing *listing) {
    free(listing->datasets);
    memset(listing, 0, sizeof *listing);
}

bool uf_file_attribute_text(uf_file_attribute *one, const char *name, const char *text) {
    *one = (uf_file_attribute){
        .name = strdup(name), .count = 1, .texts = calloc(1, sizeof *one->texts)};
    return one->name != NULL && one->texts != NULL && (one->texts[0] = strdup(text)) != NULL;
}

void uf_file_attributes_clear(uf_file_attributes *attributes) {
    for (int64_t i = 0; i < attributes->count; ++i) {
        uf_file_attribute *one = &attributes->each[i];
        for (int64_t j = 0; one->texts != NULL && j < one->count; ++j) {
            free(one->texts[j]);
        }
        free(one->texts);
        free(one->numbers);
        free(one->name);
    }
    attributes->count = 0;
}

void uf_file_attributes_free(uf_file_attributes *attributes) {
    uf_file_attributes_clear(attributes);
    free(attributes->each);
    memset(attributes, 0, sizeof *attributes);
}

/* ---- what can be said without a format ---- */

uf_status uf_file_check_claim(const char *path, int64_t file_size, const char *what,
                              int64_t bytes) {
    if (bytes > UF_FILE_HARMLESS_BYTES && bytes / UF_FILE_LARGEST_EXPANSION > file_size) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s in %s claims %" PRId64 " bytes, which a file of %" PRId64 " bytes cannot hold",
                what, path, bytes, file_size);
    }
    return UF_OK;
}

uf_status uf_file_verify(const char *path, const char *name, int64_t stored, uint32_t checksum) {
    if (stored != (int64_t)checksum) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s in %s is damaged: its checksum is %08" PRIx32 ", the file says %08" PRIx64,
                name, path, checksum, (uint64_t)stored);
    }
    return UF_OK;
}

uf_status uf_file_refuse_untrusted(void) {
    char sentence[UF_MESSAGE_SIZE];
    snprintf(sentence, sizeof sentence, "%s", uf_last_error());
    UF_FAIL(UF_ERROR_FORMAT,
            "%s; only libhdf5 reads that, in files that you trust (untrusted = false, --trust)",
            sentence);
}

uf_status uf_file_check_readable(const char *path, const char *what, int64_t *size) {
    struct stat info;
    UF_CHECK_ARG(path != NULL && path[0] != '\0', "the name of a file to read is empty");
    if (stat(path, &info) != 0) {
        UF_FAIL(errno == ENOENT || errno == ENOTDIR ? UF_ERROR_NOT_FOUND : UF_ERROR_IO,
                "cannot open %s: %s", path, strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is %s, not %s", path,
                S_ISDIR(info.st_mode) ? "a directory" : "not a regular file", what);
    }
    if (access(path, R_OK) != 0) {
        UF_FAIL(UF_ERROR_IO, "cannot open %s: %s", path, strerror(errno));
    }
    if (info.st_size == 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is empty, not %s", path, what);
    }
    *size = info.st_size;
    return UF_OK;
}

/* Is every part between slashes a name of its own? HDF5 skips "." and empty parts, and ".." is a
 * name like any other to it but to nobody else. */
bool uf_file_is_name(const char *name) {
    for (;;) {
        const size_t length = strcspn(name, "/");
        if (length == 0 || (length <= 2 && strncmp(name, "..", length) == 0)) {
            return false;
        }
        if (name[length] == '\0') {
            return true;
        }
        name += length + 1;
    }
}

uf_status uf_file_check_name(const char *path, const char *name) {
    const size_t most = sizeof((uf_weights_entry *)NULL)->name - 1;
    UF_CHECK_ARG(name[0] != '\0', "the name of a dataset in %s is empty", path);
    UF_CHECK_ARG(strlen(name) <= most, "the name of a dataset in %s is longer than %zu characters",
                 path, most);
    UF_CHECK_ARG(
        uf_file_is_name(name),
        "%s cannot be a name in %s: a part of it between slashes is empty, \".\" or \"..\"", name,
        path);
    return UF_OK;
}

/* The first bytes of a file; its descriptor is the caller's to close. */
static void read_head(const char *path, uf_file_head *head) {
    memset(head, 0, sizeof *head);
    /* Without waiting: a pipe may have taken the file's place since it was looked at. */
    head->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t count =
        head->descriptor < 0 ? -1 : pread(head->descriptor, head->bytes, sizeof head->bytes, 0);
    head->error = count < 0 ? errno : 0;
    head->count = count > 0 ? (size_t)count : 0;
}

static void close_head(const uf_file_head *head) {
    if (head->descriptor >= 0) {
        close(head->descriptor);
    }
}

uf_status uf_file_refuse_format(const char *path, const char *what) {
    uf_file_head head;
    read_head(path, &head);
    close_head(&head);
    if (head.error != 0) {
        UF_FAIL(UF_ERROR_IO, "cannot read %s: %s", path, strerror(head.error));
    }
    const uf_foreign *known = head.count == 0 ? NULL : uf_foreign_file(head.bytes, head.count);
    if (known != NULL) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is %s, not %s; %s", path, known->what, what, known->remedy);
    }
    UF_FAIL(UF_ERROR_FORMAT, "%s is not %s", path, what);
}

/* ---- opening ---- */

/* Mark the kinds that may read the file. The caller who named a format gets that format's own
 * sentence about a file that is not of it. */
static void find_kinds(const char *path, uf_weights_format format, int64_t size, bool may[KINDS]) {
    uf_file_head head;
    read_head(path, &head);
    head.size = size;
    for (int i = 0; i < KINDS; ++i) {
        may[i] = format == UF_WEIGHTS_ANY ? kinds[i]->matches(&head) : kinds[i]->format == format;
    }
    close_head(&head);
}

uf_status uf_tensor_file_open(const char *path, uf_weights_format format, const char *group,
                              bool untrusted, uf_tensor_file *file) {
    int64_t size = 0;
    bool may[KINDS];
    memset(file, 0, sizeof *file);
    UF_TRY(uf_file_check_readable(path, format_names[format], &size));
    find_kinds(path, format, size, may);
    file->path = path;
    file->untrusted = untrusted;
    uf_status status = UF_ERROR_UNSUPPORTED;
    bool tried = false, passed_over = false;
    for (int i = 0; i < KINDS && status == UF_ERROR_UNSUPPORTED; ++i) {
        if (may[i] && untrusted && kinds[i]->trusted_only) {
            passed_over = true;
        } else if (may[i]) {
            tried = true;
            file->kind = kinds[i];
            status = kinds[i]->open(file, group);
        }
    }
    if (status != UF_OK) {
        uf_file_listing_free(&file->listing);
        memset(file, 0, sizeof *file);
    }
    if (tried && passed_over && status == UF_ERROR_UNSUPPORTED) {
        return uf_file_refuse_untrusted();
    }
    return tried ? status : uf_file_refuse_format(path, format_names[format]);
}

void uf_tensor_file_close(uf_tensor_file *file) {
    if (file->kind != NULL) {
        file->kind->close(file);
    }
    uf_file_listing_free(&file->listing);
    memset(file, 0, sizeof *file);
}

/* ---- reading ---- */

uf_status uf_tensor_file_begin(uf_tensor_file *file) {
    return file->kind->begin != NULL ? file->kind->begin(file) : UF_OK;
}

uf_status uf_tensor_file_end(uf_tensor_file *file, uf_status status) {
    return file->kind->end != NULL ? file->kind->end(file, status) : status;
}

uf_status uf_tensor_file_read(uf_tensor_file *file, const uf_file_entry *entry, void **data) {
    *data = NULL;
    UF_TRY(uf_tensor_file_check(file, entry));
    return uf_tensor_file_read_checked(file, entry, data);
}

uf_status uf_tensor_file_check(uf_tensor_file *file, const uf_file_entry *entry) {
    if (!entry->entry.is_tensor) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s %s", entry->entry.name, file->path, entry->problem);
    }
    return file->kind->check(file, entry);
}

uf_status uf_tensor_file_read_checked(uf_tensor_file *file, const uf_file_entry *entry,
                                      void **data) {
    int64_t bytes;
    if (uf_mul_overflows(uf_shape_count(&entry->entry.shape), (int64_t)uf_dtype_size(entry->dtype),
                         &bytes) ||
        (*data = malloc((size_t)bytes)) == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for %s in %s: %" PRId64 " bytes",
                entry->entry.name, file->path, entry->entry.bytes);
    }
    const uf_status status = file->kind->read(file, entry, *data);
    if (status != UF_OK) {
        free(*data);
        *data = NULL;
    }
    return status;
}
