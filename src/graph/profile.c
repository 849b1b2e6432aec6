/* profile.c - the time of each step of a program. */
#include <unfurl/inspect.h>

#include <stdlib.h>
#include <string.h>

#include "graph/program.h"

typedef struct profile {
    const uf_program *program;
    uf_mark *marks; /* one before the steps, one behind each that is executed */
    int64_t set;    /* of them, in this run */
    double *ms;     /* per row, the sum over the runs */
    int64_t count;  /* of rows */
} profile;

static bool is_executed(const uf_step *step) {
    return !step->removed && !step->kept;
}

static uf_status set_mark(void *user, int32_t step) {
    profile *p = user;
    uf_context *context = p->program->context;
    (void)step;
    return context->device->mark_set(context, &p->marks[p->set++]);
}

static uf_status add_times(profile *p) {
    uf_context *context = p->program->context;
    for (int64_t i = 0; i < p->count; ++i) {
        double ms;
        UF_TRY(context->device->mark_between(context, &p->marks[i], &p->marks[i + 1], &ms));
        p->ms[i] += ms;
    }
    return UF_OK;
}

static uf_status measure(profile *p, uf_program *program, int32_t runs) {
    for (int64_t i = 0; i <= p->count; ++i) {
        UF_TRY(program->context->device->mark_create(program->context, &p->marks[i]));
    }
    if (program->runs == 0) {
        UF_TRY(uf_program_run(program));
    }
    for (int32_t r = 0; r < runs; ++r) {
        uf_watch watch = {.look = set_mark, .user = p};
        p->set = 0;
        UF_TRY(uf_program_run_watched(program, &watch));
        UF_TRY(add_times(p));
    }
    return UF_OK;
}

/* The rows as the caller knows them, each of `row_size` bytes; NULL: out of memory. */
static uf_profile_row *make_rows(const profile *p, int32_t runs, size_t row_size) {
    unsigned char *rows = calloc((size_t)p->count + 1, row_size);
    int64_t row = 0;
    for (int32_t s = 0; rows != NULL && s < p->program->step_count; ++s) {
        const uf_step *step = &p->program->steps[s];
        if (is_executed(step)) {
            const uf_step_words words = uf_step_describe(step);
            const uf_profile_row known = {.struct_size = sizeof known,
                                          .name = words.name,
                                          .layer = words.layer,
                                          .step = words.step,
                                          .ms = p->ms[row] / runs};
            uf_give_struct(&known, sizeof known, rows + (size_t)row * row_size, row_size);
            row += 1;
        }
    }
    return (uf_profile_row *)(void *)rows;
}

uf_status uf_program_profile_sized(uf_program *program, int32_t runs, uf_profile_row **rows,
                                   int64_t *count, size_t row_size) {
    UF_CHECK_ARG(rows != NULL && count != NULL, "uf_program_profile: rows or count is NULL");
    *rows = NULL;
    *count = 0;
    UF_CHECK_ARG(program != NULL, "uf_program_profile: program is NULL");
    UF_CHECK_ARG(runs >= 1, "uf_program_profile: runs is %d; it must be 1 or more", (int)runs);
    profile p = {.program = program};
    for (int32_t s = 0; s < program->step_count; ++s) {
        p.count += is_executed(&program->steps[s]);
    }
    p.marks = calloc((size_t)p.count + 1, sizeof *p.marks);
    p.ms = calloc((size_t)p.count + 1, sizeof *p.ms);
    uf_status status = UF_OK;
    if (p.marks != NULL && p.ms != NULL) {
        status = measure(&p, program, runs);
        *rows = status == UF_OK ? make_rows(&p, runs, row_size) : NULL;
    }
    if (status == UF_OK && *rows == NULL) {
        status = uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory for the times of %d steps",
                         (int)program->step_count);
    }
    for (int64_t i = 0; p.marks != NULL && i <= p.count; ++i) {
        program->context->device->mark_destroy(program->context, &p.marks[i]);
    }
    free(p.marks);
    free(p.ms);
    *count = status == UF_OK ? p.count : 0;
    return status;
}

void uf_profile_free(uf_profile_row *rows) {
    free(rows);
}
