/* optimizer.c - Adam, RMSprop and SGD over a store's flat arenas. */
#include "optim/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uf_status check_at_least_zero(const char *function, const char *name, double value) {
    UF_CHECK_ARG(isfinite(value) && value >= 0.0, "%s: %s is %g; it must be 0 or more", function,
                 name, value);
    return UF_OK;
}

static uf_status check_beta(const char *function, const char *name, double value) {
    UF_CHECK_ARG(value >= 0.0 && value < 1.0, "%s: %s is %g; it must be in [0, 1)", function, name,
                 value);
    return UF_OK;
}

/* 0 would divide 0 by 0 wherever a gradient is 0, in an f32 store also a number that f32 rounds to
 * 0. */
static uf_status check_eps(const char *function, const uf_store *store, double given) {
    const double eps = store->dtype == UF_F32 ? (double)(float)given : given;
    UF_CHECK_ARG(isfinite(eps) && eps > 0.0, "%s: eps is %g; it must be above 0", function, given);
    return UF_OK;
}

/* Device memory, all zero. */
static uf_status make_zeros(const uf_store *store, size_t size, void **state) {
    UF_TRY(uf_context_allocate(store->context, size, UF_MEMORY_DEVICE, state));
    return store->context->device->zero(store->context, *state, size);
}

static void free_optimizer(uf_object *object) {
    uf_optimizer *optimizer = (uf_optimizer *)object;
    uf_context *context = optimizer->store->context;
    const size_t size = optimizer->store->arena_size[UF_ROLE_PARAMETER];
    uf_context_release(context, optimizer->control, sizeof *optimizer->control, UF_MEMORY_DEVICE);
    uf_context_release(context, optimizer->state1, size, UF_MEMORY_DEVICE);
    uf_context_release(context, optimizer->state2, size, UF_MEMORY_DEVICE);
    uf_context_release(context, optimizer->group_of, size / UF_ALIGNMENT, UF_MEMORY_DEVICE);
    free(optimizer->share_groups);
    uf_object_release(&optimizer->store->object);
    free(optimizer);
}

static uf_status create(uf_store *store, const uf_optimizer_rule *rule, double lr,
                        double weight_decay, uf_optimizer **optimizer) {
    const uf_optimizer_control start = {
        .lr = lr, .power1 = 1.0, .power2 = 1.0, .groups = {{1.0, weight_decay}}};
    void *control = NULL;
    void *group_of = NULL;
    uf_optimizer *made = calloc(1, sizeof *made);
    if (made == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for an optimizer of store \"%s\"",
                store->name);
    }
    uf_object_begin(store->context, &made->object, UF_OBJECT_OPTIMIZER, free_optimizer);
    made->store = store;
    uf_object_keep(&store->object);
    made->rule = *rule;
    made->lr = lr;
    made->groups[0] = start.groups[0];
    made->group_count = 1;
    uf_status status;
    UF_TRY_GOTO(uf_store_make_gradients(store), failed);
    const size_t size = store->arena_size[UF_ROLE_PARAMETER];
    made->share_groups = calloc(size / UF_ALIGNMENT + 1, 1);
    if (made->share_groups == NULL) {
        status = uf_fail(UF_ERROR_OUT_OF_MEMORY,
                         "out of host memory for an optimizer of store \"%s\"", store->name);
        goto failed;
    }
    UF_TRY_GOTO(make_zeros(store, size / UF_ALIGNMENT, &group_of), failed);
    made->group_of = group_of;
    UF_TRY_GOTO(uf_context_allocate(store->context, sizeof start, UF_MEMORY_DEVICE, &control),
                failed);
    made->control = control;
    UF_TRY_GOTO(store->context->device->upload(store->context, control, &start, sizeof start),
                failed);
    if (uf_optimizer_has_state1(rule)) {
        UF_TRY_GOTO(make_zeros(store, size, &made->state1), failed);
    }
    if (uf_optimizer_has_state2(rule)) {
        UF_TRY_GOTO(make_zeros(store, size, &made->state2), failed);
    }
    *optimizer = made;
    return UF_OK;
failed:
    uf_optimizer_destroy(made);
    return status;
}

uf_status uf_optimizer_create_adam(uf_store *store, const uf_adam_options *given,
                                   uf_optimizer **optimizer) {
    const char *function = "uf_optimizer_create_adam";
    uf_adam_options known = uf_adam_options_default();
    const uf_adam_options *options = &known;
    UF_CHECK_ARG(optimizer != NULL, "%s: optimizer is NULL", function);
    *optimizer = NULL;
    UF_CHECK_ARG(store != NULL, "%s: store is NULL", function);
    UF_TRY(uf_read_struct("uf_adam_options", given, &known, sizeof known));
    UF_TRY(check_at_least_zero(function, "lr", options->lr));
    UF_TRY(check_at_least_zero(function, "weight_decay", options->weight_decay));
    UF_TRY(check_beta(function, "beta1", options->beta1));
    UF_TRY(check_beta(function, "beta2", options->beta2));
    UF_TRY(check_eps(function, store, options->eps));
    const uf_optimizer_rule rule = {
        .kind = UF_OPTIMIZER_ADAM,
        .beta1 = options->beta1,
        .beta2 = options->beta2,
        .eps = options->eps,
        .decoupled = options->decoupled,
    };
    return create(store, &rule, options->lr, options->weight_decay, optimizer);
}

