/* btree.c - B-trees of both versions, walked from the first record to the last.
 *
 * A node's level is one below its parent's, so that no walk is deeper than its root says, and each
 * node that is read costs budget, so that nodes under many parents end a walk. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/h5/internal.h"

#define DEEPEST 32

/* ---- version 1 ---- */

typedef struct old_walk {
    uf_h5_file *file;
    int type;
    unsigned key_size;
    uf_h5_on_child *on_child;
    void *user;
} old_walk;

/* `level` is the node's, or -1 for a root. */
static uf_status walk_old_node(const old_walk *walk, uint64_t address, int level) {
    uf_h5_file *file = walk->file;
    unsigned char head[8];
    UF_TRY(uf_h5_read_metadata(file, address, sizeof head, "a node of a tree", head));
    if (memcmp(head, "TREE", 4) != 0 || head[4] != walk->type) {
        return uf_h5_damaged(file, address, "no node of a tree of type %d begins there",
                             walk->type);
    }
    if ((level >= 0 && head[5] != level) || head[5] > DEEPEST) {
        return uf_h5_damaged(file, address, "a node of a tree of level %d follows one of level %d",
                             head[5], level + 1);
    }
    const uint64_t entries = uf_h5_number_at(head + 6, 2);
    const uint64_t before = 8 + 2 * (uint64_t)file->offset_size;
    const uint64_t entry = walk->key_size + file->offset_size;
    unsigned char *bytes;
    UF_TRY(uf_h5_fetch(file, address, before + entries * entry, "a node of a tree", &bytes));
    uf_status status = UF_OK;
    for (uint64_t i = 0; i < entries && status == UF_OK; ++i) {
        const unsigned char *key = bytes + before + i * entry;
        uf_h5_cursor cursor = uf_h5_cursor_over(key + walk->key_size, file->offset_size);
        const uint64_t child = uf_h5_address(file, &cursor);
        status = head[5] == 0 ? walk->on_child(walk->user, key, child)
                              : walk_old_node(walk, child, head[5] - 1);
    }
    free(bytes);
    return status;
}

uf_status uf_h5_walk_children(uf_h5_file *file, uint64_t address, int type, unsigned key_size,
                              uf_h5_on_child *on_child, void *user) {
    const old_walk walk = {
        .file = file, .type = type, .key_size = key_size, .on_child = on_child, .user = user};
    return walk_old_node(&walk, address, -1);
}

/* ---- version 2 ---- */

typedef struct new_walk {
    uf_h5_file *file;
    int type;
    uint64_t node_size;
    unsigned record_size;
    unsigned count_size;              /* bytes of the number of records of a child */
    uint64_t most[DEEPEST + 1];       /* records of a node of a level */
    unsigned total_size[DEEPEST + 1]; /* bytes of the number of records below a node */
    uf_h5_on_record *on_record;
    void *user;
} new_walk;

#define NODE_OVERHEAD 10 /* bytes of a node: signature, version, type, checksum */

static uint64_t pointer_size(const new_walk *walk, unsigned level) {
    return walk->file->offset_size + walk->count_size +
           (level > 1 ? walk->total_size[level - 1] : 0);
}

/* How many records the nodes of each level hold: the sizes of numbers follow from it. */
static uf_status measure(new_walk *walk, unsigned depth) {
    walk->most[0] = (walk->node_size - NODE_OVERHEAD) / walk->record_size;
    walk->count_size = uf_h5_number_size(walk->most[0]);
    uint64_t below = walk->most[0]; /* records of a whole tree of this depth */
    for (unsigned level = 1; level <= depth; ++level) {
        const uint64_t pointer = pointer_size(walk, level);
        if (walk->node_size < NODE_OVERHEAD + pointer + walk->record_size) {
            return uf_h5_outside(walk->file, "has a tree with nodes of %" PRIu64 " bytes",
                                 walk->node_size);
        }
        walk->most[level] =
            (walk->node_size - NODE_OVERHEAD - pointer) / (walk->record_size + pointer);
        if (__builtin_mul_overflow(below, walk->most[level] + 1, &below) ||
            __builtin_add_overflow(below, walk->most[level], &below)) {
            return uf_h5_outside(walk->file, "has a tree of depth %u", depth);
        }
        walk->total_size[level] = uf_h5_number_size(below);
    }
    return UF_OK;
}

