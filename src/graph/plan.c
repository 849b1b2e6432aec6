/* plan.c - where every value of a program lives.
 *
 * A storage is alive from the first to the last step that touches it. Two storages may share memory when
 * their lives do not meet. Placement is greedy by size, largest first, each at the lowest offset that is
 * free during its life: on chains of layers this is within a few per cent of the best. */
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
    }
    for (int32_t p = 0; p < program->pass_count; ++p) {
        for (int32_t i = 0; i < program->passes[p].loss_count; ++i) {
            touch(program, program->options->passes[p].losses[i].id, program->step_count); /* recorded */
        }
    }
}

/* Give every value of storage `from` to storage `to`. */
static void merge(uf_program *program, int32_t from, int32_t to) {
    for (int32_t v = 0; v < program->value_count; ++v) {
        if (program->values[v].storage == from) {
            program->values[v].storage = to;
        }
    }
    uf_storage *kept = &program->storages[to];
    uf_storage *gone = &program->storages[from];
    kept->first = gone->first >= 0 && gone->first < kept->first ? gone->first : kept->first;
    kept->last = gone->last > kept->last ? gone->last : kept->last;
    gone->first = gone->last = -1;
    gone->size = 0;
}

/* Let steps that may write over their first input do so when nobody reads it later. */
static void overwrite_inputs(uf_program *program) {
    for (int32_t s = 0; s < program->step_count; ++s) {
        const uf_step *step = &program->steps[s];
        if (step->removed || step->kind != UF_STEP_FORWARD || !step->node->layer->may_overwrite_input) {
            continue;
        }
        const int32_t in = program->values[step->inputs[0]].storage;
        const int32_t out = program->values[step->output].storage;
        const uf_storage *source = &program->storages[in];
        const uf_storage *target = &program->storages[out];
        if (in != out && !source->persistent && !target->persistent && source->last == s &&
            target->first == s && source->size == target->size) {
            merge(program, out, in);
        }
    }
}

static bool lives_meet(const uf_storage *a, const uf_storage *b) {
    return a->persistent || b->persistent || (a->first <= b->last && b->first <= a->last);
}

static int larger_first(const void *a, const void *b) {
    const uf_storage *left = *(uf_storage *const *)a;
    const uf_storage *right = *(uf_storage *const *)b;
    if (left->size != right->size) {
        return left->size > right->size ? -1 : 1;
    }
    return left < right ? -1 : left > right; /* by index: qsort is not stable */
}

/* The lowest offset at which `storage` meets none of the `count` placed ones. */
static size_t lowest_offset(uf_storage *const *placed, int32_t count, const uf_storage *storage) {
    size_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t i = 0; i < count; ++i) {
            const uf_storage *other = placed[i];
            if (lives_meet(other, storage) && other->offset < offset + storage->size &&
                offset < other->offset + other->size) {
                offset = other->offset + other->size;
                moved = true;
            }
        }
    }
    return offset;
}

uf_status uf_program_plan(uf_program *program) {
    find_lives(program);
    if (program->plan != UF_PLAN_NO_REUSE) {
        overwrite_inputs(program);
    }
    uf_storage **order = malloc(((size_t)program->storage_count + 1) * sizeof *order);
    if (order == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a plan of %d values",
                (int)program->storage_count);
    }
    int32_t count = 0;
    for (int32_t i = 0; i < program->storage_count; ++i) {
        uf_storage *storage = &program->storages[i];
        if (storage->persistent || storage->first >= 0) {
            order[count++] = storage;
        }
    }
    if (program->plan != UF_PLAN_NO_REUSE) {
        qsort(order, (size_t)count, sizeof *order, larger_first);
    }
    size_t end = 0;
    for (int32_t i = 0; i < count; ++i) {
        order[i]->offset = program->plan == UF_PLAN_NO_REUSE ? end : lowest_offset(order, i, order[i]);
        const size_t reach = order[i]->offset + order[i]->size;
        end = reach > end ? reach : end;
    }
    free(order);
    UF_TRY(uf_context_allocate(program->context, end, UF_MEMORY_DEVICE, &program->arena));
    program->arena_size = end;
    return program->context->device->zero(program->context, program->arena, end);
}
