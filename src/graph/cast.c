/* cast.c - copies of the parameters that the layers of a bf16 program read in bf16.
 *
 * A copy is kept until a store's version changes, as folded weights are. Where the program's own
 * optimizers change the weights, each writes the copies in the launch that writes the weights: the
 * copies of a store lie side by side as its parameters do, so that a span of them is one span more.
 * Only a store that a moving average of the program changes has copies that are made by a step of
 * each run, before the first step that reads them and again after each change. */
#include "graph/program.h"

#include <stdlib.h>

/* A copy of a parameter. */
typedef struct cast_copy {
    int32_t value;
    int64_t changes; /* as new as the store after so many changes; -1: as new as it ever is */
    int64_t trained; /* the store in whose copies it lies, or -1 */
} cast_copy;

/* The copies of a store that optimizers of the program change. */
typedef struct trained_store {
    int32_t value;      /* all of them; 0: nobody reads one */
    int64_t first, end; /* elements of the parameter arena that it has */
} trained_store;

typedef struct casting {
    uf_program *program;
    uf_step *old;      /* the steps so far; the program's are the new ones */
    uf_index averaged; /* stores that moving averages change */
    uf_index changes;  /* store: the number of the newest step that changes it */
    uf_index copies;   /* parameter: its place in `made` */
    cast_copy *made;
    int32_t made_count, made_capacity;
    uf_index trained; /* store: its place in `stores` */
    trained_store *stores;
    int32_t store_count, store_capacity;
} casting;

static uf_status find_changed_stores(casting *c, int32_t count) {
    for (int32_t s = 0; s < count; ++s) {
        const uf_step *step = &c->old[s];
        if (step->removed) {
            continue;
        }
        if (step->kind == UF_STEP_AVERAGE) {
            UF_TRY(uf_index_put(&c->averaged, uf_index_address(step->ema->average), s));
        }
        if (step->kind == UF_STEP_OPTIMIZE &&
            uf_index_find(&c->trained, uf_index_address(step->optimizer->store)) < 0) {
            UF_TRY(uf_grow((void **)&c->stores, c->store_count, &c->store_capacity,
                           sizeof *c->stores));
            c->stores[c->store_count] = (trained_store){.first = INT64_MAX};
            UF_TRY(uf_index_put(&c->trained, uf_index_address(step->optimizer->store),
                                c->store_count++));
        }
    }
    return UF_OK;
}

static void reach(trained_store *store, int64_t offset, int64_t count) {
    store->first = offset < store->first ? offset : store->first;
    store->end = offset + count > store->end ? offset + count : store->end;
}

/* Let a copy lie among those of its store; for now as if these began with the first parameter. */
static uf_status put_among(casting *c, int64_t trained, const uf_store_slot *slot, int32_t copy) {
    uf_program *program = c->program;
    trained_store *store = &c->stores[trained];
    if (store->value == 0) {
        UF_TRY(uf_program_add_value(program, UF_BF16, &slot->shape, true, &store->value));
    }
    const int64_t offset = (int64_t)(slot->offset / sizeof(float));
    reach(store, offset, uf_shape_count(&slot->shape));
    program->values[copy].storage = program->values[store->value].storage;
    program->values[copy].offset = (size_t)offset * uf_dtype_size(UF_BF16);
    return UF_OK;
}

/* The newest copy of a parameter as it is at this step, made if there is none. */
static uf_status copy_of(casting *c, const uf_param_ref *ref, int32_t *copy) {
    int64_t slot;
    UF_TRY(uf_program_slot(c->program, ref, &slot));
    uf_store *store = uf_program_store(c->program, ref->store);
    const uf_store_slot *canonical = uf_store_canonical(store, slot);
    const uint64_t key = uf_index_address(canonical);
    const bool kept = uf_index_find(&c->averaged, uf_index_address(store)) < 0;
    const int64_t trained = kept ? uf_index_find(&c->trained, uf_index_address(store)) : -1;
    const int64_t changes = kept ? -1 : uf_index_find(&c->changes, uf_index_address(store));
    const int64_t found = uf_index_find(&c->copies, key);
    if (found >= 0 && c->made[found].changes == changes) {
        *copy = c->made[found].value;
        return UF_OK;
    }
    uf_step *step = NULL;
    UF_TRY(uf_program_add_value(c->program, UF_BF16, &canonical->shape, kept && trained < 0, copy));
    if (trained >= 0) {
        UF_TRY(put_among(c, trained, canonical, *copy));
    }
    UF_TRY(uf_program_add_step(c->program, UF_STEP_CAST, &step));
    step->kept = kept;
    step->source = (uf_param_ref){.store = store, .slot = slot};
    step->output = *copy;
    UF_TRY(uf_grow((void **)&c->made, c->made_count, &c->made_capacity, sizeof *c->made));
    UF_TRY(uf_index_put(&c->copies, key, c->made_count));
    c->made[c->made_count++] = (cast_copy){.value = *copy, .changes = changes, .trained = trained};
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

/* The copies of the store that this optimizer changes; NULL: nobody reads one. */
static trained_store *copies_for(const casting *c, const uf_step *step) {
    if (step->removed || step->kind != UF_STEP_OPTIMIZE) {
        return NULL;
    }
    const int64_t at = uf_index_find(&c->trained, uf_index_address(step->optimizer->store));
    return c->stores[at].value != 0 ? &c->stores[at] : NULL;
}

/* Let the optimizers write the copies, of whole spans each. */
static void write_copies(casting *c) {
    uf_program *program = c->program;
    const size_t size = uf_dtype_size(UF_BF16);
    for (int32_t s = 0; s < program->step_count; ++s) {
        const uf_step *step = &program->steps[s];
        trained_store *store = copies_for(c, step);
        for (int32_t i = 0; store != NULL && i < step->span_count; ++i) {
            reach(store, step->spans[i].offset, step->spans[i].count);
        }
    }
    for (int32_t s = 0; s < program->step_count; ++s) {
        uf_step *step = &program->steps[s];
        const trained_store *store = copies_for(c, step);
        if (store != NULL) {
            step->output = store->value;
            step->first_copied = store->first;
        }
    }
    for (int32_t i = 0; i < c->store_count; ++i) {
        const trained_store *store = &c->stores[i];
        uf_program_value *value = &program->values[store->value];
        if (store->value != 0) {
            const int64_t count = store->end - store->first;
            value->shape = UF_SHAPE(count);
            program->storages[value->storage].size = uf_align_up((size_t)count * size);
        }
    }
    for (int32_t i = 0; i < c->made_count; ++i) {
        const cast_copy *copy = &c->made[i];
        if (copy->trained >= 0) {
            program->values[copy->value].offset -= (size_t)c->stores[copy->trained].first * size;
        }
    }
}

uf_status uf_program_cast(uf_program *program) {
    casting c = {.program = program, .old = program->steps};
    const int32_t count = program->step_count;
    if (program->dtype != UF_BF16) {
        return UF_OK;
    }
    program->steps = NULL;
    program->step_count = program->step_capacity = 0;
    uf_status status = find_changed_stores(&c, count);
    if (status == UF_OK) {
        status = cast_steps(&c, count);
    }
    if (status == UF_OK) {
        write_copies(&c);
    }
    for (int32_t s = 0; s < count; ++s) {
        uf_step_free(&c.old[s]);
    }
    free(c.old);
    uf_index_free(&c.averaged);
    uf_index_free(&c.changes);
    uf_index_free(&c.copies);
    uf_index_free(&c.trained);
    free(c.made);
    free(c.stores);
    return status;
}
