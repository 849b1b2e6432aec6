/* read.c - the elements of a dataset, any span of them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "io/h5/internal.h"

#define PIECE_BYTES (UINT64_C(1) << 18) /* read at a time where elements change on the way */

/* An open dataset. */
typedef struct uf_h5_data {
    uint64_t address; /* of its header */
    uf_h5_type type;
    int64_t count; /* elements */
    uf_h5_layout layout;
    unsigned char *compact; /* the data of a compact dataset; owned */
    uf_h5_chunk *chunks;
    uf_h5_buffer now, next;
} uf_h5_data;

void uf_h5_data_free(uf_h5_data *data) {
    if (data != NULL) {
        free(data->compact);
        free(data->chunks);
        free(data->now.bytes);
        free(data->next.bytes);
        free(data);
    }
}

/* ---- opening ---- */

/* Bytes of the dataset that the file does not store: they read as the fill value, and few of them
 * may. For one opening of the file: a header takes a hundredth of what each could claim. */
static uf_status count_unstored(uf_h5_file *file, const uf_h5_data *data, int64_t bytes) {
    const uf_h5_layout *layout = &data->layout;
    char where[UF_MESSAGE_SIZE / 2];
    int64_t unstored = 0;
    if (layout->storage == UF_H5_CONTIGUOUS && layout->address == UF_H5_NOWHERE) {
        unstored = bytes;
    } else if (layout->storage == UF_H5_CHUNKED) {
        int64_t missing = 0, claimed;
        for (int64_t i = 0; i < layout->chunk_count; ++i) {
            missing += data->chunks[i].address == UF_H5_NOWHERE;
        }
        claimed = (layout->chunk_count - missing) * layout->chunk_bytes; /* checked by index.c */
        unstored = missing > 0 && bytes > claimed ? bytes - claimed : 0;
    }
    if (unstored > UF_FILE_HARMLESS_BYTES - file->spent.unstored) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s claims %" PRId64 " bytes that the file does not store; %" PRId64
                " in one file are the most that read as fill values",
                uf_h5_where(file, where, sizeof where), unstored, UF_FILE_HARMLESS_BYTES);
    }
    file->spent.unstored += unstored;
    return UF_OK;
}

/* The object is a tensor. */
static uf_status open_layout(uf_h5_file *file, const uf_h5_header *header,
                             const uf_h5_object *object, uf_h5_data *data) {
    uf_h5_cursor cursor;
    uf_h5_space space;
    uf_h5_object now;
    memset(&now, 0, sizeof now);
    UF_TRY(uf_h5_describe(file, header, &now));
    if (!now.is_tensor || now.type.dtype != object->type.dtype || now.bytes != object->bytes ||
        !uf_shape_equal(&now.shape, &object->shape)) {
        UF_FAIL(UF_ERROR_FORMAT, "%s changed while it was read", file->path);
    }
    UF_TRY(uf_file_check_claim(file->path, (int64_t)file->size, object->name, object->bytes));
    UF_TRY(uf_h5_header_need(file, header, UF_H5_MESSAGE_DATASPACE, "its extents", &cursor));
    UF_TRY(uf_h5_parse_space(file, header->address, &cursor, &space));
    UF_TRY(uf_h5_layout_read(file, header, &space, object, &data->layout));
    if (data->layout.storage == UF_H5_COMPACT) {
        data->compact = malloc((size_t)data->layout.size);
        if (data->compact == NULL) {
            return uf_h5_no_memory(file, data->layout.size);
        }
        memcpy(data->compact, data->layout.compact, (size_t)data->layout.size);
    } else if (data->layout.storage == UF_H5_CHUNKED) {
        UF_TRY(uf_file_check_claim(file->path, (int64_t)file->size, object->name,
                                   data->layout.chunk_bytes));
        UF_TRY(uf_h5_index_read(file, &data->layout, &data->chunks));
    }
    data->layout.compact = NULL; /* it goes with the header */
    return UF_OK;
}

