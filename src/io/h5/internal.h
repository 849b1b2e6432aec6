/* internal.h - the parts of the reader, from the file's bytes up.
 *
 * file.c has bytes, checksum.c their checksum, header.c the messages of an object, type.c the
 * messages that say how its elements look, btree.c and heap.c the structures that hold many of
 * something, group.c links, object.c objects by name, layout.c how a dataset is stored, index.c and
 * array.c where its chunks are, filter.c undoes filters, read.c moves data, attribute.c attributes.
 */
#ifndef UF_IO_H5_INTERNAL_H
#define UF_IO_H5_INTERNAL_H

#include "io/h5/h5.h"

#define UF_H5_NOWHERE UINT64_MAX /* the undefined address */

/* A link of a group. */
typedef struct uf_h5_link {
    char *name;         /* owned */
    char *target;       /* of a soft link: a path; owned */
    uint64_t address;   /* of a hard link's object */
    bool is_other_file; /* an external link, or one of a kind that is not known */
} uf_h5_link;

/* A group that was looked into. */
typedef struct uf_h5_group {
    uint64_t address;  /* of its header */
    bool is_listed;    /* entered by the list that is being made */
    uf_h5_link *links; /* ascending by name */
    int64_t count, capacity;
} uf_h5_group;

struct uf_h5_file {
    char *path;
    int descriptor;
    uint64_t size, base;  /* of the file; of the superblock, where addresses begin */
    unsigned offset_size; /* bytes of an address */
    unsigned length_size; /* bytes of a length */
    uint64_t root;        /* the root group's header */
    const char *subject;  /* the object that is worked on, for messages; "" where none is named */
    uint64_t budget;      /* bytes of metadata that may be read */
    uf_h5_cost spent;     /* its metadata are no more than the budget */
    uint64_t names_left;  /* bytes of links that the file has room for */
    uf_h5_group **groups; /* ascending by address */
    int64_t group_count, group_capacity;
    struct uf_h5_data *data; /* the dataset that was read last */
};

/* ---- file.c ---- */

/* A sentence about a damaged file, and where. FORMAT. */
uf_status uf_h5_damaged(const uf_h5_file *file, uint64_t address, const char *format, ...)
    UF_PRINTF(3, 4);

/* A sentence about what only libhdf5 reads, to follow "X in F.h5 ". UNSUPPORTED. */
uf_status uf_h5_outside(const uf_h5_file *file, const char *format, ...) UF_PRINTF(2, 3);

uf_status uf_h5_no_memory(const uf_h5_file *file, uint64_t bytes);

/* "X in F.h5", or "F.h5" alone. */
const char *uf_h5_where(const uf_h5_file *file, char *text, size_t size);

/* Does [address, address + size) lie within the file? */
bool uf_h5_is_within(const uf_h5_file *file, uint64_t address, uint64_t size);

/* Take the cost of `size` bytes, no more than the file has, from the budget. */
uf_status uf_h5_spend(uf_h5_file *file, uint64_t address, uint64_t size);

/* Read metadata, which costs budget, or data, which does not. `what` is for messages. */
uf_status uf_h5_read_metadata(uf_h5_file *file, uint64_t address, uint64_t size, const char *what,
                              void *bytes);
uf_status uf_h5_read_data(const uf_h5_file *file, uint64_t address, uint64_t size, void *bytes);

/* The same into an allocation, freed by free(). */
uf_status uf_h5_fetch(uf_h5_file *file, uint64_t address, uint64_t size, const char *what,
                      unsigned char **bytes);

/* Fetch a block that ends in a checksum and begins with a signature of four letters and a version.
 */
uf_status uf_h5_fetch_checked(uf_h5_file *file, uint64_t address, uint64_t size,
                              const char *signature, int version, const char *what,
                              unsigned char **bytes);

/* Count `bytes` of allocations that grow one by one: 0 to begin with, then doubled. NULL when there
 * is no memory, and the old block stays. */
void *uf_h5_grow(void *block, int64_t *capacity, size_t element);

/* A copy of `length` characters, or of those before the first zero, freed by free(); NULL when
 * there is no memory. */