uf_status uf_optimizer_create_sgd(uf_store *store, const uf_sgd_options *given,
                                  uf_optimizer **optimizer) {
    const char *function = "uf_optimizer_create_sgd";
    uf_sgd_options known = uf_sgd_options_default();
    const uf_sgd_options *options = &known;
    UF_CHECK_ARG(optimizer != NULL, "%s: optimizer is NULL", function);
    *optimizer = NULL;
    UF_CHECK_ARG(store != NULL, "%s: store is NULL", function);
    UF_TRY(uf_read_struct("uf_sgd_options", given, &known, sizeof known));
    UF_TRY(check_at_least_zero(function, "lr", options->lr));
    UF_TRY(check_at_least_zero(function, "weight_decay", options->weight_decay));
    UF_TRY(check_at_least_zero(function, "momentum", options->momentum));
    UF_CHECK_ARG(isfinite(options->dampening), "%s: dampening is %g", function, options->dampening);
    UF_CHECK_ARG(!options->nesterov || (options->momentum > 0.0 && options->dampening == 0.0),
                 "%s: nesterov needs momentum above 0 and dampening 0; they are %g and %g",
                 function, options->momentum, options->dampening);
    const uf_optimizer_rule rule = {
        .kind = UF_OPTIMIZER_SGD,
        .momentum = options->momentum,
        .dampening = options->dampening,
        .nesterov = options->nesterov,
    };
    return create(store, &rule, options->lr, options->weight_decay, optimizer);
}

uf_status uf_optimizer_create_rmsprop(uf_store *store, const uf_rmsprop_options *given,
                                      uf_optimizer **optimizer) {
    const char *function = "uf_optimizer_create_rmsprop";
    uf_rmsprop_options known = uf_rmsprop_options_default();
    const uf_rmsprop_options *options = &known;
    UF_CHECK_ARG(optimizer != NULL, "%s: optimizer is NULL", function);
    *optimizer = NULL;
    UF_CHECK_ARG(store != NULL, "%s: store is NULL", function);
    UF_TRY(uf_read_struct("uf_rmsprop_options", given, &known, sizeof known));
    UF_TRY(check_at_least_zero(function, "lr", options->lr));
    UF_TRY(check_at_least_zero(function, "weight_decay", options->weight_decay));
    UF_TRY(check_at_least_zero(function, "momentum", options->momentum));
    UF_TRY(check_beta(function, "alpha", options->alpha));
    UF_TRY(check_eps(function, store, options->eps));
    const uf_optimizer_rule rule = {
        .kind = UF_OPTIMIZER_RMSPROP,
        .beta2 = options->alpha,
        .eps = options->eps,
        .momentum = options->momentum,
    };
    return create(store, &rule, options->lr, options->weight_decay, optimizer);
}

void uf_optimizer_destroy(uf_optimizer *optimizer) {
    uf_object_release(optimizer != NULL ? &optimizer->object : NULL);
}

uf_status uf_optimizer_set_learning_rate(uf_optimizer *optimizer, double lr) {
    UF_CHECK_ARG(optimizer != NULL, "uf_optimizer_set_learning_rate: optimizer is NULL");
    UF_TRY(check_at_least_zero("uf_optimizer_set_learning_rate", "lr", lr));
    uf_context *context = optimizer->store->context;
    UF_TRY(uf_context_check(context));
    UF_TRY(context->device->upload(context, &optimizer->control->lr, &lr, sizeof lr));
    optimizer->lr = lr;
    return UF_OK;
}

double uf_optimizer_learning_rate(const uf_optimizer *optimizer) {
    return optimizer != NULL ? optimizer->lr : 0.0;
}

uf_status uf_optimizer_run(uf_optimizer *optimizer, const uf_span *spans, int32_t span_count,
                           const uf_optimizer_copies *copies) {
    const uf_store *store = optimizer->store;
    uf_context *context = store->context;
    const size_t element = uf_dtype_size(store->dtype);
    uf_optimizer_kernel_args args = {
        .rule = optimizer->rule,
        .control = optimizer->control,
        .group_of = optimizer->group_of,
        .dtype = store->dtype,
    };
    UF_TRY(uf_optimizer_check(&args));
    UF_TRY(context->kernels->optimizer_advance(context, &args));
    for (int32_t i = 0; i < span_count; ++i) {
        const size_t offset = (size_t)spans[i].offset * element;
        if (spans[i].count == 0) {
            continue;
        }
        args.first = spans[i].offset;
        args.count = spans[i].count;
        args.parameter = (char *)store->arena[UF_ROLE_PARAMETER] + offset;
        args.gradient = (const char *)store->gradient_arena + offset;
        args.state1 = optimizer->state1 != NULL ? (char *)optimizer->state1 + offset : NULL;
        args.state2 = optimizer->state2 != NULL ? (char *)optimizer->state2 + offset : NULL;
        if (copies != NULL && copies->data != NULL) {
            args.copy = (uint16_t *)copies->data + (spans[i].offset - copies->first);
        }
        UF_TRY(uf_optimizer_check(&args));
        UF_TRY(context->kernels->optimizer_step(context, &args));
    }
    return UF_OK;
}

uf_status uf_optimizer_step(uf_optimizer *optimizer) {
    UF_CHECK_ARG(optimizer != NULL, "uf_optimizer_step: optimizer is NULL");
    uf_store *store = optimizer->store;
    UF_TRY(uf_context_check(store->context));
    /* The padding goes along: its values, gradients and state are 0 and stay 0. */
    const uf_span whole = {
        0, (int64_t)(store->arena_size[UF_ROLE_PARAMETER] / uf_dtype_size(store->dtype))};
    UF_TRY(uf_optimizer_run(optimizer, &whole, 1, NULL));
    uf_store_changed(store);
    return UF_OK;
}
