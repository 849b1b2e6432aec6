/* attribute.c - attributes of an object: messages of its header, or, where there are many, objects
 * of a fractal heap. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "io/h5/internal.h"

/* An attribute as it lies in the file. */
typedef struct raw_attribute {
    const char *name; /* ends in a zero */
    uf_h5_type type;
    int64_t count; /* elements; 0 of a null dataspace */
    uf_h5_cursor data;
} raw_attribute;

typedef struct walk walk;
typedef uf_status on_attribute(walk *state, const raw_attribute *found);

struct walk {
    uf_h5_file *file;
    uint64_t address; /* of what is being read */
    on_attribute *each;
    uf_h5_heap *heap;
    uf_h5_collection texts;
    uint64_t texts_left; /* bytes of texts that may still be read: the file's */
    const char *wanted;  /* one attribute: its name, and where its values go */
    bool found;
    int64_t *integer;
    double *numbers;
    int32_t room, count;
    char *text;
    size_t text_room;
    uf_file_attributes *all; /* uf_h5_read_attributes */
    int64_t capacity;
};

/* ---- messages ---- */

/* Parts of version 1 are padded to eight bytes. */
static uf_h5_cursor take_part(uf_h5_cursor *cursor, uint64_t size, bool is_padded) {
    const unsigned char *bytes = uf_h5_take(cursor, is_padded ? (size + 7) / 8 * 8 : size);
    return uf_h5_cursor_over(bytes, bytes == NULL ? 0 : size);
}

static uf_status parse(walk *state, uf_h5_cursor *cursor, raw_attribute *found) {
    uf_h5_file *file = state->file;
    uf_h5_space space;
    const uint64_t version = uf_h5_number(cursor, 1), flags = uf_h5_number(cursor, 1);
    const uint64_t sizes[3] = {uf_h5_number(cursor, 2), uf_h5_number(cursor, 2),
                               uf_h5_number(cursor, 2)};
    (void)uf_h5_take(cursor, version == 3 ? 1 : 0); /* the character set */
    uf_h5_cursor name = take_part(cursor, sizes[0], version == 1);
    uf_h5_cursor type = take_part(cursor, sizes[1], version == 1);
    uf_h5_cursor extents = take_part(cursor, sizes[2], version == 1);
    if (cursor->is_short || version < 1 || version > 3 || sizes[0] == 0 ||
        memchr(name.at, '\0', (size_t)sizes[0]) == NULL) {
        return uf_h5_damaged(file, state->address,
                             "an attribute is of version %" PRIu64 " or not whole", version);
    }
    if (version > 1 && (flags & 2) != 0) {
        return uf_h5_outside(file, "shares the extents of an attribute with other objects");
    }
    found->name = (const char *)name.at;
    UF_TRY(uf_h5_load_type(file, state->address, &type, version > 1 && (flags & 1) != 0,
                           &found->type));
    UF_TRY(uf_h5_parse_space(file, state->address, &extents, &space));
    uint64_t count = space.rank >= 0 && space.rank <= UF_MAX_RANK;
    for (int i = 0; i < space.rank && i < UF_MAX_RANK; ++i) {
        if (__builtin_mul_overflow(count, space.extent[i], &count)) {
            count = UINT64_MAX;
        }
    }
    if (count > uf_h5_left(cursor) / (uint64_t)found->type.size) {
        return uf_h5_damaged(file, state->address,
                             "attribute %.80s has %" PRIu64 " elements, which do not lie in it",
                             found->name, count);
    }
    found->count = (int64_t)count;
    found->data = *cursor;
    return UF_OK;
}

static uf_status visit(walk *state, uf_h5_cursor *cursor) {
    raw_attribute found;
    UF_TRY(parse(state, cursor, &found));
    return state->each(state, &found);
}

static uf_status on_dense(void *user, const unsigned char *record, unsigned size) {
    walk *state = user;
    uf_h5_cursor cursor;
    (void)size;
    if ((record[8] & 2) != 0) {
        return uf_h5_outside(state->file, "shares an attribute with other objects");
    }
    UF_TRY(uf_h5_heap_find(state->heap, record, 8, &cursor));
    return visit(state, &cursor);
}

static uf_status visit_dense(walk *state, const uf_h5_message *info) {
    uf_h5_file *file = state->file;
    uf_h5_cursor cursor = uf_h5_cursor_over(info->bytes, info->size);
    const uint64_t version = uf_h5_number(&cursor, 1), flags = uf_h5_number(&cursor, 1);
    (void)uf_h5_take(&cursor, (flags & 1) != 0 ? 2 : 0);
    const uint64_t heap = uf_h5_address(file, &cursor), tree = uf_h5_address(file, &cursor);
    if (cursor.is_short || version != 0) {
        return uf_h5_damaged(file, state->address, "nothing says where its attributes lie");
    }
    if (heap == UF_H5_NOWHERE) {
        return UF_OK;
    }
    UF_TRY(uf_h5_heap_open(file, heap, &state->heap));
    state->address = heap;
    const uf_status status = uf_h5_walk_records(file, tree, 8, 17, false, on_dense, state);
    uf_h5_heap_close(state->heap);
    return status;
}

