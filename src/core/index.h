/* index.h - a hash from keys to the numbers of a list's elements. Searching costs the same however
 * long the list. */
#ifndef UF_CORE_INDEX_H
#define UF_CORE_INDEX_H

#include <stdint.h>

#include "core/error.h"

/* A zeroed index is empty. */
typedef struct uf_index {
    struct uf_index_place *places; /* open addressing, at most half full */
    int64_t size;                  /* of places: 0 or a power of two */
    int64_t count;
} uf_index;

void uf_index_free(uf_index *index);

/* Keys that are numbers or addresses: `key` leads to `number` (0 or more), whatever it led to
 * before. */
uf_status uf_index_put(uf_index *index, uint64_t key, int64_t number);
int64_t uf_index_find(const uf_index *index, uint64_t key); /* -1: not there */

static inline uint64_t uf_index_address(const void *pointer) {
    return (uint64_t)(uintptr_t)pointer;
}

/* Keys that are names. The index keeps their hashes; the names stay where they are: element i of
 * the list begins at `names` + i*stride with its name. A name is added once. */
uf_status uf_index_add_name(uf_index *index, const char *name, int64_t number);
int64_t uf_index_find_name(const uf_index *index, const void *names, size_t stride,
                           const char *name);

#endif
