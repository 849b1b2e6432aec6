/* safetensors_header.c - the header of a safetensors file, which nobody has checked.
 *
 * jansson parses JSON: it knows the escapes and UTF-8, refuses zeros in texts, keys that occur
 * twice and numbers beyond 64 bits, and bounds depth. Its trees take some fifty times the memory of
 * their text, therefore it gets one tensor's description at a time, of a few kilobytes at most. The
 * members of the two objects that can be large, the header itself and the metadata, are told apart
 * here. */
#include "io/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "core/tensor.h"

/* A stretch of the header. */
typedef struct text {
    const char *at, *end;
} text;

typedef struct parser {
    const char *path;
    const char *header;
    int64_t data_offset, size; /* of the data, of the file */
    text rest;                 /* that is not parsed yet */
    uf_file_listing *listing;
    uf_file_attributes *metadata;
    int64_t metadata_capacity;
    bool has_metadata;
} parser;

/* ---- pieces of JSON ---- */

static uf_status refuse(const parser *state, const char *problem) {
    UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: byte %td of its header %s", state->path,
            state->rest.at - state->header, problem);
}

static void skip_space(text *rest) {
    while (rest->at < rest->end && strchr(" \t\r\n", *rest->at) != NULL && *rest->at != '\0') {
        ++rest->at;
    }
}

/* Step over `c` if it comes next. */
static bool take(text *rest, char c) {
    skip_space(rest);
    if (rest->at < rest->end && *rest->at == c) {
        ++rest->at;
        return true;
    }
    return false;
}

/* Step over a text in quotes. */
static bool skip_string(text *rest) {
    for (++rest->at; rest->at < rest->end; ++rest->at) {
        if (*rest->at == '\\') {
            ++rest->at;
        } else if (*rest->at == '"') {
            ++rest->at;
            return true;
        }
    }
    rest->at = rest->end;
    return false;
}

/* Step over the next text in quotes, or object; nothing else is ever wanted. jansson judges it. */
static uf_status next_value(parser *state, text *value) {
    text *rest = &state->rest;
    skip_space(rest);
    value->at = rest->at;
    int64_t depth = 0;
    do {
        if (rest->at >= rest->end) {
            return refuse(state, "should have more behind it");
        }
        if (*rest->at == '"') {
            if (!skip_string(rest)) {
                return refuse(state, "should have the end of a text behind it");
            }
        } else if (depth == 0 && *rest->at != '{') {
            return refuse(state, "is no text and no object");
        } else {
            depth += *rest->at == '{' ? 1 : *rest->at == '}' ? -1 : 0;
            ++rest->at;
        }
    } while (depth > 0);
    value->end = rest->at;
    return UF_OK;
}

static uf_status parse_value(const parser *state, text value, json_t **parsed) {
    json_error_t error;
    *parsed = json_loadb(value.at, (size_t)(value.end - value.at),
                         JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (*parsed == NULL && json_error_code(&error) == json_error_out_of_memory) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory reading %s", state->path);
    }
    if (*parsed == NULL) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: its header is no JSON at byte %td: %s",
                state->path, value.at - state->header + error.position, error.text);
    }
    return UF_OK;
}

/* The next text, as jansson decodes it; `longest` bytes at most. The caller gives *parsed back. */
static uf_status next_text(parser *state, const char *what, int64_t longest, json_t **parsed) {
    text value;
    UF_TRY(next_value(state, &value));
    if (*value.at != '"' || value.end - value.at > longest) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s is damaged: byte %td of its header is no %s of at most %" PRId64 " bytes",
                state->path, value.at - state->header, what, longest);
    }
    return parse_value(state, value, parsed);
}

typedef uf_status (*member_function)(parser *state, const char *name);

/* Call `member` behind the colon of each member of the object that comes next. */
static uf_status each_member(parser *state, member_function member) {
    if (!take(&state->rest, '{')) {
        return refuse(state, "does not begin an object");
    }
    if (take(&state->rest, '}')) {
        return UF_OK;
    }
    do {
        json_t *name;
        UF_TRY(next_text(state, "name", UF_SAFETENSORS_DESCRIPTION, &name));
        const uf_status status = take(&state->rest, ':')
                                     ? member(state, json_string_value(name))
                                     : refuse(state, "is no colon behind a name");
        json_decref(name);
        UF_TRY(status);
    } while (take(&state->rest, ','));
    return take(&state->rest, '}') ? UF_OK : refuse(state, "does not end an object");
}

/* ---- metadata ---- */

