/* store.c - named tensors in one flat arena per role. */
#include "core/store.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const role_names[UF_ROLE_COUNT] = {"parameter", "buffer", "counter"};

/* Too long for a name: the scope keeps an impossible path, which uf_store_declare refuses. */
static const char overlong[] = "\x01 too long";

static uf_scope UF_PRINTF(2, 0) scope_of(uf_store *store, const char *format, va_list arguments) {
    uf_scope scope;
    memset(&scope, 0, sizeof scope);
    scope.store = store;
    const int length = vsnprintf(scope.path, sizeof scope.path, format, arguments);
    if (length < 0 || length >= (int)sizeof scope.path) {
        memcpy(scope.path, overlong, sizeof overlong);
    }
    return scope;
}

uf_scope uf_atf(uf_store *store, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const uf_scope scope = scope_of(store, format != NULL ? format : "", arguments);
    va_end(arguments);
    return scope;
}

uf_scope uf_at(uf_store *store, const char *path) {
    return uf_atf(store, "%s", path != NULL ? path : "");
}

uf_scope uf_in(uf_scope scope, const char *name) {
    if (strcmp(scope.path, overlong) == 0) {
        return scope;
    }
    return uf_atf(scope.store, "%s%s%s", scope.path, scope.path[0] != '\0' ? "." : "",
                  name != NULL ? name : "");
}

uf_scope uf_inf(uf_scope scope, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const uf_scope name = scope_of(scope.store, format != NULL ? format : "", arguments);
    va_end(arguments);
    return strcmp(name.path, overlong) == 0 ? name : uf_in(scope, name.path);
}

static void free_store(uf_object *object) {
    uf_store *store = (uf_store *)object;
    for (int role = 0; role < UF_ROLE_COUNT; ++role) {
        uf_context_release(store->context, store->arena[role], store->arena_size[role],
                           UF_MEMORY_DEVICE);
    }
    uf_context_release(store->context, store->gradient_arena, store->arena_size[UF_ROLE_PARAMETER],
                       UF_MEMORY_DEVICE);
    free(store->gradients);
    free(store->slots);
    uf_index_free(&store->names);
    free(store);
}

uf_status uf_store_create(uf_context *context, const char *name, uf_store **store) {
    return uf_store_create_with(context, name, NULL, store);
}

uf_status uf_store_create_with(uf_context *context, const char *name,
                               const uf_store_options *options, uf_store **store) {
    UF_CHECK_ARG(store != NULL, "uf_store_create: store is NULL");
    *store = NULL;
    UF_CHECK_ARG(context != NULL && name != NULL, "uf_store_create: context or name is NULL");
    uf_store_options known = uf_store_options_default();
    UF_TRY(uf_read_struct("uf_store_options", options, &known, sizeof known));
    UF_CHECK_ARG(known.dtype == UF_F32 || known.dtype == UF_F64,
                 "store \"%s\": parameters are f32 or f64, not %s", name,
                 uf_dtype_name(known.dtype));
    UF_CHECK_ARG(strlen(name) < UF_NAME_SIZE, "a store's name has at most %d characters",
                 UF_NAME_SIZE - 1);
    uf_store *made = calloc(1, sizeof *made);
    if (made == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for store \"%s\"", name);
    }
    made->context = context;
    made->dtype = known.dtype;
    made->version = 1;
    snprintf(made->name, sizeof made->name, "%s", name);
    uf_object_begin(context, &made->object, UF_OBJECT_STORE, free_store);
    *store = made;
    return UF_OK;
}

void uf_store_destroy(uf_store *store) {
    uf_object_release(store != NULL ? &store->object : NULL);
}

int64_t uf_store_find(const uf_store *store, const char *name) {
    return uf_index_find_name(&store->names, store->slots, sizeof *store->slots, name);
}

/* Room for one more slot. */
static uf_status reserve(uf_store *store) {
    if (store->count < store->capacity) {
        return UF_OK;
    }
    const int64_t capacity = store->capacity == 0 ? 4 : store->capacity * 2;
    uf_store_slot *slots = realloc(store->slots, (size_t)capacity * sizeof *slots);
    if (slots == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for store \"%s\"", store->name);
    }
    store->slots = slots;
    store->capacity = capacity;
    return UF_OK;
}

static uf_status check_name(const uf_store *store, const char *name) {
    UF_CHECK_ARG(name != NULL && name[0] != '\0', "store \"%s\": a tensor needs a name",
                 store->name);
    UF_CHECK_ARG(strncmp(name, overlong, sizeof overlong - 1) != 0 && strlen(name) < UF_NAME_SIZE,
                 "store \"%s\": a tensor's name has at most %d characters", store->name,
                 UF_NAME_SIZE - 1);
    return UF_OK;
}

