/* nonfinite.c - the first number of a run that is not finite. */
#include <unfurl/inspect.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/program.h"

enum { CHUNK = 1 << 16 }; /* elements that are downloaded at a time */

typedef struct search {
    uf_program *program;
    uf_watch watch;
    uf_nonfinite *found;
    void *raw; /* CHUNK elements of any type */
    double *numbers;
} search;

/* The words of what is looked at next: `before` holds none of a step. */
static const uf_step_words of_input = {.name = "", .layer = "input", .step = "before"};
static const uf_step_words of_parameter = {.name = "", .layer = "parameter", .step = "before"};

static void note(search *s, const uf_step_words *words, const char *value, const char *owner,
                 const uf_shape *shape, int64_t index, double number) {
    uf_nonfinite *found = s->found;
    found->found = true;
    found->name = words->name;
    found->layer = words->layer;
    found->step = words->step;
    snprintf(found->value, sizeof found->value, "%s%s", value, owner);
    found->shape = *shape;
    found->index = index;
    found->number = number;
    s->watch.stops = true;
}

/* Look at one view, whose images (extent 0) may have gaps between them. The value's name is `value`
 * with `owner` behind it. Nothing to do once something was found. */
static uf_status look_at(search *s, const uf_step_words *words, const char *value,
                         const char *owner, const uf_view *view, const uf_shape *shape) {
    const size_t size = uf_dtype_size(view->dtype);
    const int64_t image = view->extent[1] * view->extent[2] * view->extent[3];
    for (int64_t n = 0; n < view->extent[0] && view->data != NULL; ++n) {
        const char *data = (const char *)view->data + (size_t)(n * view->stride[0]) * size;
        for (int64_t first = 0; first < image && !s->watch.stops; first += CHUNK) {
            const int64_t count = image - first < CHUNK ? image - first : CHUNK;
            uf_context *context = s->program->context;
            UF_TRY(context->device->download(context, s->raw, data + (size_t)first * size,
                                             (size_t)count * size));
            uf_convert(s->numbers, UF_F64, s->raw, view->dtype, count);
            for (int64_t i = 0; i < count && !s->watch.stops; ++i) {
                if (!isfinite(s->numbers[i])) {
                    note(s, words, value, owner, shape, n * image + first + i, s->numbers[i]);
                }
            }
        }
    }
    return UF_OK;
}

static uf_status look_at_tensor(search *s, const uf_step_words *words, const char *value,
                                const char *owner, const uf_tensor *tensor) {
    const uf_view view = uf_view_of(tensor->data, tensor->dtype, &tensor->shape);
    return look_at(s, words, value, owner, &view, &tensor->shape);
}

/* Inputs, whatever the steps read of the stores, and the copies in bf16 that are kept of that,
 * where a number beyond the largest of bf16 is infinite. */
static uf_status look_before(search *s) {
    const uf_program *program = s->program;
    for (int32_t i = 0; i < program->input_count; ++i) {
        uf_step_words words = of_input;
        words.name = program->inputs[i].name;
        UF_TRY(look_at_tensor(s, &words, "output", "", &program->inputs[i].tensor));
    }
    for (int32_t i = 0; i < program->param_count; ++i) {
        const uf_store_slot *slot = &program->params[i].store->slots[program->params[i].slot];
        if (slot->role != UF_ROLE_COUNTER) {
            UF_TRY(look_at_tensor(s, &of_parameter, slot->name, "", &slot->tensor));
        }
    }
    for (int32_t i = 0; i < program->step_count; ++i) {
        const uf_step *step = &program->steps[i];
        if (step->kind == UF_STEP_CAST && step->kept) {
            const uf_step_words words = uf_step_describe(step);
            UF_TRY(look_at(s, &words, "output", "", &step->exec.output,
                           &program->values[step->output].shape));
        }
    }
    return UF_OK;
}