static uf_status visit_header(walk *state, const uf_h5_header *header) {
    state->address = header->address;
    for (int64_t i = 0; i < header->count; ++i) {
        const uf_h5_message *message = &header->messages[i];
        if (message->type != UF_H5_MESSAGE_ATTRIBUTE) {
            continue;
        }
        if ((message->flags & 2) != 0) {
            return uf_h5_outside(state->file, "shares an attribute with other objects");
        }
        uf_h5_cursor cursor = uf_h5_cursor_over(message->bytes, message->size);
        UF_TRY(visit(state, &cursor));
    }
    const uf_h5_message *info = uf_h5_header_find(header, UF_H5_MESSAGE_ATTRIBUTE_INFO);
    return info == NULL ? UF_OK : visit_dense(state, info);
}

static uf_status visit_all(walk *state, const uf_h5_object *object) {
    uf_h5_header header;
    uf_h5_file *file = state->file;
    state->texts_left = file->size;
    file->subject = object->name;
    uf_status status = uf_h5_header_read(file, object->address, &header);
    if (status == UF_OK) {
        status = visit_header(state, &header);
        uf_h5_header_free(&header);
    }
    file->subject = "";
    free(state->texts.bytes);
    return status;
}

/* ---- values ---- */

static double number_at(const raw_attribute *found, int64_t at) {
    unsigned char value[8];
    double number;
    uf_h5_decode(&found->type, found->data.at + at * found->type.size, 1, value);
    if (found->type.dtype == UF_I64 && !found->type.is_signed) {
        uint64_t counted;
        memcpy(&counted, value, sizeof counted);
        return (double)counted;
    }
    uf_convert(&number, UF_F64, value, found->type.dtype, 1);
    return number;
}

static uf_status read_numbers(const walk *state, const raw_attribute *found,
                              uf_file_attribute *one) {
    one->numbers = calloc((size_t)found->count, sizeof *one->numbers);
    if (one->numbers == NULL) {
        return uf_h5_no_memory(state->file, (uint64_t)found->count * sizeof *one->numbers);
    }
    for (int64_t i = 0; i < found->count; ++i) {
        one->numbers[i] = number_at(found, i);
    }
    return UF_OK;
}

/* One text of varying length: its length, and where it lies in which heap. */
static uf_status find_text(walk *state, const raw_attribute *found, const unsigned char *element,
                           uf_h5_cursor *text) {
    uf_h5_file *file = state->file;
    uf_h5_cursor cursor = uf_h5_cursor_over(element, (uint64_t)found->type.size);
    const uint64_t length = uf_h5_number(&cursor, 4);
    const uint64_t address = uf_h5_address(file, &cursor);
    const uint64_t index = uf_h5_number(&cursor, 4);
    *text = uf_h5_cursor_over(element, 0);
    if (cursor.is_short) {
        return uf_h5_damaged(file, state->address, "a text of attribute %.80s is not whole",
                             found->name);
    }
    if (length == 0 || address == UF_H5_NOWHERE || address == file->base) {
        return UF_OK;
    }
    UF_TRY(uf_h5_collection_find(file, &state->texts, address, index, text));
    if (length > uf_h5_left(text)) {
        return uf_h5_damaged(file, address, "a text of %" PRIu64 " bytes lies in %" PRIu64, length,
                             uf_h5_left(text));
    }
    *text = uf_h5_cursor_over(text->at, length);
    return uf_h5_spend(file, address, length); /* again for each attribute that leads there */
}

static uf_status read_texts(walk *state, const raw_attribute *found, uf_file_attribute *one) {
    uf_h5_file *file = state->file;
    one->texts = calloc((size_t)found->count, sizeof *one->texts);
    if (one->texts == NULL) {
        return uf_h5_no_memory(file, (uint64_t)found->count * sizeof *one->texts);
    }
    for (int64_t i = 0; i < found->count; ++i) {
        const unsigned char *element = found->data.at + i * found->type.size;
        uf_h5_cursor text = uf_h5_cursor_over(element, (uint64_t)found->type.size);
        if (found->type.is_varying) {
            UF_TRY(find_text(state, found, element, &text));
        }
        /* Many may point to one. */
        if (uf_h5_left(&text) > state->texts_left) {
            return uf_h5_damaged(file, state->address,
                                 "the texts of attribute %.80s take more than "
                                 "the file's %" PRIu64 " bytes",
                                 found->name, file->size);
        }
        state->texts_left -= uf_h5_left(&text);
        one->texts[i] = uf_h5_copy_text(text.at, uf_h5_left(&text));
        if (one->texts[i] == NULL) {
            return uf_h5_no_memory(file, uf_h5_left(&text));
        }
    }
    return UF_OK;
}

/* ---- one of them ---- */