static uf_status walk_node(const new_walk *walk, uint64_t address, uint64_t count, unsigned level) {
    uf_h5_file *file = walk->file;
    const uint64_t record = walk->record_size;
    if (count > walk->most[level]) {
        return uf_h5_damaged(
            file, address, "a node of a tree claims %" PRIu64 " records; it has room for %" PRIu64,
            count, walk->most[level]);
    }
    const uint64_t pointers = level > 0 ? (count + 1) * pointer_size(walk, level) : 0;
    const uint64_t size = NODE_OVERHEAD + count * record + pointers;
    unsigned char *bytes;
    UF_TRY(uf_h5_fetch_checked(file, address, size, level > 0 ? "BTIN" : "BTLF", 0,
                               "a node of a tree", &bytes));
    uf_status status = UF_OK;
    if (bytes[5] != walk->type) {
        status = uf_h5_damaged(file, address, "a node of a tree is of type %d in place of %d",
                               bytes[5], walk->type);
    }
    uf_h5_cursor cursor = uf_h5_cursor_over(bytes + 6 + count * record, pointers);
    for (uint64_t i = 0; i < count + (level > 0) && status == UF_OK; ++i) {
        if (level > 0) {
            const uint64_t child = uf_h5_address(file, &cursor);
            const uint64_t records = uf_h5_number(&cursor, walk->count_size);
            (void)uf_h5_take(&cursor, level > 1 ? walk->total_size[level - 1] : 0);
            status = walk_node(walk, child, records, level - 1);
        }
        if (i < count && status == UF_OK) {
            status = walk->on_record(walk->user, bytes + 6 + i * record, walk->record_size);
        }
    }
    free(bytes);
    return status;
}

uf_status uf_h5_walk_records(uf_h5_file *file, uint64_t address, int type, unsigned record_size,
                             bool is_least, uf_h5_on_record *on_record, void *user) {
    unsigned char *bytes;
    const uint64_t size = 22 + file->offset_size + (uint64_t)file->length_size;
    new_walk walk = {.file = file, .type = type, .on_record = on_record, .user = user};
    UF_TRY(uf_h5_fetch_checked(file, address, size, "BTHD", 0, "the header of a tree", &bytes));
    uf_h5_cursor cursor = uf_h5_cursor_over(bytes + 5, size - 5);
    const int found = (int)uf_h5_number(&cursor, 1);
    walk.node_size = uf_h5_number(&cursor, 4);
    walk.record_size = (unsigned)uf_h5_number(&cursor, 2);
    const unsigned depth = (unsigned)uf_h5_number(&cursor, 2);
    (void)uf_h5_take(&cursor, 2); /* how full nodes are kept */
    const uint64_t root = uf_h5_address(file, &cursor);
    const uint64_t count = uf_h5_number(&cursor, 2);
    free(bytes);
    if (found != type ||
        (is_least ? walk.record_size < record_size : walk.record_size != record_size)) {
        return uf_h5_damaged(file, address,
                             "a tree of type %d has records of %u bytes, type %d of "
                             "%u bytes is needed",
                             found, walk.record_size, type, record_size);
    }
    if (walk.node_size < NODE_OVERHEAD + (uint64_t)walk.record_size || depth > DEEPEST) {
        return uf_h5_damaged(file, address, "a tree has depth %u and nodes of %" PRIu64 " bytes",
                             depth, walk.node_size);
    }
    UF_TRY(measure(&walk, depth));
    return root == UF_H5_NOWHERE ? UF_OK : walk_node(&walk, root, count, depth);
}