static uf_status look_at_gradients(search *s, const uf_step *step, const uf_step_words *words) {
    const uf_program *program = s->program;
    char value[32];
    for (int32_t i = 0; i < step->node->input_count; ++i) {
        if (step->grad_inputs[i] != 0) {
            snprintf(value, sizeof value, "gradient of input %d", (int)i);
            UF_TRY(look_at(s, words, value, "", &step->exec.grad_inputs[i],
                           &program->values[step->grad_inputs[i]].shape));
        }
    }
    for (int32_t i = 0; i < step->node->param_count; ++i) {
        if (step->grad_params[i] != NULL) {
            const uf_param_ref *ref = &step->node->params[i];
            UF_TRY(look_at_tensor(s, words, "gradient of ", ref->store->slots[ref->slot].name,
                                  step->grad_params[i]));
        }
    }
    return UF_OK;
}

/* A layer's result, and the buffers that it changed. */
static uf_status look_at_results(search *s, const uf_step *step, const uf_step_words *words) {
    const uf_node *node = step->node;
    UF_TRY(look_at(s, words, "output", "", &step->exec.output,
                   &s->program->values[step->output].shape));
    if (!step->training || node == NULL || !node->layer->has_buffer_effects) {
        return UF_OK;
    }
    for (int32_t i = 0; i < node->param_count; ++i) {
        const uf_store_slot *slot = &node->params[i].store->slots[node->params[i].slot];
        if (slot->role == UF_ROLE_BUFFER) {
            UF_TRY(look_at(s, words, slot->name, "", &step->exec.params[i], &slot->tensor.shape));
        }
    }
    return UF_OK;
}

static uf_status look_at_store(search *s, const uf_step *step, const uf_step_words *words) {
    const uf_store *store = step->optimizer->store;
    for (int64_t i = 0; i < store->count; ++i) {
        if (store->slots[i].role == UF_ROLE_PARAMETER) {
            UF_TRY(look_at_tensor(s, words, store->slots[i].name, "", &store->slots[i].tensor));
        }
    }
    return UF_OK;
}

static uf_status look(void *user, int32_t number) {
    search *s = user;
    if (number < 0) {
        return look_before(s);
    }
    const uf_step *step = &s->program->steps[number];
    const uf_step_words words = uf_step_describe(step);
    switch (step->kind) {
    case UF_STEP_BACKWARD:
        return look_at_gradients(s, step, &words);
    case UF_STEP_OPTIMIZE:
        return look_at_store(s, step, &words);
    case UF_STEP_ZERO:
    case UF_STEP_SQUARES:
    case UF_STEP_CLIP:    /* of gradients that have been looked at */
    case UF_STEP_AVERAGE: /* of parameters that have been looked at */
        return UF_OK;
    case UF_STEP_FORWARD:
    case UF_STEP_SEED:
    case UF_STEP_CAST:
        break;
    }
    return look_at_results(s, step, &words);
}

uf_status uf_program_find_nonfinite_sized(uf_program *program, uf_nonfinite *found,
                                          size_t found_size) {
    UF_CHECK_ARG(found != NULL, "uf_program_find_nonfinite: found is NULL");
    uf_nonfinite known;
    memset(&known, 0, sizeof known);
    uf_give_struct(&known, sizeof known, found, found_size);
    UF_CHECK_ARG(program != NULL, "uf_program_find_nonfinite: program is NULL");
    search s = {.program = program, .found = &known};
    s.watch.look = look;
    s.watch.user = &s;
    s.raw = malloc(CHUNK * sizeof(double));
    s.numbers = malloc(CHUNK * sizeof *s.numbers);
    const uf_status status =
        s.raw != NULL && s.numbers != NULL
            ? uf_program_run_watched(program, &s.watch)
            : uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory to look at numbers");
    if (status == UF_OK) {
        uf_give_struct(&known, sizeof known, found, found_size);
    }
    free(s.raw);
    free(s.numbers);
    return status;
}
