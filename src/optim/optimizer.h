/* optimizer.h - the optimizer's insides. */
#ifndef UF_OPTIM_OPTIMIZER_H
#define UF_OPTIM_OPTIMIZER_H

#include <unfurl/optimizer.h>

#include "core/store.h"
#include "kernels/kernels.h"

/* A run of parameters, in elements of the store's parameter arena. */
typedef struct uf_span {
    int64_t offset, count;
} uf_span;

struct uf_optimizer {
    uf_object object;
    uf_store *store;
    uf_optimizer_rule rule;
    double lr;
    uf_optimizer_control *control; /* device memory */
    void *state1, *state2; /* device memory, laid out as the parameter arena; NULL: not needed */
    uf_parameter_group groups[UF_OPTIMIZER_GROUPS]; /* as in `control`; the first is the options' */
    int32_t group_count;
    uint8_t *share_groups; /* the group of each UF_ALIGNMENT bytes of the parameter arena */
    uint8_t *group_of;     /* the same in device memory */
};

/* Copies in bf16 of the parameters of an f32 store, laid out as they are. */
typedef struct uf_optimizer_copies {
    void *data;    /* device memory; NULL: none */
    int64_t first; /* the element of the parameter arena that they begin with */
} uf_optimizer_copies;

/* Advance the step and update the parameters of these spans from the store's gradients, and the
 * copies of all these spans with them; `copies` may be NULL. The caller says that the store changed
 * (uf_store_changed). */
uf_status uf_optimizer_run(uf_optimizer *optimizer, const uf_span *spans, int32_t span_count,
                           const uf_optimizer_copies *copies);

/* Make these gradients of the store 0. */
uf_status uf_zero_run(const uf_store *store, const uf_span *spans, int32_t span_count);

/* One half of clipping these gradients of the store: the sum of their squares, or the clipping by
 * it. */
uf_status uf_clip_run(const uf_store *store, const uf_clip_kernel_args *args, bool squares,
                      const uf_span *spans, int32_t span_count);

#endif
