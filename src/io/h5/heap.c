/* heap.c - the fractal heap, where dense groups keep their links, and the global heap, where values
 * of varying length lie. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/h5/internal.h"

/* ---- the fractal heap ---- */

/* A direct block that was read. */
typedef struct direct_block {
    uint64_t offset, size; /* in the heap's own space */
    unsigned char *bytes;
} direct_block;

/* The heap's space is cut into blocks by a table: rows of `width` blocks each, the first two rows
 * of `start` bytes each, every later one of twice the row before. Rows of blocks above `largest`
 * bytes are tables themselves. */
struct uf_h5_heap {
    uf_h5_file *file;
    uint64_t address; /* of the header */
    unsigned width, offset_size, length_size;
    unsigned rows; /* of the root's table; 0: the root is a direct block */
    unsigned direct_rows;
    uint64_t start, largest, root;
    unsigned id_size;
    bool has_checksums;
    direct_block *blocks; /* ascending by offset */
    int64_t count, capacity;
    uint64_t held; /* bytes of all of them */
};

static uint64_t row_size(const uf_h5_heap *heap, unsigned row) {
    return heap->start << (row < 2 ? 0 : row - 1);
}

static bool is_power_of_two(uint64_t value) {
    return value != 0 && (value & (value - 1)) == 0;
}

static uf_status parse_heap(uf_h5_heap *heap, uf_h5_cursor *cursor) {
    uf_h5_file *file = heap->file;
    heap->id_size = (unsigned)uf_h5_number(cursor, 2);
    const uint64_t filters = uf_h5_number(cursor, 2);
    heap->has_checksums = (uf_h5_number(cursor, 1) & 2) != 0;
    const uint64_t largest_object = uf_h5_number(cursor, 4);
    (void)uf_h5_take(cursor, 10 * (uint64_t)file->length_size + 2 * (uint64_t)file->offset_size);
    heap->width = (unsigned)uf_h5_number(cursor, 2);
    heap->start = uf_h5_length(file, cursor);
    heap->largest = uf_h5_length(file, cursor);
    const unsigned bits = (unsigned)uf_h5_number(cursor, 2);
    (void)uf_h5_take(cursor, 2);
    heap->root = uf_h5_address(file, cursor);
    heap->rows = (unsigned)uf_h5_number(cursor, 2);
    if (filters > 0) {
        return uf_h5_outside(file, "has a heap with filters");
    }
    if (cursor->is_short || !is_power_of_two(heap->start) || !is_power_of_two(heap->largest) ||
        heap->start > heap->largest || heap->largest > (uint64_t)1 << 40 || bits > 64 ||
        heap->width == 0 || !is_power_of_two(heap->width) ||
        heap->rows > 64 - uf_h5_log2(heap->start) - uf_h5_log2(heap->width)) {
        return uf_h5_damaged(file, heap->address,
                             "a heap has blocks of %" PRIu64 " to %" PRIu64
                             " bytes, %u in a row, %u rows and addresses of %u bits",
                             heap->start, heap->largest, heap->width, heap->rows, bits);
    }
    heap->offset_size = (bits + 7) / 8;
    const uint64_t longest = heap->largest < largest_object ? heap->largest : largest_object;
    heap->length_size = uf_h5_number_size(longest);
    heap->direct_rows = uf_h5_log2(heap->largest) - uf_h5_log2(heap->start) + 2;
    return UF_OK;
}

uf_status uf_h5_heap_open(uf_h5_file *file, uint64_t address, uf_h5_heap **opened) {
    unsigned char *bytes;
    const uint64_t size = 26 + 12 * (uint64_t)file->length_size + 3 * (uint64_t)file->offset_size;
    *opened = NULL;
    UF_TRY(uf_h5_fetch_checked(file, address, size, "FRHP", 0, "the header of a heap", &bytes));
    uf_h5_heap *heap = calloc(1, sizeof *heap);
    if (heap == NULL) {
        free(bytes);
        return uf_h5_no_memory(file, sizeof *heap);
    }
    heap->file = file;
    heap->address = address;
    uf_h5_cursor cursor = uf_h5_cursor_over(bytes + 5, size - 9);
    const uf_status status = parse_heap(heap, &cursor);
    free(bytes);
    if (status != UF_OK) {
        free(heap);
        return status;
    }
    *opened = heap;
    return UF_OK;
}

void uf_h5_heap_close(uf_h5_heap *heap) {
    if (heap != NULL) {
        for (int64_t i = 0; i < heap->count; ++i) {
            free(heap->blocks[i].bytes);
        }
        free(heap->blocks);
        free(heap);
    }
}

