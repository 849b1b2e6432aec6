/* safetensors_header.c - the header of a safetensors file, which nobody has checked.
 *
 * Its JSON is of one form only: an object of objects, with texts, counts and lists of counts. That
 * is read from front to back without a tree, so memory is that of the list of tensors. */
#include "io/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "io/json_text.h"

/* The description of a tensor, as it stands. */
typedef struct description {
    char *type;
    int32_t rank; /* as it is, whatever there is room for */
    int64_t extent[UF_MAX_RANK];
    int64_t elements;
    bool fits; /* the elements, into 64 bits */
    int64_t offset[2];
    int offset_count;
    bool has_type, has_shape, has_offsets;
} description;

typedef struct parser {
    const char *path;
    int64_t data_offset, size; /* of the data, of the file */
    uf_json_text json;
    uf_file_listing *listing;
    uf_file_attributes *metadata;
    int64_t metadata_capacity;
    bool has_metadata;
    description now; /* of the tensor that is read */
} parser;

static uf_status refuse(const parser *state, const char *problem) {
    UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: byte %td of its header %s", state->path,
            state->json.at - state->json.begin, problem);
}

static uf_status next_string(parser *state, char **string) {
    const char *problem = uf_json_string(&state->json, string);
    return problem == NULL ? UF_OK : refuse(state, problem);
}

typedef uf_status (*member_function)(parser *state, const char *name);

/* Call `member` behind the colon of each member of the object that comes next. */
static uf_status each_member(parser *state, member_function member) {
    uf_json_text *json = &state->json;
    if (!uf_json_take(json, '{')) {
        return refuse(state, "does not begin an object");
    }
    if (uf_json_take(json, '}')) {
        return UF_OK;
    }
    do {
        char *name;
        UF_TRY(next_string(state, &name));
        if (!uf_json_take(json, ':')) {
            return refuse(state, "is no colon behind a name");
        }
        UF_TRY(member(state, name));
    } while (uf_json_take(json, ','));
    return uf_json_take(json, '}') ? UF_OK : refuse(state, "does not end an object");
}

/* Call `take` with each count of the list that comes next. */
static uf_status each_count(parser *state, void (*take)(description *now, int64_t count)) {
    uf_json_text *json = &state->json;
    if (!uf_json_take(json, '[')) {
        return refuse(state, "does not begin a list");
    }
    if (uf_json_take(json, ']')) {
        return UF_OK;
    }
    do {
        int64_t count;
        const char *problem = uf_json_count(json, &count);
        if (problem != NULL) {
            return refuse(state, problem);
        }
        take(&state->now, count);
    } while (uf_json_take(json, ','));
    return uf_json_take(json, ']') ? UF_OK : refuse(state, "does not end a list of counts");
}

/* ---- metadata ---- */

static uf_status add_metadata(parser *state, const char *name) {
    uf_file_attributes *to = state->metadata;
    char *text;
    UF_TRY(next_string(state, &text));
    if (to->count == state->metadata_capacity) {
        const int64_t capacity = to->count == 0 ? 16 : 2 * to->count;
        uf_file_attribute *grown = realloc(to->each, (size_t)capacity * sizeof *grown);
        if (grown == NULL) {
            UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory reading %s", state->path);
        }
        to->each = grown;
        state->metadata_capacity = capacity;
    }
    if (!uf_file_attribute_text(&to->each[to->count++], name, text)) {
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

static void take_extent(description *now, int64_t extent) {
    if (now->rank < UF_MAX_RANK) {
        now->extent[now->rank] = extent;
    }
    now->rank += now->rank < INT32_MAX;
    now->fits = !uf_mul_overflows(now->elements, extent, &now->elements) && now->fits;
}

static void take_offset(description *now, int64_t offset) {
    if (now->offset_count < 2) {
        now->offset[now->offset_count] = offset;
    }
    now->offset_count += now->offset_count < 3;
}

/* One field of a description; each is there once. */
static uf_status read_field(parser *state, const char *name) {
    description *now = &state->now;
    bool *has = strcmp(name, "dtype") == 0          ? &now->has_type
                : strcmp(name, "shape") == 0        ? &now->has_shape
                : strcmp(name, "data_offsets") == 0 ? &now->has_offsets
                                                    : NULL;
    if (has == NULL || *has) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: before byte %td of its header a tensor has %s %s",
                state->path, state->json.at - state->json.begin,
                has == NULL ? "the unknown field" : "twice the field", name);
    }
    *has = true;
    return has == &now->has_type    ? next_string(state, &now->type)
           : has == &now->has_shape ? each_count(state, take_extent)
                                    : each_count(state, take_offset);
}

