/* safetensors_writer.c - safetensors as a format that tensors are written in.
 *
 * Laid out as the safetensors library does it: metadata first, then tensors by descending size of
 * their elements and by name, so that each is aligned; the header ends in spaces, up to a multiple
 * of 8 bytes. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "core/utf8.h"
#include "io/safetensors.h"
#include "io/tensor_writer.h"

#define PIECE_BYTES 65536

/* A header that grows. */
typedef struct header {
    char *text;
    size_t count, capacity;
    bool out_of_memory;
} header;

static void put(header *to, const char *bytes, size_t count) {
    if (to->capacity - to->count < count) {
        const size_t capacity = 2 * to->capacity + count + 1024;
        char *grown = to->out_of_memory ? NULL : realloc(to->text, capacity);
        if (grown == NULL) {
            to->out_of_memory = true;
            return;
        }
        to->text = grown;
        to->capacity = capacity;
    }
    memcpy(to->text + to->count, bytes, count);
    to->count += count;
}

static void put_format(header *to, const char *format, ...) UF_PRINTF(2, 3);
static void put_format(header *to, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    put(to, text, (size_t)length);
}

/* A text in quotes; false where it is no UTF-8, which JSON has to be. */
static bool put_text(header *to, const char *text) {
    put(to, "\"", 1);
    while (*text != '\0') {
        const uf_character c = uf_character_at(text);
        if (!c.valid) {
            return false;
        }
        if (c.code < 0x20) {
            put_format(to, "\\u%04x", (unsigned)c.code);
        } else {
            put(to, "\\", c.code == '"' || c.code == '\\');
            put(to, text, c.length);
        }
        text += c.length;
    }
    put(to, "\"", 1);
    return true;
}

static const uf_safetensors_type *find_type(const char *type) {
    const uf_safetensors_type *at = uf_safetensors_types;
    while (at->name != NULL && strcmp(at->type, type) != 0) {
        ++at;
    }
    return at;
}

/* In the order of the table of types, then by name. */
typedef struct place {
    int64_t number; /* of the entry */
    const uf_written *entry;
    const uf_safetensors_type *type;
} place;

static int by_place(const void *a, const void *b) {
    const place *one = a, *other = b;
    if (one->type != other->type) {
        return one->type < other->type ? -1 : 1;
    }
    return strcmp(one->entry->name, other->entry->name);
}

static uf_status put_entry(const uf_tensor_writer *writer, header *to, const place *at,
                           int64_t *offset) {
    const uf_shape *shape = &at->entry->shape;
    const int64_t bytes = uf_shape_count(shape) * at->type->size;
    if (!put_text(to, at->entry->name)) {
        UF_FAIL(UF_ERROR_INVALID_ARGUMENT,
                "%s cannot be a name in %s: it is no UTF-8, as safetensors needs", at->entry->name,
                writer->path);
    }
    put_format(to, ":{\"dtype\":\"%s\",\"shape\":[", at->type->name);
    for (int32_t i = 0; i < shape->rank; ++i) {
        put_format(to, "%s%" PRId64, i > 0 ? "," : "", shape->extent[i]);
    }
    put_format(to, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", *offset, *offset + bytes);
    *offset += bytes;
    return UF_OK;
}

static uf_status put_metadata(const uf_tensor_writer *writer, header *to) {
    put_format(to, "\"%s\":{", UF_SAFETENSORS_METADATA);
    for (int32_t i = 0; i < writer->metadata_count; ++i) {
        put(to, ",", i > 0);
        const bool named = put_text(to, writer->metadata[2 * i]);
        put(to, ":", 1);
        if (!named || !put_text(to, writer->metadata[2 * i + 1])) {
            UF_FAIL(UF_ERROR_INVALID_ARGUMENT,
                    "%s of the metadata of %s is no UTF-8, as safetensors needs",
                    writer->metadata[2 * i], writer->path);
        }
    }
    put(to, "}", 1);
    return UF_OK;
}

static uf_status make_header(const uf_tensor_writer *writer, const place *places, header *to) {
    int64_t offset = 0;
    bool first = writer->metadata_count == 0;
    put(to, "{", 1);
    if (!first) {
        UF_TRY(put_metadata(writer, to));
    }
    for (int64_t i = 0; i < writer->count; ++i) {
        put(to, ",", !first);
        first = false;
        UF_TRY(put_entry(writer, to, &places[i], &offset));
    }
    put(to, "}", 1);
    put(to, "        ", (8 - to->count % 8) % 8);
    if (to->out_of_memory) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory writing %s", writer->path);
    }
    UF_CHECK_ARG(to->count <= UF_SAFETENSORS_HEADER,
                 "the header of %s would have %zu bytes; %d are the most", writer->path, to->count,
                 UF_SAFETENSORS_HEADER);
    return UF_OK;
}