static uf_status open_data(uf_h5_file *file, const uf_h5_object *object, uf_h5_data **opened) {
    uf_h5_header header;
    if (file->data != NULL && file->data->address == object->address) {
        *opened = file->data;
        return UF_OK;
    }
    uf_h5_data_free(file->data);
    file->data = NULL;
    uf_h5_data *data = calloc(1, sizeof *data);
    if (data == NULL) {
        return uf_h5_no_memory(file, sizeof *data);
    }
    data->address = object->address;
    data->type = object->type;
    data->count = uf_shape_count(&object->shape);
    uf_status status = uf_h5_header_read(file, object->address, &header);
    if (status == UF_OK) {
        status = open_layout(file, &header, object, data);
        uf_h5_header_free(&header);
    }
    if (status != UF_OK) {
        uf_h5_data_free(data);
        return status;
    }
    *opened = file->data = data;
    return UF_OK;
}

/* ---- one block ---- */

static void fill(const uf_h5_data *data, int64_t count, unsigned char *values) {
    unsigned char value[8] = {0};
    const size_t size = uf_dtype_size(data->type.dtype);
    uf_h5_decode(&data->type, data->layout.fill, 1, value);
    for (int64_t i = 0; i < count; ++i) {
        memcpy(values + (size_t)i * size, value, size);
    }
}

/* Do elements stay as they are when they are read? */
static bool is_plain(const uf_h5_type *type) {
    return type->size == (int64_t)uf_dtype_size(type->dtype) &&
           (type->is_big_endian == (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) || type->size == 1);
}

/* Straight into the caller's memory where elements stay as they are. */
static uf_status read_contiguous(uf_h5_file *file, uf_h5_data *data, int64_t first, int64_t count,
                                 unsigned char *values) {
    const uint64_t stored = (uint64_t)data->type.size, size = uf_dtype_size(data->type.dtype);
    uint64_t address = data->layout.address + (uint64_t)first * stored;
    if (is_plain(&data->type)) {
        return uf_h5_read_data(file, address, (uint64_t)count * stored, values);
    }
    UF_TRY(uf_h5_reserve(file, &data->now, PIECE_BYTES));
    while (count > 0) {
        const int64_t most = (int64_t)(PIECE_BYTES / stored), now = count < most ? count : most;
        UF_TRY(uf_h5_read_data(file, address, (uint64_t)now * stored, data->now.bytes));
        uf_h5_decode(&data->type, data->now.bytes, now, values);
        address += (uint64_t)now * stored;
        values += (uint64_t)now * size;
        count -= now;
    }
    return UF_OK;
}

/* ---- chunks ---- */

/* A span of elements that is being read from chunks. */
typedef struct span {
    uf_h5_file *file;
    uf_h5_data *data;
    int64_t first, count;
    unsigned char *values;
} span;

/* Put `count` elements of a chunk to element `at` of the dataset, as far as these are wanted. */
static void put_run(const span *to, const unsigned char *from, int64_t at, int64_t count) {
    const int64_t begin = at > to->first ? at : to->first;
    const int64_t end = at + count < to->first + to->count ? at + count : to->first + to->count;
    if (begin < end) {
        const size_t size = uf_dtype_size(to->data->type.dtype);
        uf_h5_decode(&to->data->type, from + (begin - at) * to->data->type.size, end - begin,
                     to->values + (size_t)(begin - to->first) * size);
    }
}