/* The extents; what cannot be one of our tensors is told as its problem. */
static uf_status use_shape(const parser *state, uf_file_entry *entry) {
    const description *now = &state->now;
    if (!now->fits) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s in %s is damaged: its shape has more elements than 64 bits count",
                entry->entry.name, state->path);
    }
    if (now->rank > UF_MAX_RANK) {
        entry->entry.shape.rank = -1;
        snprintf(entry->problem, sizeof entry->problem, "has %d axes, more than %d", (int)now->rank,
                 UF_MAX_RANK);
        return UF_OK;
    }
    entry->entry.shape = uf_shape_from(now->extent, now->rank);
    if (now->elements == 0) {
        char extents[64];
        snprintf(entry->problem, sizeof entry->problem, "is empty, %s",
                 uf_shape_format(&entry->entry.shape, extents, sizeof extents));
    }
    return UF_OK;
}

/* Where the data lie; their size is left to the caller to judge. */
static uf_status use_offsets(const parser *state, uf_file_entry *entry) {
    const description *now = &state->now;
    const int64_t room = state->size - state->data_offset;
    if (now->offset_count != 2 || now->offset[1] < now->offset[0] || now->offset[1] > room) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s in %s is damaged: its data_offsets are no two offsets in order within the "
                "%" PRId64 " bytes of data",
                entry->entry.name, state->path, room);
    }
    entry->offset = state->data_offset + now->offset[0];
    entry->entry.bytes = now->offset[1] - now->offset[0];
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
static uf_status use_type(const parser *state, uf_file_entry *entry) {
    const description *now = &state->now;
    const uf_safetensors_type *type = find_type(now->type);
    int64_t bytes;
    if (type == NULL) {
        snprintf(entry->entry.type, sizeof entry->entry.type, "%s", now->type);
        snprintf(entry->problem, sizeof entry->problem, "has the type %.40s, which is not read",
                 now->type);
        return UF_OK;
    }
    if (uf_mul_overflows(now->elements, type->size, &bytes) || bytes != entry->entry.bytes) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s in %s is damaged: its %" PRId64 " elements of %s do not fill %" PRId64 " bytes",
                entry->entry.name, state->path, now->elements, now->type, entry->entry.bytes);
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

static uf_status add_tensor(parser *state, const char *name) {
    if (name[0] == '\0') {
        UF_FAIL(UF_ERROR_FORMAT, "%s holds a tensor whose name is empty", state->path);
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
    state->now = (description){.elements = 1, .fits = true};
    UF_TRY(each_member(state, read_field));
    if (!state->now.has_type || !state->now.has_shape || !state->now.has_offsets) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is damaged: it has no dtype, shape or data_offsets",
                name, state->path);
    }
    UF_TRY(use_shape(state, entry));
    UF_TRY(use_offsets(state, entry));
    UF_TRY(use_type(state, entry));
    entry->entry.is_tensor = entry->problem[0] == '\0';
    return UF_OK;
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

uf_status uf_safetensors_parse(const char *path, char *header, int64_t length, int64_t size,
                               uf_file_listing *listing, uf_file_attributes *metadata) {
    parser state = {.path = path,
                    .data_offset = UF_SAFETENSORS_LENGTH + length,
                    .size = size,
                    .json = {header, header, header + length},
                    .listing = listing,
                    .metadata = metadata};
    UF_TRY(each_member(&state, add_member));
    uf_json_skip_space(&state.json);
    if (state.json.at != state.json.end) {
        return refuse(&state, "follows the end of the object");
    }
    UF_TRY(check_places(&state));
    return check_names(&state);
}
