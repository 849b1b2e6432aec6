/* hdf5_chunks.c - datasets that are stored in chunks.
 *
 * libhdf5 does not compare the length of a filter's output with the length of the chunk, and its
 * filters trust their input. Therefore filtered chunks are fetched raw and undone here, each into
 * exactly its length. Chunks without filters go through H5Dread, which never uses the length in the
 * chunk's index as long as the file is opened without a chunk cache. One chunk at a time: H5Dread
 * needs kilobytes of memory for each chunk of a selection. */
#include "io/hdf5_chunks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "core/tensor.h"

#define FLETCHER_BYTES 4

/* ---- checks before anything is allocated ---- */

static const char *filter_name(H5Z_filter_t id) {
    return id == H5Z_FILTER_DEFLATE   ? "deflate"
           : id == H5Z_FILTER_SHUFFLE ? "shuffle"
                                      : "Fletcher-32";
}

/* Add filter number `at` of a pipeline. */
static uf_status add_filter(const uf_hdf5_file *file, hid_t properties, unsigned at,
                            const char *name, uf_hdf5_chunks *chunks) {
    unsigned flags, value = 0;
    size_t values = 1;
    char called[64] = "";
    /* The last argument stays NULL: to fill it, HDF5 would look for a plugin. */
    const H5Z_filter_t id =
        H5Pget_filter2(properties, at, &flags, &values, &value, sizeof called, called, NULL);
    if (id < 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is damaged: its filters cannot be read", name,
                file->path);
    }
    if (id != H5Z_FILTER_DEFLATE && id != H5Z_FILTER_SHUFFLE && id != H5Z_FILTER_FLETCHER32) {
        called[sizeof called - 1] = '\0';
        UF_FAIL(UF_ERROR_FORMAT,
                "%s in %s needs filter %d%s%s%s; deflate, shuffle and Fletcher-32 are read", name,
                file->path, (int)id, called[0] != '\0' ? " (" : "", called,
                called[0] != '\0' ? ")" : "");
    }
    for (int i = 0; i < chunks->filter_count; ++i) {
        if (chunks->filters[i].id == id) {
            UF_FAIL(UF_ERROR_FORMAT, "%s in %s applies the filter %s twice", name, file->path,
                    filter_name(id));
        }
    }
    if (id == H5Z_FILTER_SHUFFLE && (values < 1 || value < 1)) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is damaged: shuffle does not say the size of an element",
                name, file->path);
    }
    chunks->filters[chunks->filter_count++] = (uf_hdf5_filter){.id = id, .element = value};
    return UF_OK;
}

static bool has_filter(const uf_hdf5_chunks *chunks, H5Z_filter_t id) {
    for (int i = 0; i < chunks->filter_count; ++i) {
        if (chunks->filters[i].id == id) {
            return true;
        }
    }
    return false;
}

/* Extents and filters, from the dataset's creation properties. */
static uf_status describe(const uf_hdf5_file *file, hid_t properties,
                          const uf_hdf5_dataset *dataset, uf_hdf5_chunks *chunks) {
    const char *name = dataset->entry.name;
    hsize_t extent[H5S_MAX_RANK];
    unsigned options = 0;
    chunks->rank = H5Pget_chunk(properties, H5S_MAX_RANK, extent);
    if (chunks->rank < 1 || chunks->rank != dataset->entry.shape.rank) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is damaged: its chunks have %d axes, its shape has %d",
                name, file->path, chunks->rank, (int)dataset->entry.shape.rank);
    }
    chunks->element = dataset->entry.bytes / uf_shape_count(&dataset->entry.shape);
    chunks->bytes = chunks->element;
    for (int i = 0; i < chunks->rank; ++i) {
        chunks->extent[i] = dataset->entry.shape.extent[i];
        chunks->chunk[i] = (int64_t)extent[i];
        if (chunks->chunk[i] < 1 ||
            uf_mul_overflows(chunks->bytes, chunks->chunk[i], &chunks->bytes)) {
            UF_FAIL(UF_ERROR_FORMAT, "%s in %s is damaged: its chunks have impossible extents",
                    name, file->path);
        }
    }
    H5Pget_chunk_opts(properties, &options);
    chunks->partial_unfiltered = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
    const int filters = H5Pget_nfilters(properties);
    for (int i = 0; i < filters; ++i) {
        UF_TRY(add_filter(file, properties, (unsigned)i, name, chunks));
    }
    return uf_file_check_claim(file->path, file->size, name, chunks->bytes);
}