/* The chunk at `grid`, without filters in data->now, to its place. */
static void scatter(const span *to, const int64_t *grid) {
    const uf_h5_layout *layout = &to->data->layout;
    int64_t from[UF_MAX_RANK], target[UF_MAX_RANK]; /* elements from one index to the next */
    int64_t at[UF_MAX_RANK] = {0}, count[UF_MAX_RANK];
    const int last = layout->rank - 1;
    from[last] = target[last] = 1;
    for (int i = last; i > 0; --i) {
        from[i - 1] = from[i] * layout->chunk[i];
        target[i - 1] = target[i] * layout->extent[i];
    }
    for (int i = 0; i < layout->rank; ++i) {
        const int64_t left = layout->extent[i] - grid[i] * layout->chunk[i];
        count[i] = left < layout->chunk[i] ? left : layout->chunk[i];
    }
    /* Axes that the chunk spans are one run with the axis before them. */
    int axis = last;
    while (axis > 0 && layout->chunk[axis] == layout->extent[axis]) {
        --axis;
    }
    for (;;) {
        int64_t source = 0, place = 0;
        for (int i = 0; i < layout->rank; ++i) {
            source += at[i] * from[i];
            place += (grid[i] * layout->chunk[i] + at[i]) * target[i];
        }
        put_run(to, to->data->now.bytes + source * to->data->type.size, place,
                count[axis] * from[axis]);
        int i = axis - 1;
        while (i >= 0 && ++at[i] == count[i]) {
            at[i--] = 0;
        }
        if (i < 0) {
            return;
        }
    }
}

static uf_status read_chunk(const span *to, const uf_h5_chunk *chunk, const int64_t *grid) {
    uf_h5_data *data = to->data;
    const uf_h5_layout *layout = &data->layout;
    char place[128];
    bool is_partial = false;
    uf_shape begin = {.rank = layout->rank};
    for (int i = 0; i < layout->rank; ++i) {
        begin.extent[i] = grid[i] * layout->chunk[i];
        is_partial = is_partial || layout->extent[i] - begin.extent[i] < layout->chunk[i];
    }
    UF_TRY(uf_h5_reserve(to->file, &data->now, chunk->size));
    UF_TRY(uf_h5_read_data(to->file, chunk->address, chunk->size, data->now.bytes));
    UF_TRY(uf_h5_undo_filters(
        to->file, layout, layout->partial_unfiltered && is_partial ? UINT32_MAX : chunk->mask,
        chunk->size, uf_shape_format(&begin, place, sizeof place), &data->now, &data->next));
    scatter(to, grid);
    return UF_OK;
}

/* Elements of the dataset that one row of chunks along axis 0 has: no more than the dataset, though
 * chunks may be higher than it. */
static int64_t slab_elements(const uf_h5_layout *layout) {
    int64_t count = layout->chunk[0] < layout->extent[0] ? layout->chunk[0] : layout->extent[0];
    for (int i = 1; i < layout->rank; ++i) {
        count *= layout->extent[i];
    }
    return count;
}

/* Chunks are read by rows of the grid's first axis: those that the span touches. */
static uf_status read_chunked(const span *to) {
    const uf_h5_data *data = to->data;
    const uf_h5_layout *layout = &data->layout;
    const int64_t slab = slab_elements(layout);
    int64_t grid[UF_MAX_RANK] = {0};
    const int64_t per_row = layout->chunk_count / layout->along[0];
    fill(data, to->count, to->values);
    for (grid[0] = to->first / slab; grid[0] < layout->along[0]; ++grid[0]) {
        if (grid[0] * slab >= to->first + to->count) {
            break;
        }
        for (int64_t i = 0; i < per_row; ++i) {
            const uf_h5_chunk *chunk = &data->chunks[grid[0] * per_row + i];
            if (chunk->address != UF_H5_NOWHERE) {
                UF_TRY(read_chunk(to, chunk, grid));
            }
            for (int axis = layout->rank - 1; axis > 0 && ++grid[axis] == layout->along[axis];
                 --axis) {
                grid[axis] = 0;
            }
        }
    }
    return UF_OK;
}

/* ---- spans ---- */

