/* losses.c - every kind of loss under each reduction, and the cross-entropy. */
#include "gradcheck/cases.h"

struct loss_data {
    uf_loss_kind kind;
    uf_reduction reduction;
};

#define DATA(kind)                                                                                 \
    {UF_LOSS_##kind, UF_REDUCTION_MEAN}, {UF_LOSS_##kind, UF_REDUCTION_SUM}, {                     \
        UF_LOSS_##kind, UF_REDUCTION_NONE                                                          \
    }
static const struct loss_data losses[] = {
    DATA(SMOOTH_L1),       DATA(HINGE_REAL),         DATA(HINGE_FAKE),
    DATA(HINGE_GENERATOR), DATA(LEAST_SQUARES_REAL), DATA(LEAST_SQUARES_FAKE),
    DATA(KL_NORMAL),       DATA(BCE_WITH_LOGITS),    DATA(MSE),
};

/* The input has a second reader, so that one of its gradients is added to the other. */
static void build_loss(uf_graph *graph, uf_store *store, const void *data) {
    const struct loss_data *l = data;
    uf_loss_options options = uf_loss_options_default();
    (void)store;
    options.reduction = l->reduction;
    options.beta = 0.4;
    const uf_value x = uf_input(graph, "input", UF_SHAPE(2, 3, 4));
    const uf_value t = uf_input(graph, "target", UF_SHAPE(2, 3, 4));
    uf_output(graph, "loss", uf_loss(graph, l->kind, x, t, &options));
    uf_output(graph, "other", uf_tanh(graph, x));
}

static const uf_shape logits[] = {{2, {4, 3}}, {4, {2, 3, 2, 3}}, {2, {2, 40}}};
static const uf_shape targets[] = {{1, {4}}, {3, {2, 2, 3}}, {1, {2}}};

struct cross_entropy_data {
    int shape;
    uf_reduction reduction;
};

static const struct cross_entropy_data cross_entropies[] = {
    {0, UF_REDUCTION_MEAN}, {1, UF_REDUCTION_SUM}, {1, UF_REDUCTION_NONE}, {2, UF_REDUCTION_MEAN}};

static void build_cross_entropy(uf_graph *graph, uf_store *store, const void *data) {
    const struct cross_entropy_data *c = data;
    uf_loss_options options = uf_loss_options_default();
    (void)store;
    options.reduction = c->reduction;
    const uf_value x = uf_input(graph, "input", logits[c->shape]);
    const uf_value target = uf_input_i64(graph, "target", targets[c->shape]);
    uf_output(graph, "loss", uf_cross_entropy_loss(graph, x, target, &options));
    uf_output(graph, "other", uf_tanh(graph, x));
}

#define LOSS(i, text, smooth)                                                                      \
    {"loss", text ", mean", smooth, UF_TRAIN, build_loss, &losses[3 * (i)]},                       \
        {"loss", text ", sum", smooth, UF_TRAIN, build_loss, &losses[3 * (i) + 1]}, {              \
        "loss", text ", no reduction", smooth, UF_TRAIN, build_loss, &losses[3 * (i) + 2]          \
    }

const gradcheck_case gradcheck_losses[] = {
    LOSS(0, "smooth_l1", false),
    LOSS(1, "hinge_real", false),
    LOSS(2, "hinge_fake", false),
    LOSS(3, "hinge_generator", true),
    LOSS(4, "least_squares_real", true),
    LOSS(5, "least_squares_fake", true),
    LOSS(6, "kl_normal", true),
    LOSS(7, "bce_with_logits, shared", true),
    LOSS(8, "mse, shared", true),
    {"cross_entropy", "(4, 3), mean", true, UF_TRAIN, build_cross_entropy, &cross_entropies[0]},
    {"cross_entropy", "(2, 3, 2, 3), sum", true, UF_TRAIN, build_cross_entropy,
     &cross_entropies[1]},
    {"cross_entropy", "(2, 3, 2, 3), no reduction", true, UF_TRAIN, build_cross_entropy,
     &cross_entropies[2]},
    {"cross_entropy", "(2, 40), mean", true, UF_TRAIN, build_cross_entropy, &cross_entropies[3]},
    {NULL, NULL, false, UF_TRAIN, NULL, NULL},
};