static uf_status add_metadata(parser *state, const char *name) {
    uf_file_attributes *to = state->metadata;
    json_t *value;
    UF_TRY(next_text(state, "text", UF_SAFETENSORS_HEADER, &value));
    if (to->count == state->metadata_capacity) {
        const int64_t capacity = to->count == 0 ? 16 : 2 * to->count;
        uf_file_attribute *grown = realloc(to->each, (size_t)capacity * sizeof *grown);
        if (grown != NULL) {
            to->each = grown;
            state->metadata_capacity = capacity;
        }
    }
    bool whole = false;
    if (to->count < state->metadata_capacity) {
        uf_file_attribute *one = &to->each[to->count++];
        *one = (uf_file_attribute){
            .name = strdup(name), .count = 1, .texts = calloc(1, sizeof *one->texts)};
        whole = one->name != NULL && one->texts != NULL &&
                (one->texts[0] = strdup(json_string_value(value))) != NULL;
    }
    json_decref(value);
    if (!whole) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory reading %s", state->path);
    }
    return UF_OK;
}

static int by_attribute_name(const void *a, const void *b) {
    return strcmp(((const uf_file_attribute *)a)->name, ((const uf_file_attribute *)b)->name);
}

static uf_status sort_metadata(const parser *state) {
    const uf_file_attributes *all = state->metadata;
    if (all->count > 1) {
        qsort(all->each, (size_t)all->count, sizeof *all->each, by_attribute_name);
    }
    for (int64_t i = 1; i < all->count; ++i) {
        if (strcmp(all->each[i - 1].name, all->each[i].name) == 0) {
            UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: its metadata have two texts of the name %s",
                    state->path, all->each[i].name);
        }
    }
    return UF_OK;
}

/* ---- tensors ---- */

/* The extents, and how many elements they make. */
static uf_status read_shape(const parser *state, const json_t *shape, uf_file_entry *entry,
                            int64_t *count) {
    uf_shape *to = &entry->entry.shape;
    const size_t rank = json_array_size(shape);
    bool empty = false, fits = true;
    *count = 1;
    to->rank = rank <= UF_MAX_RANK ? (int32_t)rank : -1;
    for (size_t i = 0; i < rank; ++i) {
        const json_t *extent = json_array_get(shape, i);
        const int64_t value = json_is_integer(extent) ? json_integer_value(extent) : -1;
        if (value < 0) {
            UF_FAIL(UF_ERROR_FORMAT, "%s in %s is damaged: extent %zu of its shape is no count",
                    entry->entry.name, state->path, i);
        }
        if (to->rank >= 0) {
            to->extent[i] = value;
        }
        empty = empty || value == 0;
        fits = fits && (value == 0 || !uf_mul_overflows(*count, value, count));
    }
    if (!fits) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s in %s is damaged: its shape has more elements than 64 bits count",
                entry->entry.name, state->path);
    }
    *count = empty ? 0 : *count;
    if (to->rank < 0) {
        snprintf(entry->problem, sizeof entry->problem, "has %zu axes, more than %d", rank,
                 UF_MAX_RANK);
    } else if (empty) {
        char extents[64];
        snprintf(entry->problem, sizeof entry->problem, "is empty, %s",
                 uf_shape_format(to, extents, sizeof extents));
    }
    return UF_OK;
}

/* Where the data lie; their size is left to the caller to judge. */
static uf_status read_offsets(const parser *state, const json_t *offsets, uf_file_entry *entry) {
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    const int64_t from = json_is_integer(first) ? json_integer_value(first) : -1;
    const int64_t to = json_is_integer(last) ? json_integer_value(last) : -1;
    const int64_t room = state->size - state->data_offset;
    if (json_array_size(offsets) != 2 || from < 0 || to < from || to > room) {
        UF_FAIL(
            UF_ERROR_FORMAT,
            "%s in %s is damaged: its data_offsets are no two offsets in order within the %" PRId64
            " bytes of data",
            entry->entry.name, state->path, room);
    }
    entry->offset = state->data_offset + from;
    entry->entry.bytes = to - from;
    return UF_OK;
}

static const uf_safetensors_type *find_type(const char *name) {
    const uf_safetensors_type *type = uf_safetensors_types;
    while (type->name != NULL && strcmp(type->name, name) != 0) {
        ++type;
    }
    return type->name != NULL ? type : NULL;
}

/* The type, and that the shape's elements of it are as many bytes as the data. A type that is not
 * known may be a later version's: its tensor is listed, and not read. */
static uf_status read_type(const parser *state, const char *name, int64_t count,
                           uf_file_entry *entry) {
    const uf_safetensors_type *type = find_type(name);
    int64_t bytes;
    if (type == NULL) {
        snprintf(entry->entry.type, sizeof entry->entry.type, "%s", name);
        snprintf(entry->problem, sizeof entry->problem, "has the type %.40s, which is not read",
                 name);
        return UF_OK;
    }
    if (uf_mul_overflows(count, type->size, &bytes) || bytes != entry->entry.bytes) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s in %s is damaged: its %" PRId64 " elements of %s do not fill %" PRId64 " bytes",
                entry->entry.name, state->path, count, name, entry->entry.bytes);
    }
    snprintf(entry->entry.type, sizeof entry->entry.type, "%s", type->type);
    entry->dtype = type->dtype;
    entry->is_numeric = type->holds == NULL;
    if (type->holds != NULL) {
        snprintf(entry->problem, sizeof entry->problem, "holds %s, which are not read",
                 type->holds);
    }
    return UF_OK;
}