char *uf_h5_copy_text(const unsigned char *bytes, uint64_t length);

/* ---- checksum.c ---- */

uint32_t uf_h5_checksum(const unsigned char *bytes, uint64_t size);

/* ---- numbers out of bytes ---- */

/* Bytes that are taken one after another. Beyond the end all numbers are 0 and `is_short` is set,
 * to be asked once at the end. */
typedef struct uf_h5_cursor {
    const unsigned char *at, *end;
    bool is_short;
} uf_h5_cursor;

static inline uf_h5_cursor uf_h5_cursor_over(const unsigned char *bytes, uint64_t size) {
    return (uf_h5_cursor){.at = bytes, .end = bytes + size};
}

static inline uint64_t uf_h5_left(const uf_h5_cursor *cursor) {
    return (uint64_t)(cursor->end - cursor->at);
}

/* `size` bytes as they are; NULL when there are fewer. */
static inline const unsigned char *uf_h5_take(uf_h5_cursor *cursor, uint64_t size) {
    const unsigned char *at = cursor->at;
    if (size > uf_h5_left(cursor)) {
        cursor->is_short = true;
        cursor->at = cursor->end;
        return NULL;
    }
    cursor->at += size;
    return at;
}

static inline uint64_t uf_h5_number_at(const unsigned char *bytes, unsigned size) {
    uint64_t number = 0;
    for (unsigned i = size; i > 0; --i) {
        number = number << 8 | bytes[i - 1];
    }
    return number;
}

/* A little-endian number of 1 to 8 bytes. */
static inline uint64_t uf_h5_number(uf_h5_cursor *cursor, unsigned size) {
    const unsigned char *bytes = uf_h5_take(cursor, size);
    return bytes == NULL ? 0 : uf_h5_number_at(bytes, size);
}

/* An address from the file's beginning, or UF_H5_NOWHERE: all bits set, or none that a file has. */
static inline uint64_t uf_h5_address(const uf_h5_file *file, uf_h5_cursor *cursor) {
    const uint64_t address = uf_h5_number(cursor, file->offset_size);
    const uint64_t undefined = UINT64_MAX >> (64 - 8 * file->offset_size);
    return address == undefined || address > UINT64_MAX - 1 - file->base ? UF_H5_NOWHERE
                                                                         : file->base + address;
}

static inline uint64_t uf_h5_length(const uf_h5_file *file, uf_h5_cursor *cursor) {
    return uf_h5_number(cursor, file->length_size);
}

/* The exponent of the largest power of two that is not above `value`; 0 for 0. */
static inline unsigned uf_h5_log2(uint64_t value) {
    unsigned exponent = 0;
    while (value >>= 1) {
        ++exponent;
    }
    return exponent;
}

/* The bytes that hold numbers up to `limit`. */
static inline unsigned uf_h5_number_size(uint64_t limit) {
    return uf_h5_log2(limit) / 8 + 1;
}

/* ---- header.c ---- */

enum {
    UF_H5_MESSAGE_DATASPACE = 0x01,
    UF_H5_MESSAGE_LINK_INFO = 0x02,
    UF_H5_MESSAGE_DATATYPE = 0x03,
    UF_H5_MESSAGE_OLD_FILL = 0x04,
    UF_H5_MESSAGE_FILL = 0x05,
    UF_H5_MESSAGE_LINK = 0x06,
    UF_H5_MESSAGE_EXTERNAL_FILES = 0x07,
    UF_H5_MESSAGE_LAYOUT = 0x08,
    UF_H5_MESSAGE_FILTERS = 0x0b,
    UF_H5_MESSAGE_ATTRIBUTE = 0x0c,
    UF_H5_MESSAGE_CONTINUATION = 0x10,
    UF_H5_MESSAGE_SYMBOL_TABLE = 0x11,
    UF_H5_MESSAGE_DRIVER = 0x14,
    UF_H5_MESSAGE_ATTRIBUTE_INFO = 0x15,
    UF_H5_MESSAGE_CACHE_IMAGE = 0x18
};

typedef struct uf_h5_message {
    unsigned type, flags;
    uint64_t size;
    const unsigned char *bytes; /* of a block of the header */
} uf_h5_message;