static int64_t at_most(hsize_t value, int64_t limit) {
    return value < (hsize_t)limit ? (int64_t)value : limit;
}

static uf_status count_stored(const uf_hdf5_file *file, hid_t id, const char *name,
                              int64_t *stored) {
    hsize_t count = 0;
    const hid_t space = H5Dget_space(id);
    const herr_t counted = H5Dget_num_chunks(id, space, &count);
    char reason[192];
    uf_hdf5_reason(reason, sizeof reason);
    H5Sclose(space);
    if (counted < 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is damaged: its chunks cannot be found (HDF5: %s)", name,
                file->path, reason);
    }
    *stored = at_most(count, INT64_MAX);
    return UF_OK;
}

uf_status uf_hdf5_check_chunks(const uf_hdf5_file *file, hid_t id, const uf_hdf5_dataset *dataset,
                               uf_hdf5_chunks *chunks, int64_t *unstored) {
    const char *name = dataset->entry.name;
    memset(chunks, 0, sizeof *chunks);
    const hid_t properties = H5Dget_create_plist(id);
    const uf_status status = describe(file, properties, dataset, chunks);
    H5Pclose(properties);
    UF_TRY(status);
    int64_t wanted = 1;
    for (int i = 0; i < chunks->rank; ++i) {
        const int64_t along = (chunks->extent[i] - 1) / chunks->chunk[i] + 1;
        if (uf_mul_overflows(wanted, along, &wanted)) {
            wanted = INT64_MAX;
        }
    }
    if (wanted > file->size) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s in %s claims %" PRId64 " chunks, which a file of %" PRId64 " bytes cannot hold",
                name, file->path, wanted, file->size);
    }
    UF_TRY(count_stored(file, id, name, &chunks->stored));
    chunks->stored = chunks->stored < wanted ? chunks->stored : wanted;
    chunks->missing = wanted - chunks->stored;
    int64_t claimed; /* by the chunks that are stored */
    if (uf_mul_overflows(chunks->stored, chunks->bytes, &claimed)) {
        claimed = INT64_MAX;
    }
    const int64_t bytes =
        chunks->filter_count == 0 ? claimed : at_most(H5Dget_storage_size(id), INT64_MAX);
    if (bytes > file->size) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s in %s is damaged: its chunks take %" PRId64 " bytes of a file of %" PRId64,
                name, file->path, bytes, file->size);
    }
    const int64_t expansion =
        has_filter(chunks, H5Z_FILTER_DEFLATE) ? UF_FILE_LARGEST_EXPANSION : 1;
    if (claimed / expansion > bytes) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s in %s claims %" PRId64 " bytes, which %" PRId64 " stored bytes cannot hold",
                name, file->path, claimed, bytes);
    }
    *unstored = dataset->entry.bytes > claimed ? dataset->entry.bytes - claimed : 0;
    return UF_OK;
}

/* ---- undoing filters ---- */

typedef struct buffer {
    unsigned char *bytes;
    size_t size;
} buffer;

typedef struct reader {
    const uf_hdf5_file *file;
    hid_t id;
    const char *name;
    const uf_hdf5_chunks *chunks;
    hid_t stored, type; /* of an element in the file and in memory */
    size_t element;     /* bytes in memory */
    unsigned char *data;
    int64_t offset[UF_MAX_RANK]; /* of the chunk that is being read */
    int64_t count[UF_MAX_RANK];  /* the part of it inside the extents */
    buffer now, next;            /* a filter reads one and writes the other */
} reader;

static const char *place(const reader *read, char *text, size_t size) {
    uf_shape shape = {.rank = read->chunks->rank};
    memcpy(shape.extent, read->offset, sizeof shape.extent);
    return uf_shape_format(&shape, text, size);
}

