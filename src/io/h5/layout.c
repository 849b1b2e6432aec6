/* layout.c - how a dataset is stored: where its data or its chunks are, and through which filters
 * they went. All of it is checked before anything is allocated. */
#include <inttypes.h>
#include <string.h>

#include "core/tensor.h"
#include "io/h5/internal.h"

#define FIRST_NAMED_FILTER 256 /* of a version 2 pipeline */

/* ---- filters ---- */

bool uf_h5_has_filter(const uf_h5_layout *layout, int id) {
    for (int i = 0; i < layout->filter_count; ++i) {
        if (layout->filters[i].id == id) {
            return true;
        }
    }
    return false;
}

static const char *filter_name(int id) {
    return id == UF_H5_DEFLATE ? "deflate" : id == UF_H5_SHUFFLE ? "shuffle" : "Fletcher-32";
}

/* Add a filter: its number, its name if the file has one, and its first parameter (0: none). */
static uf_status add_filter(const uf_h5_file *file, int id, const char *called, uint64_t parameter,
                            uf_h5_layout *layout) {
    char where[UF_MESSAGE_SIZE / 2];
    if (id != UF_H5_DEFLATE && id != UF_H5_SHUFFLE && id != UF_H5_FLETCHER32) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s needs filter %d%s%s%s; deflate, shuffle and Fletcher-32 are read",
                uf_h5_where(file, where, sizeof where), id, called[0] != '\0' ? " (" : "", called,
                called[0] != '\0' ? ")" : "");
    }
    if (uf_h5_has_filter(layout, id)) {
        UF_FAIL(UF_ERROR_FORMAT, "%s applies the filter %s twice",
                uf_h5_where(file, where, sizeof where), filter_name(id));
    }
    if (id == UF_H5_SHUFFLE && parameter < 1) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: shuffle does not say the size of an element",
                uf_h5_where(file, where, sizeof where));
    }
    layout->filters[layout->filter_count++] =
        (uf_h5_filter){.id = id, .element = (int64_t)parameter};
    return UF_OK;
}

static uf_status parse_filter(const uf_h5_file *file, unsigned version, uf_h5_cursor *cursor,
                              uf_h5_layout *layout) {
    char called[64] = "";
    const int id = (int)uf_h5_number(cursor, 2);
    const bool is_named = version == 1 || id >= FIRST_NAMED_FILTER;
    uint64_t length = is_named ? uf_h5_number(cursor, 2) : 0;
    (void)uf_h5_take(cursor, 2); /* may it be left out? */
    const uint64_t values = uf_h5_number(cursor, 2);
    if (version == 1) {
        length = (length + 7) / 8 * 8;
    }
    const unsigned char *name = uf_h5_take(cursor, length);
    const uint64_t kept = length < sizeof called ? length : sizeof called - 1;
    if (name != NULL) {
        memcpy(called, name, (size_t)kept);
    }
    const uint64_t parameter = values > 0 ? uf_h5_number(cursor, 4) : 0;
    (void)uf_h5_take(cursor, values > 1 ? 4 * (values - 1) : 0);
    if (version == 1 && values % 2 != 0) {
        (void)uf_h5_take(cursor, 4);
    }
    return cursor->is_short ? UF_OK : add_filter(file, id, called, parameter, layout);
}

static uf_status parse_filters(const uf_h5_file *file, const uf_h5_header *header,
                               uf_h5_layout *layout) {
    uf_h5_cursor cursor;
    if (uf_h5_header_find(header, UF_H5_MESSAGE_FILTERS) == NULL) {
        return UF_OK;
    }
    UF_TRY(uf_h5_header_need(file, header, UF_H5_MESSAGE_FILTERS, "its filters", &cursor));
    const unsigned version = (unsigned)uf_h5_number(&cursor, 1);
    const uint64_t count = uf_h5_number(&cursor, 1);
    (void)uf_h5_take(&cursor, version == 1 ? 6 : 0);
    if (version != 1 && version != 2) {
        return uf_h5_outside(file, "has filters of version %u; 1 and 2 are known", version);
    }
    for (uint64_t i = 0; i < count && !cursor.is_short; ++i) {
        UF_TRY(parse_filter(file, version, &cursor, layout));
    }
    return cursor.is_short ? uf_h5_damaged(file, header->address, "its filters are not whole")
                           : UF_OK;
}

/* ---- fill values ---- */

/* The value that is read where nothing is stored. One that is undefined, or not of the element's
 * size, is 0: no memory of the process is taken for a tensor. */
