/* program.c - the program as a container of values and steps. */
#include "graph/program.h"

#include <stdlib.h>
#include <string.h>

uf_status uf_program_add_value(uf_program *program, uf_dtype dtype, const uf_shape *shape,
                               bool persistent, int32_t *value) {
    UF_TRY(uf_grow((void **)&program->values, program->value_count, &program->value_capacity,
                   sizeof *program->values));
    UF_TRY(uf_grow((void **)&program->storages, program->storage_count, &program->storage_capacity,
                   sizeof *program->storages));
    size_t bytes;
    UF_TRY(uf_tensor_bytes("a value of the program", dtype, shape, &bytes));
    program->storages[program->storage_count] = (uf_storage){
        .size = uf_align_up(bytes),
        .first = -1,
        .last = -1,
        .holder = program->storage_count,
        .persistent = persistent,
    };
    program->values[program->value_count] = (uf_program_value){
        .shape = *shape,
        .dtype = dtype,
        .storage = program->storage_count,
    };
    program->storage_count += 1;
    *value = program->value_count;
    program->value_count += 1;
    return UF_OK;
}

uf_status uf_program_add_step(uf_program *program, uf_step_kind kind, uf_step **step) {
    UF_TRY(uf_grow((void **)&program->steps, program->step_count, &program->step_capacity,
                   sizeof *program->steps));
    *step = &program->steps[program->step_count++];
    memset(*step, 0, sizeof **step);
    (*step)->kind = kind;
    (*step)->packed = -1;
    return UF_OK;
}

void uf_step_free(uf_step *step) {
    uf_object_release(step->optimizer != NULL ? &step->optimizer->object : NULL);
    uf_object_release(step->ema != NULL ? &step->ema->object : NULL);
    free(step->spans);
    free(step->scale_exec);
    free(step->own_node);
}

uf_status uf_program_lend(uf_program *program, int32_t value) {
    UF_TRY(uf_grow((void **)&program->borrowed, program->borrowed_count,
                   &program->borrowed_capacity, sizeof *program->borrowed));
    uf_program_io *io = &program->borrowed[program->borrowed_count++];
    memset(io, 0, sizeof *io);
    io->value = value;
    return UF_OK;
}

void uf_program_free_scratch(uf_program *program) {
    uf_scratch *scratch = &program->scratch;
    free(scratch->mark);
    free(scratch->nodes);
    free(scratch->asked);
    free(scratch->wanted);
    free(scratch->written);
    free(scratch->balanced);
    free(scratch->gradient);
    memset(scratch, 0, sizeof *scratch);
    free(program->scope_modes);
    program->scope_modes = NULL;
    uf_index_free(&program->bindings);
    uf_index_free(&program->changes);
    free(program->forward_pass);
    free(program->forward_step);
    program->forward_pass = program->forward_step = NULL;
}

void uf_program_destroy(uf_program *program) {
    uf_object_release(program != NULL ? &program->object : NULL);
}

void uf_program_free(uf_object *object) {
    uf_program *program = (uf_program *)object;
    if (program->recording != NULL) {
        program->context->device->record_destroy(program->context, program->recording);
    }
    uf_context_release(program->context, program->arena, program->arena_size, UF_MEMORY_DEVICE);
    uf_context_release(program->context, program->workspace, program->workspace_size,
                       UF_MEMORY_DEVICE);
    uf_context_release(program->context, program->packed, program->packed_size, UF_MEMORY_DEVICE);
    uf_context_release(program->context, program->record.ring, UF_LOSS_RING * sizeof(uf_loss_entry),
                       UF_MEMORY_PINNED);
    uf_context_release(program->context, program->record.step, sizeof(int64_t), UF_MEMORY_DEVICE);
    uf_context_release(program->context, program->random_step, sizeof(int64_t), UF_MEMORY_DEVICE);
    for (int32_t p = 0; p < program->pass_count; ++p) {
        uf_index_free(&program->passes[p].gradients);
    }
    for (int32_t s = 0; s < program->step_count; ++s) {
        uf_step_free(&program->steps[s]);
    }
    for (int32_t i = 0; i < program->store_count; ++i) {
        uf_object_release(&program->stores[i]->object);
    }
    uf_object_release(&program->graph->object);
    free(program->packs);
    free(program->params);
    uf_index_free(&program->store_numbers);
    free(program->mortals);
    free(program->passes);
    free(program->borrowed);
    free(program->values);
    free(program->storages);
    free(program->steps);
    free(program->inputs);
    free(program->outputs);
    free(program->stores);
    free(program);
}
