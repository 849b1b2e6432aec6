/* h5_kind.c - the library's own reader of HDF5 as a kind of tensor file: the first for files that
 * are trusted, and the only one for others. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/h5_read.h"
#include "io/tensor_file.h"

/* Notes on an object of the list. */
typedef struct known {
    uint64_t address; /* of the data, where `is_flat` has called it so */
    int64_t call;     /* in which it was read last */
    uf_h5_cost cost;  /* of reading it then */
} known;

typedef struct opened {
    uf_h5_file *file;
    uf_h5_list list; /* in the order of the listing; entry.offset is the place in it */
    known *known;    /* for each of them */
    int64_t call;    /* from 1: one load, or one read of a file that stays open */
} opened;

bool uf_file_is_hdf5(const uf_file_head *head) {
    static const unsigned char signature[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    if (head->count >= sizeof signature && memcmp(head->bytes, signature, sizeof signature) == 0) {
        return true;
    }
    /* A user's block of 512 bytes, or twice as many again and again, may stand in front. */
    for (int64_t at = 512; at < head->size && at > 0; at *= 2) {
        unsigned char bytes[sizeof signature];
        if (pread(head->descriptor, bytes, sizeof bytes, at) == (ssize_t)sizeof bytes &&
            memcmp(bytes, signature, sizeof bytes) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- opening ---- */

static uf_status add_entry(uf_tensor_file *file, const uf_h5_object *object, int64_t place) {
    uf_file_entry *made = uf_file_listing_append(&file->listing);
    if (made == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory listing %s", file->path);
    }
    memcpy(made->entry.name, object->name, sizeof made->entry.name);
    memcpy(made->entry.type, object->type.name, sizeof made->entry.type);
    memcpy(made->problem, object->problem, sizeof made->problem);
    made->entry.shape = object->shape;
    made->entry.bytes = object->bytes;
    made->entry.is_tensor = object->is_tensor;
    made->is_numeric = object->is_numeric;
    made->dtype = object->type.dtype;
    made->offset = place;
    if (made->entry.is_tensor) {
        /* Attributes that cannot be read are an error of the data, which reading tells. */
        const opened *state = file->state;
        int64_t checksum;
        const uf_status status = uf_h5_read_integer(state->file, object, UF_FILE_CHECKSUM,
                                                    &made->has_checksum, &checksum);
        return status == UF_ERROR_OUT_OF_MEMORY ? status : UF_OK;
    }
    return UF_OK;
}

static void close_file(uf_tensor_file *file) {
    opened *state = file->state;
    if (state != NULL) {
        uf_h5_list_free(&state->list);
        free(state->known);
        uf_h5_close(state->file);
        free(state);
    }
    file->state = NULL;
}

static uf_status open_file(uf_tensor_file *file, const char *group) {
    opened *state = calloc(1, sizeof *state);
    if (state == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory opening %s", file->path);
    }
    file->state = state;
    uf_status status = uf_h5_open(file->path, &state->file);
    if (status == UF_OK) {
        file->size = uf_h5_size(state->file);
        status = uf_h5_list_all(state->file, group == NULL ? "" : group, &state->list);
    }
    if (status == UF_OK) {
        state->known = calloc((size_t)state->list.count + 1, sizeof *state->known);
        status = state->known != NULL
                     ? UF_OK
                     : uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory opening %s", file->path);
    }
    for (int64_t i = 0; i < state->list.count && status == UF_OK; ++i) {
        status = add_entry(file, &state->list.objects[i], i);
    }
    if (status != UF_OK) {
        close_file(file);
    }
    return status;
}

/* ---- reading ---- */

static const uf_h5_object *object_of(const uf_tensor_file *file, const uf_file_entry *entry) {
    const opened *state = file->state;
    return &state->list.objects[entry->offset];
}

static uf_status begin(uf_tensor_file *file) {
    opened *state = file->state;
    state->call += 1;
    return UF_OK;
}

/* Before an object is read, or a part of that is done: what an earlier call paid for it comes back,
 * so that a file can be read for ever. Within a call all that is read counts. */
static uf_h5_cost before(const opened *state, const uf_file_entry *entry) {
    known *one = &state->known[entry->offset];
    if (one->call != state->call) {
        uf_h5_refund(state->file, one->cost);
        one->call = state->call;
        one->cost = (uf_h5_cost){0};
    }
    return uf_h5_spent(state->file);
}

static void after(const opened *state, const uf_file_entry *entry, uf_h5_cost spent) {
    const uf_h5_cost now = uf_h5_spent(state->file);
    known *one = &state->known[entry->offset];
    one->cost.metadata += now.metadata - spent.metadata;
    one->cost.unstored += now.unstored - spent.unstored;
}

static uf_status check_own(uf_tensor_file *file, const uf_file_entry *entry) {
    const opened *state = file->state;
    const uf_h5_cost spent = before(state, entry);
    const uf_status status = uf_h5_check(state->file, object_of(file, entry));
    after(state, entry, spent);
    return status;
}

/* `data` NULL: the values are compared with their checksum. */
static uf_status read_own(uf_tensor_file *file, const uf_file_entry *entry, void *data) {
    const opened *state = file->state;
    const uf_h5_cost spent = before(state, entry);
    const uf_status status =
        uf_h5_read_verified(state->file, object_of(file, entry), entry->dtype, false, data);
    after(state, entry, spent);
    return status;
}

/* In the order of the calls: is_flat of all, then read_flat of all. */
static bool is_flat(uf_tensor_file *file, const uf_file_entry *entry) {
    const opened *state = file->state;
    const uf_h5_cost spent = before(state, entry);
    const bool is_one =
        uf_h5_is_flat(state->file, object_of(file, entry), &state->known[entry->offset].address);
    after(state, entry, spent);
    return is_one;
}

static uf_status verify(uf_tensor_file *file, const uf_file_entry *entry) {
    return read_own(file, entry, NULL);
}

static uf_status read_flat(const uf_tensor_file *file, const uf_file_entry *entry, int64_t from,
                           int64_t bytes, void *to) {
    const opened *state = file->state;
    return uf_h5_read_flat(state->file, state->known[entry->offset].address + (uint64_t)from,
                           (uint64_t)bytes, to);
}

static uf_status attributes_own(uf_tensor_file *file, const char *object,
                                uf_file_attributes *attributes) {
    const opened *state = file->state;
    uf_h5_object found;
    memset(attributes, 0, sizeof *attributes);
    UF_TRY(uf_h5_find(state->file, object, &found));
    if (found.kind == UF_H5_OTHER_FILE) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s needs another file through an external link, which is not followed",
                file->path);
    }
    return uf_h5_read_attributes(state->file, &found, attributes);
}

/* ---- what the reader leaves to libhdf5 ---- */

/* One of the three functions below, done by libhdf5. */
typedef struct request {
    const uf_file_entry *entry;
    void *data;
    const char *object;
    uf_file_attributes *attributes;
} request;

static uf_status ask_libhdf5(uf_tensor_file *file, const request *what) {
    uf_tensor_file other = {.kind = &uf_file_libhdf5, .path = file->path, .size = file->size};
    UF_TRY(uf_tensor_file_begin(&other));
    uf_status status = what->attributes != NULL
                           ? other.kind->attributes(&other, what->object, what->attributes)
                           : other.kind->check(&other, what->entry);
    if (what->data != NULL && status == UF_OK) {
        status = other.kind->read(&other, what->entry, what->data);
    }
    return uf_tensor_file_end(&other, status);
}

/* `status` is the reader's own answer. */
static uf_status settle(uf_tensor_file *file, uf_status status, request what) {
    if (status != UF_ERROR_UNSUPPORTED) {
        return status;
    }
    return file->untrusted ? uf_file_refuse_untrusted() : ask_libhdf5(file, &what);
}

static uf_status check(uf_tensor_file *file, const uf_file_entry *entry) {
    return settle(file, check_own(file, entry), (request){.entry = entry});
}

static uf_status read_entry(uf_tensor_file *file, const uf_file_entry *entry, void *data) {
    return settle(file, read_own(file, entry, data), (request){.entry = entry, .data = data});
}

static uf_status attributes(uf_tensor_file *file, const char *object, uf_file_attributes *found) {
    return settle(file, attributes_own(file, object, found),
                  (request){.object = object, .attributes = found});
}

const uf_file_kind uf_file_h5 = {
    .format = UF_WEIGHTS_HDF5,
    .what = "an HDF5 file",
    .matches = uf_file_is_hdf5,
    .open = open_file,
    .begin = begin,
    .check = check,
    .read = read_entry,
    .is_flat = is_flat,
    .verify = verify,
    .read_flat = read_flat,
    .attributes = attributes,
    .close = close_file,
};
