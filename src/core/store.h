/* store.h - the store's insides. */
#ifndef UF_CORE_STORE_H
#define UF_CORE_STORE_H

#include <unfurl/store.h>

#include "core/index.h"
#include "core/tensor.h"

#define UF_ROLE_COUNT 3

/* One name. An alias has its own entry that points at the tensor it shares. */
typedef struct uf_store_slot {
    char name[UF_NAME_SIZE];
    uf_shape shape;
    uf_role role;
    int64_t canonical; /* index of the slot that owns the storage; its own index unless an alias */
    size_t offset;     /* in the role's arena, bytes; set by seal */
    bool is_given;    /* has contents: loaded, initialised, copied or uploaded. The canonical slot's
                         counts */
    uf_tensor tensor; /* over the arena; set by seal */
} uf_store_slot;

struct uf_store {
    uf_object object;
    uf_context *context;
    char name[UF_NAME_SIZE];
    uf_dtype dtype;
    bool sealed;
    bool is_vouched; /* the caller sealed or touched it himself: whatever it holds is meant */
    uint64_t version;
    int64_t lost_loads; /* loads that failed midway: their tensors count as never given */
    uf_store_slot *slots;
    int64_t count, capacity;
    uf_index names; /* of the slots */
    void *arena[UF_ROLE_COUNT];
    size_t arena_size[UF_ROLE_COUNT];
    /* Gradients: the parameters' layout again; NULL until somebody asks for one. */
    void *gradient_arena;
    uf_tensor *gradients; /* one per slot */
};

/* Allocate the gradients, all zero, if there are none yet. */
uf_status uf_store_make_gradients(uf_store *store);

/* Allocate the arenas, all zero, and accept no new names: at the first access to contents. */
uf_status uf_store_close(uf_store *store);

/* The same for a store that nobody sees before every tensor is overwritten: only the padding behind
 * them is zero. */
uf_status uf_store_close_unset(uf_store *store);

/* Contents changed: whoever derived something from them has to refresh it. */
void uf_store_changed(uf_store *store);

/* Give `store` the contents of `other` and the reverse; both keep their references. */
void uf_store_swap(uf_store *store, uf_store *other);

/* STATE, naming it, when the tensor at `index` was never loaded nor initialised. */
uf_status uf_store_check_given(const uf_store *store, int64_t index);

/* The slot's index by name, or -1. */
int64_t uf_store_find(const uf_store *store, const char *name);

/* The canonical slot behind `index`. */
static inline uf_store_slot *uf_store_canonical(const uf_store *store, int64_t index) {
    return &store->slots[store->slots[index].canonical];
}

#endif