typedef struct uf_h5_header {
    uint64_t address;
    uf_h5_message *messages;
    int64_t count, capacity;
    unsigned char **blocks;
    int64_t block_count, block_capacity;
} uf_h5_header;

/* All messages of an object. On failure the header is empty. */
uf_status uf_h5_header_read(uf_h5_file *file, uint64_t address, uf_h5_header *header);
void uf_h5_header_free(uf_h5_header *header);

/* The first message of a type; NULL where there is none. */
const uf_h5_message *uf_h5_header_find(const uf_h5_header *header, unsigned type);

/* A cursor over the first message of a type, which must be there and not be shared. */
uf_status uf_h5_header_need(const uf_h5_file *file, const uf_h5_header *header, unsigned type,
                            const char *what, uf_h5_cursor *cursor);

/* ---- type.c ---- */

/* A dataspace. */
typedef struct uf_h5_space {
    int rank; /* -1: a null dataspace; may be above UF_MAX_RANK, and there are no extents then */
    uint64_t extent[UF_MAX_RANK], most[UF_MAX_RANK]; /* most: UINT64_MAX without a limit */
} uf_h5_space;

uf_status uf_h5_parse_space(const uf_h5_file *file, uint64_t address, uf_h5_cursor *cursor,
                            uf_h5_space *space);
uf_status uf_h5_parse_type(const uf_h5_file *file, uint64_t address, uf_h5_cursor *cursor,
                           uf_h5_type *type);

/* The type of an object or an attribute, which may be a named one: `is_shared` says that the cursor
 * leads to it. */
uf_status uf_h5_load_type(uf_h5_file *file, uint64_t address, uf_h5_cursor *cursor, bool is_shared,
                          uf_h5_type *type);

/* How a sentence calls what a class holds: "strings". */
const char *uf_h5_class_words(int class);

/* Fill everything of a dataset but name and address. */
uf_status uf_h5_describe(uf_h5_file *file, const uf_h5_header *header, uf_h5_object *object);

/* Elements from the file to memory: swapped, and integers widened. */
void uf_h5_decode(const uf_h5_type *type, const unsigned char *from, int64_t count, void *to);

/* ---- btree.c ---- */

/* Called for each record. */
typedef uf_status uf_h5_on_record(void *user, const unsigned char *record, unsigned size);

/* Walk the records of a version 2 B-tree of this type in their order. The size of a record is told
 * to be `record_size`, or at least `record_size` when `is_least`. */
uf_status uf_h5_walk_records(uf_h5_file *file, uint64_t address, int type, unsigned record_size,
                             bool is_least, uf_h5_on_record *on_record, void *user);

/* Called for each child of a leaf of a version 1 B-tree, with the key before it. */
typedef uf_status uf_h5_on_child(void *user, const unsigned char *key, uint64_t child);

/* Walk a version 1 B-tree of type 0 (groups) or 1 (chunks). */
uf_status uf_h5_walk_children(uf_h5_file *file, uint64_t address, int type, unsigned key_size,
                              uf_h5_on_child *on_child, void *user);

/* ---- heap.c ---- */

typedef struct uf_h5_heap uf_h5_heap; /* a fractal heap */

uf_status uf_h5_heap_open(uf_h5_file *file, uint64_t address, uf_h5_heap **heap);
void uf_h5_heap_close(uf_h5_heap *heap);

/* The bytes of an object, which stay until the heap is closed. */
uf_status uf_h5_heap_find(uf_h5_heap *heap, const unsigned char *id, unsigned id_size,
                          uf_h5_cursor *bytes);

/* A collection of the global heap, where values of varying length lie. */
typedef struct uf_h5_collection {
    uint64_t address;
    unsigned char *bytes;
    uint64_t size;
} uf_h5_collection;

/* Object `index` of the collection at `address`, which takes the place of the one there. */
uf_status uf_h5_collection_find(uf_h5_file *file, uf_h5_collection *collection, uint64_t address,
                                uint64_t index, uf_h5_cursor *bytes);

/* ---- group.c ---- */