static uf_status append(uf_store *store, const char *name, const uf_shape *shape, uf_role role,
                        int64_t canonical) {
    UF_TRY(reserve(store));
    UF_TRY(uf_index_add_name(&store->names, name, store->count));
    uf_store_slot *slot = &store->slots[store->count];
    memset(slot, 0, sizeof *slot);
    memcpy(slot->name, name, strlen(name) + 1);
    slot->shape = *shape;
    slot->role = role;
    slot->canonical = canonical >= 0 ? canonical : store->count;
    store->count += 1;
    return UF_OK;
}

uf_status uf_store_declare(uf_store *store, const char *name, uf_shape shape, uf_role role) {
    char text[128], other[128];
    UF_CHECK_ARG(store != NULL, "uf_store_declare: store is NULL");
    UF_TRY(check_name(store, name));
    UF_CHECK_ARG((unsigned)role < UF_ROLE_COUNT, "%s: %d is no uf_role", name, (int)role);
    size_t bytes;
    UF_TRY(uf_tensor_bytes(name, role == UF_ROLE_COUNTER ? UF_I64 : store->dtype, &shape, &bytes));
    const int64_t at = uf_store_find(store, name);
    if (at >= 0) {
        const uf_store_slot *slot = &store->slots[at];
        if (!uf_shape_equal(&slot->shape, &shape)) {
            UF_FAIL(UF_ERROR_SHAPE, "%s is %s in store \"%s\", %s is needed here", name,
                    uf_shape_format(&slot->shape, text, sizeof text), store->name,
                    uf_shape_format(&shape, other, sizeof other));
        }
        if (slot->role != role) {
            UF_FAIL(UF_ERROR_SHAPE, "%s is a %s in store \"%s\", a %s is needed here", name,
                    role_names[slot->role], store->name, role_names[role]);
        }
        return UF_OK;
    }
    if (store->sealed) {
        UF_FAIL(UF_ERROR_STATE,
                "store \"%s\" has no tensor %s and is sealed: nothing can be added to it",
                store->name, name);
    }
    return append(store, name, &shape, role, -1);
}

uf_status uf_store_alias(uf_store *store, const char *alias, const char *name) {
    UF_CHECK_ARG(store != NULL && name != NULL, "uf_store_alias: store or name is NULL");
    UF_TRY(check_name(store, alias));
    const int64_t at = uf_store_find(store, name);
    if (at < 0) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "store \"%s\" has no tensor %s to alias", store->name, name);
    }
    const int64_t canonical = store->slots[at].canonical;
    const int64_t taken = uf_store_find(store, alias);
    if (taken >= 0 && store->slots[taken].canonical == canonical) {
        return UF_OK;
    }
    if (taken >= 0) {
        UF_FAIL(UF_ERROR_STATE,
                "store \"%s\" already has a tensor %s: it cannot become an alias of %s",
                store->name, alias, name);
    }
    if (store->sealed) {
        UF_FAIL(UF_ERROR_STATE, "store \"%s\" is sealed: %s cannot be added to it", store->name,
                alias);
    }
    const uf_store_slot target = store->slots[canonical];
    return append(store, alias, &target.shape, target.role, canonical);
}

static uf_dtype role_dtype(const uf_store *store, uf_role role) {
    return role == UF_ROLE_COUNTER ? UF_I64 : store->dtype;
}

/* Zero the arenas, or what no tensor of them covers. */
static uf_status clear_arenas(uf_store *store, bool padding_only) {
    const uf_device_ops *device = store->context->device;
    for (int role = 0; role < UF_ROLE_COUNT && !padding_only; ++role) {
        UF_TRY(device->zero(store->context, store->arena[role], store->arena_size[role]));
    }
    for (int64_t i = 0; i < store->count && padding_only; ++i) {
        const uf_store_slot *slot = &store->slots[i];
        if (slot->canonical == i) {
            const size_t bytes =
                (size_t)uf_shape_count(&slot->shape) * uf_dtype_size(role_dtype(store, slot->role));
            char *arena = store->arena[slot->role];
            UF_TRY(device->zero(store->context, arena + slot->offset + bytes,
                                uf_align_up(bytes) - bytes));
        }
    }
    return UF_OK;
}