static uf_status reserve(const reader *read, buffer *space, int64_t size) {
    if (space->bytes != NULL && space->size >= (size_t)size) {
        return UF_OK;
    }
    free(space->bytes);
    space->size = (size_t)size;
    space->bytes = malloc(space->size);
    if (space->bytes == NULL) {
        uf_fail(UF_ERROR_OUT_OF_MEMORY,
                "out of host memory for a chunk of %s in %s: %" PRId64 " bytes", read->name,
                read->file->path, size);
        return UF_ERROR_OUT_OF_MEMORY;
    }
    return UF_OK;
}

static void swap(reader *read) {
    const buffer now = read->now;
    read->now = read->next;
    read->next = now;
}

/* HDF5's variant of the sum: big-endian words, and an odd byte counts as the high half of one. */
static uint32_t fletcher32(const unsigned char *data, size_t size) {
    uint32_t low = 0, high = 0;
    for (size_t words = (size + 1) / 2; words > 0;) {
        /* 360 words fit before a sum overflows. */
        size_t block = words < 360 ? words : 360;
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

static uf_status check_fletcher(const reader *read, int64_t *length) {
    char text[128];
    if (*length <= FLETCHER_BYTES) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s in %s is damaged: its chunk at %s has %" PRId64
                " bytes, too few for data and a checksum",
                read->name, read->file->path, place(read, text, sizeof text), *length);
    }
    *length -= FLETCHER_BYTES;
    const unsigned char *tail = read->now.bytes + *length;
    const uint32_t stored = (uint32_t)tail[0] | (uint32_t)tail[1] << 8 | (uint32_t)tail[2] << 16 |
                            (uint32_t)tail[3] << 24;
    const uint32_t computed = fletcher32(read->now.bytes, (size_t)*length);
    /* HDF5 before 1.6.3 swapped the bytes of both halves on little-endian machines. */
    const uint32_t swapped = (computed & 0x00ff00ff) << 8 | (computed >> 8 & 0x00ff00ff);
    if (stored != computed && stored != swapped) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s is damaged: its chunk at %s fails its checksum",
                read->name, read->file->path, place(read, text, sizeof text));
    }
    return UF_OK;
}

/* Inflate into exactly `expected` bytes. */
static uf_status undo_deflate(reader *read, int64_t *length, int64_t expected) {
    char text[128];
    UF_TRY(reserve(read, &read->next, expected));
    uLongf got = (uLongf)expected;
    const int result = uncompress(read->next.bytes, &got, read->now.bytes, (uLong)*length);
    if (result == Z_MEM_ERROR) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory reading %s in %s", read->name,
                read->file->path);
    }
    if (result != Z_OK || got != (uLongf)expected) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s in %s is damaged: its chunk at %s does not inflate to %" PRId64 " bytes",
                read->name, read->file->path, place(read, text, sizeof text), expected);
    }
    *length = expected;
    swap(read);
    return UF_OK;
}

/* Shuffle stores the first bytes of all elements, then the second ones, ...; a rest stays as it is.
 */
static uf_status undo_shuffle(reader *read, int64_t length, int64_t element) {
    const int64_t count = length / element;
    UF_TRY(reserve(read, &read->next, length));
    const unsigned char *from = read->now.bytes;
    for (int64_t byte = 0; byte < element; ++byte) {
        unsigned char *to = read->next.bytes + byte;
        for (int64_t i = 0; i < count; ++i, to += element) {
            *to = *from++;
        }
    }
    memcpy(read->next.bytes + count * element, from, (size_t)(length - count * element));
    swap(read);
    return UF_OK;
}

/* Undo what was applied to the `length` bytes in read->now. Bit i of `mask`: filter i was left out.
 */
static uf_status undo_filters(reader *read, int64_t length, uint32_t mask) {
    const uf_hdf5_chunks *chunks = read->chunks;
    char text[128];
    for (int i = chunks->filter_count - 1; i >= 0; --i) {
        if ((mask >> i & 1) != 0) {
            continue;
        }
        switch (chunks->filters[i].id) {
        case H5Z_FILTER_FLETCHER32:
            UF_TRY(check_fletcher(read, &length));
            break;
        case H5Z_FILTER_SHUFFLE:
            /* More than the whole: nothing was moved. */
            if (chunks->filters[i].element > 1 && chunks->filters[i].element <= length) {
                UF_TRY(undo_shuffle(read, length, chunks->filters[i].element));
            }
            break;
        default: {
            int64_t expected = chunks->bytes;
            for (int earlier = 0; earlier < i; ++earlier) {
                expected += chunks->filters[earlier].id == H5Z_FILTER_FLETCHER32 &&
                                    (mask >> earlier & 1) == 0
                                ? FLETCHER_BYTES
                                : 0;
            }
            UF_TRY(undo_deflate(read, &length, expected));
        }
        }
    }
    if (length != chunks->bytes) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s in %s is damaged: its chunk at %s holds %" PRId64 " bytes in place of %" PRId64,
                read->name, read->file->path, place(read, text, sizeof text), length,
                chunks->bytes);
    }
    return UF_OK;
}