/* The links of the group whose header this is, or NOT_FOUND where the object is no group. */
uf_status uf_h5_group_open(uf_h5_file *file, uint64_t address, uf_h5_group **group);
bool uf_h5_is_group(const uf_h5_header *header);
const uf_h5_link *uf_h5_group_find(const uf_h5_group *group, const char *name);
void uf_h5_groups_free(uf_h5_file *file);

/* ---- layout.c ---- */

#define UF_H5_MAX_FILTERS 3 /* each that is read may occur once */

enum { UF_H5_DEFLATE = 1, UF_H5_SHUFFLE = 2, UF_H5_FLETCHER32 = 3 };

typedef struct uf_h5_filter {
    int id;
    int64_t element; /* shuffle: bytes of one element */
} uf_h5_filter;

typedef enum uf_h5_storage { UF_H5_COMPACT, UF_H5_CONTIGUOUS, UF_H5_CHUNKED } uf_h5_storage;

typedef enum uf_h5_index {
    UF_H5_BTREE1,
    UF_H5_SINGLE,
    UF_H5_IMPLICIT,
    UF_H5_FIXED_ARRAY,
    UF_H5_EXTENSIBLE_ARRAY,
    UF_H5_BTREE2
} uf_h5_index;

typedef struct uf_h5_chunk {
    uint64_t address; /* UF_H5_NOWHERE: not stored */
    uint64_t size;    /* bytes in the file */
    uint32_t mask;    /* bit i: filter i was left out */
} uf_h5_chunk;

typedef struct uf_h5_layout {
    uf_h5_storage storage;
    uint64_t address;             /* of the data, or of the index of the chunks */
    uint64_t size;                /* contiguous, compact: bytes stored; single chunk: its bytes */
    const unsigned char *compact; /* of the header */
    int rank;
    int64_t extent[UF_MAX_RANK], chunk[UF_MAX_RANK]; /* of the dataset and of one chunk */
    int64_t along[UF_MAX_RANK];                      /* how many chunks an axis has */
    uint64_t most[UF_MAX_RANK]; /* how many it can have; UINT64_MAX without a limit */
    int64_t chunk_count;        /* of the whole dataset */
    int64_t chunk_bytes;        /* of one chunk without filters */
    uf_h5_index index;
    uint32_t mask;           /* of a single chunk */
    bool partial_unfiltered; /* chunks that reach beyond the extents are stored without filters */
    int filter_count;
    uf_h5_filter filters[UF_H5_MAX_FILTERS]; /* in the order in which they were applied */
    unsigned char fill[8];                   /* one element as stored */
} uf_h5_layout;

uf_status uf_h5_layout_read(const uf_h5_file *file, const uf_h5_header *header,
                            const uf_h5_space *space, const uf_h5_object *object,
                            uf_h5_layout *layout);
bool uf_h5_has_filter(const uf_h5_layout *layout, int id);

/* ---- index.c, array.c ---- */

/* All chunks of a dataset, in C order: one allocation, freed by free(). */
uf_status uf_h5_index_read(uf_h5_file *file, const uf_h5_layout *layout, uf_h5_chunk **chunks);

/* Add those of a fixed or an extensible array. */
uf_status uf_h5_fixed_array_read(uf_h5_file *file, const uf_h5_layout *layout, uf_h5_chunk *chunks);
uf_status uf_h5_extensible_array_read(uf_h5_file *file, const uf_h5_layout *layout,
                                      uf_h5_chunk *chunks);

/* ---- filter.c ---- */

typedef struct uf_h5_buffer {
    unsigned char *bytes;
    uint64_t size;
} uf_h5_buffer;

uf_status uf_h5_reserve(const uf_h5_file *file, uf_h5_buffer *buffer, uint64_t size);

/* Undo the filters of the `length` bytes in `now`, which then holds exactly chunk_bytes. `next` is
 * another buffer, `place` the chunk's for messages. */
uf_status uf_h5_undo_filters(const uf_h5_file *file, const uf_h5_layout *layout, uint32_t mask,
                             uint64_t length, const char *place, uf_h5_buffer *now,
                             uf_h5_buffer *next);

/* ---- read.c ---- */

void uf_h5_data_free(struct uf_h5_data *data);

#endif
