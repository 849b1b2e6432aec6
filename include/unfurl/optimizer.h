/* optimizer.h - Adam, RMSprop and SGD over a whole store, as torch.optim has them.
 *
 * An optimizer belongs to one store, whose parameters it updates from the store's gradients in one
 * kernel over flat spans. A parameter that no loss of the pass reached is left alone, as PyTorch
 * leaves one whose grad is None. Its state (moments, step, learning rate) lives on the device. */
#ifndef UNFURL_OPTIMIZER_H
#define UNFURL_OPTIMIZER_H

#include <unfurl/store.h>

UF_BEGIN_DECLS

typedef struct uf_optimizer uf_optimizer;

/* With g the gradient (plus weight_decay*p unless decoupled), step t from 1:
 *   m = beta1*m + (1 - beta1)*g;  v = beta2*v + (1 - beta2)*g*g
 *   p -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
 * decoupled (AdamW): first p -= lr*weight_decay*p.
 * https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html */
typedef struct uf_adam_options {
    size_t struct_size;
    double lr;           /* 1e-3 */
    double beta1, beta2; /* 0.9, 0.999; each in [0, 1) */
    double eps;          /* 1e-8, above 0, outside the root */
    double weight_decay; /* 0 */
    bool decoupled;      /* false: Adam; true: AdamW */
} uf_adam_options;

/* With g the gradient plus weight_decay*p:
 *   momentum 0: p -= lr*g.  Else b = g at the first step, momentum*b + (1 - dampening)*g after it,
 *   and p -= lr*b, or lr*(g + momentum*b) with nesterov.
 * https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html */
typedef struct uf_sgd_options {
    size_t struct_size;
    double lr;           /* 1e-3 */
    double momentum;     /* 0 */
    double dampening;    /* 0 */
    double weight_decay; /* 0 */
    bool nesterov;       /* false; needs momentum > 0 and dampening 0 */
} uf_sgd_options;

/* With g the gradient plus weight_decay*p:
 *   v = alpha*v + (1 - alpha)*g*g;  s = g / (sqrt(v) + eps)
 *   p -= lr*s, or with momentum b = momentum*b + s and p -= lr*b. Not centered.
 * https://docs.pytorch.org/docs/stable/generated/torch.optim.RMSprop.html */
typedef struct uf_rmsprop_options {
    size_t struct_size;
    double lr;           /* 1e-2 */
    double alpha;        /* 0.99, in [0, 1) */
    double eps;          /* 1e-8, above 0, outside the root */
    double weight_decay; /* 0 */
    double momentum;     /* 0 */
} uf_rmsprop_options;

static inline uf_adam_options uf_adam_options_default(void) {
    uf_adam_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.lr = 1e-3;
    options.beta1 = 0.9;
    options.beta2 = 0.999;
    options.eps = 1e-8;
    return options;
}
static inline uf_sgd_options uf_sgd_options_default(void) {
    uf_sgd_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.lr = 1e-3;
    return options;
}

static inline uf_rmsprop_options uf_rmsprop_options_default(void) {
    uf_rmsprop_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.lr = 1e-2;
    options.alpha = 0.99;
    options.eps = 1e-8;
    return options;
}

/* `options` may be NULL. Seals the store. Destroyed by the caller or with its context; programs
 * that use it keep it alive. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY. *optimizer is NULL on
 * failure. */
UF_API UF_NODISCARD uf_status uf_optimizer_create_adam(uf_store *store,
                                                       const uf_adam_options *options,
                                                       uf_optimizer **optimizer);
UF_API UF_NODISCARD uf_status uf_optimizer_create_sgd(uf_store *store,
                                                      const uf_sgd_options *options,
                                                      uf_optimizer **optimizer);
UF_API UF_NODISCARD uf_status uf_optimizer_create_rmsprop(uf_store *store,
                                                          const uf_rmsprop_options *options,
                                                          uf_optimizer **optimizer);
UF_API void uf_optimizer_destroy(uf_optimizer *optimizer); /* NULL is legal */

/* Settings of some of the parameters. */
typedef struct uf_optimizer_group_options {
    size_t struct_size;
    double lr_factor; /* 1; 0 or more: times the optimizer's learning rate; 0 holds values still */
    double weight_decay; /* -1; in place of the optimizer's, below 0: the optimizer's */
} uf_optimizer_group_options;

static inline uf_optimizer_group_options uf_optimizer_group_options_default(void) {
    uf_optimizer_group_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.lr_factor = 1.0;
    options.weight_decay = -1.0;
    return options;
}

/* Give the parameters at or under `scope` settings of their own, in every step queued after this
 * call; the last call that names a parameter counts, NULL takes the optimizer's settings back. All
 * groups move in one kernel, and recorded programs follow. An optimizer has at most 16 different
 * settings, its own included. Errors: INVALID_ARGUMENT, NOT_FOUND (no such parameter), DEVICE. */
UF_API UF_NODISCARD uf_status uf_optimizer_group(uf_optimizer *optimizer, uf_scope scope,
                                                 const uf_optimizer_group_options *options);

/* The learning rate of every step queued after this call. */
UF_API UF_NODISCARD uf_status uf_optimizer_set_learning_rate(uf_optimizer *optimizer, double lr);
UF_API double uf_optimizer_learning_rate(const uf_optimizer *optimizer); /* 0 of NULL */

/* One step over every parameter of the store from the gradients that are in it, for programs of the
 * caller's own; a training program's passes do this themselves. Asynchronous on a GPU. */
UF_API UF_NODISCARD uf_status uf_optimizer_step(uf_optimizer *optimizer);

UF_END_DECLS

#endif
