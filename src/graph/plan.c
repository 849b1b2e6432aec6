/* plan.c - where every value of a program lives.
 *
 * A storage is alive from the first to the last step that touches it, or always. Two storages may
 * share memory when their lives do not meet. Placement is greedy by size, largest first, each at
 * the lowest offset that is free during its life (place.c): on chains of layers this is within a
 * few per cent of the best. */
#include "graph/program.h"

#include <stdlib.h>
#include <string.h>

static void touch(uf_program *program, int32_t value, int32_t step) {
    if (value == 0) {
        return;
    }
    uf_storage *storage = &program->storages[program->values[value].storage];
    if (storage->first < 0) {
        storage->first = step;
    }
    storage->last = step;
}

static void find_lives(uf_program *program) {
    for (int32_t i = 0; i < program->storage_count; ++i) {
        program->storages[i].first = program->storages[i].last = -1;
    }
    for (int32_t s = 0; s < program->step_count; ++s) {
        const uf_step *step = &program->steps[s];
        if (step->removed) {
            continue;
        }
        for (int32_t i = 0; i < step->input_count; ++i) {
            touch(program, step->inputs[i], s);
            touch(program, step->grad_inputs[i], s);
        }
        touch(program, step->output, s);
        touch(program, step->grad_output, s);
        for (int32_t i = 0; i < step->saved_count; ++i) {
            touch(program, step->saved[i], s);
        }
        for (int32_t i = 0; i < UF_MAX_PARAMS; ++i) {
            touch(program, step->params[i], s);
        }
    }
    for (int32_t p = 0; p < program->pass_count; ++p) {
        for (int32_t i = 0; i < program->passes[p].loss_count; ++i) {
            touch(program, program->options->passes[p].losses[i].id,
                  program->step_count); /* recorded */
        }
    }
}

/* Let storage `holder` take over storage `from`, which begins where the holder ends: nothing that
 * has taken over another is taken over itself. */
static void take_over(uf_program *program, int32_t holder, int32_t from) {
    uf_storage *kept = &program->storages[holder];
    uf_storage *gone = &program->storages[from];
    kept->last = gone->last;
    gone->first = gone->last = -1;
    gone->size = 0;
    gone->holder = holder;
}

static int32_t holder_of(const uf_program *program, int32_t value) {
    return program->storages[program->values[value].storage].holder;
}

/* Let `written` have the memory of `read`, both of step `s`, if nobody reads that later. */
static bool overwrite_value(uf_program *program, int32_t s, int32_t read, int32_t written) {
    const int32_t in = holder_of(program, read);
    const int32_t out = holder_of(program, written);
    const uf_storage *source = &program->storages[in];
    const uf_storage *target = &program->storages[out];
    if (program->values[read].pitch != 0 || program->values[written].pitch != 0 ||
        program->values[read].offset != program->values[written].offset) {
        return false; /* an element of one is not an element of the other */
    }
    if (uf_shape_count(&program->values[read].shape) !=
        uf_shape_count(&program->values[written].shape)) {
        return false; /* one is broadcast; sizes do not tell, which are rounded up */
    }
    if (in == out || source->persistent || target->persistent || source->last != s ||
        target->first != s || source->size != target->size) {
        return false;
    }
    take_over(program, in, out);
    return true;
}

/* Let the output be written over an input, or an input's gradient over the output's. */
static void overwrite_in_step(uf_program *program, int32_t s) {
    const uf_step *step = &program->steps[s];
    const uf_layer *layer = step->node->layer;
    bool done = false;
    if (step->kind == UF_STEP_FORWARD) {
        for (int32_t i = 0; i < layer->overwrites_inputs && !done; ++i) {
            done = overwrite_value(program, s, step->inputs[i], step->output);
        }
    } else if (layer->overwrites_gradient) {
        for (int32_t i = 0; i < step->input_count && !done; ++i) {
            done = step->grad_inputs[i] != 0 && step->grad_input_modes[i] == UF_OVERWRITE &&
                   overwrite_value(program, s, step->grad_output, step->grad_inputs[i]);
        }
    }
}

/* Let steps write over what they read when nobody reads it later. */
static void overwrite(uf_program *program) {
    for (int32_t s = 0; s < program->step_count; ++s) {
        if (!program->steps[s].removed && program->steps[s].node != NULL) {
            overwrite_in_step(program, s);
        }
    }
    for (int32_t v = 0; v < program->value_count; ++v) {
        program->values[v].storage = holder_of(program, v);
    }
}

static int larger_first(const void *a, const void *b) {
    const uf_storage *left = *(uf_storage *const *)a;
    const uf_storage *right = *(uf_storage *const *)b;
    if (left->size != right->size) {
        return left->size > right->size ? -1 : 1;
    }
    return left < right ? -1 : left > right; /* by index: qsort is not stable */
}

static int dies_first(const void *a, const void *b) {
    const uf_storage *left = *(uf_storage *const *)a;
    const uf_storage *right = *(uf_storage *const *)b;
    if (left->last != right->last) {
        return left->last < right->last ? -1 : 1;
    }
    return left < right ? -1 : left > right;
}

/* Keep the list of storages to fill with NaN when they die. */
static uf_status keep_mortals(uf_program *program, uf_storage *const *order, int32_t count) {
    program->mortals = malloc(((size_t)count + 1) * sizeof *program->mortals);
    if (program->mortals == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a plan of %d values", (int)count);
    }
    memcpy(program->mortals, order, (size_t)count * sizeof *order);
    program->mortal_count = count;
    qsort(program->mortals, (size_t)count, sizeof *program->mortals, dies_first);
    return UF_OK;
}

/* Persistent storages lie below, side by side; above them memory is shared. `order` has room for
 * all storages. */
static uf_status assign_offsets(uf_program *program, uf_storage **order) {
    int32_t count = 0;
    for (int32_t i = 0; i < program->storage_count; ++i) {
        uf_storage *storage = &program->storages[i];
        if (storage->persistent || (storage->first >= 0 && program->plan == UF_PLAN_NO_REUSE)) {
            storage->offset = program->arena_size;
            UF_TRY(uf_arena_reach(storage, &program->arena_size));
        } else if (storage->first >= 0) {
            order[count++] = storage;
        }
    }
    qsort(order, (size_t)count, sizeof *order, larger_first);
    UF_TRY(uf_place(order, count, program->step_count, &program->arena_size));
    return program->plan == UF_PLAN_POISON ? keep_mortals(program, order, count) : UF_OK;
}

uf_status uf_program_plan(uf_program *program) {
    find_lives(program);
    if (program->plan != UF_PLAN_NO_REUSE) {
        UF_TRY(uf_program_slice(program));
        overwrite(program);
    }
    uf_storage **order = malloc(((size_t)program->storage_count + 1) * sizeof *order);
    if (order == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a plan of %d values",
                (int)program->storage_count);
    }
    const uf_status status = assign_offsets(program, order);
    free(order);
    UF_TRY(status);
    UF_TRY(uf_context_allocate(program->context, program->arena_size, UF_MEMORY_DEVICE,
                               &program->arena));
    return program->context->device->zero(program->context, program->arena, program->arena_size);
}
