/* group.c - the links of a group, in each of the three ways in which they are stored: a symbol
 * table (a tree, and a heap of names), messages of the header, or a fractal heap under a tree.
 *
 * A group is looked into once, when it is first needed; its links stay until the file is closed. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/h5/internal.h"

#define SYMBOLS_OF_NODE 8 /* bytes before the entries of a node of symbols */
#define BYTES_OF_LINK 8   /* a link takes at least these besides its name */
#define LONGEST_TARGET ((size_t)1024)

/* A group on its way. */
typedef struct reading {
    uf_h5_file *file;
    uf_h5_group *group;
    uint64_t address;           /* of what is being read */
    const unsigned char *names; /* symbol table: the local heap's data */
    uint64_t names_size;
    uf_h5_heap *heap; /* dense links */
} reading;

static void free_group(uf_h5_group *group) {
    for (int64_t i = 0; i < group->count; ++i) {
        free(group->links[i].name);
        free(group->links[i].target);
    }
    free(group->links);
    free(group);
}

void uf_h5_groups_free(uf_h5_file *file) {
    for (int64_t i = 0; i < file->group_count; ++i) {
        free_group(file->groups[i]);
    }
    free(file->groups);
}

/* Add a link with this name, whose other fields the caller fills. */
static uf_status add_link(reading *state, const unsigned char *name, uint64_t length,
                          uf_h5_link **added) {
    uf_h5_file *file = state->file;
    uf_h5_group *group = state->group;
    *added = NULL;
    if (length >= UF_H5_NAME_SIZE) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s holds a name of %" PRIu64 " characters, %d at most are read: "
                "%.60s...",
                file->path, length, UF_H5_NAME_SIZE - 1, (const char *)name);
    }
    if (memchr(name, '\0', (size_t)length) != NULL || memchr(name, '/', (size_t)length) != NULL ||
        length == 0) {
        return uf_h5_damaged(file, state->address,
                             "the name of a link is empty, or has a slash or "
                             "a zero in it");
    }
    if (length + BYTES_OF_LINK > file->names_left) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s is damaged: its groups hold more names than its %" PRIu64 " bytes", file->path,
                file->size);
    }
    file->names_left -= length + BYTES_OF_LINK;
    if (group->count == group->capacity) {
        uf_h5_link *grown = uf_h5_grow(group->links, &group->capacity, sizeof *group->links);
        if (grown == NULL) {
            return uf_h5_no_memory(file, (uint64_t)group->count * sizeof *grown);
        }
        group->links = grown;
    }
    char *copy = uf_h5_copy_text(name, length);
    if (copy == NULL) {
        return uf_h5_no_memory(file, length);
    }
    *added = &group->links[group->count++];
    **added = (uf_h5_link){.name = copy, .address = UF_H5_NOWHERE};
    return UF_OK;
}

static uf_status set_target(const reading *state, uf_h5_link *link, const unsigned char *text,
                            uint64_t length) {
    if (length == 0 || length > LONGEST_TARGET) {
        return uf_h5_damaged(state->file, state->address, "a soft link of %" PRIu64 " characters",
                             length);
    }
    link->target = uf_h5_copy_text(text, length);
    return link->target == NULL ? uf_h5_no_memory(state->file, length) : UF_OK;
}

/* ---- link messages ---- */

static uf_status parse_link(reading *state, uf_h5_cursor *cursor) {
    const uf_h5_file *file = state->file;
    uf_h5_link *link;
    const uint64_t version = uf_h5_number(cursor, 1), flags = uf_h5_number(cursor, 1);
    const uint64_t kind = (flags & 0x08) != 0 ? uf_h5_number(cursor, 1) : 0;
    (void)uf_h5_take(cursor, ((flags & 0x04) != 0 ? 8 : 0) + ((flags & 0x10) != 0 ? 1 : 0));
    const uint64_t length = uf_h5_number(cursor, 1u << (flags & 3));
    const unsigned char *name = uf_h5_take(cursor, length);
    if (name == NULL || version != 1) {
        return uf_h5_damaged(file, state->address, "a link is of version %" PRIu64 " or not whole",
                             version);
    }
    UF_TRY(add_link(state, name, length, &link));
    if (kind == 0) {
        link->address = uf_h5_address(file, cursor);
    } else if (kind == 1) {
        const uint64_t size = uf_h5_number(cursor, 2);
        const unsigned char *text = uf_h5_take(cursor, size);
        if (text != NULL) {
            UF_TRY(set_target(state, link, text, size));
        }
    } else {
        link->is_other_file = true;
    }
    return cursor->is_short ? uf_h5_damaged(file, state->address, "a link is not whole") : UF_OK;
}

