/* ema.h - the exponential moving average of a store, as torch.optim.swa_utils has it: weights that
 * generators are sampled with.
 *
 * The average is another store with the same names, made by uf_store_copy as a rule: it begins as
 * the store is then. A program that generates binds it in the store's place
 * (uf_program_options.bindings), and a file keeps it like any store. */
#ifndef UNFURL_EMA_H
#define UNFURL_EMA_H

#include <unfurl/store.h>

UF_BEGIN_DECLS

typedef struct uf_ema uf_ema;

/* An update makes of every parameter: average += (1 - decay) * (parameter - average). Counters are
 * copied.
 * https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema */
typedef struct uf_ema_options {
    size_t struct_size;
    double decay;         /* 0.999, in [0, 1] */
    bool average_buffers; /* false: buffers (running statistics) are copied; true: averaged too */
} uf_ema_options;

static inline uf_ema_options uf_ema_options_default(void) {
    uf_ema_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.decay = 0.999;
    return options;
}

/* `average` has the context, type, names, shapes and roles of `store`, in its order; `options` may
 * be NULL. Seals both, keeps both alive. Destroyed by the caller or with its context; programs that
 * use it keep it alive. Errors: INVALID_ARGUMENT (they differ, or are one), OUT_OF_MEMORY. *ema is
 * NULL on failure. */
UF_API UF_NODISCARD uf_status uf_ema_create(uf_store *store, uf_store *average,
                                            const uf_ema_options *options, uf_ema **ema);
UF_API void uf_ema_destroy(uf_ema *ema); /* NULL is legal */

/* The decay of every update queued after this call, in [0, 1]; recorded programs follow it. Errors:
 * INVALID_ARGUMENT, DEVICE. */
UF_API UF_NODISCARD uf_status uf_ema_set_decay(uf_ema *ema, double decay);

/* One update, for programs of the caller's own; a pass that names the average does this itself
 * (uf_pass.emas). Asynchronous on a GPU. Errors: INVALID_ARGUMENT, DEVICE. */
UF_API UF_NODISCARD uf_status uf_ema_update(uf_ema *ema);

UF_END_DECLS

#endif
