/* fuse.c - what follows a convolution becomes its epilogue.
 *
 * conv -> batch norm in EVAL -> activation is one step: the batch norm is a scale and a shift per channel,
 * which are made once and again whenever a store's version changes. Each value in between must have one
 * reader and be no output. */
#include "graph/program.h"

static bool is_output(const uf_program *program, int32_t value) {
    for (int32_t i = 0; i < program->output_count; ++i) {
        if (program->outputs[i].value == value) {
            return true;
        }
    }
    return false;
}

/* The only reader of `value`, or NULL. */
static uf_step *only_reader(uf_program *program, int32_t value) {
    uf_step *reader = NULL;
    if (is_output(program, value)) {
        return NULL;
    }
    for (int32_t s = 0; s < program->step_count; ++s) {
        uf_step *step = &program->steps[s];
        for (int32_t i = 0; i < step->input_count && !step->removed; ++i) {
            if (step->inputs[i] == value) {
                if (reader != NULL) {
                    return NULL;
                }
                reader = step;
            }
        }
    }
    return reader;
}

/* Make `head` write what `next` wrote. */
static void absorb(uf_step *head, uf_step *next) {
    head->output = next->output;
    next->removed = true;
}

static uf_status absorb_scale(uf_program *program, uf_step *head) {
    uf_step *next = only_reader(program, head->output);
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

static void absorb_activation(uf_program *program, uf_step *head) {
    uf_step *next = only_reader(program, head->output);
    if (next != NULL && next->node->layer->fusion == UF_FUSION_ACTIVATION) {
        head->activation = next->node->layer->activation(next->node->attributes.bytes);
        absorb(head, next);
    }
}

uf_status uf_program_fuse(uf_program *program) {
    for (int32_t s = 0; s < program->step_count; ++s) {
        uf_step *head = &program->steps[s];
        const uf_fusion fusion = head->node->layer->fusion;
        if (head->removed) {
            continue;
        }
        if (fusion == UF_FUSION_HEAD) {
            UF_TRY(absorb_scale(program, head));
        }
        if (fusion == UF_FUSION_HEAD || fusion == UF_FUSION_SCALE) {
            absorb_activation(program, head);
        }
    }
    return UF_OK;
}
