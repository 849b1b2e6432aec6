/* index.c - where the chunks of a dataset are. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "io/h5/internal.h"

/* An index on its way. */
typedef struct reading {
    uf_h5_file *file;
    const uf_h5_layout *layout;
    uf_h5_chunk *chunks;
    unsigned size_bytes; /* version 2 tree: of a chunk's size; 0: chunks have no filters */
} reading;

/* Put a chunk at its place in the grid; `scaled` counts chunks. */
static uf_status put(const reading *state, const uint64_t *scaled, const uf_h5_chunk *chunk) {
    const uf_h5_layout *layout = state->layout;
    int64_t number = 0;
    for (int i = 0; i < layout->rank; ++i) {
        if (scaled[i] >= (uint64_t)layout->along[i]) {
            return UF_OK; /* outside of the extents, as when a dataset was made smaller */
        }
        number = number * layout->along[i] + (int64_t)scaled[i];
    }
    if (state->chunks[number].address != UF_H5_NOWHERE) {
        return uf_h5_damaged(state->file, chunk->address, "its chunk %" PRId64 " is stored twice",
                             number);
    }
    state->chunks[number] = *chunk;
    return UF_OK;
}

static uf_status on_old_chunk(void *user, const unsigned char *key, uint64_t child) {
    const reading *state = user;
    const uf_h5_layout *layout = state->layout;
    uint64_t scaled[UF_MAX_RANK];
    uf_h5_chunk chunk = {.address = child, .size = uf_h5_number_at(key, 4)};
    chunk.mask = (uint32_t)uf_h5_number_at(key + 4, 4);
    for (int i = 0; i < layout->rank; ++i) {
        const uint64_t offset = uf_h5_number_at(key + 8 + 8 * i, 8);
        if (offset % (uint64_t)layout->chunk[i] != 0) {
            return uf_h5_damaged(state->file, child,
                                 "a chunk begins at %" PRIu64 " of axis %d, "
                                 "where chunks have %" PRId64,
                                 offset, i, layout->chunk[i]);
        }
        scaled[i] = offset / (uint64_t)layout->chunk[i];
    }
    return put(state, scaled, &chunk);
}

static uf_status on_new_chunk(void *user, const unsigned char *record, unsigned size) {
    const reading *state = user;
    uint64_t scaled[UF_MAX_RANK];
    uf_h5_cursor cursor = uf_h5_cursor_over(record, size);
    uf_h5_chunk chunk = {.address = uf_h5_address(state->file, &cursor),
                         .size = (uint64_t)state->layout->chunk_bytes};
    if (state->size_bytes > 0) {
        chunk.size = uf_h5_number(&cursor, state->size_bytes);
        chunk.mask = (uint32_t)uf_h5_number(&cursor, 4);
    }
    for (int i = 0; i < state->layout->rank; ++i) {
        scaled[i] = uf_h5_number(&cursor, 8);
    }
    return put(state, scaled, &chunk);
}

/* Bytes of the number that says a chunk's size: one more than its length without filters takes. */
static unsigned size_bytes(const uf_h5_layout *layout) {
    const unsigned bytes = 1 + (uf_h5_log2((uint64_t)layout->chunk_bytes) + 8) / 8;
    return bytes < 8 ? bytes : 8;
}

static uf_status read_btree2(reading *state) {
    const uf_h5_layout *layout = state->layout;
    const bool is_filtered = layout->filter_count > 0;
    state->size_bytes = is_filtered ? size_bytes(layout) : 0;
    const unsigned record = state->file->offset_size + (is_filtered ? state->size_bytes + 4 : 0) +
                            8 * (unsigned)layout->rank;
    return uf_h5_walk_records(state->file, layout->address, is_filtered ? 11 : 10, record, false,
                              on_new_chunk, state);
}

/* Chunks without an index lie one behind another, as many as there can be. */
static uf_status read_implicit(const reading *state) {
    const uf_h5_layout *layout = state->layout;
    int64_t at[UF_MAX_RANK] = {0};
    for (int64_t number = 0; number < layout->chunk_count; ++number) {
        uint64_t place = 0;
        for (int i = 0; i < layout->rank; ++i) {
            if (__builtin_mul_overflow(place, layout->most[i], &place) ||
                __builtin_add_overflow(place, (uint64_t)at[i], &place)) {
                return uf_h5_damaged(state->file, layout->address, "its chunks have no end");
            }
        }
        if (place > state->file->size / (uint64_t)layout->chunk_bytes) {
            return uf_h5_damaged(state->file, layout->address,
                                 "its chunk %" PRId64 " does not lie within the file", number);
        }
        state->chunks[number] =
            (uf_h5_chunk){.address = layout->address + place * (uint64_t)layout->chunk_bytes,
                          .size = (uint64_t)layout->chunk_bytes};
        for (int i = layout->rank - 1; i >= 0 && ++at[i] == layout->along[i]; --i) {
            at[i] = 0;
        }
    }
    return UF_OK;
}

