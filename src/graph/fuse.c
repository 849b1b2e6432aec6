/* fuse.c - what follows a convolution becomes its epilogue.
 *
 * conv -> batch norm in EVAL -> activation is one step: the batch norm is a scale and a shift per
 * channel, which are made once and again whenever a store's version changes. Each value in between
 * must have one reader and be no output. */
#include "graph/program.h"

#include <stdlib.h>

/* Per graph value: the number of the only step that reads it, or one of these. */
enum { NO_READER = -1, NOT_ALONE = -2 };

/* Fusion removes the readers of values that only they read, so this stays true while it goes on. */
static int32_t *find_readers(const uf_program *program) {
    int32_t *readers = malloc((size_t)program->value_count * sizeof *readers);
    if (readers == NULL) {
        return NULL;
    }
    for (int32_t v = 0; v < program->value_count; ++v) {
        readers[v] = NO_READER;
    }
    for (int32_t i = 0; i < program->output_count; ++i) {
        readers[program->outputs[i].value] = NOT_ALONE; /* the user reads it */
    }
    for (int32_t s = 0; s < program->step_count; ++s) {
        const uf_step *step = &program->steps[s];
        for (int32_t i = 0; i < step->input_count; ++i) {
            int32_t *reader = &readers[step->inputs[i]];
            *reader = *reader == NO_READER ? s : NOT_ALONE;
        }
    }
    return readers;
}

/* The only reader of what `head` writes, or NULL. */
static uf_step *only_reader(uf_program *program, const int32_t *readers, const uf_step *head) {
    const int32_t reader = readers[head->output];
    return reader >= 0 ? &program->steps[reader] : NULL;
}

/* Make `head` write what `next` wrote. */
static void absorb(uf_step *head, uf_step *next) {
    head->output = next->output;
    next->removed = true;
}

static uf_status absorb_scale(uf_program *program, const int32_t *readers, uf_step *head) {
    uf_step *next = only_reader(program, readers, head);
    if (next == NULL || next->training || next->node->layer->fusion != UF_FUSION_SCALE) {
        return UF_OK;
    }
    const uf_shape *shape = &program->values[head->output].shape;
    const uf_shape channels = UF_SHAPE(shape->extent[1]);
    UF_TRY(uf_program_add_value(program, program->dtype, &channels, true, &head->scale));
    UF_TRY(uf_program_add_value(program, program->dtype, &channels, true, &head->shift));
    head->scale_node = next->node;
    absorb(head, next);
    return UF_OK;
}

static void absorb_activation(uf_program *program, const int32_t *readers, uf_step *head) {
    uf_step *next = only_reader(program, readers, head);
    if (next != NULL && next->node->layer->fusion == UF_FUSION_ACTIVATION) {
        head->activation = next->node->layer->activation(next->node->attributes.bytes);
        absorb(head, next);
    }
}

uf_status uf_program_fuse(uf_program *program) {
    int32_t *readers = find_readers(program);
    uf_status status = UF_OK;
    if (readers == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a program");
    }
    for (int32_t s = 0; s < program->step_count && status == UF_OK; ++s) {
        uf_step *head = &program->steps[s];
        const uf_fusion fusion = head->node->layer->fusion;
        if (head->removed) {
            continue;
        }
        if (fusion == UF_FUSION_HEAD) {
            status = absorb_scale(program, readers, head);
        }
        if (fusion == UF_FUSION_HEAD || fusion == UF_FUSION_SCALE) {
            absorb_activation(program, readers, head);
        }
    }
    free(readers);
    return status;
}
