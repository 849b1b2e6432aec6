/* random.c - the step that the layers of a program draw by, and their streams. */
#include "graph/program.h"

#include <inttypes.h>

#include "kernels/random_math.h"

/* A layer that is the identity in EVAL draws nothing there. */
static bool draws(const uf_step *step) {
    return !step->removed && step->node != NULL && step->node->layer->draws &&
           (step->training || step->node->layer->fusion != UF_FUSION_IDENTITY);
}

uf_status uf_program_begin_random(uf_program *program) {
    void *step = NULL;
    for (int32_t s = 0; s < program->step_count && step == NULL; ++s) {
        if (draws(&program->steps[s])) {
            UF_TRY(uf_context_allocate(program->context, sizeof *program->random_step,
                                       UF_MEMORY_DEVICE, &step));
        }
    }
    program->random_step = step;
    return step == NULL ? UF_OK
                        : program->context->device->zero(program->context, step, sizeof(int64_t));
}

uf_draw uf_program_draw(const uf_program *program, const uf_node *node) {
    const uint64_t parts[] = {program->context->seed, program->random_seed, (uint64_t)node->draw};
    uint64_t key = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; ++i) {
        key = uf_random_mix((key ^ parts[i]) + UINT64_C(0x9e3779b97f4a7c15));
    }
    return (uf_draw){.key = key, .step = program->random_step};
}

uf_status uf_program_random_step(uf_program *program, int64_t *step) {
    UF_CHECK_ARG(program != NULL && step != NULL, "uf_program_random_step: an argument is NULL");
    UF_TRY(uf_context_check(program->context));
    *step = 0;
    return program->random_step == NULL
               ? UF_OK
               : program->context->device->download(program->context, step, program->random_step,
                                                    sizeof *step);
}

uf_status uf_program_set_random_step(uf_program *program, int64_t step) {
    UF_CHECK_ARG(program != NULL, "uf_program_set_random_step: program is NULL");
    UF_CHECK_ARG(step >= 0, "uf_program_set_random_step: step is %" PRId64 "; it must be 0 or more",
                 step);
    UF_TRY(uf_context_check(program->context));
    return program->random_step == NULL
               ? UF_OK
               : program->context->device->upload(program->context, program->random_step, &step,
                                                  sizeof step);
}