static void parse_fill(const uf_h5_header *header, int64_t element, uf_h5_layout *layout) {
    const uf_h5_message *fill = uf_h5_header_find(header, UF_H5_MESSAGE_FILL);
    const bool is_old = fill == NULL;
    fill = is_old ? uf_h5_header_find(header, UF_H5_MESSAGE_OLD_FILL) : fill;
    if (fill == NULL || (fill->flags & 2) != 0) {
        return;
    }
    uf_h5_cursor cursor = uf_h5_cursor_over(fill->bytes, fill->size);
    bool has_value = true;
    if (!is_old) {
        const uint64_t version = uf_h5_number(&cursor, 1);
        if (version < 3) {
            (void)uf_h5_take(&cursor, 2);
            has_value = uf_h5_number(&cursor, 1) != 0;
        } else {
            has_value = (uf_h5_number(&cursor, 1) & 0x20) != 0;
        }
    }
    const uint64_t size = has_value ? uf_h5_number(&cursor, 4) : 0;
    if (size == (uint64_t)element && size <= sizeof layout->fill && size <= uf_h5_left(&cursor)) {
        memcpy(layout->fill, cursor.at, (size_t)size);
    }
}

/* ---- chunks ---- */

static uf_status refuse_chunks(const uf_h5_file *file, const char *what) {
    char where[UF_MESSAGE_SIZE / 2];
    UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: %s", uf_h5_where(file, where, sizeof where), what);
}

/* `axes` extents of `size` bytes each; the last one is an element's bytes. */
static uf_status parse_chunk(const uf_h5_file *file, unsigned axes, unsigned size,
                             const uf_h5_object *object, uf_h5_cursor *cursor,
                             uf_h5_layout *layout) {
    char where[UF_MESSAGE_SIZE / 2];
    if (axes < 2 || (int)axes - 1 != object->shape.rank) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: its chunks have %d axes, its shape has %d",
                uf_h5_where(file, where, sizeof where), (int)axes - 1, (int)object->shape.rank);
    }
    layout->rank = (int)axes - 1;
    layout->chunk_bytes = object->type.size;
    for (int i = 0; i < layout->rank; ++i) {
        const uint64_t extent = uf_h5_number(cursor, size);
        if (extent < 1 || extent > INT64_MAX ||
            uf_mul_overflows(layout->chunk_bytes, (int64_t)extent, &layout->chunk_bytes)) {
            return refuse_chunks(file, "its chunks have impossible extents");
        }
        layout->chunk[i] = (int64_t)extent;
    }
    if (uf_h5_number(cursor, size) != (uint64_t)object->type.size) {
        return refuse_chunks(file, "an element of its chunks has another size than its type says");
    }
    return cursor->is_short ? refuse_chunks(file, "its chunks have impossible extents") : UF_OK;
}

/* How many chunks each axis has, and all of them. */
static uf_status count_chunks(const uf_h5_file *file, const uf_h5_space *space,
                              uf_h5_layout *layout) {
    char where[UF_MESSAGE_SIZE / 2];
    int64_t wanted = 1;
    for (int i = 0; i < layout->rank; ++i) {
        layout->extent[i] = (int64_t)space->extent[i];
        layout->along[i] = (layout->extent[i] - 1) / layout->chunk[i] + 1;
        layout->most[i] = space->most[i] == UINT64_MAX
                              ? UINT64_MAX
                              : (space->most[i] - 1) / (uint64_t)layout->chunk[i] + 1;
        if (uf_mul_overflows(wanted, layout->along[i], &wanted)) {
            wanted = INT64_MAX;
        }
    }
    if ((uint64_t)wanted > file->size) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s claims %" PRId64 " chunks, which a file of %" PRIu64 " bytes cannot hold",
                uf_h5_where(file, where, sizeof where), wanted, file->size);
    }
    layout->chunk_count = wanted;
    return UF_OK;
}

static uf_status parse_index(const uf_h5_file *file, unsigned flags, uf_h5_cursor *cursor,
                             uf_h5_layout *layout) {
    static const struct {
        uf_h5_index index;
        unsigned parameters; /* bytes, which the index says again */
    } kinds[] = {{UF_H5_BTREE1, 0},      {UF_H5_SINGLE, 0},           {UF_H5_IMPLICIT, 0},
                 {UF_H5_FIXED_ARRAY, 1}, {UF_H5_EXTENSIBLE_ARRAY, 5}, {UF_H5_BTREE2, 6}};
    const uint64_t kind = uf_h5_number(cursor, 1);
    if (kind < 1 || kind >= sizeof kinds / sizeof kinds[0]) {
        return uf_h5_outside(file, "has an index of chunks of type %" PRIu64 "; 1 to 5 are known",
                             kind);
    }
    layout->index = kinds[kind].index;
    layout->partial_unfiltered = (flags & 1) != 0;
    layout->size = (uint64_t)layout->chunk_bytes;
    if (layout->index == UF_H5_SINGLE && (flags & 2) != 0) {
        layout->size = uf_h5_length(file, cursor);
        layout->mask = (uint32_t)uf_h5_number(cursor, 4);
    }
    (void)uf_h5_take(cursor, kinds[kind].parameters);
    return UF_OK;
}

/* ---- the message ---- */

