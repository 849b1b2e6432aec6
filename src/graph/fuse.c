/* fuse.c - what follows a convolution becomes its epilogue.
 *
 * An activation becomes the epilogue of the convolution or the batch norm before it. conv -> batch
 * norm in EVAL -> activation is one step: the batch norm is a scale and a shift per channel, which
 * are made once and again whenever a store's version changes.
 *
 * The value in between must have one reader. A backward step that reads it is another one, so in a
 * training program an activation is taken when its derivative does without its input. Its backward
 * step stays. A batch norm of a training program is never folded: its weights change within a
 * run. */
#include "graph/program.h"

#include <stdlib.h>

/* Per graph value: the number of the only step that reads it, or one of these. */
enum { NO_READER = -1, NOT_ALONE = -2 };

static void note_reader(int32_t *readers, int32_t value, int32_t step) {
    readers[value] = readers[value] == NO_READER ? step : NOT_ALONE;
}

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
    for (int32_t p = 0; p < program->pass_count; ++p) {
        const uf_pass *pass = &program->options->passes[p];
        for (int32_t i = 0; i < pass->loss_count; ++i) {
            readers[pass->losses[i].id] = NOT_ALONE; /* recorded after the run */
        }
    }
    for (int32_t s = 0; s < program->step_count; ++s) {
        const uf_step *step = &program->steps[s];
        for (int32_t i = 0; i < step->input_count && !step->removed; ++i) {
            note_reader(readers, step->inputs[i], s);
        }
        if (step->kind == UF_STEP_BACKWARD && !step->removed) {
            note_reader(readers, step->output, s);
        }
    }
    return readers;
}

/* The only reader of what `head` writes, where it is a layer that may be taken as `fusion`; or
 * NULL. */
static uf_step *only_reader(uf_program *program, const int32_t *readers, const uf_step *head,
                            uf_fusion fusion) {
    const int32_t reader = readers[head->output];
    uf_step *next = reader >= 0 ? &program->steps[reader] : NULL;
    return next != NULL && next->kind == UF_STEP_FORWARD && next->node->layer->fusion == fusion
               ? next
               : NULL;
}

/* Make `head` write what `next` wrote. */
static void absorb(uf_step *head, uf_step *next) {
    head->output = next->output;
    next->removed = true;
}

static uf_status absorb_scale(uf_program *program, const int32_t *readers, uf_step *head) {
    uf_step *next = only_reader(program, readers, head, UF_FUSION_SCALE);
    if (next == NULL || next->training || program->pass_count > 0) {
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
    uf_step *next = only_reader(program, readers, head, UF_FUSION_ACTIVATION);
    if (next != NULL) {
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
        if (head->removed || head->kind != UF_STEP_FORWARD) {
            continue;
        }
        const uf_fusion fusion = head->node->layer->fusion;
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