static uf_status begin_file(uf_tensor_writer *writer, const header *made) {
    unsigned char length[UF_SAFETENSORS_LENGTH];
    for (int i = 0; i < UF_SAFETENSORS_LENGTH; ++i) {
        length[i] = (unsigned char)((uint64_t)made->count >> (8 * i));
    }
    uf_atomic_file *file = malloc(sizeof *file);
    if (file == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory writing %s", writer->path);
    }
    uf_status status = uf_atomic_begin(writer->path, file);
    if (status != UF_OK) {
        free(file);
        return status;
    }
    status = uf_atomic_write(file, length, sizeof length);
    if (status == UF_OK) {
        status = uf_atomic_write(file, made->text, made->count);
    }
    if (status != UF_OK) {
        uf_atomic_abort(file);
        free(file);
        return status;
    }
    writer->state = file;
    return UF_OK;
}

static uf_status begin(uf_tensor_writer *writer) {
    header made = {0};
    place *places = calloc((size_t)writer->count + 1, sizeof *places);
    if (places == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory writing %s", writer->path);
    }
    for (int64_t i = 0; i < writer->count; ++i) {
        const uf_written *entry = &writer->entries[i];
        places[i] = (place){.number = i, .entry = entry, .type = find_type(entry->type)};
    }
    qsort(places, (size_t)writer->count, sizeof *places, by_place);
    for (int64_t i = 0; i < writer->count; ++i) {
        writer->order[i] = places[i].number;
    }
    uf_status status = make_header(writer, places, &made);
    if (status == UF_OK) {
        status = begin_file(writer, &made);
    }
    free(made.text);
    free(places);
    return status;
}

/* Elements in little-endian order, `size` bytes each of the `from_size` bytes they have. */
static uf_status write_low_bytes(uf_atomic_file *file, const void *data, int64_t count,
                                 int64_t from_size, int64_t size) {
    unsigned char piece[PIECE_BYTES];
    const unsigned char *from = data;
    while (count > 0) {
        const int64_t now = count < PIECE_BYTES / size ? count : PIECE_BYTES / size;
        for (int64_t i = 0; i < now; ++i) {
            memcpy(piece + i * size, from + i * from_size, (size_t)size);
        }
        UF_TRY(uf_atomic_write(file, piece, (size_t)(now * size)));
        from += now * from_size;
        count -= now;
    }
    return UF_OK;
}

static uf_status write_entry(uf_tensor_writer *writer, const uf_written *entry, const void *data) {
    const int64_t count = uf_shape_count(&entry->shape);
    const int64_t from_size = (int64_t)uf_dtype_size(entry->dtype);
    const int64_t size = find_type(entry->type)->size;
    return size == from_size ? uf_atomic_write(writer->state, data, (size_t)(count * size))
                             : write_low_bytes(writer->state, data, count, from_size, size);
}

static uf_status finish(uf_tensor_writer *writer, uf_status status) {
    uf_atomic_file *file = writer->state;
    if (status == UF_OK) {
        status = uf_atomic_commit(file);
    } else {
        uf_atomic_abort(file);
    }
    free(file);
    return status;
}

const uf_writer_kind uf_safetensors_writer = {
    .begin = begin, .write = write_entry, .finish = finish};