/* Versions 1 and 2. */
static uf_status parse_oldest(const uf_h5_file *file, const uf_h5_object *object,
                              uf_h5_cursor *cursor, uf_h5_layout *layout) {
    const unsigned axes = (unsigned)uf_h5_number(cursor, 1);
    const unsigned class = (unsigned)uf_h5_number(cursor, 1);
    (void)uf_h5_take(cursor, 5);
    if (class > 2) {
        return uf_h5_outside(file, "has a layout of class %u; 0 to 2 are known", class);
    }
    layout->storage = (uf_h5_storage) class;
    if (class > 0) {
        layout->address = uf_h5_address(file, cursor);
    }
    if (class == UF_H5_CHUNKED) {
        return parse_chunk(file, axes, 4, object, cursor, layout);
    }
    (void)uf_h5_take(cursor, 4 * (uint64_t)axes);
    layout->size = (uint64_t)object->bytes;
    if (class == UF_H5_COMPACT) {
        layout->size = uf_h5_number(cursor, 4);
        layout->compact = uf_h5_take(cursor, layout->size);
    }
    return UF_OK;
}

/* Versions 3 and 4. */
static uf_status parse_newer(const uf_h5_file *file, unsigned version, const uf_h5_object *object,
                             uf_h5_cursor *cursor, uf_h5_layout *layout) {
    const unsigned class = (unsigned)uf_h5_number(cursor, 1);
    if (class > 2) {
        return uf_h5_outside(file, "has a layout of class %u; 0 to 2 are known", class);
    }
    layout->storage = (uf_h5_storage) class;
    if (class == UF_H5_COMPACT) {
        layout->size = uf_h5_number(cursor, 2);
        layout->compact = uf_h5_take(cursor, layout->size);
    } else if (class == UF_H5_CONTIGUOUS) {
        layout->address = uf_h5_address(file, cursor);
        layout->size = uf_h5_length(file, cursor);
    } else if (version == 3) {
        const unsigned axes = (unsigned)uf_h5_number(cursor, 1);
        layout->address = uf_h5_address(file, cursor);
        UF_TRY(parse_chunk(file, axes, 4, object, cursor, layout));
    } else {
        const unsigned flags = (unsigned)uf_h5_number(cursor, 1);
        const unsigned axes = (unsigned)uf_h5_number(cursor, 1);
        const unsigned size = (unsigned)uf_h5_number(cursor, 1);
        if (size < 1 || size > 8) {
            return refuse_chunks(file, "its chunks have impossible extents");
        }
        UF_TRY(parse_chunk(file, axes, size, object, cursor, layout));
        UF_TRY(parse_index(file, flags, cursor, layout));
        layout->address = uf_h5_address(file, cursor);
    }
    return UF_OK;
}

/* One block of bytes, or none at all. */
static uf_status check_block(const uf_h5_file *file, const uf_h5_object *object,
                             const uf_h5_layout *layout) {
    char where[UF_MESSAGE_SIZE / 2];
    const bool is_contiguous = layout->storage == UF_H5_CONTIGUOUS;
    if (is_contiguous && layout->address == UF_H5_NOWHERE) {
        return UF_OK;
    }
    if (layout->size != (uint64_t)object->bytes) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s is damaged: %" PRIu64 " bytes are stored, its shape needs %" PRId64,
                uf_h5_where(file, where, sizeof where), layout->size, object->bytes);
    }
    if (is_contiguous && !uf_h5_is_within(file, layout->address, layout->size)) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s is damaged: its %" PRIu64 " bytes do not lie within the file's %" PRIu64,
                uf_h5_where(file, where, sizeof where), layout->size, file->size);
    }
    return UF_OK;
}

uf_status uf_h5_layout_read(const uf_h5_file *file, const uf_h5_header *header,
                            const uf_h5_space *space, const uf_h5_object *object,
                            uf_h5_layout *layout) {
    uf_h5_cursor cursor;
    memset(layout, 0, sizeof *layout);
    layout->address = UF_H5_NOWHERE;
    UF_TRY(uf_h5_header_need(file, header, UF_H5_MESSAGE_LAYOUT, "its layout", &cursor));
    const unsigned version = (unsigned)uf_h5_number(&cursor, 1);
    if (version < 1 || version > 4) {
        return uf_h5_outside(file, "has a layout of version %u; 1 to 4 are known", version);
    }
    UF_TRY(version < 3 ? parse_oldest(file, object, &cursor, layout)
                       : parse_newer(file, version, object, &cursor, layout));
    if (cursor.is_short) {
        return uf_h5_damaged(file, header->address, "its layout is not whole");
    }
    parse_fill(header, object->type.size, layout);
    if (layout->storage != UF_H5_CHUNKED) {
        return check_block(file, object, layout);
    }
    UF_TRY(parse_filters(file, header, layout));
    return count_chunks(file, space, layout);
}
