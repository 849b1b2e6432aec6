/* program.c - the program as a container of values and steps. */
#include "graph/program.h"

#include <stdlib.h>
#include <string.h>

uf_status uf_program_add_value(uf_program *program, uf_dtype dtype, const uf_shape *shape,
                               bool persistent, int32_t *value) {
    if (program->value_count == program->value_capacity) {
        const int32_t capacity = program->value_capacity * 2;
        uf_program_value *values = realloc(program->values, (size_t)capacity * sizeof *values);
        if (values != NULL) {
            program->values = values;
        }
        uf_storage *storages = realloc(program->storages, (size_t)capacity * sizeof *storages);
        if (storages != NULL) {
            program->storages = storages;
        }
        if (values == NULL || storages == NULL) {
            UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a program");
        }
        program->value_capacity = capacity;
    }
    size_t bytes;
    UF_TRY(uf_tensor_bytes("a value of the program", dtype, shape, &bytes));
    program->storages[program->storage_count] = (uf_storage){
        .size = uf_align_up(bytes),
        .first = -1,
        .last = -1,
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
    if (program->step_count == program->step_capacity) {
        const int32_t capacity = program->step_capacity == 0 ? 32 : program->step_capacity * 2;
        uf_step *steps = realloc(program->steps, (size_t)capacity * sizeof *steps);
        if (steps == NULL) {
            UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a program");
        }
        program->steps = steps;
        program->step_capacity = capacity;
    }
    *step = &program->steps[program->step_count++];
    memset(*step, 0, sizeof **step);
    (*step)->kind = kind;
    return UF_OK;
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
    uf_context_release(program->context, program->workspace, program->workspace_size, UF_MEMORY_DEVICE);
    uf_context_release(program->context, program->record.ring, UF_LOSS_RING * sizeof(uf_loss_entry),
                       UF_MEMORY_PINNED);
    uf_context_release(program->context, program->record.step, sizeof(int64_t), UF_MEMORY_DEVICE);
    for (int32_t p = 0; p < program->pass_count; ++p) {
        free(program->passes[p].gradients);
        free(program->passes[p].seeds);
    }
    for (int32_t s = 0; s < program->step_count; ++s) {
        uf_optimizer *optimizer = program->steps[s].optimizer;
        uf_object_release(optimizer != NULL ? &optimizer->object : NULL);
        free(program->steps[s].spans);
    }
    for (int32_t i = 0; i < program->store_count; ++i) {
        uf_object_release(&program->stores[i]->object);
    }
    uf_object_release(&program->graph->object);
    free(program->params);
    free(program->passes);
    free(program->borrowed);
    free(program->forward_pass);
    free(program->forward_step);
    free(program->values);
    free(program->storages);
    free(program->steps);
    free(program->inputs);
    free(program->outputs);
    free(program->stores);
    free(program);
}
