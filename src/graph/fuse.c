/* fuse.c - what follows a layer becomes a part of it. (Nearest upsampling becomes a part of what
 * follows: upsample.c.)
 *
 * An activation becomes the epilogue of the convolution or the norm before it. conv -> batch
 * norm in EVAL -> activation is one step: the batch norm is a scale and a shift per channel, which
 * are made once and again whenever a store's version changes.
 *
 * The value in between must have one reader. A backward step that reads it is another one, so in a
 * training program an activation is taken when its derivative does without its input. A batch norm
 * of a training program is never folded: its weights change within a run.
 *
 * A dropout in EVAL between a convolution or a norm and an activation is left away.
 *
 * Backward, a norm takes the activation behind it where no other step adds to the gradient in
 * between: it makes the activation's input again from its own, which it reads anyway. Behind a
 * convolution the activation's backward step stays. */
#include "graph/program.h"

#include <stdlib.h>

/* Per value: the number of the only step that reads or writes it, or one of these. */
enum { NO_STEP = -1, NOT_ALONE = -2 };

static void note(int32_t *steps, int32_t value, int32_t step) {
    steps[value] = steps[value] == NO_STEP ? step : NOT_ALONE;
}

/* An activation that may become part of another step. */
static bool is_fusible(const uf_step *step) {
    const uf_layer *layer = step->node->layer;
    return layer->fusion == UF_FUSION_ACTIVATION &&
           !uf_activation_has_maximum(layer->activation(step->node->attributes.bytes).kind);
}

/* The steps that write gradients, in `steps` with room for all values. */
static void find_writers(const uf_program *program, int32_t *steps) {
    for (int32_t v = 0; v < program->value_count; ++v) {
        steps[v] = NO_STEP;
    }
    for (int32_t s = 0; s < program->step_count; ++s) {
        const uf_step *step = &program->steps[s];
        if (step->kind == UF_STEP_SEED) {
            note(steps, step->output, s);
        }
        for (int32_t i = 0; i < step->input_count && !step->removed; ++i) {
            note(steps, step->grad_inputs[i], s);
        }
    }
}

/* Does the layer take an activation behind it, in either direction? */
static bool is_norm(const uf_step *step) {
    const uf_fusion fusion = step->node->layer->fusion;
    return fusion == UF_FUSION_SCALE || fusion == UF_FUSION_NORM;
}

/* Let a norm's backward step go back through the activation behind it, too. */
static void absorb_backward(uf_program *program, const int32_t *writers) {
    for (int32_t s = 0; s < program->step_count; ++s) {
        uf_step *step = &program->steps[s];
        if (step->kind != UF_STEP_BACKWARD || step->removed || !is_norm(step)) {
            continue;
        }
        const uf_program_value *gradient = &program->values[step->grad_output];
        const int32_t writer = writers[step->grad_output];
        uf_step *behind = writer >= 0 ? &program->steps[writer] : NULL;
        if (behind != NULL && behind->kind == UF_STEP_BACKWARD && is_fusible(behind) &&
            !program->storages[gradient->storage].persistent) { /* the user reads it */
            step->grad_output = behind->grad_output;
            step->activation = behind->node->layer->activation(behind->node->attributes.bytes);
            behind->removed = true;
        }
    }
}

/* The steps that read values, in `readers` with room for all values. Fusion removes the readers of
 * values that only they read, so this stays true while it goes on. */
static void find_readers(const uf_program *program, int32_t *readers) {
    for (int32_t v = 0; v < program->value_count; ++v) {
        readers[v] = NO_STEP;
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
            note(readers, step->inputs[i], s);
        }
        if (step->kind == UF_STEP_BACKWARD && !step->removed) {
            note(readers, step->output, s);
        }
    }
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
    if (head->node->layer->channels_last && shape->rank != 2) {
        return UF_OK; /* the batch norm's channels are axis 1 */
    }
    if (head->node->input_count > UF_INPUT_BIAS) {
        return UF_OK; /* the shift is made before the run, in which the bias is */
    }
    const uf_shape channels = UF_SHAPE(shape->extent[1]);
    const uf_dtype dtype = program->values[head->output].dtype;
    UF_TRY(uf_program_add_value(program, dtype, &channels, true, &head->scale));
    UF_TRY(uf_program_add_value(program, dtype, &channels, true, &head->shift));
    head->scale_node = next->node;
    absorb(head, next);
    return UF_OK;
}

static void absorb_identity(uf_program *program, const int32_t *readers, uf_step *head) {
    uf_step *next = only_reader(program, readers, head, UF_FUSION_IDENTITY);
    if (next != NULL && !next->training) {
        absorb(head, next);
    }
}

static void absorb_activation(uf_program *program, const int32_t *readers, uf_step *head) {
    uf_step *next = only_reader(program, readers, head, UF_FUSION_ACTIVATION);
    if (next != NULL && is_fusible(next)) {
        head->activation = next->node->layer->activation(next->node->attributes.bytes);
        absorb(head, next);
    }
}

/* Let steps take what follows them. */
static uf_status absorb_forward(uf_program *program, const int32_t *readers) {
    uf_status status = UF_OK;
    for (int32_t s = 0; s < program->step_count && status == UF_OK; ++s) {
        uf_step *head = &program->steps[s];
        if (head->removed || head->kind != UF_STEP_FORWARD) {
            continue;
        }
        const uf_fusion fusion = head->node->layer->fusion;
        if (fusion == UF_FUSION_HEAD) {
            status = absorb_scale(program, readers, head);
        }
        if (fusion == UF_FUSION_HEAD || is_norm(head)) {
            absorb_identity(program, readers, head);
            absorb_activation(program, readers, head);
        }
    }
    return status;
}

uf_status uf_program_fuse(uf_program *program) {
    int32_t *steps = malloc((size_t)program->value_count * sizeof *steps);
    if (steps == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a program");
    }
    find_writers(program, steps);
    absorb_backward(program, steps);
    /* Now, for a backward step that is gone reads nothing any more. */
    find_readers(program, steps);
    uf_status status = uf_program_merge_upsampling(program, steps);
    if (status == UF_OK) {
        status = absorb_forward(program, steps);
    }
    free(steps);
    return status;
}