static uf_status read_single(const reading *state) {
    const uf_h5_layout *layout = state->layout;
    if (layout->chunk_count != 1) {
        return uf_h5_damaged(state->file, layout->address, "its single chunk is one of %" PRId64,
                             layout->chunk_count);
    }
    state->chunks[0] =
        (uf_h5_chunk){.address = layout->address, .size = layout->size, .mask = layout->mask};
    return UF_OK;
}

static uf_status read_index(reading *state) {
    const uf_h5_layout *layout = state->layout;
    if (layout->address == UF_H5_NOWHERE) {
        return UF_OK; /* nothing was written */
    }
    switch (layout->index) {
    case UF_H5_BTREE1:
        return uf_h5_walk_children(state->file, layout->address, 1,
                                   8 + 8 * ((unsigned)layout->rank + 1), on_old_chunk, state);
    case UF_H5_SINGLE:
        return read_single(state);
    case UF_H5_IMPLICIT:
        return read_implicit(state);
    case UF_H5_FIXED_ARRAY:
        return uf_h5_fixed_array_read(state->file, layout, state->chunks);
    case UF_H5_EXTENSIBLE_ARRAY:
        return uf_h5_extensible_array_read(state->file, layout, state->chunks);
    case UF_H5_BTREE2:
        return read_btree2(state);
    }
    return UF_ERROR_INTERNAL;
}

/* Every chunk within the file, all of them in its bytes, and no more data than these can hold. */
static uf_status check_chunks(const uf_h5_file *file, const uf_h5_layout *layout,
                              const uf_h5_chunk *chunks) {
    char where[UF_MESSAGE_SIZE / 2];
    uint64_t bytes = 0;
    int64_t stored = 0, claimed;
    for (int64_t i = 0; i < layout->chunk_count; ++i) {
        const uf_h5_chunk *chunk = &chunks[i];
        if (chunk->address == UF_H5_NOWHERE) {
            continue;
        }
        if (!uf_h5_is_within(file, chunk->address, chunk->size)) {
            return uf_h5_damaged(file, chunk->address,
                                 "a chunk of %" PRIu64 " bytes does not lie "
                                 "within the file's %" PRIu64 " bytes",
                                 chunk->size, file->size);
        }
        if (layout->filter_count == 0 && chunk->size != (uint64_t)layout->chunk_bytes) {
            return uf_h5_damaged(file, chunk->address,
                                 "a chunk has %" PRIu64 " bytes in place of %" PRId64, chunk->size,
                                 layout->chunk_bytes);
        }
        bytes += chunk->size;
        ++stored;
        if (bytes > file->size) {
            UF_FAIL(UF_ERROR_FORMAT,
                    "%s is damaged: its chunks take %" PRIu64 " bytes of a file of %" PRIu64,
                    uf_h5_where(file, where, sizeof where), bytes, file->size);
        }
    }
    if (uf_mul_overflows(stored, layout->chunk_bytes, &claimed)) {
        claimed = INT64_MAX;
    }
    const int64_t expansion =
        uf_h5_has_filter(layout, UF_H5_DEFLATE) ? UF_FILE_LARGEST_EXPANSION : 1;
    if ((uint64_t)(claimed / expansion) > bytes) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s claims %" PRId64 " bytes, which %" PRIu64 " stored bytes cannot hold",
                uf_h5_where(file, where, sizeof where), claimed, bytes);
    }
    return UF_OK;
}

uf_status uf_h5_index_read(uf_h5_file *file, const uf_h5_layout *layout, uf_h5_chunk **chunks) {
    *chunks = malloc((size_t)layout->chunk_count * sizeof **chunks);
    if (*chunks == NULL) {
        return uf_h5_no_memory(file, (uint64_t)layout->chunk_count * sizeof **chunks);
    }
    for (int64_t i = 0; i < layout->chunk_count; ++i) {
        (*chunks)[i] = (uf_h5_chunk){.address = UF_H5_NOWHERE};
    }
    reading state = {.file = file, .layout = layout, .chunks = *chunks};
    uf_status status = read_index(&state);
    if (status == UF_OK) {
        status = check_chunks(file, layout, *chunks);
    }
    if (status != UF_OK) {
        free(*chunks);
        *chunks = NULL;
    }
    return status;
}
