/* store.h - named parameters and buffers, as a PyTorch state_dict has them.
 *
 * A store is OPEN while tensors are declared (by building a graph on it, or by loading a file into
 * an empty store) and SEALED by the first access to data (load, initialise, compile). Tensors live
 * in one flat arena per role, each 256-byte aligned, padding zero. */
#ifndef UNFURL_STORE_H
#define UNFURL_STORE_H

#include <unfurl/tensor.h>

UF_BEGIN_DECLS

typedef struct uf_store uf_store;

typedef enum uf_role {
    UF_ROLE_PARAMETER = 0, /* trained; has a gradient */
    UF_ROLE_BUFFER,        /* real-valued state that is not trained (running_mean) */
    UF_ROLE_COUNTER        /* i64 state (num_batches_tracked) */
} uf_role;

#define UF_NAME_SIZE 160 /* of a tensor's whole name, its terminator included */

/* A place in a store: a name prefix. uf_at(store, "main.0") makes "main.0.weight" and so on. An
 * empty path is the root. A path that is too long is remembered and refused by the builder. */
typedef struct uf_scope {
    uf_store *store;
    char path[UF_NAME_SIZE];
} uf_scope;

UF_API uf_scope uf_at(uf_store *store, const char *path);
UF_API uf_scope uf_in(uf_scope scope, const char *name); /* uf_in(uf_at(s, "a"), "b"): "a.b" */

/* The same of a name that printf makes: uf_atf(store, "main.%d", 3) is uf_at(store, "main.3"), and
 * uf_inf is to uf_in what uf_atf is to uf_at. */
UF_API uf_scope uf_atf(uf_store *store, const char *format, ...) UF_PRINTF(2, 3);
UF_API uf_scope uf_inf(uf_scope scope, const char *format, ...) UF_PRINTF(2, 3);

typedef struct uf_store_options {
    size_t struct_size;
    uf_dtype dtype; /* of parameters and buffers: UF_F32 or UF_F64 */
} uf_store_options;

static inline uf_store_options uf_store_options_default(void) {
    uf_store_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.dtype = UF_F32;
    return options;
}

/* An empty, open store. `name` is used in messages and copied. Destroyed by the caller or with its
 * context; graphs, programs and optimizers that refer to it keep it alive until they go. Errors:
 * INVALID_ARGUMENT, OUT_OF_MEMORY. */
UF_API UF_NODISCARD uf_status uf_store_create(uf_context *context, const char *name,
                                              uf_store **store);
UF_API UF_NODISCARD uf_status uf_store_create_with(uf_context *context, const char *name,
                                                   const uf_store_options *options,
                                                   uf_store **store);
UF_API void uf_store_destroy(uf_store *store); /* NULL is legal */

/* Declare one tensor. The same name, shape and role again is the same tensor and no error. Counters
 * are i64, the rest has the store's type. Errors: INVALID_ARGUMENT, SHAPE (declared differently
 * before), STATE (sealed and the name is new). */
UF_API UF_NODISCARD uf_status uf_store_declare(uf_store *store, const char *name, uf_shape shape,
                                               uf_role role);

/* Make `alias` a second name of `name` (tied weights): storage is shared, optimised once and saved
 * under both names. Errors: NOT_FOUND, STATE (sealed, or `alias` is taken). */
UF_API UF_NODISCARD uf_status uf_store_alias(uf_store *store, const char *alias, const char *name);

/* Allocate the arenas, all zero, and accept no new names. Sealing twice is legal. To call it is to
 * mean the zeros: programs then run on tensors that were never loaded nor initialised, which
 * uf_program_run refuses otherwise. */
UF_API UF_NODISCARD uf_status uf_store_seal(uf_store *store);

/* NULL has "", F32, 0 and 0. */
UF_API const char *uf_store_name(const uf_store *store);
UF_API uf_dtype uf_store_dtype(const uf_store *store);
UF_API int64_t uf_store_size(const uf_store *store);     /* number of names, aliases included */
UF_API uint64_t uf_store_version(const uf_store *store); /* grows whenever contents change */

typedef struct uf_store_entry {
    size_t struct_size;
    const char *name; /* owned by the store */
    uf_shape shape;
    uf_dtype dtype;
    uf_role role;
} uf_store_entry;

/* The tensor at `index` in order of declaration. Overwrites *entry, struct_size too. Errors:
 * INVALID_ARGUMENT. */
UF_API UF_NODISCARD uf_status uf_store_entry_at_sized(const uf_store *store, int64_t index,
                                                      uf_store_entry *entry, size_t entry_size);
static inline UF_NODISCARD uf_status uf_store_entry_at(const uf_store *store, int64_t index,
                                                       uf_store_entry *entry) {
    return uf_store_entry_at_sized(store, index, entry, sizeof *entry);
}

/* Borrow a tensor by name, owned by the store; seals the store. An upload into it changes the
 * store's version. Writing to uf_tensor_data(*tensor) by other means (a kernel of the caller's, an
 * operation of ops.h, a replayed CUDA graph) is the caller's right too, and is to be followed by
 * uf_store_touch: until then programs may run with what they made of the old contents. *tensor is
 * NULL on failure. Errors: NOT_FOUND, OUT_OF_MEMORY. */
UF_API UF_NODISCARD uf_status uf_store_tensor(uf_store *store, const char *name,
                                              uf_tensor **tensor);

/* Borrow the gradient of a parameter: shape and type of the parameter, zero until a training
 * program or the caller writes it. Seals the store and, the first time, allocates the gradients of
 * all parameters.
 * Errors: NOT_FOUND (no such parameter), OUT_OF_MEMORY. */
UF_API UF_NODISCARD uf_status uf_store_gradient(uf_store *store, const char *name,
                                                uf_tensor **gradient);

/* Set all gradients to zero: for passes that accumulate across runs. */
UF_API UF_NODISCARD uf_status uf_store_zero_gradients(uf_store *store);

/* Say that contents changed behind the store's back: programs refresh what they derived from it,
 * and take its tensors for given, as after uf_store_seal. NULL does nothing. */
UF_API void uf_store_touch(uf_store *store);

/* A sealed copy with the same names in another element type (UF_F32 or UF_F64) on `context`, which
 * may be another than the store's. The caller destroys it. */
UF_API UF_NODISCARD uf_status uf_store_copy(uf_store *store, uf_context *context, uf_dtype dtype,
                                            uf_store **copy);

UF_END_DECLS

#endif