static uf_status on_integer(walk *state, const raw_attribute *found) {
    if (state->found || strcmp(found->name, state->wanted) != 0) {
        return UF_OK;
    }
    if (!found->type.is_number || found->type.dtype != UF_I64 || found->count != 1) {
        UF_FAIL(UF_ERROR_FORMAT, "attribute %s of %s in %s is not one integer", found->name,
                state->file->subject, state->file->path);
    }
    uf_h5_decode(&found->type, found->data.at, 1, state->integer);
    state->found = true;
    return UF_OK;
}

uf_status uf_h5_read_integer(uf_h5_file *file, const uf_h5_object *object, const char *name,
                             bool *found, int64_t *value) {
    walk state = {.file = file, .each = on_integer, .wanted = name, .integer = value};
    const uf_status status = visit_all(&state, object);
    *found = status == UF_OK && state.found;
    return status;
}

static uf_status on_numbers(walk *state, const raw_attribute *found) {
    const char *path = state->file->path;
    if (state->found || strcmp(found->name, state->wanted) != 0) {
        return UF_OK;
    }
    if (!found->type.is_number) {
        UF_FAIL(UF_ERROR_FORMAT, "attribute %s in %s does not hold numbers", found->name, path);
    }
    if (found->count > state->room) {
        UF_FAIL(UF_ERROR_SHAPE,
                "attribute %s in %s holds %" PRId64 " numbers; there is room for %" PRId32,
                found->name, path, found->count, state->room);
    }
    for (int32_t i = 0; i < found->count; ++i) {
        state->numbers[i] = number_at(found, i);
    }
    state->count = (int32_t)found->count;
    state->found = true;
    return UF_OK;
}

uf_status uf_h5_read_numbers(uf_h5_file *file, const uf_h5_object *object, const char *name,
                             double *values, int32_t capacity, bool *found, int32_t *count) {
    walk state = {
        .file = file, .each = on_numbers, .wanted = name, .numbers = values, .room = capacity};
    const uf_status status = visit_all(&state, object);
    *found = status == UF_OK && state.found;
    *count = *found ? state.count : 0;
    return status;
}

static uf_status on_text(walk *state, const raw_attribute *found) {
    const uf_h5_file *file = state->file;
    if (state->found || strcmp(found->name, state->wanted) != 0) {
        return UF_OK;
    }
    if (!found->type.is_text || found->type.is_varying || found->count != 1) {
        UF_FAIL(UF_ERROR_FORMAT, "attribute %s of %s in %s is not one text of fixed length",
                found->name, file->subject, file->path);
    }
    const size_t most = (size_t)found->type.size;
    const unsigned char *end = memchr(found->data.at, '\0', most);
    const size_t length = end == NULL ? most : (size_t)(end - found->data.at);
    if (length >= state->text_room) {
        UF_FAIL(UF_ERROR_SHAPE, "attribute %s in %s has %zu characters; there is room for %zu",
                found->name, file->path, length, state->text_room - 1);
    }
    memcpy(state->text, found->data.at, length);
    state->text[length] = '\0';
    state->found = true;
    return UF_OK;
}

uf_status uf_h5_read_text(uf_h5_file *file, const uf_h5_object *object, const char *name,
                          char *text, size_t size) {
    walk state = {.file = file, .each = on_text, .wanted = name, .text = text, .text_room = size};
    UF_TRY(visit_all(&state, object));
    if (!state.found) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "%s in %s has no attribute %s",
                object->name[0] == '\0' ? "/" : object->name, file->path, name);
    }
    return UF_OK;
}

/* ---- all of them ---- */

static uf_status keep(walk *state, const raw_attribute *found) {
    uf_file_attributes *all = state->all;
    if (all->count == state->capacity) {
        uf_file_attribute *grown = uf_h5_grow(all->each, &state->capacity, sizeof *all->each);
        if (grown == NULL) {
            return uf_h5_no_memory(state->file, (uint64_t)all->count * sizeof *grown);
        }
        all->each = grown;
    }
    uf_file_attribute *one = &all->each[all->count];
    memset(one, 0, sizeof *one);
    one->name = strdup(found->name);
    if (one->name == NULL) {
        return uf_h5_no_memory(state->file, strlen(found->name));
    }
    all->count += 1;
    if (found->count == 0 || (!found->type.is_text && !found->type.is_number)) {
        return UF_OK;
    }
    one->count = found->count;
    return found->type.is_text ? read_texts(state, found, one) : read_numbers(state, found, one);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const uf_file_attribute *)a)->name, ((const uf_file_attribute *)b)->name);
}

uf_status uf_h5_read_attributes(uf_h5_file *file, const uf_h5_object *object,
                                uf_file_attributes *attributes) {
    walk state = {.file = file, .each = keep, .all = attributes};
    memset(attributes, 0, sizeof *attributes);
    const uf_status status = visit_all(&state, object);
    if (status != UF_OK) {
        uf_file_attributes_free(attributes);
    } else if (attributes->count > 0) {
        qsort(attributes->each, (size_t)attributes->count, sizeof *attributes->each, by_name);
    }
    return status;
}
