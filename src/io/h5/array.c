/* array.c - chunks indexed by arrays: fixed ones, and extensible ones, which grow by blocks of
 * twice the elements. An element is a chunk's address, and with filters its size and the filters
 * that it left out. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/h5/internal.h"

typedef struct array {
    uf_h5_file *file;
    const uf_h5_layout *layout;
    uf_h5_chunk *chunks;
    bool is_filtered;
    uint64_t element;       /* bytes */
    uint64_t page;          /* elements of a page of a block; blocks up to this have no pages */
    int order[UF_MAX_RANK]; /* the axes, outermost first, as numbers of elements count them */
} array;

/* ---- both kinds ---- */

/* Kind of array, element and page, behind signature and version. */
static uf_status parse_client(array *to, uint64_t address, uf_h5_cursor *cursor) {
    const uint64_t client = uf_h5_number(cursor, 1);
    to->element = uf_h5_number(cursor, 1);
    to->is_filtered = to->layout->filter_count > 0;
    const uint64_t plain = to->file->offset_size;
    if (client != (uint64_t)to->is_filtered ||
        (to->is_filtered ? to->element < plain + 5 || to->element > plain + 12
                         : to->element != plain)) {
        return uf_h5_damaged(to->file, address,
                             "an array of chunks of kind %" PRIu64 " has elements of %" PRIu64
                             " bytes",
                             client, to->element);
    }
    return UF_OK;
}

/* The element of the chunk whose place in the grid is `at`. */
static uf_status number_of(const array *from, const int64_t *at, uint64_t *number) {
    *number = 0;
    for (int i = 0; i < from->layout->rank; ++i) {
        const int axis = from->order[i];
        if ((i > 0 && __builtin_mul_overflow(*number, from->layout->most[axis], number)) ||
            __builtin_add_overflow(*number, (uint64_t)at[axis], number)) {
            return uf_h5_damaged(from->file, from->layout->address, "its chunks have no end");
        }
    }
    return UF_OK;
}

static uf_h5_chunk parse_element(const array *from, const unsigned char *bytes) {
    uf_h5_cursor cursor = uf_h5_cursor_over(bytes, from->element);
    uf_h5_chunk chunk = {.address = uf_h5_address(from->file, &cursor),
                         .size = (uint64_t)from->layout->chunk_bytes};
    if (from->is_filtered) {
        chunk.size = uf_h5_number(&cursor, (unsigned)(from->element - 4 - from->file->offset_size));
        chunk.mask = (uint32_t)uf_h5_number(&cursor, 4);
    }
    return chunk;
}

/* A block of elements that was read last. Grids are walked in the order of the elements, so the
 * next one is in it or in the block behind it. */
typedef struct held {
    uint64_t first, count; /* elements; a count of 0: none */
    unsigned char *bytes;  /* of the elements, NULL: none of them was written */
    unsigned char *block;
} held;

static void drop(held *block) {
    free(block->block);
    memset(block, 0, sizeof *block);
}

typedef uf_status on_miss(array *from, void *user, uint64_t number, held *block);

/* Find every chunk of the grid; `find` reads the block of an element. */
static uf_status fill_grid(array *from, on_miss *find, void *user) {
    const uf_h5_layout *layout = from->layout;
    int64_t at[UF_MAX_RANK] = {0};
    held block = {.count = 0};
    uf_status status = UF_OK;
    for (int64_t i = 0; i < layout->chunk_count && status == UF_OK; ++i) {
        uint64_t number;
        int64_t place = 0; /* in C order */
        for (int axis = 0; axis < layout->rank; ++axis) {
            place = place * layout->along[axis] + at[axis];
        }
        status = number_of(from, at, &number);
        if (status == UF_OK && (number < block.first || number - block.first >= block.count)) {
            drop(&block);
            status = find(from, user, number, &block);
        }
        if (status == UF_OK && block.bytes != NULL) {
            from->chunks[place] =
                parse_element(from, block.bytes + (number - block.first) * from->element);
        }
        for (int j = layout->rank - 1; j >= 0; --j) {
            const int axis = from->order[j];
            if (++at[axis] < layout->along[axis]) {
                break;
            }
            at[axis] = 0;
        }
    }
    drop(&block);
    return status;
}

