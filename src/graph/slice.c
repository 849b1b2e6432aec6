/* slice.c - values that lie inside others: the inputs of a concat are made in their places in its
 * result, and the gradient of its result becomes the gradients of its inputs.
 *
 * The images of an input lie there with gaps in between, so every step that touches it has to take
 * these (uf_layer.takes_gaps). An input whose memory is the user's is copied, and so is one that
 * lies in another value already, or whose place is not aligned. */
#include "graph/program.h"

#include <stdlib.h>

/* Where the values of a storage went. */
typedef struct slice {
    int32_t whole;  /* a storage that lies in no other; or the storage itself */
    size_t offset;  /* in it */
    int64_t pitch;  /* elements from image to image; 0: as the shape says */
    int64_t images; /* of each of its values; 0: none seen; -1: no gaps may be between them */
} slice;

/* Is the step's memory that of whole images, whatever lies between? */
static bool takes_gaps(const uf_step *step, int32_t rank) {
    if (rank < 2 || rank > 4) {
        return false;
    }
    if (step->node == NULL) {
        return step->kind == UF_STEP_SEED;
    }
    return step->node->layer->takes_gaps && (rank == 2 || !step->node->layer->channels_last);
}

static void demand(const uf_program *program, slice *slices, const uf_step *step, int32_t value) {
    const uf_shape *shape = &program->values[value].shape;
    slice *of = &slices[program->values[value].storage];
    const int64_t images = takes_gaps(step, shape->rank) ? shape->extent[0] : -1;
    of->images = of->images == 0 || of->images == images ? images : -1;
}

/* Find the storages whose images may have gaps in between. */
static void find_images(const uf_program *program, slice *slices) {
    for (int32_t s = 0; s < program->step_count; ++s) {
        const uf_step *step = &program->steps[s];
        if (step->removed) {
            continue;
        }
        for (int32_t i = 0; i < step->input_count; ++i) {
            demand(program, slices, step, step->inputs[i]);
            demand(program, slices, step, step->grad_inputs[i]);
            if (step->node != NULL && (step->node->layer->whole_inputs >> i & 1) != 0) {
                slices[program->values[step->inputs[i]].storage].images = -1;
                slices[program->values[step->grad_inputs[i]].storage].images = -1;
            }
        }
        demand(program, slices, step, step->output);
        demand(program, slices, step, step->grad_output);
    }
}

/* Let the storage of `part` lie in that of `whole`, from `offset` bytes of each image on. */
static void put_in(uf_program *program, slice *slices, int32_t whole, int32_t part, size_t offset) {
    const uf_program_value *of = &program->values[whole];
    const int32_t from = program->values[part].storage;
    const slice to = slices[of->storage];
    uf_storage *gone = &program->storages[from];
    uf_storage *kept = &program->storages[to.whole];
    const int64_t images = of->shape.extent[0];
    const int64_t pitch = to.pitch != 0 ? to.pitch : uf_shape_count(&of->shape) / images;
    const size_t size = uf_dtype_size(of->dtype);
    if (gone->persistent || gone->first < 0 || offset != uf_align_up(offset)) {
        return; /* first < 0: nothing touches it, or it lies in another already */
    }
    if (images > 1 && (slices[from].images != images ||
                       (size_t)pitch * size != uf_align_up((size_t)pitch * size))) {
        return;
    }
    kept->first = gone->first < kept->first ? gone->first : kept->first;
    kept->last = gone->last > kept->last ? gone->last : kept->last;
    gone->first = gone->last = -1;
    gone->size = 0;
    slices[from] = (slice){to.whole, to.offset + offset, images > 1 ? pitch : 0, images};
}

static void slice_step(uf_program *program, slice *slices, const uf_step *step) {
    const bool backward = step->kind == UF_STEP_BACKWARD;
    const int32_t whole = backward ? step->grad_output : step->output;
    const int32_t storage = slices[program->values[whole].storage].whole;
    if (backward && program->storages[storage].persistent) {
        return; /* the parts' gradients grow, and the user reads the whole's */
    }
    size_t offset = 0;
    for (int32_t i = 0; i < step->node->input_count; ++i) {
        const uf_program_value *input = &program->values[step->node->inputs[i]];
        if (!backward) {
            put_in(program, slices, whole, step->node->inputs[i], offset);
        } else if (step->grad_inputs[i] != 0 && step->grad_input_modes[i] == UF_OVERWRITE) {
            put_in(program, slices, whole, step->grad_inputs[i], offset);
        }
        offset += (size_t)(uf_shape_count(&input->shape) / input->shape.extent[0]) *
                  uf_dtype_size(input->dtype);
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
        slices[i] = (slice){.whole = i};
    }
    find_images(program, slices);
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
        const slice *to = &slices[value->storage];
        value->offset += to->offset; /* copies of parameters lie in a storage already */
        value->pitch = to->pitch;
        value->storage = to->whole;
    }
    free(slices);
    return UF_OK;
}