static uf_status on_dense_link(void *user, const unsigned char *record, unsigned size) {
    reading *state = user;
    uf_h5_cursor cursor;
    UF_TRY(uf_h5_heap_find(state->heap, record + 4, size - 4, &cursor)); /* behind a hash */
    return parse_link(state, &cursor);
}

/* Links in a heap, under a tree that is ordered by the hashes of their names. */
static uf_status read_dense(reading *state, uint64_t heap, uint64_t tree) {
    UF_TRY(uf_h5_heap_open(state->file, heap, &state->heap));
    state->address = heap;
    const uf_status status =
        uf_h5_walk_records(state->file, tree, 5, 5, true, on_dense_link, state);
    uf_h5_heap_close(state->heap);
    return status;
}

static uf_status read_messages(reading *state, const uf_h5_header *header) {
    uf_h5_file *file = state->file;
    const uf_h5_message *info = uf_h5_header_find(header, UF_H5_MESSAGE_LINK_INFO);
    for (int64_t i = 0; i < header->count; ++i) {
        const uf_h5_message *message = &header->messages[i];
        if (message->type == UF_H5_MESSAGE_LINK) {
            uf_h5_cursor cursor = uf_h5_cursor_over(message->bytes, message->size);
            UF_TRY(parse_link(state, &cursor));
        }
    }
    if (info == NULL) {
        return UF_OK;
    }
    uf_h5_cursor cursor = uf_h5_cursor_over(info->bytes, info->size);
    const uint64_t version = uf_h5_number(&cursor, 1), flags = uf_h5_number(&cursor, 1);
    (void)uf_h5_take(&cursor, (flags & 1) != 0 ? 8 : 0);
    const uint64_t heap = uf_h5_address(file, &cursor), tree = uf_h5_address(file, &cursor);
    if (cursor.is_short || version != 0) {
        return uf_h5_damaged(file, header->address, "nothing says where its links lie");
    }
    return heap == UF_H5_NOWHERE ? UF_OK : read_dense(state, heap, tree);
}

/* ---- symbol tables ---- */

/* A text of the local heap, which ends in a zero. */
static uf_status find_name(const reading *state, uint64_t offset, const unsigned char **name,
                           uint64_t *length) {
    const bool is_within = offset < state->names_size;
    *name = is_within ? state->names + offset : NULL;
    const unsigned char *end =
        is_within ? memchr(*name, '\0', (size_t)(state->names_size - offset)) : NULL;
    if (end == NULL) {
        return uf_h5_damaged(state->file, state->address,
                             "a name at byte %" PRIu64 " of a heap of %" PRIu64
                             " bytes does not end in it",
                             offset, state->names_size);
    }
    *length = (uint64_t)(end - *name);
    return UF_OK;
}

static uf_status parse_symbol(reading *state, uf_h5_cursor *cursor) {
    const uf_h5_file *file = state->file;
    uf_h5_link *link;
    const unsigned char *text;
    uint64_t length = 0;
    const uint64_t name = uf_h5_number(cursor, file->offset_size);
    const uint64_t address = uf_h5_address(file, cursor);
    const uint64_t kind = uf_h5_number(cursor, 4);
    (void)uf_h5_take(cursor, 4);
    const uint64_t target = uf_h5_number(cursor, 4);
    (void)uf_h5_take(cursor, 12);
    UF_TRY(find_name(state, name, &text, &length));
    UF_TRY(add_link(state, text, length, &link));
    if (kind == 2) {
        UF_TRY(find_name(state, target, &text, &length));
        return set_target(state, link, text, length);
    }
    link->address = address;
    return UF_OK;
}

static uf_status on_symbol_node(void *user, const unsigned char *key, uint64_t child) {
    reading *state = user;
    uf_h5_file *file = state->file;
    unsigned char head[SYMBOLS_OF_NODE];
    unsigned char *bytes;
    (void)key;
    UF_TRY(uf_h5_read_metadata(file, child, sizeof head, "a node of symbols", head));
    if (memcmp(head, "SNOD", 4) != 0) {
        return uf_h5_damaged(file, child, "no node of symbols begins there");
    }
    const uint64_t count = uf_h5_number_at(head + 6, 2);
    const uint64_t size = count * (2 * (uint64_t)file->offset_size + 24);
    UF_TRY(uf_h5_fetch(file, child + sizeof head, size, "a node of symbols", &bytes));
    state->address = child;
    uf_h5_cursor cursor = uf_h5_cursor_over(bytes, size);
    uf_status status = UF_OK;
    for (uint64_t i = 0; i < count && status == UF_OK; ++i) {
        status = parse_symbol(state, &cursor);
    }
    free(bytes);
    return status;
}