/* The page of `count` elements at `address`, which has a checksum of its own. */
static uf_status read_page(const array *from, uint64_t address, uint64_t count, held *block) {
    const uint64_t size = count * from->element;
    UF_TRY(uf_h5_fetch(from->file, address, size + 4, "a page of chunks", &block->block));
    block->bytes = block->block;
    if (uf_h5_checksum(block->bytes, size) != uf_h5_number_at(block->bytes + size, 4)) {
        return uf_h5_damaged(from->file, address, "a page of chunks fails its checksum");
    }
    return UF_OK;
}

/* ---- fixed arrays ---- */

typedef struct fixed_array {
    uint64_t count, data; /* elements, and the address of their block */
} fixed_array;

static uf_status find_fixed(array *from, void *user, uint64_t number, held *block) {
    const fixed_array *fixed = user;
    uf_h5_file *file = from->file;
    if (number >= fixed->count) {
        return uf_h5_damaged(file, fixed->data, "chunk %" PRIu64 " is beyond an array of %" PRIu64,
                             number, fixed->count);
    }
    const uint64_t before =
        6 + (uint64_t)file->offset_size; /* signature, version, client, header */
    *block = (held){.count = fixed->count};
    if (fixed->data == UF_H5_NOWHERE) {
        return UF_OK;
    }
    if (fixed->count > file->size / from->element) {
        return uf_h5_damaged(file, fixed->data,
                             "an array of %" PRIu64 " chunks does not lie within "
                             "the file",
                             fixed->count);
    }
    if (fixed->count <= from->page) {
        const uint64_t size = before + fixed->count * from->element + 4;
        UF_TRY(uf_h5_fetch_checked(file, fixed->data, size, "FADB", 0, "an array of chunks",
                                   &block->block));
        block->bytes = block->block + before;
        return UF_OK;
    }
    const uint64_t pages = (fixed->count - 1) / from->page + 1, map = (pages + 7) / 8;
    unsigned char *bytes;
    UF_TRY(uf_h5_fetch_checked(file, fixed->data, before + map + 4, "FADB", 0, "an array of chunks",
                               &bytes));
    const uint64_t page = number / from->page;
    const bool is_written = (bytes[before + page / 8] >> (7 - page % 8) & 1) != 0;
    free(bytes);
    block->first = page * from->page;
    block->count =
        page + 1 < pages ? from->page : fixed->count - page * from->page; /* the last is shorter */
    return is_written
               ? read_page(from,
                           fixed->data + before + map + 4 + page * (from->page * from->element + 4),
                           block->count, block)
               : UF_OK;
}

uf_status uf_h5_fixed_array_read(uf_h5_file *file, const uf_h5_layout *layout,
                                 uf_h5_chunk *chunks) {
    unsigned char *bytes;
    array from = {
        .file = file, .layout = layout, .chunks = chunks, .order = {0, 1, 2, 3, 4, 5, 6, 7}};
    fixed_array fixed;
    const uint64_t size = 12 + (uint64_t)file->length_size + file->offset_size;
    UF_TRY(
        uf_h5_fetch_checked(file, layout->address, size, "FAHD", 0, "an array of chunks", &bytes));
    uf_h5_cursor cursor = uf_h5_cursor_over(bytes + 5, size - 9);
    uf_status status = parse_client(&from, layout->address, &cursor);
    const uint64_t bits = uf_h5_number(&cursor, 1);
    fixed.count = uf_h5_length(file, &cursor);
    fixed.data = uf_h5_address(file, &cursor);
    free(bytes);
    if (status == UF_OK && bits > 32) {
        status = uf_h5_damaged(file, layout->address, "a page of chunks has 2^%" PRIu64 " of them",
                               bits);
    }
    from.page = (uint64_t)1 << (bits <= 32 ? bits : 0);
    return status == UF_OK ? fill_grid(&from, find_fixed, &fixed) : status;
}

/* ---- extensible arrays ---- */

/* Elements are in the index block, then in the data blocks that it names, then in those that super
 * blocks name. Data blocks come in levels: level u has 2^(u/2) of them, of 2^((u+1)/2) times
 * `smallest` elements each, both exponents rounded down. */
typedef struct extensible_array {
    unsigned bits;        /* of the number of an element */
    uint64_t in_index;    /* elements in the index block */
    uint64_t smallest;    /* elements of the smallest data block */
    unsigned levels;      /* all of them */
    unsigned near_levels; /* those of the data blocks that the index block names */
    uint64_t near_blocks;
    uint64_t address; /* of the index block */
    unsigned char *index;
    uint64_t before; /* bytes of the index block before its first element */
} extensible_array;