/* ---- reading ---- */

/* The chunk in read->now, elements as in memory, to its place in the dataset. */
static void scatter(const reader *read) {
    const uf_hdf5_chunks *chunks = read->chunks;
    int64_t from[UF_MAX_RANK], to[UF_MAX_RANK]; /* elements from one index of an axis to the next */
    int64_t at[UF_MAX_RANK] = {0};
    const int last = chunks->rank - 1;
    from[last] = to[last] = 1;
    for (int i = last; i > 0; --i) {
        from[i - 1] = from[i] * chunks->chunk[i];
        to[i - 1] = to[i] * chunks->extent[i];
    }
    /* Axes that the chunk spans are one run with the axis before them. */
    int axis = last;
    while (axis > 0 && chunks->chunk[axis] == chunks->extent[axis]) {
        --axis;
    }
    const size_t run = (size_t)(read->count[axis] * from[axis]) * read->element;
    for (;;) {
        int64_t source = 0, target = 0;
        for (int i = 0; i < chunks->rank; ++i) {
            source += at[i] * from[i];
            target += (read->offset[i] + at[i]) * to[i];
        }
        memcpy(read->data + (size_t)target * read->element,
               read->now.bytes + (size_t)source * read->element, run);
        int i = axis - 1;
        while (i >= 0 && ++at[i] == read->count[i]) {
            at[i--] = 0;
        }
        if (i < 0) {
            return;
        }
    }
}

/* The bytes that the chunk takes in the file; 0 when it is not stored, where HDF5 1.10 fails. */
static int64_t stored_bytes(const reader *read) {
    hsize_t offset[UF_MAX_RANK], size = 0;
    for (int i = 0; i < read->chunks->rank; ++i) {
        offset[i] = (hsize_t)read->offset[i];
    }
    return H5Dget_chunk_storage_size(read->id, offset, &size) < 0 ? 0 : at_most(size, INT64_MAX);
}

/* Fetch, undo and place a chunk of a filtered dataset. */
static uf_status read_filtered(reader *read, int64_t length) {
    const uf_hdf5_chunks *chunks = read->chunks;
    const char *path = read->file->path;
    hsize_t offset[UF_MAX_RANK];
    uint32_t mask = 0;
    char text[128], reason[192];
    bool partial = false;
    for (int i = 0; i < chunks->rank; ++i) {
        offset[i] = (hsize_t)read->offset[i];
        partial = partial || read->count[i] < chunks->chunk[i];
    }
    if (length > read->file->size) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s in %s is damaged: its chunk at %s takes %" PRId64
                " bytes of a file of %" PRId64,
                read->name, path, place(read, text, sizeof text), length, read->file->size);
    }
    UF_TRY(reserve(read, &read->now, length));
    if (H5Dread_chunk(read->id, H5P_DEFAULT, offset, &mask, read->now.bytes) < 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s cannot be read: its chunk at %s (HDF5: %s)", read->name,
                path, place(read, text, sizeof text), uf_hdf5_reason(reason, sizeof reason));
    }
    UF_TRY(undo_filters(read, length, chunks->partial_unfiltered && partial ? UINT32_MAX : mask));
    if (H5Tequal(read->stored, read->type) <= 0) {
        const int64_t elements = chunks->bytes / chunks->element;
        const int64_t wide = elements * (int64_t)read->element;
        if (read->now.size < (size_t)wide) {
            UF_TRY(reserve(read, &read->next, wide));
            memcpy(read->next.bytes, read->now.bytes, (size_t)chunks->bytes);
            swap(read);
        }
        if (H5Tconvert(read->stored, read->type, (size_t)elements, read->now.bytes, NULL,
                       H5P_DEFAULT) < 0) {
            UF_FAIL(UF_ERROR_FORMAT, "%s in %s cannot be converted (HDF5: %s)", read->name, path,
                    uf_hdf5_reason(reason, sizeof reason));
        }
    }
    scatter(read);
    return UF_OK;
}

