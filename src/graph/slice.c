/* slice.c - values that lie inside others: the inputs of a concat are made in their places in its
 * result, and the gradient of its result becomes the gradients of its inputs.
 *
 * That is so where an input's place is one piece of memory, so for one image: more of them would
 * lie there with gaps in between. An input whose memory is the user's is copied, and so is one that
 * lies in another value already. */
#include "graph/program.h"

#include <stdlib.h>

/* Where the values of a storage went. */
typedef struct slice {
    int32_t whole; /* a storage that lies in no other; or the storage itself */
    size_t offset; /* in it */
} slice;

static size_t value_bytes(const uf_program *program, int32_t value) {
    const uf_program_value *v = &program->values[value];
    return (size_t)uf_shape_count(&v->shape) * uf_dtype_size(v->dtype);
}

/* Let the storage of `part` lie in that of `whole`, `offset` bytes behind its begin. */
static void put_in(uf_program *program, slice *slices, int32_t whole, int32_t part, size_t offset) {
    const int32_t from = program->values[part].storage;
    const slice to = slices[program->values[whole].storage];
    uf_storage *gone = &program->storages[from];
    uf_storage *kept = &program->storages[to.whole];
    if (gone->persistent || gone->first < 0 || offset != uf_align_up(offset)) {
        return; /* first < 0: nothing touches it, or it lies in another already */
    }
    kept->first = gone->first < kept->first ? gone->first : kept->first;
    kept->last = gone->last > kept->last ? gone->last : kept->last;
    gone->first = gone->last = -1;
    gone->size = 0;
    slices[from] = (slice){to.whole, to.offset + offset};
}

static void slice_step(uf_program *program, slice *slices, const uf_step *step) {
    const bool backward = step->kind == UF_STEP_BACKWARD;
    const int32_t whole = backward ? step->grad_output : step->output;
    if (program->values[whole].shape.extent[0] != 1 ||
        (backward && program->storages[slices[program->values[whole].storage].whole].persistent)) {
        return;
    }
    size_t offset = 0;
    for (int32_t i = 0; i < step->node->input_count; ++i) {
        if (!backward) {
            put_in(program, slices, whole, step->node->inputs[i], offset);
        } else if (step->grad_inputs[i] != 0 && step->grad_input_modes[i] == UF_OVERWRITE) {
            put_in(program, slices, whole, step->grad_inputs[i], offset);
        }
        offset += value_bytes(program, step->node->inputs[i]);
    }
}

static bool joins(const uf_step *step, uf_step_kind kind) {
    return !step->removed && step->kind == kind && step->node->layer->joins_inputs;
}

uf_status uf_program_slice(uf_program *program) {
    slice *slices = malloc((size_t)program->storage_count * sizeof *slices);
    if (slices == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a plan of %d values",
                (int)program->storage_count);
    }
    for (int32_t i = 0; i < program->storage_count; ++i) {
        slices[i] = (slice){i, 0};
    }
    /* A result that lies in another has to be there before its own parts. */
    for (int32_t s = program->step_count - 1; s >= 0; --s) {
        if (joins(&program->steps[s], UF_STEP_FORWARD)) {
            slice_step(program, slices, &program->steps[s]);
        }
    }
    for (int32_t s = 0; s < program->step_count; ++s) {
        if (joins(&program->steps[s], UF_STEP_BACKWARD)) {
            slice_step(program, slices, &program->steps[s]);
        }
    }
    for (int32_t v = 0; v < program->value_count; ++v) {
        uf_program_value *value = &program->values[v];
        value->offset = slices[value->storage].offset;
        value->storage = slices[value->storage].whole;
    }
    free(slices);
    return UF_OK;
}
