/* cast.c - copies of the parameters that the layers of a bf16 program read in bf16, each made by a
 * step of its own before the first step that reads it.
 *
 * With passes a copy is made in every run, and again after each optimizer that changed the store.
 * Without passes it is kept until a store's version changes, as folded weights are. */
#include "graph/program.h"

#include <stdlib.h>

/* A copy of a parameter, as new as the store after so many optimizers. */
typedef struct cast_copy {
    int32_t value;
    int64_t changes;
} cast_copy;

typedef struct casting {
    uf_program *program;
    uf_step *old;     /* the steps so far; the program's are the new ones */
    uf_index changes; /* store: the number of the newest optimizer that changes it */
    uf_index copies;  /* parameter: its place in `made` */
    cast_copy *made;
    int32_t made_count, made_capacity;
} casting;

/* The newest copy of a parameter as it is at this step, made if there is none. */
static uf_status copy_of(casting *c, const uf_param_ref *ref, int32_t *copy) {
    int64_t slot;
    UF_TRY(uf_program_slot(c->program, ref, &slot));
    uf_store *store = uf_program_store(c->program, ref->store);
    const uint64_t key = uf_index_address(uf_store_canonical(store, slot));
    const int64_t changes = uf_index_find(&c->changes, uf_index_address(store));
    const int64_t found = uf_index_find(&c->copies, key);
    if (found >= 0 && c->made[found].changes == changes) {
        *copy = c->made[found].value;
        return UF_OK;
    }
    const bool kept = c->program->pass_count == 0;
    uf_step *step = NULL;
    UF_TRY(uf_program_add_value(c->program, UF_BF16, &store->slots[slot].shape, kept, copy));
    UF_TRY(uf_program_add_step(c->program, UF_STEP_CAST, &step));
    step->kept = kept;
    step->source = (uf_param_ref){.store = store, .slot = slot};
    step->output = *copy;
    UF_TRY(uf_grow((void **)&c->made, c->made_count, &c->made_capacity, sizeof *c->made));
    UF_TRY(uf_index_put(&c->copies, key, c->made_count));
    c->made[c->made_count++] = (cast_copy){.value = *copy, .changes = changes};
    return UF_OK;
}

/* Give a layer's step copies of the parameters that it reads in bf16. */
static uf_status cast_params(casting *c, uf_step *step) {
    const uf_program *program = c->program;
    const bool backward = step->kind == UF_STEP_BACKWARD;
    uint32_t reads = step->node->layer->stored_params;
    if (backward) {
        bool wanted = false;
        for (int32_t i = 0; i < step->input_count; ++i) {
            wanted = wanted || step->grad_inputs[i] != 0;
        }
        reads = wanted ? step->node->layer->backward_stored_params : 0;
    }
    if (step->scale_node != NULL) {
        reads &= ~(UINT32_C(1) << UF_PARAM_BIAS); /* folded into the shift */
    }
    if (program->values[backward ? step->grad_output : step->output].dtype != UF_BF16) {
        reads = 0; /* computed from losses */
    }
    for (int32_t i = 0; i < step->node->param_count; ++i) {
        /* A value in a parameter's place is of bf16 already. */
        if ((reads >> i & 1) != 0 && step->params[i] == 0) {
            UF_TRY(copy_of(c, &step->node->params[i], &step->params[i]));
        }
    }
    return UF_OK;
}

static uf_status cast_steps(casting *c, int32_t count) {
    for (int32_t s = 0; s < count; ++s) {
        uf_step step = c->old[s];
        if (!step.removed && step.kind == UF_STEP_OPTIMIZE) {
            UF_TRY(uf_index_put(&c->changes, uf_index_address(step.optimizer->store), s));
        } else if (!step.removed && step.kind == UF_STEP_AVERAGE) {
            UF_TRY(uf_index_put(&c->changes, uf_index_address(step.ema->average), s));
        }
        if (!step.removed && step.node != NULL) {
            UF_TRY(cast_params(c, &step));
        }
        uf_step *place = NULL;
        UF_TRY(uf_program_add_step(c->program, step.kind, &place));
        *place = step;
        c->old[s].optimizer = NULL; /* the new one has what is owned */
        c->old[s].ema = NULL;
        c->old[s].spans = NULL;
        c->old[s].own_node = NULL;
    }
    return UF_OK;
}

uf_status uf_program_cast(uf_program *program) {
    casting c = {.program = program, .old = program->steps};
    const int32_t count = program->step_count;
    if (program->dtype != UF_BF16) {
        return UF_OK;
    }
    program->steps = NULL;
    program->step_count = program->step_capacity = 0;
    const uf_status status = cast_steps(&c, count);
    for (int32_t s = 0; s < count; ++s) {
        uf_step_free(&c.old[s]);
    }
    free(c.old);
    uf_index_free(&c.changes);
    uf_index_free(&c.copies);
    free(c.made);
    return status;
}
