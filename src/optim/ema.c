/* ema.c - the moving average of a store: the optimizer kernel, with the store's values where the
 * gradient is. */
#include "optim/ema.h"

#include <stdlib.h>
#include <string.h>

static void free_ema(uf_object *object) {
    uf_ema *ema = (uf_ema *)object;
    uf_context_release(ema->store->context, ema->control, sizeof *ema->control, UF_MEMORY_DEVICE);
    uf_object_release(&ema->store->object);
    uf_object_release(&ema->average->object);
    free(ema);
}

static uf_status check_decay(const char *function, double decay) {
    UF_CHECK_ARG(decay >= 0.0 && decay <= 1.0, "%s: decay is %g; it must be in [0, 1]", function,
                 decay);
    return UF_OK;
}

/* Equal declarations in one order make equal arenas. */
static uf_status check_same(const uf_store *store, const uf_store *average) {
    const char *function = "uf_ema_create";
    UF_CHECK_ARG(store != average, "%s: store \"%s\" cannot be its own average", function,
                 store->name);
    UF_CHECK_ARG(store->context == average->context, "%s: the stores have different contexts",
                 function);
    UF_CHECK_ARG(store->dtype == average->dtype, "%s: the store is %s, its average %s", function,
                 uf_dtype_name(store->dtype), uf_dtype_name(average->dtype));
    UF_CHECK_ARG(store->count == average->count,
                 "%s: the store has %lld names, its average %lld; uf_store_copy makes a store with "
                 "the same",
                 function, (long long)store->count, (long long)average->count);
    for (int64_t i = 0; i < store->count; ++i) {
        const uf_store_slot *slot = &store->slots[i];
        const uf_store_slot *other = &average->slots[i];
        UF_CHECK_ARG(strcmp(slot->name, other->name) == 0 && slot->role == other->role &&
                         slot->canonical == other->canonical &&
                         uf_shape_equal(&slot->shape, &other->shape),
                     "%s: tensor %lld is %s in the store and %s in its average, or has another "
                     "shape, role or alias there",
                     function, (long long)i, slot->name, other->name);
    }
    return UF_OK;
}

uf_status uf_ema_create(uf_store *store, uf_store *average, const uf_ema_options *given,
                        uf_ema **ema) {
    const char *function = "uf_ema_create";
    uf_ema_options options = uf_ema_options_default();
    UF_CHECK_ARG(ema != NULL, "%s: ema is NULL", function);
    *ema = NULL;
    UF_CHECK_ARG(store != NULL && average != NULL, "%s: store or average is NULL", function);
    UF_TRY(uf_read_struct("uf_ema_options", given, &options, sizeof options));
    UF_TRY(check_decay(function, options.decay));
    UF_TRY(uf_context_check(store->context));
    UF_TRY(check_same(store, average));
    UF_TRY(uf_store_close(store));
    UF_TRY(uf_store_close(average));
    uf_ema *made = calloc(1, sizeof *made);
    if (made == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for an average of store \"%s\"",
                store->name);
    }
    uf_object_begin(store->context, &made->object, UF_OBJECT_OPTIMIZER, free_ema);
    made->store = store;
    made->average = average;
    uf_object_keep(&store->object);
    uf_object_keep(&average->object);
    made->average_buffers = options.average_buffers;
    const uf_optimizer_control start = {.lr = 1.0 - options.decay, .groups = {{1.0, 0.0}}};
    void *control = NULL;
    uf_status status =
        uf_context_allocate(store->context, sizeof start, UF_MEMORY_DEVICE, &control);
    made->control = control;
    if (status == UF_OK) {
        status = store->context->device->upload(store->context, control, &start, sizeof start);
    }
    if (status != UF_OK) {
        uf_ema_destroy(made);
        return status;
    }
    *ema = made;
    return UF_OK;
}

void uf_ema_destroy(uf_ema *ema) {
    uf_object_release(ema != NULL ? &ema->object : NULL);
}

uf_status uf_ema_set_decay(uf_ema *ema, double decay) {
    UF_CHECK_ARG(ema != NULL, "uf_ema_set_decay: ema is NULL");
    UF_TRY(check_decay("uf_ema_set_decay", decay));
    uf_context *context = ema->store->context;
    UF_TRY(uf_context_check(context));
    const double rate = 1.0 - decay;
    return context->device->upload(context, &ema->control->lr, &rate, sizeof rate);
}

uf_status uf_ema_run(const uf_ema *ema) {
    uf_context *context = ema->store->context;
    for (int role = 0; role < UF_ROLE_COUNT; ++role) {
        const size_t size = ema->store->arena_size[role];
        if (size == 0) {
            continue;
        }
        if (role != UF_ROLE_PARAMETER && !(role == UF_ROLE_BUFFER && ema->average_buffers)) {
            UF_TRY(context->device->copy(context, ema->average->arena[role],
                                         ema->store->arena[role], size));
            continue;
        }
        /* The padding goes along: it is 0 in both. */
        const uf_optimizer_kernel_args args = {
            .rule.kind = UF_OPTIMIZER_AVERAGE,
            .control = ema->control,
            .dtype = ema->store->dtype,
            .count = (int64_t)(size / uf_dtype_size(ema->store->dtype)),
            .parameter = ema->average->arena[role],
            .gradient = ema->store->arena[role],
        };
        UF_TRY(uf_optimizer_check(&args));
        UF_TRY(context->kernels->optimizer_step(context, &args));
    }
    return UF_OK;
}

uf_status uf_ema_update(uf_ema *ema) {
    UF_CHECK_ARG(ema != NULL, "uf_ema_update: ema is NULL");
    UF_TRY(uf_context_check(ema->store->context));
    UF_TRY(uf_ema_run(ema));
    uf_store_changed(ema->average);
    return UF_OK;
}