static uf_status read_symbols(reading *state, uint64_t tree, uint64_t heap) {
    uf_h5_file *file = state->file;
    unsigned char head[32];
    unsigned char *names;
    const uint64_t size = 8 + 2 * (uint64_t)file->length_size + file->offset_size;
    UF_TRY(uf_h5_read_metadata(file, heap, size, "a heap of names", head));
    if (memcmp(head, "HEAP", 4) != 0) {
        return uf_h5_damaged(file, heap, "no heap of names begins there");
    }
    uf_h5_cursor cursor = uf_h5_cursor_over(head + 8, size - 8);
    state->names_size = uf_h5_length(file, &cursor);
    (void)uf_h5_take(&cursor, file->length_size); /* free space */
    const uint64_t data = uf_h5_address(file, &cursor);
    UF_TRY(uf_h5_fetch(file, data, state->names_size, "a heap of names", &names));
    state->names = names;
    const uf_status status =
        uf_h5_walk_children(file, tree, 0, file->length_size, on_symbol_node, state);
    free(names);
    return status;
}

/* ---- groups ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const uf_h5_link *)a)->name, ((const uf_h5_link *)b)->name);
}

/* Two links of one name would make one name answer for two objects. */
static uf_status sort_links(const uf_h5_file *file, uf_h5_group *group) {
    if (group->count > 0) {
        qsort(group->links, (size_t)group->count, sizeof *group->links, by_name);
    }
    for (int64_t i = 1; i < group->count; ++i) {
        if (by_name(&group->links[i - 1], &group->links[i]) == 0) {
            return uf_h5_damaged(file, group->address, "two links of a group are called %s",
                                 group->links[i].name);
        }
    }
    return UF_OK;
}

bool uf_h5_is_group(const uf_h5_header *header) {
    return uf_h5_header_find(header, UF_H5_MESSAGE_SYMBOL_TABLE) != NULL ||
           uf_h5_header_find(header, UF_H5_MESSAGE_LINK_INFO) != NULL;
}

static uf_status read_links(reading *state, const uf_h5_header *header) {
    const uf_h5_message *table = uf_h5_header_find(header, UF_H5_MESSAGE_SYMBOL_TABLE);
    state->address = header->address;
    if (table == NULL) {
        return read_messages(state, header);
    }
    uf_h5_cursor cursor = uf_h5_cursor_over(table->bytes, table->size);
    const uint64_t tree = uf_h5_address(state->file, &cursor);
    const uint64_t heap = uf_h5_address(state->file, &cursor);
    return cursor.is_short
               ? uf_h5_damaged(state->file, header->address, "nothing says where its links lie")
               : read_symbols(state, tree, heap);
}

/* The place of a group in the file's list, or where it belongs. */
static int64_t place_of(const uf_h5_file *file, uint64_t address) {
    int64_t low = 0, high = file->group_count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (file->groups[middle]->address < address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static uf_status keep_group(uf_h5_file *file, uf_h5_group *group) {
    if (file->group_count == file->group_capacity) {
        uf_h5_group **grown = uf_h5_grow(file->groups, &file->group_capacity, sizeof *grown);
        if (grown == NULL) {
            return uf_h5_no_memory(file, (uint64_t)file->group_count * sizeof *grown);
        }
        file->groups = grown;
    }
    const int64_t at = place_of(file, group->address);
    memmove(file->groups + at + 1, file->groups + at,
            (size_t)(file->group_count - at) * sizeof *file->groups);
    file->groups[at] = group;
    file->group_count += 1;
    return UF_OK;
}

uf_status uf_h5_group_open(uf_h5_file *file, uint64_t address, uf_h5_group **opened) {
    uf_h5_header header;
    const int64_t at = place_of(file, address);
    *opened = NULL;
    if (at < file->group_count && file->groups[at]->address == address) {
        *opened = file->groups[at];
        return UF_OK;
    }
    uf_h5_group *group = calloc(1, sizeof *group);
    if (group == NULL) {
        return uf_h5_no_memory(file, sizeof *group);
    }
    group->address = address;
    reading state = {.file = file, .group = group};
    uf_status status = uf_h5_header_read(file, address, &header);
    if (status == UF_OK) {
        status = uf_h5_is_group(&header) ? read_links(&state, &header)
                                         : uf_fail(UF_ERROR_NOT_FOUND, "%s in %s is no group",
                                                   file->subject, file->path);
        uf_h5_header_free(&header);
    }
    if (status == UF_OK) {
        status = sort_links(file, group);
    }
    if (status == UF_OK) {
        status = keep_group(file, group);
    }
    if (status != UF_OK) {
        free_group(group);
        return status;
    }
    *opened = group;
    return UF_OK;
}

const uf_h5_link *uf_h5_group_find(const uf_h5_group *group, const char *name) {
    int64_t low = 0, high = group->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = strcmp(name, group->links[middle].name);
        if (order == 0) {
            return &group->links[middle];
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}
