/* filter.c - filters undone: deflate, shuffle, Fletcher-32. Each works on a whole chunk, whose
 * length before and after is known and demanded. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "io/h5/internal.h"

#define FLETCHER_BYTES 4

uf_status uf_h5_reserve(const uf_h5_file *file, uf_h5_buffer *buffer, uint64_t size) {
    if (buffer->bytes != NULL && buffer->size >= size) {
        return UF_OK;
    }
    free(buffer->bytes);
    buffer->size = size;
    buffer->bytes = malloc(size > 0 ? (size_t)size : 1);
    if (buffer->bytes == NULL) {
        buffer->size = 0;
        return uf_h5_no_memory(file, size);
    }
    return UF_OK;
}

/* A chunk whose filters are undone. */
typedef struct undoing {
    const uf_h5_file *file;
    const uf_h5_layout *layout;
    const char *place;        /* of the chunk, for messages */
    uf_h5_buffer *now, *next; /* a filter reads one and writes the other */
} undoing;

static void swap(const undoing *undo) {
    const uf_h5_buffer now = *undo->now;
    *undo->now = *undo->next;
    *undo->next = now;
}

/* HDF5's variant of the sum: big-endian words, and an odd byte counts as the high half of one. */
static uint32_t fletcher32(const unsigned char *data, uint64_t size) {
    uint32_t low = 0, high = 0;
    for (uint64_t words = (size + 1) / 2; words > 0;) {
        /* 360 words fit before a sum overflows. */
        uint64_t block = words < 360 ? words : 360;
        for (words -= block; block > 0; --block) {
            const uint32_t second = size > 1 ? data[1] : 0;
            low += (uint32_t)data[0] << 8 | second;
            high += low;
            data += 2;
            size -= size > 1 ? 2 : 1;
        }
        low = (low & 0xffff) + (low >> 16);
        high = (high & 0xffff) + (high >> 16);
    }
    low = (low & 0xffff) + (low >> 16);
    high = (high & 0xffff) + (high >> 16);
    return high << 16 | low;
}

static uf_status check_fletcher(const undoing *undo, uint64_t *length) {
    char where[UF_MESSAGE_SIZE / 2];
    uf_h5_where(undo->file, where, sizeof where);
    if (*length <= FLETCHER_BYTES) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s is damaged: its chunk at %s has %" PRIu64
                " bytes, too few for data and a checksum",
                where, undo->place, *length);
    }
    *length -= FLETCHER_BYTES;
    const uint32_t stored = (uint32_t)uf_h5_number_at(undo->now->bytes + *length, FLETCHER_BYTES);
    const uint32_t computed = fletcher32(undo->now->bytes, *length);
    /* HDF5 before 1.6.3 swapped the bytes of both halves on little-endian machines. */
    const uint32_t swapped = (computed & 0x00ff00ff) << 8 | (computed >> 8 & 0x00ff00ff);
    if (stored != computed && stored != swapped) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: its chunk at %s fails its checksum", where,
                undo->place);
    }
    return UF_OK;
}

/* Inflate into exactly `expected` bytes. */
static uf_status undo_deflate(const undoing *undo, uint64_t *length, uint64_t expected) {
    char where[UF_MESSAGE_SIZE / 2];
    UF_TRY(uf_h5_reserve(undo->file, undo->next, expected));
    uLongf got = (uLongf)expected;
    const int result = uncompress(undo->next->bytes, &got, undo->now->bytes, (uLong)*length);
    if (result == Z_MEM_ERROR) {
        return uf_h5_no_memory(undo->file, expected);
    }
    if (result != Z_OK || got != (uLongf)expected) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s is damaged: its chunk at %s does not inflate to %" PRIu64 " bytes",
                uf_h5_where(undo->file, where, sizeof where), undo->place, expected);
    }
    *length = expected;
    swap(undo);
    return UF_OK;
}

/* Shuffle stores the first bytes of all elements, then the second ones, ...; a rest stays as it is.
 */
static uf_status undo_shuffle(const undoing *undo, uint64_t length, uint64_t element) {
    const uint64_t count = length / element;
    UF_TRY(uf_h5_reserve(undo->file, undo->next, length));
    const unsigned char *from = undo->now->bytes;
    for (uint64_t byte = 0; byte < element; ++byte) {
        unsigned char *to = undo->next->bytes + byte;
        for (uint64_t i = 0; i < count; ++i, to += element) {
            *to = *from++;
        }
    }
    memcpy(undo->next->bytes + count * element, from, (size_t)(length - count * element));
    swap(undo);
    return UF_OK;
}

/* The length of a chunk before filter `at` was applied: an earlier checksum is part of it. */
static uint64_t length_before(const uf_h5_layout *layout, uint32_t mask, int at) {
    uint64_t length = (uint64_t)layout->chunk_bytes;
    for (int i = 0; i < at; ++i) {
        const bool is_sum = layout->filters[i].id == UF_H5_FLETCHER32 && (mask >> i & 1) == 0;
        length += is_sum ? FLETCHER_BYTES : 0;
    }
    return length;
}

uf_status uf_h5_undo_filters(const uf_h5_file *file, const uf_h5_layout *layout, uint32_t mask,
                             uint64_t length, const char *place, uf_h5_buffer *now,
                             uf_h5_buffer *next) {
    const undoing undo = {.file = file, .layout = layout, .place = place, .now = now, .next = next};
    for (int i = layout->filter_count - 1; i >= 0; --i) {
        const uf_h5_filter *filter = &layout->filters[i];
        if ((mask >> i & 1) != 0) {
            continue;
        }
        if (filter->id == UF_H5_FLETCHER32) {
            UF_TRY(check_fletcher(&undo, &length));
        } else if (filter->id == UF_H5_DEFLATE) {
            UF_TRY(undo_deflate(&undo, &length, length_before(layout, mask, i)));
        } else if (filter->element > 1 && (uint64_t)filter->element <= length) {
            /* An element that is longer than the whole: nothing was moved. */
            UF_TRY(undo_shuffle(&undo, length, (uint64_t)filter->element));
        }
    }
    if (length != (uint64_t)layout->chunk_bytes) {
        char where[UF_MESSAGE_SIZE / 2];
        UF_FAIL(UF_ERROR_FORMAT,
                "%s is damaged: its chunk at %s holds %" PRIu64 " bytes in place of %" PRId64,
                uf_h5_where(file, where, sizeof where), place, length, layout->chunk_bytes);
    }
    return UF_OK;
}