static uf_status close_store(uf_store *store, bool padding_only) {
    if (store->sealed) {
        return UF_OK;
    }
    UF_TRY(uf_context_check(store->context));
    size_t size[UF_ROLE_COUNT] = {0};
    for (int64_t i = 0; i < store->count; ++i) {
        uf_store_slot *slot = &store->slots[i];
        if (slot->canonical == i) {
            size_t bytes;
            UF_TRY(
                uf_tensor_bytes(slot->name, role_dtype(store, slot->role), &slot->shape, &bytes));
            slot->offset = size[slot->role];
            size[slot->role] += uf_align_up(bytes);
        }
    }
    uf_status status = UF_OK;
    for (int role = 0; role < UF_ROLE_COUNT && status == UF_OK; ++role) {
        status =
            uf_context_allocate(store->context, size[role], UF_MEMORY_DEVICE, &store->arena[role]);
        if (status == UF_OK) {
            store->arena_size[role] = size[role];
        }
    }
    status = status == UF_OK ? clear_arenas(store, padding_only) : status;
    if (status != UF_OK) {
        for (int role = 0; role < UF_ROLE_COUNT; ++role) {
            uf_context_release(store->context, store->arena[role], store->arena_size[role],
                               UF_MEMORY_DEVICE);
            store->arena[role] = NULL;
            store->arena_size[role] = 0;
        }
        return status;
    }
    for (int64_t i = 0; i < store->count; ++i) {
        uf_store_slot *slot = &store->slots[i];
        slot->offset = uf_store_canonical(store, i)->offset;
        /* An empty tensor's arena may be NULL, to which nothing may be added. */
        char *arena = store->arena[slot->role];
        slot->tensor = uf_tensor_over(store->context, arena != NULL ? arena + slot->offset : NULL,
                                      role_dtype(store, slot->role), &slot->shape);
        slot->tensor.is_given = &uf_store_canonical(store, i)->is_given;
        slot->tensor.version = &store->version;
    }
    store->sealed = true;
    return UF_OK;
}

uf_status uf_store_close(uf_store *store) {
    return close_store(store, false);
}

uf_status uf_store_close_unset(uf_store *store) {
    return close_store(store, true);
}

uf_status uf_store_seal(uf_store *store) {
    UF_CHECK_ARG(store != NULL, "uf_store_seal: store is NULL");
    UF_TRY(uf_store_close(store));
    store->is_vouched = true;
    return UF_OK;
}

uf_status uf_store_check_given(const uf_store *store, int64_t index) {
    const uf_store_slot *slot = uf_store_canonical(store, index);
    /* A counter that counted nothing is 0, and nothing is computed from it. */
    if (slot->is_given || store->is_vouched || slot->role == UF_ROLE_COUNTER) {
        return UF_OK;
    }
    UF_FAIL(UF_ERROR_STATE,
            "%s of store \"%s\" was neither loaded nor initialised: load it, call uf_init_default, "
            "or seal the "
            "store yourself (uf_store_seal) to run on zeros",
            store->slots[index].name, store->name);
}

/* Uploads into the tensors that the store now has are changes of it. */
static void count_changes(uf_store *store) {
    for (int64_t i = 0; store->sealed && i < store->count; ++i) {
        store->slots[i].tensor.version = &store->version;
    }
}

void uf_store_swap(uf_store *store, uf_store *other) {
    const uf_object objects[2] = {store->object, other->object};
    const uf_store contents = *store;
    *store = *other;
    *other = contents;
    store->object = objects[0];
    other->object = objects[1];
    count_changes(store);
    count_changes(other);
}

const char *uf_store_name(const uf_store *store) {
    return store != NULL ? store->name : "";
}

uf_dtype uf_store_dtype(const uf_store *store) {
    return store != NULL ? store->dtype : UF_F32;
}

int64_t uf_store_size(const uf_store *store) {
    return store != NULL ? store->count : 0;
}

uint64_t uf_store_version(const uf_store *store) {
    return store != NULL ? store->version : 0;
}

void uf_store_changed(uf_store *store) {
    store->version += 1;
}

void uf_store_touch(uf_store *store) {
    if (store != NULL) {
        store->is_vouched = true;
        uf_store_changed(store);
    }
}

uf_status uf_store_entry_at_sized(const uf_store *store, int64_t index, uf_store_entry *entry,
                                  size_t entry_size) {
    UF_CHECK_ARG(store != NULL && entry != NULL, "uf_store_entry_at: store or entry is NULL");
    UF_CHECK_ARG(index >= 0 && index < store->count,
                 "store \"%s\" has %" PRId64 " tensors; there is no number %" PRId64, store->name,
                 store->count, index);
    const uf_store_slot *slot = &store->slots[index];
    const uf_store_entry known = {
        .struct_size = sizeof known,
        .name = slot->name,
        .shape = slot->shape,
        .dtype = role_dtype(store, slot->role),
        .role = slot->role,
    };
    uf_give_struct(&known, sizeof known, entry, entry_size);
    return UF_OK;
}

