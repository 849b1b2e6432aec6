/* safetensors.c - safetensors files as a kind of tensor file.
 *
 * Tensors are read by pread. A file that is trusted is mapped too, for those who need its tensors
 * in memory without a copy: who may truncate a file that is mapped may kill the process. */
#define _DEFAULT_SOURCE /* madvise */

#include "io/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/tensor.h"

/* Integers are widened in pieces of this size. */
#define PIECE_BYTES 65536

typedef struct state {
    int descriptor;
    const unsigned char *map; /* of the whole file; NULL where it is not trusted */
    uf_file_attributes metadata;
} state;

/* ---- opening ---- */

static uint64_t little_endian(const unsigned char bytes[UF_SAFETENSORS_LENGTH]) {
    uint64_t value = 0;
    for (int i = UF_SAFETENSORS_LENGTH - 1; i >= 0; --i) {
        value = value << 8 | bytes[i];
    }
    return value;
}

static bool is_little_endian(void) {
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first == 1;
}

/* Read from a place of the file; false at its end or on an error. */
static bool read_at(int descriptor, void *to, int64_t bytes, int64_t offset) {
    unsigned char *at = to;
    while (bytes > 0) {
        const ssize_t count = pread(descriptor, at, (size_t)bytes, offset);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return false;
        }
        at += count;
        bytes -= count;
        offset += count;
    }
    return true;
}

static uf_status read_header(uf_tensor_file *file, state *opened) {
    unsigned char bytes[UF_SAFETENSORS_LENGTH];
    if (file->size < UF_SAFETENSORS_LENGTH ||
        !read_at(opened->descriptor, bytes, UF_SAFETENSORS_LENGTH, 0)) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is truncated: it has %" PRId64 " bytes", file->path,
                file->size);
    }
    const uint64_t length = little_endian(bytes);
    if (length > UF_SAFETENSORS_HEADER) {
        UF_FAIL(UF_ERROR_FORMAT, "%s says that its header has %" PRIu64 " bytes; %d are the most",
                file->path, length, UF_SAFETENSORS_HEADER);
    }
    if (length > (uint64_t)(file->size - UF_SAFETENSORS_LENGTH)) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s is truncated: its %" PRId64 " bytes do not hold a header of %" PRIu64,
                file->path, file->size, length);
    }
    char *header = malloc((size_t)length + 1);
    if (header == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory reading %s", file->path);
    }
    uf_status status = UF_OK;
    errno = 0;
    if (read_at(opened->descriptor, header, (int64_t)length, UF_SAFETENSORS_LENGTH)) {
        status = uf_safetensors_parse(file->path, header, (int64_t)length, file->size,
                                      &file->listing, &opened->metadata);
    } else {
        status = uf_fail(errno == 0 ? UF_ERROR_FORMAT : UF_ERROR_IO, "cannot read %s: %s",
                         file->path, errno == 0 ? "the file has become shorter" : strerror(errno));
    }
    free(header);
    return status;
}

/* Is `name` under `group`, whose parts are separated by slashes or dots as the name's are? */
static bool is_under(const char *name, const char *group, size_t length) {
    for (size_t i = 0; i < length; ++i) {
        const bool both =
            (name[i] == '.' || name[i] == '/') && (group[i] == '.' || group[i] == '/');
        if (name[i] != group[i] && !both) {
            return false;
        }
    }
    return name[length] == '.' || name[length] == '/';
}

/* Keep what is under the group. */
static uf_status choose(uf_tensor_file *file, const char *group) {
    uf_file_listing *all = &file->listing;
    group = group == NULL ? "" : group + strspn(group, "/");
    size_t length = strlen(group);
    while (length > 0 && group[length - 1] == '/') {
        --length;
    }
    if (length == 0) {
        return UF_OK;
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < all->count; ++i) {
        if (is_under(all->datasets[i].entry.name, group, length)) {
            memmove(&all->datasets[kept++], &all->datasets[i], sizeof *all->datasets);
        }
    }
    all->count = kept;
    if (kept == 0) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "%s has no group %.*s", file->path, (int)length, group);
    }
    return UF_OK;
}

static void close_file(uf_tensor_file *file) {
    state *opened = file->state;
    if (opened->map != NULL) {
        munmap((void *)(uintptr_t)opened->map, (size_t)file->size);
    }
    if (opened->descriptor >= 0) {
        close(opened->descriptor);
    }
    uf_file_attributes_free(&opened->metadata);
    free(opened);
}

static uf_status open_state(uf_tensor_file *file, const char *group) {
    state *opened = file->state;
    struct stat info;
    opened->descriptor = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened->descriptor < 0 || fstat(opened->descriptor, &info) != 0) {
        UF_FAIL(UF_ERROR_IO, "cannot open %s: %s", file->path, strerror(errno));
    }
    file->size = info.st_size;
    UF_TRY(read_header(file, opened));
    UF_TRY(choose(file, group));
    if (!file->untrusted) {
        void *map = mmap(NULL, (size_t)file->size, PROT_READ, MAP_PRIVATE, opened->descriptor, 0);
        opened->map = map != MAP_FAILED ? map : NULL; /* not every file system can */
    }
    return UF_OK;
}

