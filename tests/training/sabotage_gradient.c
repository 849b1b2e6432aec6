/* sabotage_gradient.c - defects of second derivatives. */
#include "sabotage.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

typedef uf_activation_double_kernel_args double_args;

static uf_status real_double(uf_context *context, const double_args *args) {
    sabotage_hit();
    return context->device->kernels->activation_double_backward(context, args);
}

static uf_status wrong_sign(uf_context *context, const double_args *args) {
    const uf_view grad = sabotage_clone(&args->grad);
    double_args bad = *args;
    sabotage_scale(&grad, -1.0);
    bad.grad = grad;
    const uf_status status = real_double(context, &bad);
    free(grad.data);
    return status;
}

/* One factor in the place of another. */
static uf_status no_upstream(uf_context *context, const double_args *args) {
    double_args bad = *args;
    bad.grad_output = args->grad;
    return real_double(context, &bad);
}

static uf_status no_grad(uf_context *context, const double_args *args) {
    double_args bad = *args;
    bad.grad = args->grad_output;
    return real_double(context, &bad);
}

static uf_status other_curve(uf_context *context, const double_args *args) {
    double_args bad = *args;
    bad.activation.kind = UF_ACTIVATION_SIGMOID;
    return real_double(context, &bad);
}

static uf_status overwrites(uf_context *context, const double_args *args) {
    double_args bad = *args;
    bad.mode = UF_OVERWRITE;
    return real_double(context, &bad);
}

static uf_status no_image(uf_context *context, const double_args *args) {
    const uf_view grad = sabotage_clone(&args->grad);
    double_args bad = *args;
    sabotage_alter(&grad, NO_IMAGE);
    bad.grad = grad;
    const uf_status status = real_double(context, &bad);
    free(grad.data);
    return status;
}

static uf_status nudged(uf_context *context, const double_args *args) {
    const uf_view source = sabotage_clone(&args->source);
    double_args bad = *args;
    sabotage_nudge(&source);
    bad.source = source;
    const uf_status status = real_double(context, &bad);
    free(source.data);
    return status;
}

/* 2 y(1 - y^2) for y = tanh(x): the square's gradient reaches y before tanh's does. */
static void build(uf_graph *graph, uf_store *store) {
    (void)store;
    const uf_value x = uf_input(graph, "x", UF_SHAPE(2, 4, 5, 4));
    uf_output(graph, "y", uf_gradient(graph, uf_square(graph, uf_tanh(graph, x)), x));
}

#define DEFECT(text, function_)                                                                    \
    {                                                                                              \
        .name = "activation_double_backward: " text, .build = build,                               \
        .slot = offsetof(struct uf_kernels, activation_double_backward),                           \
        .function = (void (*)(void))(function_)                                                    \
    }

const sabotage sabotage_gradient[] = {
    DEFECT("wrong sign", wrong_sign),
    DEFECT("no upstream gradient", no_upstream),
    DEFECT("no gradient of its own", no_grad),
    DEFECT("another activation's", other_curve),
    DEFECT("overwrites where it should add", overwrites),
    DEFECT("the last image missing", no_image),
    DEFECT("one element of the source 1 % larger", nudged),
    {.name = NULL},
};
