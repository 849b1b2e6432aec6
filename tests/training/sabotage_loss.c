/* sabotage_loss.c - defects of cross_entropy_backward, and of loss_backward without reduction and
 * by the second operand. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <unfurl/layers.h>

#include "sabotage.h"

static void build_cross_entropy(uf_graph *graph, uf_store *store) {
    (void)store;
    const uf_value x = uf_input(graph, "x", UF_SHAPE(3, 4, 5));
    const uf_value target = uf_input_i64(graph, "target", UF_SHAPE(3, 5));
    uf_output(graph, "y", uf_cross_entropy_loss(graph, x, target, NULL));
}

static void build_elements(uf_graph *graph, uf_store *store) {
    (void)store;
    uf_loss_options options = uf_loss_options_default();
    options.reduction = UF_REDUCTION_NONE;
    const uf_value x = uf_input(graph, "x", UF_SHAPE(3, 4));
    const uf_value t = uf_input(graph, "t", UF_SHAPE(3, 4));
    uf_output(graph, "y", uf_loss(graph, UF_LOSS_MSE, x, t, &options));
}

/* One operand twice: the second gradient is added to the first. */
static void build_kl(uf_graph *graph, uf_store *store) {
    (void)store;
    const uf_value x = uf_input(graph, "x", UF_SHAPE(3, 4));
    uf_output(graph, "y", uf_loss(graph, UF_LOSS_KL_NORMAL, x, x, NULL));
}

/* ---- cross_entropy_backward ---- */

static uf_status real_cross_entropy(uf_context *context, const uf_cross_entropy_kernel_args *args) {
    sabotage_hit();
    return context->device->kernels->cross_entropy_backward(context, args);
}

static uf_status entropy_sign(uf_context *context, const uf_cross_entropy_kernel_args *args) {
    const uf_status status = real_cross_entropy(context, args);
    sabotage_scale(&args->grad_input, -1.0);
    return status;
}

static uf_status entropy_is_sum(uf_context *context, const uf_cross_entropy_kernel_args *args) {
    uf_cross_entropy_kernel_args bad = *args;
    bad.reduction = UF_REDUCTION_SUM;
    return real_cross_entropy(context, &bad);
}

/* The axes after the classes are taken for images. */
static uf_status entropy_other_axis(uf_context *context, const uf_cross_entropy_kernel_args *args) {
    uf_cross_entropy_kernel_args bad = *args;
    bad.outer = args->outer * args->inner;
    bad.inner = 1;
    return real_cross_entropy(context, &bad);
}

/* The next class in place of the target. */
static uf_status entropy_next_class(uf_context *context, const uf_cross_entropy_kernel_args *args) {
    uf_cross_entropy_kernel_args bad = *args;
    const int64_t rows = args->outer * args->inner;
    int64_t *target = malloc((size_t)rows * sizeof *target);
    if (target == NULL) {
        abort();
    }
    for (int64_t i = 0; i < rows; ++i) {
        target[i] = (((const int64_t *)args->target.data)[i] + 1) % args->classes;
    }
    bad.target.data = target;
    const uf_status status = real_cross_entropy(context, &bad);
    free(target);
    return status;
}

/* The softmax without the target's one. */
static uf_status entropy_no_target(uf_context *context, const uf_cross_entropy_kernel_args *args) {
    const uf_status status = real_cross_entropy(context, args);
    const double scale =
        *(const double *)args->grad_output.data / (double)(args->outer * args->inner);
    for (int64_t n = 0; n < args->outer; ++n) {
        for (int64_t i = 0; i < args->inner; ++i) {
            const int64_t t = ((const int64_t *)args->target.data)[n * args->inner + i];
            ((double *)args->grad_input.data)[(n * args->classes + t) * args->inner + i] += scale;
        }
    }
    return status;
}

static uf_status entropy_nudged(uf_context *context, const uf_cross_entropy_kernel_args *args) {
    const uf_status status = real_cross_entropy(context, args);
    sabotage_nudge(&args->grad_input);
    return status;
}

/* ---- loss_backward ---- */

static uf_status real_loss(uf_context *context, const uf_loss_kernel_args *args) {
    sabotage_hit();
    return context->device->kernels->loss_backward(context, args);
}

/* Each element has the seed of the first. */
static uf_status elements_one_seed(uf_context *context, const uf_loss_kernel_args *args) {
    uf_loss_kernel_args bad = *args;
    bad.reduction = UF_REDUCTION_SUM;
    bad.grad_output = uf_view_nchw(args->grad_output.data, UF_F64, 1, 1, 1, 1);
    return real_loss(context, &bad);
}

static uf_status elements_are_mean(uf_context *context, const uf_loss_kernel_args *args) {
    const uf_status status = real_loss(context, args);
    sabotage_scale(&args->grad_input, 1.0 / (double)uf_view_count(&args->input));
    return status;
}

static uf_status kl_mean_alone(uf_context *context, const uf_loss_kernel_args *args) {
    uf_loss_kernel_args bad = *args;
    bad.grad_target.data = NULL;
    return real_loss(context, &bad);
}

static uf_status kl_overwrites(uf_context *context, const uf_loss_kernel_args *args) {
    uf_loss_kernel_args bad = *args;
    bad.grad_target_mode = UF_OVERWRITE;
    return real_loss(context, &bad);
}

static uf_status kl_over_all(uf_context *context, const uf_loss_kernel_args *args) {
    uf_loss_kernel_args bad = *args;
    bad.divisor = 0;
    return real_loss(context, &bad);
}

#define ENTROPY(text, what)                                                                        \
    {                                                                                              \
        .name = "cross_entropy_backward: " text, .build = build_cross_entropy,                     \
        .slot = offsetof(struct uf_kernels, cross_entropy_backward),                               \
        .function = (void (*)(void))(what)                                                         \
    }
#define LOSS(text, graph, what)                                                                    \
    {                                                                                              \
        .name = "loss_backward: " text, .build = graph,                                            \
        .slot = offsetof(struct uf_kernels, loss_backward), .function = (void (*)(void))(what)     \
    }

const sabotage sabotage_losses[] = {
    ENTROPY("wrong sign", entropy_sign),
    ENTROPY("sum in place of mean", entropy_is_sum),
    ENTROPY("another axis", entropy_other_axis),
    ENTROPY("the next class", entropy_next_class),
    ENTROPY("the softmax alone", entropy_no_target),
    ENTROPY("one element 1% off", entropy_nudged),
    LOSS("elements, one seed for all", build_elements, elements_one_seed),
    LOSS("elements, divided by their number", build_elements, elements_are_mean),
    LOSS("kl_normal, no gradient of the log-variance", build_kl, kl_mean_alone),
    LOSS("kl_normal, overwrites where it should add", build_kl, kl_overwrites),
    LOSS("kl_normal, mean over axis 1 too", build_kl, kl_over_all),
    {.name = NULL},
};