/* A chunk without filters. */
static uf_status read_plain(const reader *read, hid_t space) {
    hsize_t offset[UF_MAX_RANK], count[UF_MAX_RANK];
    char text[128], reason[192];
    for (int i = 0; i < read->chunks->rank; ++i) {
        offset[i] = (hsize_t)read->offset[i];
        count[i] = (hsize_t)read->count[i];
    }
    if (H5Sselect_hyperslab(space, H5S_SELECT_SET, offset, NULL, count, NULL) < 0 ||
        H5Dread(read->id, read->type, space, space, H5P_DEFAULT, read->data) < 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s cannot be read: its chunk at %s (HDF5: %s)", read->name,
                read->file->path, place(read, text, sizeof text),
                uf_hdf5_reason(reason, sizeof reason));
    }
    return UF_OK;
}

/* The value that chunks which are not stored read as. An undefined fill value reads as 0, so that
 * no memory of the process is taken for a tensor. */
static void fill(const reader *read, int64_t elements) {
    unsigned char value[sizeof(int64_t)] = {0};
    const hid_t properties = H5Dget_create_plist(read->id);
    if (H5Pget_fill_value(properties, read->type, value) < 0) {
        memset(value, 0, sizeof value);
    }
    H5Pclose(properties);
    for (int64_t i = 0; i < elements; ++i) {
        memcpy(read->data + (size_t)i * read->element, value, read->element);
    }
}

/* To the next chunk, the last axis first; false behind the last one. */
static bool advance(reader *read) {
    for (int i = read->chunks->rank - 1; i >= 0; --i) {
        read->offset[i] += read->chunks->chunk[i];
        if (read->offset[i] < read->chunks->extent[i]) {
            return true;
        }
        read->offset[i] = 0;
    }
    return false;
}

static uf_status read_each(reader *read, hid_t space) {
    const uf_hdf5_chunks *chunks = read->chunks;
    char text[128];
    int64_t missing = 0;
    do {
        for (int i = 0; i < chunks->rank; ++i) {
            const int64_t left = chunks->extent[i] - read->offset[i];
            read->count[i] = left < chunks->chunk[i] ? left : chunks->chunk[i];
        }
        /* H5Dread takes its time also for a chunk that is not there. Without filters and with every
         * chunk stored there is nothing to ask. */
        const bool filtered = chunks->filter_count > 0;
        const int64_t length = filtered || chunks->missing > 0 ? stored_bytes(read) : 1;
        if (length > 0) {
            UF_TRY(filtered ? read_filtered(read, length) : read_plain(read, space));
        }
        missing += length == 0;
        if (missing > chunks->missing) {
            UF_FAIL(UF_ERROR_FORMAT, "%s in %s is damaged: its chunk at %s cannot be found",
                    read->name, read->file->path, place(read, text, sizeof text));
        }
    } while (advance(read));
    return UF_OK;
}

uf_status uf_hdf5_read_chunks(const uf_hdf5_file *file, hid_t id, const uf_hdf5_dataset *dataset,
                              const uf_hdf5_chunks *chunks, hid_t type, void *data) {
    reader read = {.file = file,
                   .id = id,
                   .name = dataset->entry.name,
                   .chunks = chunks,
                   .stored = H5Dget_type(id),
                   .type = type,
                   .element = H5Tget_size(type),
                   .data = data};
    const hid_t space = H5Dget_space(id);
    if (chunks->missing > 0) {
        fill(&read, uf_shape_count(&dataset->entry.shape));
    }
    /* A file can claim more chunks than there is time to look for, if none of them has to exist. */
    const uf_status status = chunks->stored > 0 ? read_each(&read, space) : UF_OK;
    H5Sclose(space);
    H5Tclose(read.stored);
    free(read.now.bytes);
    free(read.next.bytes);
    return status;
}