/* Unsigned values that a counter has no room for. */
static uf_status check_counters(const uf_h5_file *file, const uf_h5_data *data, const void *values,
                                int64_t count) {
    char where[UF_MESSAGE_SIZE / 2];
    if (data->type.dtype != UF_I64 || data->type.is_signed || data->type.size < 8) {
        return UF_OK;
    }
    for (int64_t i = 0; i < count; ++i) {
        const uint64_t value = ((const uint64_t *)values)[i];
        if (value > (uint64_t)INT64_MAX) {
            UF_FAIL(UF_ERROR_FORMAT,
                    "%s holds %" PRIu64 ", which is too large for 64 bits with a sign",
                    uf_h5_where(file, where, sizeof where), value);
        }
    }
    return UF_OK;
}

static uf_status read_span(uf_h5_file *file, const uf_h5_object *object, int64_t first,
                           int64_t count, void *values) {
    uf_h5_data *data;
    UF_TRY(open_data(file, object, &data));
    UF_CHECK_ARG(first >= 0 && count >= 0 && first <= data->count && count <= data->count - first,
                 "elements %" PRId64 " to %" PRId64 " of %s: it has %" PRId64, first, first + count,
                 object->name, data->count);
    const span to = {.file = file, .data = data, .first = first, .count = count, .values = values};
    switch (data->layout.storage) {
    case UF_H5_COMPACT:
        uf_h5_decode(&data->type, data->compact + first * data->type.size, count, values);
        return UF_OK;
    case UF_H5_CONTIGUOUS:
        if (data->layout.address == UF_H5_NOWHERE) {
            fill(data, count, values);
            return UF_OK;
        }
        return read_contiguous(file, data, first, count, values);
    case UF_H5_CHUNKED:
        return read_chunked(&to);
    }
    return UF_ERROR_INTERNAL;
}

static uf_status refuse_no_tensor(const uf_h5_file *file, const uf_h5_object *object) {
    UF_FAIL(UF_ERROR_FORMAT, "%s in %s %s", object->name, file->path, object->problem);
}

uf_status uf_h5_read(uf_h5_file *file, const uf_h5_object *object, int64_t first, int64_t count,
                     void *values) {
    if (!object->is_tensor) {
        return refuse_no_tensor(file, object);
    }
    file->subject = object->name;
    uf_status status = read_span(file, object, first, count, values);
    if (status == UF_OK) {
        status = check_counters(file, file->data, values, count);
    }
    file->subject = "";
    return status;
}

bool uf_h5_is_flat(uf_h5_file *file, const uf_h5_object *object, uint64_t *address) {
    uf_h5_data *data;
    *address = UF_H5_NOWHERE;
    file->subject = object->name;
    if (object->is_tensor && is_plain(&object->type) &&
        (object->type.dtype != UF_I64 || object->type.is_signed) &&
        open_data(file, object, &data) == UF_OK && data->layout.storage == UF_H5_CONTIGUOUS) {
        *address = data->layout.address;
    }
    file->subject = "";
    return *address != UF_H5_NOWHERE;
}

uf_status uf_h5_read_flat(const uf_h5_file *file, uint64_t address, uint64_t bytes, void *to) {
    return uf_h5_read_data(file, address, bytes, to);
}

uf_status uf_h5_check(uf_h5_file *file, const uf_h5_object *object) {
    uf_h5_data *data;
    if (!object->is_tensor) {
        return refuse_no_tensor(file, object);
    }
    file->subject = object->name;
    uf_status status = open_data(file, object, &data);
    if (status == UF_OK) {
        status = count_unstored(file, data, object->bytes);
    }
    file->subject = "";
    return status;
}

uf_status uf_h5_span(uf_h5_file *file, const uf_h5_object *object, int64_t *elements) {
    uf_h5_data *data;
    *elements = 1;
    file->subject = object->name;
    const uf_status status = open_data(file, object, &data);
    file->subject = "";
    if (status == UF_OK && data->layout.storage == UF_H5_CHUNKED) {
        *elements = slab_elements(&data->layout);
    }
    return status;
}