static uf_status open_file(uf_tensor_file *file, const char *group) {
    if (!is_little_endian()) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "%s: safetensors are read on little-endian machines only",
                file->path);
    }
    state *opened = calloc(1, sizeof *opened);
    if (opened == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory opening %s", file->path);
    }
    opened->descriptor = -1;
    file->state = opened;
    const uf_status status = open_state(file, group);
    if (status != UF_OK) {
        close_file(file);
    }
    return status;
}

/* ---- reading ---- */

/* uf_safetensors_parse has checked every place. */
static uf_status check(uf_tensor_file *file, const uf_file_entry *entry) {
    (void)file, (void)entry;
    return UF_OK;
}

static uf_status read_bytes(const uf_tensor_file *file, const uf_file_entry *entry, int64_t from,
                            int64_t bytes, void *to) {
    const state *opened = file->state;
    errno = 0;
    if (!read_at(opened->descriptor, to, bytes, entry->offset + from)) {
        UF_FAIL(errno == 0 ? UF_ERROR_FORMAT : UF_ERROR_IO, "cannot read %s in %s: %s",
                entry->entry.name, file->path,
                errno == 0 ? "the file has become shorter" : strerror(errno));
    }
    return UF_OK;
}

/* The integer of `size` bytes at `from`; false where a number without a sign is too large. */
static bool widen(const unsigned char *from, int64_t size, bool is_signed, int64_t *to) {
    uint64_t value = 0;
    for (int64_t i = size - 1; i >= 0; --i) {
        value = value << 8 | from[i];
    }
    const uint64_t sign = UINT64_C(1) << (8 * size - 1);
    if (is_signed && size < 8 && (value & sign) != 0) {
        value -= 2 * sign;
    }
    memcpy(to, &value, sizeof value);
    return is_signed || value <= (uint64_t)INT64_MAX;
}

static uf_status read_integers(const uf_tensor_file *file, const uf_file_entry *entry,
                               int64_t *to) {
    unsigned char piece[PIECE_BYTES];
    const int64_t count = uf_shape_count(&entry->entry.shape);
    const int64_t size = entry->entry.bytes / count;
    for (int64_t done = 0; done < count;) {
        const int64_t left = count - done, room = PIECE_BYTES / size;
        const int64_t now = left < room ? left : room;
        UF_TRY(read_bytes(file, entry, done * size, now * size, piece));
        for (int64_t i = 0; i < now; ++i) {
            if (!widen(piece + i * size, size, entry->entry.type[0] == 'i', &to[done + i])) {
                UF_FAIL(UF_ERROR_FORMAT,
                        "%s in %s holds %" PRIu64 ", which is too large for 64 bits with a sign",
                        entry->entry.name, file->path, (uint64_t)to[done + i]);
            }
        }
        done += now;
    }
    return UF_OK;
}

static uf_status read_entry(uf_tensor_file *file, const uf_file_entry *entry, void *data) {
    return entry->dtype == UF_I64 ? read_integers(file, entry, data)
                                  : read_bytes(file, entry, 0, entry->entry.bytes, data);
}

/* Other integers are widened, and one of them may be too large. */
static bool is_flat(uf_tensor_file *file, const uf_file_entry *entry) {
    (void)file;
    return entry->dtype != UF_I64 || strcmp(entry->entry.type, "i64") == 0;
}

static const void *map_entry(uf_tensor_file *file, const uf_file_entry *entry) {
    const state *opened = file->state;
    if (opened->map == NULL || !is_flat(file, entry) ||
        (size_t)entry->offset % uf_dtype_size(entry->dtype) != 0) {
        return NULL;
    }
    return opened->map + entry->offset;
}

/* Give whole pages back. */
static void drop_entry(uf_tensor_file *file, const uf_file_entry *entry) {
    const state *opened = file->state;
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t from = (entry->offset + page - 1) / page * page;
    const int64_t to = (entry->offset + entry->entry.bytes) / page * page;
    if (opened->map != NULL && to > from) {
        madvise((void *)(uintptr_t)(opened->map + from), (size_t)(to - from), MADV_DONTNEED);
    }
}

static uf_status attributes(uf_tensor_file *file, const char *object, uf_file_attributes *copy) {
    const uf_file_attributes *all = &((const state *)file->state)->metadata;
    memset(copy, 0, sizeof *copy);
    if (strcmp(object, "/") != 0) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "%s has metadata of the whole file only, none of %s",
                file->path, object);
    }
    copy->each = calloc((size_t)all->count + 1, sizeof *copy->each);
    bool whole = copy->each != NULL;
    for (int64_t i = 0; i < all->count && whole; ++i) {
        whole = uf_file_attribute_text(&copy->each[copy->count++], all->each[i].name,
                                       all->each[i].texts[0]);
    }
    if (!whole) {
        uf_file_attributes_free(copy);
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory reading %s", file->path);
    }
    return UF_OK;
}

const uf_file_kind uf_file_safetensors = {
    .format = UF_WEIGHTS_SAFETENSORS,
    .what = "a safetensors file",
    .matches = uf_safetensors_matches,
    .open = open_file,
    .check = check,
    .read = read_entry,
    .map = map_entry,
    .drop = drop_entry,
    .is_flat = is_flat,
    .read_flat = read_bytes,
    .attributes = attributes,
    .close = close_file,
};