uf_status uf_store_tensor(uf_store *store, const char *name, uf_tensor **tensor) {
    UF_CHECK_ARG(tensor != NULL, "uf_store_tensor: tensor is NULL");
    *tensor = NULL;
    UF_CHECK_ARG(store != NULL && name != NULL, "uf_store_tensor: store or name is NULL");
    const int64_t at = uf_store_find(store, name);
    if (at < 0) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "store \"%s\" has no tensor %s", store->name, name);
    }
    UF_TRY(uf_store_close(store));
    *tensor = &store->slots[at].tensor;
    return UF_OK;
}

uf_status uf_store_make_gradients(uf_store *store) {
    UF_TRY(uf_store_close(store));
    if (store->gradients != NULL) {
        return UF_OK;
    }
    const size_t size = store->arena_size[UF_ROLE_PARAMETER];
    uf_tensor *gradients = calloc((size_t)store->count + 1, sizeof *gradients);
    if (gradients == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for the gradients of store \"%s\"",
                store->name);
    }
    void *arena;
    uf_status status = uf_context_allocate(store->context, size, UF_MEMORY_DEVICE, &arena);
    if (status == UF_OK) {
        status = store->context->device->zero(store->context, arena, size);
    }
    if (status != UF_OK) {
        uf_context_release(store->context, arena, size, UF_MEMORY_DEVICE);
        free(gradients);
        return status;
    }
    for (int64_t i = 0; i < store->count; ++i) {
        const uf_store_slot *slot = &store->slots[i];
        if (slot->role == UF_ROLE_PARAMETER) {
            gradients[i] =
                uf_tensor_over(store->context, arena != NULL ? (char *)arena + slot->offset : NULL,
                               store->dtype, &slot->shape);
        }
    }
    store->gradient_arena = arena;
    store->gradients = gradients;
    return UF_OK;
}

uf_status uf_store_gradient(uf_store *store, const char *name, uf_tensor **gradient) {
    UF_CHECK_ARG(gradient != NULL, "uf_store_gradient: gradient is NULL");
    *gradient = NULL;
    UF_CHECK_ARG(store != NULL && name != NULL, "uf_store_gradient: store or name is NULL");
    const int64_t at = uf_store_find(store, name);
    if (at < 0 || store->slots[at].role != UF_ROLE_PARAMETER) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "store \"%s\" has no parameter %s", store->name, name);
    }
    UF_TRY(uf_store_make_gradients(store));
    *gradient = &store->gradients[at];
    return UF_OK;
}

uf_status uf_store_zero_gradients(uf_store *store) {
    UF_CHECK_ARG(store != NULL, "uf_store_zero_gradients: store is NULL");
    UF_TRY(uf_store_make_gradients(store));
    return store->context->device->zero(store->context, store->gradient_arena,
                                        store->arena_size[UF_ROLE_PARAMETER]);
}

/* Move one tensor's contents between stores of different types or contexts, through the host. */
static uf_status copy_contents(const uf_tensor *from, uf_tensor *to) {
    void *host = malloc((size_t)from->count * uf_dtype_size(from->dtype) + 1);
    if (host == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory: %" PRId64 " elements to copy",
                from->count);
    }
    uf_status status = uf_tensor_download(from, host);
    if (status == UF_OK) {
        status = uf_tensor_upload_as(to, from->dtype, host, from->count);
    }
    free(host);
    return status;
}

uf_status uf_store_copy(uf_store *store, uf_context *context, uf_dtype dtype, uf_store **copy) {
    UF_CHECK_ARG(copy != NULL, "uf_store_copy: copy is NULL");
    *copy = NULL;
    UF_CHECK_ARG(store != NULL && context != NULL, "uf_store_copy: store or context is NULL");
    uf_store_options options = uf_store_options_default();
    options.dtype = dtype;
    uf_store *made;
    UF_TRY(uf_store_create_with(context, store->name, &options, &made));
    uf_status status = uf_store_close(store);
    for (int64_t i = 0; i < store->count && status == UF_OK; ++i) {
        const uf_store_slot *slot = &store->slots[i];
        status = append(made, slot->name, &slot->shape, slot->role, slot->canonical);
    }
    if (status == UF_OK) {
        status = uf_store_close(made);
    }
    for (int64_t i = 0; i < store->count && status == UF_OK; ++i) {
        if (store->slots[i].canonical == i) {
            status = copy_contents(&store->slots[i].tensor, &made->slots[i].tensor);
            made->slots[i].is_given = store->slots[i].is_given;
        }
    }
    made->is_vouched = store->is_vouched;
    if (status != UF_OK) {
        uf_store_destroy(made);
        return status;
    }
    *copy = made;
    return UF_OK;
}
