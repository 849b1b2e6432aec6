/* header.c - object headers: the messages that make an object. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/h5/internal.h"

#define SHARED 0x02        /* of a message's flags: it stands elsewhere */
#define MUST_BE_KNOWN 0x80 /* of a message's flags */
#define LARGEST_KNOWN 0x18 /* type of a message */

typedef struct block {
    uint64_t address, size;
} block;

/* A header on its way. */
typedef struct reading {
    uf_h5_file *file;
    uf_h5_header *header;
    int version;
    unsigned message_size; /* of a message's own header */
    block *queue;          /* continuations, in the order in which they were met */
    int64_t count, capacity;
    uint64_t total; /* bytes of all blocks */
} reading;

void uf_h5_header_free(uf_h5_header *header) {
    for (int64_t i = 0; i < header->block_count; ++i) {
        free(header->blocks[i]);
    }
    free(header->blocks);
    free(header->messages);
    memset(header, 0, sizeof *header);
}

/* The header owns `bytes` from here on, whatever is returned. */
static uf_status keep_block(reading *state, unsigned char *bytes) {
    uf_h5_header *header = state->header;
    if (header->block_count == header->block_capacity) {
        unsigned char **grown =
            uf_h5_grow(header->blocks, &header->block_capacity, sizeof *header->blocks);
        if (grown == NULL) {
            free(bytes);
            return uf_h5_no_memory(state->file, 16 * sizeof *header->blocks);
        }
        header->blocks = grown;
    }
    header->blocks[header->block_count++] = bytes;
    return UF_OK;
}

static uf_status keep_message(reading *state, const uf_h5_message *message) {
    uf_h5_header *header = state->header;
    if (header->count == header->capacity) {
        uf_h5_message *grown =
            uf_h5_grow(header->messages, &header->capacity, sizeof *header->messages);
        if (grown == NULL) {
            return uf_h5_no_memory(state->file, (uint64_t)header->count * sizeof *grown);
        }
        header->messages = grown;
    }
    header->messages[header->count++] = *message;
    return UF_OK;
}

/* Add a block to the queue. Blocks that do not overlap have no more bytes than the file: this ends
 * circles. */
static uf_status add_block(reading *state, uint64_t address, uint64_t size) {
    if (size > state->file->size || state->total > state->file->size - size) {
        return uf_h5_damaged(state->file, address,
                             "the parts of its header take more than the "
                             "file's %" PRIu64 " bytes",
                             state->file->size);
    }
    state->total += size;
    if (state->count == state->capacity) {
        block *grown = uf_h5_grow(state->queue, &state->capacity, sizeof *state->queue);
        if (grown == NULL) {
            return uf_h5_no_memory(state->file, (uint64_t)state->count * sizeof *grown);
        }
        state->queue = grown;
    }
    state->queue[state->count++] = (block){.address = address, .size = size};
    return UF_OK;
}

/* The messages of `size` bytes. */
static uf_status parse_messages(reading *state, uint64_t address, const unsigned char *bytes,
                                uint64_t size) {
    const uf_h5_file *file = state->file;
    uf_h5_cursor cursor = uf_h5_cursor_over(bytes, size);
    while (uf_h5_left(&cursor) >= state->message_size) {
        const uint64_t at = address + (uint64_t)(cursor.at - bytes);
        uf_h5_message message = {.type =
                                     (unsigned)uf_h5_number(&cursor, state->version == 1 ? 2 : 1)};
        message.size = uf_h5_number(&cursor, 2);
        message.flags = (unsigned)uf_h5_number(&cursor, 1);
        (void)uf_h5_take(&cursor, state->message_size - (state->version == 1 ? 5 : 4));
        message.bytes = uf_h5_take(&cursor, message.size);
        if (message.bytes == NULL) {
            return uf_h5_damaged(
                file, at, "a message of %" PRIu64 " bytes in its header does not lie within it",
                message.size);
        }
        if (message.type > LARGEST_KNOWN && (message.flags & MUST_BE_KNOWN) != 0) {
            return uf_h5_outside(file, "has a message of type %u, which is not known",
                                 message.type);
        }
        if (message.type == UF_H5_MESSAGE_CONTINUATION) {
            uf_h5_cursor where = uf_h5_cursor_over(message.bytes, message.size);
            const uint64_t next = uf_h5_address(file, &where);
            const uint64_t length = uf_h5_length(file, &where);
            if (where.is_short) {
                return uf_h5_damaged(file, at, "a continuation of its header has %" PRIu64 " bytes",
                                     message.size);
            }
            UF_TRY(add_block(state, next, length));
        } else if (message.type != 0) {
            UF_TRY(keep_message(state, &message));
        }
    }
    return UF_OK;
}

