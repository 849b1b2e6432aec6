/* index.c - a hash from keys to the numbers of a list's elements. */
#include "core/index.h"

#include <stdlib.h>
#include <string.h>

struct uf_index_place {
    uint64_t key;
    int64_t number; /* plus 1; 0: free */
};

void uf_index_free(uf_index *index) {
    free(index->places);
    memset(index, 0, sizeof *index);
}

/* Where the search for `key` begins. Addresses differ in their middle bits: the product carries
 * them up. */
static uint64_t first_place(const uf_index *index, uint64_t key) {
    return (key * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & (uint64_t)(index->size - 1);
}

static uint64_t next_place(const uf_index *index, uint64_t at) {
    return (at + 1) & (uint64_t)(index->size - 1);
}

static void take_place(uf_index *index, uint64_t key, int64_t number) {
    uint64_t at = first_place(index, key);
    while (index->places[at].number != 0) {
        at = next_place(index, at);
    }
    index->places[at].key = key;
    index->places[at].number = number + 1;
    index->count += 1;
}

static uf_status add(uf_index *index, uint64_t key, int64_t number) {
    if (2 * (index->count + 1) > index->size) {
        uf_index wider = {.size = index->size == 0 ? 8 : 2 * index->size};
        wider.places = calloc((size_t)wider.size, sizeof *wider.places);
        if (wider.places == NULL) {
            UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for an index");
        }
        for (int64_t at = 0; at < index->size; ++at) {
            if (index->places[at].number != 0) {
                take_place(&wider, index->places[at].key, index->places[at].number - 1);
            }
        }
        free(index->places);
        *index = wider;
    }
    take_place(index, key, number);
    return UF_OK;
}

static struct uf_index_place *place_of(const uf_index *index, uint64_t key) {
    if (index->size == 0) {
        return NULL;
    }
    uint64_t at = first_place(index, key);
    while (index->places[at].number != 0 && index->places[at].key != key) {
        at = next_place(index, at);
    }
    return index->places[at].number != 0 ? &index->places[at] : NULL;
}

uf_status uf_index_put(uf_index *index, uint64_t key, int64_t number) {
    struct uf_index_place *place = place_of(index, key);
    if (place == NULL) {
        return add(index, key, number);
    }
    place->number = number + 1;
    return UF_OK;
}

int64_t uf_index_find(const uf_index *index, uint64_t key) {
    const struct uf_index_place *place = place_of(index, key);
    return place != NULL ? place->number - 1 : -1;
}

static uint64_t hash_name(const char *name) {
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (; *name != '\0'; ++name) {
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    }
    return hash;
}

uf_status uf_index_add_name(uf_index *index, const char *name, int64_t number) {
    return add(index, hash_name(name), number);
}

int64_t uf_index_find_name(const uf_index *index, const void *names, size_t stride,
                           const char *name) {
    if (index->size == 0) {
        return -1;
    }
    const uint64_t key = hash_name(name);
    for (uint64_t at = first_place(index, key); index->places[at].number != 0;
         at = next_place(index, at)) {
        const int64_t number = index->places[at].number - 1;
        if (index->places[at].key == key &&
            strcmp((const char *)names + (size_t)number * stride, name) == 0) {
            return number;
        }
    }
    return -1;
}