static uf_status read_description(const parser *state, const json_t *description,
                                  uf_file_entry *entry) {
    const json_t *shape = json_object_get(description, "shape");
    const json_t *offsets = json_object_get(description, "data_offsets");
    const char *type = json_string_value(json_object_get(description, "dtype"));
    int64_t count;
    if (type == NULL || !json_is_array(shape) || !json_is_array(offsets)) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is damaged: it has no dtype, shape or data_offsets",
                entry->entry.name, state->path);
    }
    UF_TRY(read_shape(state, shape, entry, &count));
    UF_TRY(read_offsets(state, offsets, entry));
    UF_TRY(read_type(state, type, count, entry));
    entry->entry.is_tensor = entry->problem[0] == '\0';
    return UF_OK;
}

static uf_status add_tensor(parser *state, const char *name) {
    text value;
    json_t *description;
    UF_TRY(next_value(state, &value));
    if (*value.at != '{' || value.end - value.at > UF_SAFETENSORS_DESCRIPTION) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is described by no object of at most %d bytes", name,
                state->path, UF_SAFETENSORS_DESCRIPTION);
    }
    if (strlen(name) >= sizeof((uf_weights_entry *)NULL)->name || !uf_file_is_name(name)) {
        UF_FAIL(
            UF_ERROR_FORMAT,
            "%s holds the name %s, which has more than %zu characters or a part between slashes "
            "that is empty, \".\" or \"..\"",
            state->path, name, sizeof((uf_weights_entry *)NULL)->name - 1);
    }
    uf_file_entry *entry = uf_file_listing_append(state->listing);
    if (entry == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory listing %s", state->path);
    }
    snprintf(entry->entry.name, sizeof entry->entry.name, "%s", name);
    UF_TRY(parse_value(state, value, &description));
    const uf_status status = read_description(state, description, entry);
    json_decref(description);
    return status;
}

static uf_status add_member(parser *state, const char *name) {
    if (strcmp(name, UF_SAFETENSORS_METADATA) != 0) {
        return add_tensor(state, name);
    }
    if (state->has_metadata) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: it has metadata twice", state->path);
    }
    state->has_metadata = true;
    UF_TRY(each_member(state, add_metadata));
    return sort_metadata(state);
}

/* ---- all of them ---- */

static int by_offset(const void *a, const void *b) {
    const uf_file_entry *one = a, *other = b;
    const int64_t order = one->offset != other->offset ? one->offset - other->offset
                                                       : one->entry.bytes - other->entry.bytes;
    return (order > 0) - (order < 0);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const uf_file_entry *)a)->entry.name, ((const uf_file_entry *)b)->entry.name);
}

/* Every byte of the data belongs to one tensor. */
static uf_status check_places(const parser *state) {
    const uf_file_listing *all = state->listing;
    int64_t at = state->data_offset;
    if (all->count > 0) {
        qsort(all->datasets, (size_t)all->count, sizeof *all->datasets, by_offset);
    }
    for (int64_t i = 0; i < all->count; ++i) {
        const uf_file_entry *one = &all->datasets[i];
        if (one->offset != at) {
            UF_FAIL(UF_ERROR_FORMAT,
                    "%s in %s is damaged: its data %s, at byte %" PRId64
                    " of the file in place of %" PRId64,
                    one->entry.name, state->path,
                    one->offset < at ? "overlap another tensor's" : "follow a hole", one->offset,
                    at);
        }
        at += one->entry.bytes;
    }
    if (at != state->size) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s is damaged: its tensors end at byte %" PRId64 ", the file at byte %" PRId64,
                state->path, at, state->size);
    }
    return UF_OK;
}

static uf_status check_names(const parser *state) {
    const uf_file_listing *all = state->listing;
    if (all->count > 0) {
        qsort(all->datasets, (size_t)all->count, sizeof *all->datasets, by_name);
    }
    for (int64_t i = 1; i < all->count; ++i) {
        if (by_name(&all->datasets[i - 1], &all->datasets[i]) == 0) {
            UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: it has two tensors of the name %s",
                    state->path, all->datasets[i].entry.name);
        }
    }
    return UF_OK;
}

uf_status uf_safetensors_parse(const char *path, const char *header, int64_t length, int64_t size,
                               uf_file_listing *listing, uf_file_attributes *metadata) {
    parser state = {.path = path,
                    .header = header,
                    .data_offset = UF_SAFETENSORS_LENGTH + length,
                    .size = size,
                    .rest = {header, header + length},
                    .listing = listing,
                    .metadata = metadata};
    UF_TRY(each_member(&state, add_member));
    skip_space(&state.rest);
    if (state.rest.at != state.rest.end) {
        return refuse(&state, "follows the end of the object");
    }
    UF_TRY(check_places(&state));
    return check_names(&state);
}