static uf_status read_first_of_old(reading *state, uint64_t address) {
    unsigned char prefix[16];
    UF_TRY(uf_h5_read_metadata(state->file, address, sizeof prefix, "an object's header", prefix));
    const uint64_t size = uf_h5_number_at(prefix + 8, 4);
    state->version = 1;
    state->message_size = 8;
    return add_block(state, address + sizeof prefix, size);
}

/* The first block of version 2, which has the only checksum for it. */
static uf_status read_first_of_new(reading *state, uint64_t address) {
    uf_h5_file *file = state->file;
    unsigned char prefix[34];
    const uint64_t left = file->size - address;
    const uint64_t size = left < sizeof prefix ? left : sizeof prefix;
    UF_TRY(uf_h5_read_metadata(file, address, size, "an object's header", prefix));
    uf_h5_cursor cursor = uf_h5_cursor_over(prefix, size);
    (void)uf_h5_take(&cursor, 5);
    const unsigned flags = (unsigned)uf_h5_number(&cursor, 1);
    (void)uf_h5_take(&cursor, ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0));
    const uint64_t messages = uf_h5_number(&cursor, 1u << (flags & 3));
    const uint64_t before = (uint64_t)(cursor.at - prefix);
    if (cursor.is_short || !uf_h5_is_within(file, address, before) ||
        messages > file->size - address - before) {
        return uf_h5_damaged(file, address, "its header does not lie within the file");
    }
    unsigned char *bytes;
    UF_TRY(uf_h5_fetch_checked(file, address, before + messages + 4, "OHDR", 2,
                               "an object's header", &bytes));
    UF_TRY(keep_block(state, bytes));
    state->version = 2;
    state->message_size = (flags & 0x04) != 0 ? 6 : 4;
    state->total = before + messages + 4;
    return parse_messages(state, address + before, bytes + before, messages);
}

static uf_status read_continuation(reading *state, block at) {
    unsigned char *bytes;
    if (state->version == 1) {
        UF_TRY(uf_h5_fetch(state->file, at.address, at.size, "a part of its header", &bytes));
        UF_TRY(keep_block(state, bytes));
        return parse_messages(state, at.address, bytes, at.size);
    }
    /* It has no version of its own. */
    UF_TRY(uf_h5_fetch(state->file, at.address, at.size, "a part of its header", &bytes));
    UF_TRY(keep_block(state, bytes));
    if (at.size < 8 || memcmp(bytes, "OCHK", 4) != 0) {
        return uf_h5_damaged(state->file, at.address,
                             "a part of its header does not begin with "
                             "OCHK");
    }
    if (uf_h5_checksum(bytes, at.size - 4) != uf_h5_number_at(bytes + at.size - 4, 4)) {
        return uf_h5_damaged(state->file, at.address, "a part of its header fails its checksum");
    }
    return parse_messages(state, at.address + 4, bytes + 4, at.size - 8);
}

uf_status uf_h5_header_read(uf_h5_file *file, uint64_t address, uf_h5_header *header) {
    unsigned char first[4];
    reading state = {.file = file, .header = header};
    memset(header, 0, sizeof *header);
    header->address = address;
    UF_TRY(uf_h5_read_metadata(file, address, sizeof first, "an object's header", first));
    uf_status status;
    if (memcmp(first, "OHDR", 4) == 0) {
        status = read_first_of_new(&state, address);
    } else if (first[0] == 1) {
        status = read_first_of_old(&state, address);
    } else {
        status = uf_h5_damaged(file, address, "no object's header begins there");
    }
    for (int64_t i = 0; i < state.count && status == UF_OK; ++i) {
        status = read_continuation(&state, state.queue[i]);
    }
    free(state.queue);
    if (status != UF_OK) {
        uf_h5_header_free(header);
    }
    return status;
}

const uf_h5_message *uf_h5_header_find(const uf_h5_header *header, unsigned type) {
    for (int64_t i = 0; i < header->count; ++i) {
        if (header->messages[i].type == type) {
            return &header->messages[i];
        }
    }
    return NULL;
}

uf_status uf_h5_header_need(const uf_h5_file *file, const uf_h5_header *header, unsigned type,
                            const char *what, uf_h5_cursor *cursor) {
    const uf_h5_message *message = uf_h5_header_find(header, type);
    if (message == NULL) {
        return uf_h5_damaged(file, header->address, "its header does not say %s", what);
    }
    if ((message->flags & SHARED) != 0) {
        return uf_h5_outside(file, "shares the message that says %s with other objects", what);
    }
    *cursor = uf_h5_cursor_over(message->bytes, message->size);
    return UF_OK;
}
