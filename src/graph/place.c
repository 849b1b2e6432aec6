/* place.c - offsets for memory that lives for a while.
 *
 * Steps are the leaves of a binary tree. A life is the union of at most 2*log(steps) whole
 * subtrees; `whole` of a node has the offsets taken by lives that hold all of its steps, `some`
 * those taken by lives that hold any. A life then meets `some` of its own nodes and `whole` of
 * those above them. Ranges of offsets that touch are one: on chains, whose values are stacked
 * without gaps, a node has a handful however deep the chain. */
#include "graph/program.h"

#include <stdlib.h>
#include <string.h>

typedef struct range {
    size_t start, end;
} range;

/* Ascending; none touches the next. */
typedef struct ranges {
    range *list;
    int32_t count, capacity;
} ranges;

typedef struct placement {
    int64_t leaves;       /* a power of two; 1 is the root, below node i are 2i and 2i + 1 */
    ranges *whole, *some; /* per node */
    size_t base;          /* the lowest offset */
} placement;

/* The nodes of one life: two a level are its own, two a level are above these. */
typedef struct life {
    int64_t own[64], above[64];
    int32_t own_count, above_count;
} life;

static life life_of(const placement *p, const uf_storage *storage) {
    life nodes = {.own_count = 0, .above_count = 0};
    const int64_t first = p->leaves + storage->first;
    const int64_t end = p->leaves + storage->last + 1;
    for (int64_t low = first, high = end; low < high; low /= 2, high /= 2) {
        if (low % 2 != 0) {
            nodes.own[nodes.own_count++] = low++;
        }
        if (high % 2 != 0) {
            nodes.own[nodes.own_count++] = --high;
        }
    }
    for (int level = 1; p->leaves >> level > 0; ++level) {
        const int64_t low = first >> level;
        const int64_t high = (end - 1) >> level;
        if (low << level != first) {
            nodes.above[nodes.above_count++] = low;
        }
        if ((high + 1) << level != end && (high != low || low << level == first)) {
            nodes.above[nodes.above_count++] = high;
        }
    }
    return nodes;
}

/* The first range that ends at `offset` or above. */
static int32_t find_range(const ranges *set, size_t offset) {
    int32_t low = 0;
    int32_t high = set->count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (set->list[middle].end < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Add a range, joined with all that it touches. */
static uf_status add_range(ranges *set, range added) {
    const int32_t first = find_range(set, added.start);
    int32_t next = first;
    for (; next < set->count && set->list[next].start <= added.end; ++next) {
        added.start = set->list[next].start < added.start ? set->list[next].start : added.start;
        added.end = set->list[next].end > added.end ? set->list[next].end : added.end;
    }
    if (next == first) {
        UF_TRY(uf_grow((void **)&set->list, set->count, &set->capacity, sizeof *set->list));
    }
    memmove(&set->list[first + 1], &set->list[next],
            (size_t)(set->count - next) * sizeof *set->list);
    set->list[first] = added;
    set->count += first + 1 - next;
    return UF_OK;
}

static uf_status take(placement *p, const life *nodes, const uf_storage *storage) {
    const range taken = {storage->offset, storage->offset + storage->size};
    for (int32_t i = 0; i < nodes->own_count; ++i) {
        UF_TRY(add_range(&p->whole[nodes->own[i]], taken));
        UF_TRY(add_range(&p->some[nodes->own[i]], taken));
    }
    for (int32_t i = 0; i < nodes->above_count; ++i) {
        UF_TRY(add_range(&p->some[nodes->above[i]], taken));
    }
    return UF_OK;
}

/* Raise *offset until `size` bytes there are free of `set`. Did it move? */
static bool pass_over(const ranges *set, size_t size, size_t *offset) {
    bool moved = false;
    for (int32_t i = find_range(set, *offset + 1);
         i < set->count && set->list[i].start < *offset + size; ++i) {
        *offset = set->list[i].end;
        moved = true;
    }
    return moved;
}

/* No sum overflows: offsets are at most SIZE_MAX / 2, and sizes at most one more. */
static size_t lowest_offset(const placement *p, const life *nodes, size_t size) {
    size_t offset = p->base;
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t i = 0; i < nodes->own_count; ++i) {
            moved = pass_over(&p->some[nodes->own[i]], size, &offset) || moved;
        }
        for (int32_t i = 0; i < nodes->above_count; ++i) {
            moved = pass_over(&p->whole[nodes->above[i]], size, &offset) || moved;
        }
    }
    return offset;
}

uf_status uf_arena_reach(const uf_storage *storage, size_t *end) {
    if (storage->size > SIZE_MAX / 2 - storage->offset) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "the values of the program need more than %zu bytes",
                SIZE_MAX / 2);
    }
    const size_t reach = storage->offset + storage->size;
    *end = reach > *end ? reach : *end;
    return UF_OK;
}

static uf_status place(placement *p, uf_storage *const *order, int32_t count, size_t *end) {
    for (int32_t i = 0; i < count; ++i) {
        const life nodes = life_of(p, order[i]);
        order[i]->offset = lowest_offset(p, &nodes, order[i]->size);
        UF_TRY(uf_arena_reach(order[i], end));
        UF_TRY(take(p, &nodes, order[i]));
    }
    return UF_OK;
}

uf_status uf_place(uf_storage *const *order, int32_t count, int32_t steps, size_t *end) {
    placement p = {.leaves = 1, .base = *end};
    while (p.leaves <= steps) { /* one more than steps: losses are recorded after the last */
        p.leaves *= 2;
    }
    const size_t nodes = 2 * (size_t)p.leaves;
    p.whole = calloc(nodes, sizeof *p.whole);
    p.some = calloc(nodes, sizeof *p.some);
    const uf_status status =
        p.whole != NULL && p.some != NULL
            ? place(&p, order, count, end)
            : uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a plan of %d values",
                      (int)count);
    for (size_t i = 0; i < nodes && p.whole != NULL && p.some != NULL; ++i) {
        free(p.whole[i].list);
        free(p.some[i].list);
    }
    free(p.whole);
    free(p.some);
    return status;
}