/* The last block that begins at or before `offset`; -1: none. */
static int64_t block_before(const uf_h5_heap *heap, uint64_t offset) {
    int64_t low = 0, high = heap->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (heap->blocks[middle].offset <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low - 1;
}

/* Signature, version, address of the heap's header, offset in its space. */
static uint64_t prefix_size(const uf_h5_heap *heap) {
    return 5 + (uint64_t)heap->file->offset_size + heap->offset_size;
}

/* The direct block's checksum counts as 0 where it stands in the middle of what it is made of. */
static bool is_checksum_right(const uf_h5_heap *heap, unsigned char *bytes, uint64_t size) {
    unsigned char *at = bytes + prefix_size(heap);
    const uint64_t stored = uf_h5_number_at(at, 4);
    memset(at, 0, 4);
    return uf_h5_checksum(bytes, size) == stored;
}

static uf_status read_direct(uf_h5_heap *heap, uint64_t address, uint64_t offset, uint64_t size) {
    uf_h5_file *file = heap->file;
    if (heap->held > file->size || size > file->size - heap->held) {
        return uf_h5_damaged(file, address,
                             "the blocks of a heap take more than the file's %" PRIu64 " bytes",
                             file->size);
    }
    if (heap->count == heap->capacity) {
        direct_block *grown = uf_h5_grow(heap->blocks, &heap->capacity, sizeof *heap->blocks);
        if (grown == NULL) {
            return uf_h5_no_memory(file, (uint64_t)heap->count * sizeof *grown);
        }
        heap->blocks = grown;
    }
    unsigned char *bytes;
    UF_TRY(uf_h5_fetch(file, address, size, "a block of a heap", &bytes));
    if (size < prefix_size(heap) + 4 || memcmp(bytes, "FHDB", 4) != 0) {
        free(bytes);
        return uf_h5_damaged(file, address, "no block of a heap begins there");
    }
    if (heap->has_checksums && !is_checksum_right(heap, bytes, size)) {
        free(bytes);
        return uf_h5_damaged(file, address, "a block of a heap fails its checksum");
    }
    const int64_t at = block_before(heap, offset) + 1;
    memmove(heap->blocks + at + 1, heap->blocks + at,
            (size_t)(heap->count - at) * sizeof *heap->blocks);
    heap->blocks[at] = (direct_block){.offset = offset, .size = size, .bytes = bytes};
    heap->count += 1;
    heap->held += size;
    return UF_OK;
}

/* The entry of the table at `address`, of `rows` rows from heap offset `base` on, in which `wanted`
 * lies: a block at *child, which begins at *offset and is in row *row. */
static uf_status find_entry(uf_h5_heap *heap, uint64_t address, unsigned rows, uint64_t base,
                            uint64_t wanted, unsigned *row, uint64_t *offset, uint64_t *child) {
    uf_h5_file *file = heap->file;
    uint64_t begin = base;
    unsigned at = 0;
    while (at < rows && wanted - begin >= row_size(heap, at) * heap->width) {
        begin += row_size(heap, at) * heap->width;
        ++at;
    }
    if (at == rows) {
        return uf_h5_damaged(file, address, "byte %" PRIu64 " of a heap does not lie in it",
                             wanted);
    }
    const uint64_t column = (wanted - begin) / row_size(heap, at);
    const uint64_t size = prefix_size(heap) + (uint64_t)rows * heap->width * file->offset_size + 4;
    unsigned char *bytes;
    UF_TRY(uf_h5_fetch_checked(file, address, size, "FHIB", 0, "a table of a heap", &bytes));
    uf_h5_cursor cursor = uf_h5_cursor_over(bytes + prefix_size(heap) +
                                                (at * heap->width + column) * file->offset_size,
                                            file->offset_size);
    *child = uf_h5_address(file, &cursor);
    *row = at;
    *offset = begin + column * row_size(heap, at);
    free(bytes);
    return UF_OK;
}

/* Read the direct block in which `wanted` lies. */
static uf_status find_direct(uf_h5_heap *heap, uint64_t wanted) {
    uint64_t address = heap->root, base = 0;
    unsigned rows = heap->rows;
    if (rows == 0) {
        return read_direct(heap, address, 0, heap->start);
    }
    for (;;) {
        unsigned row = 0;
        uint64_t child = 0, offset = 0;
        UF_TRY(find_entry(heap, address, rows, base, wanted, &row, &offset, &child));
        if (row < heap->direct_rows) {
            return read_direct(heap, child, offset, row_size(heap, row));
        }
        /* The table below covers one block of this row, and has fewer rows for it. */
        const unsigned below =
            uf_h5_log2(row_size(heap, row)) - uf_h5_log2(heap->start * heap->width) + 1;
        if (below >= rows) {
            return uf_h5_damaged(heap->file, address, "a table of a heap holds itself");
        }
        rows = below;
        address = child;
        base = offset;
    }
}

uf_status uf_h5_heap_find(uf_h5_heap *heap, const unsigned char *id, unsigned id_size,
                          uf_h5_cursor *bytes) {
    uf_h5_file *file = heap->file;
    uf_h5_cursor cursor = uf_h5_cursor_over(id, id_size);
    const unsigned first = (unsigned)uf_h5_number(&cursor, 1), kind = first >> 4 & 3;
    if (first >> 6 != 0 || kind == 3) {
        return uf_h5_damaged(file, heap->address, "an object of a heap is of kind %u", first);
    }
    if (kind == 1) {
        return uf_h5_outside(file, "has a huge object in a heap");
    }
    if (kind == 2) { /* in the identifier itself */
        const uint64_t length = heap->id_size <= 17
                                    ? (first & 15) + 1
                                    : ((first & 15) << 8 | uf_h5_number(&cursor, 1)) + 1;
        const unsigned char *at = uf_h5_take(&cursor, length);
        *bytes = uf_h5_cursor_over(at, at == NULL ? 0 : length);
        return at == NULL ? uf_h5_damaged(file, heap->address,
                                          "a tiny object of a heap has %" PRIu64 " bytes", length)
                          : UF_OK;
    }
    const uint64_t offset = uf_h5_number(&cursor, heap->offset_size);
    const uint64_t length = uf_h5_number(&cursor, heap->length_size);
    int64_t at = block_before(heap, offset);
    if (at < 0 || offset - heap->blocks[at].offset >= heap->blocks[at].size) {
        UF_TRY(find_direct(heap, offset));
        at = block_before(heap, offset);
    }
    const direct_block *block = &heap->blocks[at < 0 ? 0 : at];
    if (cursor.is_short || at < 0 || offset - block->offset >= block->size ||
        length > block->size - (offset - block->offset)) {
        return uf_h5_damaged(file, heap->address,
                             "an object of %" PRIu64 " bytes at byte %" PRIu64
                             " of a heap does not lie in it",
                             length, offset);
    }
    *bytes = uf_h5_cursor_over(block->bytes + (offset - block->offset), length);
    return UF_OK;
}

/* ---- the global heap ---- */

static uf_status read_collection(uf_h5_file *file, uf_h5_collection *collection, uint64_t address) {
    unsigned char head[16];
    const unsigned before = 8 + file->length_size;
    free(collection->bytes);
    memset(collection, 0, sizeof *collection);
    UF_TRY(uf_h5_read_metadata(file, address, before, "a heap of texts", head));
    const uint64_t size = uf_h5_number_at(head + 8, file->length_size);
    if (memcmp(head, "GCOL", 4) != 0 || size < before) {
        return uf_h5_damaged(file, address, "no heap of texts begins there");
    }
    UF_TRY(uf_h5_fetch(file, address, size, "a heap of texts", &collection->bytes));
    collection->address = address;
    collection->size = size;
    return UF_OK;
}

uf_status uf_h5_collection_find(uf_h5_file *file, uf_h5_collection *collection, uint64_t address,
                                uint64_t index, uf_h5_cursor *bytes) {
    if (collection->bytes == NULL || collection->address != address) {
        UF_TRY(read_collection(file, collection, address));
    }
    uf_h5_cursor cursor = uf_h5_cursor_over(collection->bytes, collection->size);
    (void)uf_h5_take(&cursor, 8 + (uint64_t)file->length_size);
    while (uf_h5_left(&cursor) >= 8 + (uint64_t)file->length_size) {
        const uint64_t found = uf_h5_number(&cursor, 2);
        (void)uf_h5_take(&cursor, 6);
        const uint64_t size = uf_h5_length(file, &cursor);
        const unsigned char *at = size > uf_h5_left(&cursor) ? NULL : uf_h5_take(&cursor, size);
        if (found == 0 || at == NULL) {
            break; /* free space */
        }
        if (found == index) {
            *bytes = uf_h5_cursor_over(at, size);
            return UF_OK;
        }
        const uint64_t padding = (8 - size % 8) % 8;
        (void)uf_h5_take(&cursor, padding < uf_h5_left(&cursor) ? padding : uf_h5_left(&cursor));
    }
    return uf_h5_damaged(file, address, "a heap of texts has no object %" PRIu64, index);
}