static uint64_t blocks_of(unsigned level) {
    return (uint64_t)1 << level / 2;
}

static uint64_t elements_of(const extensible_array *all, unsigned level) {
    return all->smallest << (level + 1) / 2;
}

/* The data block `in_level` of a level at `address`, which begins with element `first`; the page of
 * it in which `number` lies. `is_written` has a bit for each page, of the super block. */
static uf_status read_data_block(array *from, const extensible_array *all, unsigned level,
                                 uint64_t address, const unsigned char *is_written,
                                 uint64_t first_bit, uint64_t number, held *block) {
    uf_h5_file *file = from->file;
    const uint64_t elements = elements_of(all, level);
    const uint64_t before = 6 + (uint64_t)file->offset_size + (all->bits + 7) / 8;
    if (address == UF_H5_NOWHERE) {
        return UF_OK;
    }
    if (elements > file->size / from->element) {
        return uf_h5_damaged(file, address,
                             "a block of %" PRIu64 " chunks does not lie within the "
                             "file",
                             elements);
    }
    if (elements <= from->page) {
        UF_TRY(uf_h5_fetch_checked(file, address, before + elements * from->element + 4, "EADB", 0,
                                   "an array of chunks", &block->block));
        block->bytes = block->block + before;
        return UF_OK;
    }
    const uint64_t page = (number - block->first) / from->page;
    const uint64_t bit = first_bit + page;
    block->first += page * from->page;
    block->count = from->page;
    if (is_written != NULL && (is_written[bit / 8] >> (7 - bit % 8) & 1) == 0) {
        return UF_OK;
    }
    return read_page(from, address + before + 4 + page * (from->page * from->element + 4),
                     from->page, block);
}

/* An address of the index block's, behind its elements. */
static uint64_t indexed_address(const array *from, const extensible_array *all, uint64_t number) {
    const unsigned size = from->file->offset_size;
    uf_h5_cursor cursor = uf_h5_cursor_over(
        all->index + all->before + all->in_index * from->element + number * size, size);
    return uf_h5_address(from->file, &cursor);
}

static uf_status find_in_super_block(array *from, const extensible_array *all, unsigned level,
                                     uint64_t data_block, uint64_t number, held *block) {
    uf_h5_file *file = from->file;
    const uint64_t address =
        indexed_address(from, all, all->near_blocks + (level - all->near_levels));
    const uint64_t elements = elements_of(all, level), blocks = blocks_of(level);
    const uint64_t pages = elements > from->page ? elements / from->page : 0;
    const uint64_t map = pages > 0 ? (pages + 7) / 8 : 0; /* bytes for each data block */
    const uint64_t before = 6 + (uint64_t)file->offset_size + (all->bits + 7) / 8;
    unsigned char *bytes;
    if (address == UF_H5_NOWHERE) {
        return UF_OK;
    }
    if (blocks > file->size || map > file->size / blocks) {
        return uf_h5_damaged(file, address,
                             "a block of %" PRIu64 " blocks does not lie within the "
                             "file",
                             blocks);
    }
    UF_TRY(uf_h5_fetch_checked(file, address, before + blocks * (map + file->offset_size) + 4,
                               "EASB", 0, "an array of chunks", &bytes));
    uf_h5_cursor cursor = uf_h5_cursor_over(
        bytes + before + blocks * map + data_block * file->offset_size, file->offset_size);
    const uf_status status = read_data_block(from, all, level, uf_h5_address(file, &cursor),
                                             bytes + before, data_block * pages, number, block);
    free(bytes);
    return status;
}

