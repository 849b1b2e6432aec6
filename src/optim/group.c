/* group.c - learning rates and weight decays of parts of a store. */
#include "optim/optimizer.h"

#include <math.h>
#include <string.h>

/* Is the tensor `name` at `path` or under it? */
static bool is_under(const char *path, const char *name) {
    const size_t length = strlen(path);
    return length == 0 ||
           (strncmp(path, name, length) == 0 && (name[length] == '\0' || name[length] == '.'));
}

/* The number of the group with these settings, made when there is none. */
static uf_status find_group(uf_optimizer *optimizer, const uf_parameter_group *wanted,
                            int32_t *number) {
    uf_context *context = optimizer->store->context;
    for (int32_t i = 0; i < optimizer->group_count; ++i) {
        const uf_parameter_group *group = &optimizer->groups[i];
        if (group->lr_factor == wanted->lr_factor && group->weight_decay == wanted->weight_decay) {
            *number = i;
            return UF_OK;
        }
    }
    UF_CHECK_ARG(optimizer->group_count < UF_OPTIMIZER_GROUPS,
                 "uf_optimizer_group: an optimizer has at most %d different settings of groups, "
                 "its own included",
                 UF_OPTIMIZER_GROUPS);
    const int32_t made = optimizer->group_count;
    UF_TRY(context->device->upload(context, &optimizer->control->groups[made], wanted,
                                   sizeof *wanted));
    optimizer->groups[made] = *wanted;
    optimizer->group_count += 1;
    *number = made;
    return UF_OK;
}

static uf_status assign(uf_optimizer *optimizer, const uf_store_slot *slot, int32_t number) {
    uf_context *context = optimizer->store->context;
    const size_t bytes = (size_t)slot->tensor.count * uf_dtype_size(optimizer->store->dtype);
    const size_t shares = uf_align_up(bytes) / UF_ALIGNMENT;
    const size_t first = slot->offset / UF_ALIGNMENT;
    memset(optimizer->share_groups + first, (int)number, shares);
    return context->device->upload(context, optimizer->group_of + first,
                                   optimizer->share_groups + first, shares);
}

uf_status uf_optimizer_group(uf_optimizer *optimizer, uf_scope scope,
                             const uf_optimizer_group_options *given) {
    const char *function = "uf_optimizer_group";
    uf_optimizer_group_options options = uf_optimizer_group_options_default();
    UF_CHECK_ARG(optimizer != NULL, "%s: optimizer is NULL", function);
    const uf_store *store = optimizer->store;
    UF_CHECK_ARG(scope.store == store,
                 "%s: the scope is of store \"%s\", the optimizer of store \"%s\"", function,
                 uf_store_name(scope.store), store->name);
    UF_TRY(uf_read_struct("uf_optimizer_group_options", given, &options, sizeof options));
    UF_CHECK_ARG(isfinite(options.lr_factor) && options.lr_factor >= 0.0,
                 "%s: lr_factor is %g; it must be 0 or more", function, options.lr_factor);
    UF_CHECK_ARG(isfinite(options.weight_decay),
                 "%s: weight_decay is %g; it must be a number, below 0 for the optimizer's",
                 function, options.weight_decay);
    UF_TRY(uf_context_check(store->context));
    const uf_parameter_group wanted = {
        .lr_factor = options.lr_factor,
        .weight_decay =
            options.weight_decay < 0.0 ? optimizer->groups[0].weight_decay : options.weight_decay,
    };
    int64_t matches = 0;
    for (int64_t i = 0; i < store->count; ++i) {
        matches +=
            store->slots[i].role == UF_ROLE_PARAMETER && is_under(scope.path, store->slots[i].name);
    }
    if (matches == 0) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "%s: store \"%s\" has no parameter at or under \"%s\"",
                function, store->name, scope.path);
    }
    int32_t number = 0;
    UF_TRY(find_group(optimizer, &wanted, &number));
    for (int64_t i = 0; i < store->count; ++i) {
        if (store->slots[i].role == UF_ROLE_PARAMETER &&
            is_under(scope.path, store->slots[i].name)) {
            UF_TRY(assign(optimizer, uf_store_canonical(store, i), number));
        }
    }
    return UF_OK;
}