static uf_status find_extensible(array *from, void *user, uint64_t number, held *block) {
    const extensible_array *all = user;
    if (number < all->in_index) {
        /* Copied, so that all blocks are freed alike. */
        const uint64_t size = all->in_index * from->element;
        block->block = malloc((size_t)size);
        if (block->block == NULL) {
            return uf_h5_no_memory(from->file, size);
        }
        memcpy(block->block, all->index + all->before, (size_t)size);
        block->bytes = block->block;
        block->count = all->in_index;
        return UF_OK;
    }
    uint64_t first = all->in_index, named = 0; /* of a level: its first element and data block */
    for (unsigned level = 0; level < all->levels; ++level) {
        const uint64_t elements = elements_of(all, level), blocks = blocks_of(level);
        if ((number - first) / elements < blocks) {
            const uint64_t data_block = (number - first) / elements;
            block->first = first + data_block * elements;
            block->count = elements;
            return level < all->near_levels
                       ? read_data_block(from, all, level,
                                         indexed_address(from, all, named + data_block), NULL, 0,
                                         number, block)
                       : find_in_super_block(from, all, level, data_block, number, block);
        }
        first += elements * blocks;
        named += blocks;
    }
    return uf_h5_damaged(from->file, all->address, "chunk %" PRIu64 " is beyond an array of them",
                         number);
}

static bool is_power_of_two(uint64_t value) {
    return value != 0 && (value & (value - 1)) == 0;
}

static uf_status parse_extensible(array *from, uf_h5_cursor *cursor, extensible_array *all) {
    uf_h5_file *file = from->file;
    const uint64_t header = from->layout->address;
    UF_TRY(parse_client(from, header, cursor));
    all->bits = (unsigned)uf_h5_number(cursor, 1);
    all->in_index = uf_h5_number(cursor, 1);
    all->smallest = uf_h5_number(cursor, 1);
    const uint64_t near = uf_h5_number(cursor, 1); /* addresses of a super block, at least */
    const uint64_t page_bits = uf_h5_number(cursor, 1);
    (void)uf_h5_take(cursor, 6 * (uint64_t)file->length_size);
    all->address = uf_h5_address(file, cursor);
    if (all->bits > 62 || !is_power_of_two(all->smallest) || !is_power_of_two(near) || near < 2 ||
        page_bits > 32 || all->bits < uf_h5_log2(all->smallest)) {
        return uf_h5_damaged(file, header, "an array of chunks has impossible sizes");
    }
    from->page = (uint64_t)1 << page_bits;
    all->levels = 1 + all->bits - uf_h5_log2(all->smallest);
    all->near_levels = 2 * uf_h5_log2(near);
    all->near_blocks = 2 * (near - 1);
    if (all->near_levels > all->levels) {
        return uf_h5_damaged(file, header, "an array of chunks has impossible sizes");
    }
    return UF_OK;
}

/* Elements count along the axis without a limit first, then along the others. */
static uf_status find_order(array *from) {
    const uf_h5_layout *layout = from->layout;
    int unlimited = -1, last = 1;
    for (int i = 0; i < layout->rank; ++i) {
        if (layout->most[i] == UINT64_MAX) {
            if (unlimited >= 0) {
                return uf_h5_damaged(from->file, layout->address,
                                     "an array of chunks grows along two axes");
            }
            unlimited = i;
        }
    }
    from->order[0] = unlimited < 0 ? 0 : unlimited;
    for (int i = 0; i < layout->rank; ++i) {
        if (i != from->order[0]) {
            from->order[last++] = i;
        }
    }
    return UF_OK;
}

uf_status uf_h5_extensible_array_read(uf_h5_file *file, const uf_h5_layout *layout,
                                      uf_h5_chunk *chunks) {
    unsigned char *bytes;
    array from = {.file = file, .layout = layout, .chunks = chunks};
    extensible_array all = {.before = 6 + (uint64_t)file->offset_size};
    const uint64_t size = 16 + 6 * (uint64_t)file->length_size + file->offset_size;
    UF_TRY(find_order(&from));
    UF_TRY(
        uf_h5_fetch_checked(file, layout->address, size, "EAHD", 0, "an array of chunks", &bytes));
    uf_h5_cursor cursor = uf_h5_cursor_over(bytes + 5, size - 9);
    uf_status status = parse_extensible(&from, &cursor, &all);
    free(bytes);
    UF_TRY(status);
    if (all.address == UF_H5_NOWHERE) {
        return UF_OK;
    }
    const uint64_t named = all.near_blocks + all.levels - all.near_levels;
    UF_TRY(uf_h5_fetch_checked(
        file, all.address, all.before + all.in_index * from.element + named * file->offset_size + 4,
        "EAIB", 0, "an array of chunks", &all.index));
    status = fill_grid(&from, find_extensible, &all);
    free(all.index);
    return status;
}
