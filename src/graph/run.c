/* run.c - executing a compiled program. */
#include "graph/program.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

static uint64_t stores_version(const uf_program *program) {
    uint64_t sum = 0;
    for (int32_t i = 0; i < program->store_count; ++i) {
        sum += program->stores[i]->version;
    }
    return sum;
}

static uf_status run_copy(const uf_step *step) {
    const uf_copy_kernel_args args = {
        .input = step->exec.inputs[0],
        .output = step->exec.output,
        .mode = UF_OVERWRITE,
    };
    return step->exec.context->kernels->copy(step->exec.context, &args);
}

static uf_status run_forward(const uf_step *step) {
    return step->node->layer->shares_input ? UF_OK : step->node->layer->forward(&step->exec);
}

static uf_status run_backward(const uf_step *step) {
    return step->node->layer->backward(&step->exec);
}

static uf_status run_zero(const uf_step *step) {
    return uf_zero_run(step->store, step->spans, step->span_count);
}

static uf_status run_optimize(const uf_step *step) {
    const uf_optimizer_copies copies = {step->exec.output.data, step->first_copied};
    return uf_optimizer_run(step->optimizer, step->spans, step->span_count, &copies);
}

static uf_status run_clip(const uf_step *step) {
    uf_clip_kernel_args args = step->clip;
    args.partials = step->exec.workspace; /* of both steps the same, and no step is between them */
    return uf_clip_run(step->store, &args, step->kind == UF_STEP_SQUARES, step->spans,
                       step->span_count);
}

static uf_status run_average(const uf_step *step) {
    return uf_ema_run(step->ema);
}

static uf_status (*const run_step[])(const uf_step *step) = {
    [UF_STEP_FORWARD] = run_forward, [UF_STEP_SEED] = run_copy,
    [UF_STEP_CAST] = run_copy,       [UF_STEP_BACKWARD] = run_backward,
    [UF_STEP_ZERO] = run_zero,       [UF_STEP_SQUARES] = run_clip,
    [UF_STEP_CLIP] = run_clip,       [UF_STEP_OPTIMIZE] = run_optimize,
    [UF_STEP_AVERAGE] = run_average,
};

/* Make the packed form of a step's weight, and nothing else. */
static uf_status run_packing(const uf_step *step) {
    uf_exec exec = step->exec;
    exec.packing = UF_CONV_PACK_ONLY;
    return step->node->layer->forward(&exec);
}

/* Is the context's stream under a capture of the user's? */
static bool is_captured(const uf_program *program) {
    const uf_device_ops *device = program->context->device;
    return device->is_recording != NULL && device->is_recording(program->context);
}

uf_status uf_program_refresh(uf_program *program) {
    const bool recording = is_captured(program);
    const uint64_t version = stores_version(program);
    if (version == program->kept_version && !recording) {
        return UF_OK;
    }
    for (int32_t s = 0; s < program->step_count; ++s) {
        const uf_step *step = &program->steps[s];
        if (!step->removed && step->scale_node != NULL) {
            UF_TRY(step->scale_node->layer->fold(
                step->scale_exec, &step->exec.params[UF_PARAM_BIAS], &step->exec.epilogue.scale,
                &step->exec.epilogue.shift));
        }
        if (!step->removed && step->kept) {
            UF_TRY(run_step[step->kind](step));
        }
        if (program->packs_are_kept && step->packed >= 0 &&
            program->packs[step->packed].storage.first == s) {
            UF_TRY(run_packing(step));
        }
    }
    program->kept_version = recording ? program->kept_version : version;
    return UF_OK;
}

static uf_status poison(const uf_program *program, void *memory, size_t bytes) {
    const size_t size = uf_dtype_size(program->dtype);
    const uf_fill_kernel_args args = {
        .output = uf_view_nchw(memory, program->dtype, 1, 1, 1, (int64_t)(bytes / size)),
        .value = (double)NAN,
    };
    return program->context->kernels->fill(program->context, &args);
}

static uf_status poison_storage(const uf_program *program, const uf_storage *storage) {
    return poison(program, (char *)program->arena + storage->offset, storage->size);
}

/* Fill with NaN the memory that has died with step `s`; `dead` were filled before. */
static uf_status poison_dead(const uf_program *program, int32_t s, int32_t *dead) {
    for (; *dead < program->mortal_count && program->mortals[*dead]->last <= s; ++*dead) {
        UF_TRY(poison_storage(program, program->mortals[*dead]));
    }
    return UF_OK;
}

/* `watch` may be NULL. */
static uf_status run_steps(uf_program *program, uf_watch *watch) {
    int32_t dead = 0;
    for (int32_t i = 0; i < program->mortal_count; ++i) { /* unwritten memory */
        UF_TRY(poison_storage(program, program->mortals[i]));
    }
    if (program->plan == UF_PLAN_POISON && !program->packs_are_kept && program->packed_size > 0) {
        UF_TRY(poison(program, program->packed, program->packed_size));
    }
    UF_TRY(watch != NULL ? watch->look(watch->user, -1) : UF_OK);
    for (int32_t s = 0; s < program->step_count && (watch == NULL || !watch->stops); ++s) {
        const uf_step *step = &program->steps[s];
        if (step->removed || step->kept) {
            continue;
        }
        const uf_status status = run_step[step->kind](step);
        if (status != UF_OK) {
            if (step->node != NULL && step->node->path[0] != '\0') {
                uf_error_prefix("%s", step->node->path);
            }
            return status;
        }
        UF_TRY(watch != NULL ? watch->look(watch->user, s) : UF_OK);
        UF_TRY(poison_dead(program, s, &dead));
    }
    if (program->random_step != NULL) {
        const uf_random_advance_kernel_args args = {.step = program->random_step};
        UF_TRY(program->context->kernels->random_advance(program->context, &args));
    }
    if (program->record.count > 0 && (watch == NULL || !watch->stops)) {
        UF_TRY(program->context->kernels->record_losses(program->context, &program->record));
    }
    return UF_OK;
}

/* The steps as one recorded graph of the device where it has such a thing. The first run goes step
 * by step, so that whatever loads at first use is loaded; the second records; the rest replay.
 * Under a capture of the user's own the steps are queued one by one and become part of his
 * graph. */
static uf_status run_or_replay(uf_program *program) {
    const uf_device_ops *device = program->context->device;
    if (device->record_begin == NULL || !program->capture || program->runs == 0 ||
        device->is_recording(program->context)) {
        return run_steps(program, NULL);
    }
    if (program->recording == NULL) {
        UF_TRY(device->record_begin(program->context));
        const uf_status status = run_steps(program, NULL);
        /* The recording is ended in any case: a stream left in capture would be of no further
         * use. */
        const uf_status ended = device->record_end(program->context, &program->recording);
        if (status != UF_OK || ended != UF_OK) {
            return status != UF_OK ? status : ended;
        }
    }
    return device->record_play(program->context, program->recording);
}

/* Contents come, and go only with a load that fails midway: once all are there they are not looked
 * at again until then. */
static uf_status check_given(uf_program *program) {
    int64_t lost = 0;
    for (int32_t i = 0; i < program->store_count; ++i) {
        lost += program->stores[i]->lost_loads;
    }
    program->params_are_given = program->params_are_given && lost == program->lost_loads;
    for (int32_t i = 0; i < program->param_count && !program->params_are_given; ++i) {
        UF_TRY(uf_store_check_given(program->params[i].store, program->params[i].slot));
    }
    program->params_are_given = true;
    program->lost_loads = lost;
    return UF_OK;
}

/* Note that a run changed the stores. With passes nothing is kept but copies of parameters, which
 * only the run's own optimizers changed and wrote: after a whole run they are as new as the stores.
 * A run under a capture has not happened yet. */
static void note_changes(uf_program *program, bool whole) {
    for (int32_t i = 0; program->changes_stores && i < program->store_count; ++i) {
        uf_store_changed(program->stores[i]);
        program->kept_version += whole && program->pass_count > 0 && !is_captured(program);
    }
}

static uf_status run(uf_program *program, uf_watch *watch) {
    UF_TRY(uf_context_check(program->context));
    UF_TRY(check_given(program));
    UF_TRY(uf_program_refresh(program));
    const uf_status status = watch != NULL ? run_steps(program, watch) : run_or_replay(program);
    /* A run that was stopped has not used every kernel: the next one is not recorded yet. */
    program->runs += watch == NULL || !watch->stops;
    note_changes(program, status == UF_OK);
    return status;
}

uf_status uf_program_run(uf_program *program) {
    UF_CHECK_ARG(program != NULL, "uf_program_run: program is NULL");
    return run(program, NULL);
}

uf_status uf_program_run_watched(uf_program *program, uf_watch *watch) {
    if (is_captured(program)) {
        UF_FAIL(UF_ERROR_STATE, "the context's stream is under capture: a program can run there, "
                                "but neither be timed nor looked into");
    }
    return run(program, watch);
}

uf_step_words uf_step_describe(const uf_step *step) {
    static const char *const kinds[] = {
        [UF_STEP_FORWARD] = "forward", [UF_STEP_SEED] = "seed",
        [UF_STEP_CAST] = "cast",       [UF_STEP_BACKWARD] = "backward",
        [UF_STEP_ZERO] = "zero",       [UF_STEP_SQUARES] = "clip",
        [UF_STEP_CLIP] = "clip",       [UF_STEP_OPTIMIZE] = "optimize",
        [UF_STEP_AVERAGE] = "average"};
    uf_step_words words = {.name = "", .layer = kinds[step->kind], .step = kinds[step->kind]};
    if (step->node != NULL) {
        words.name = step->node->path;
        words.layer = uf_layer_title(step->node->layer, step->node->attributes.bytes);
    } else if (step->kind == UF_STEP_CAST) {
        words.name = step->source.store->slots[step->source.slot].name;
    } else if (step->kind == UF_STEP_OPTIMIZE) {
        words.name = step->optimizer->store->name;
        words.layer = "optimizer";
    } else if (step->ema != NULL) {
        words.name = step->ema->average->name;
    } else if (step->store != NULL) {
        words.name = step->store->name;
    }
    return words;
}

/* The tensor called `name` of a program's inputs or outputs; the graph may have got more since. */
static uf_tensor *find(uf_program_io *list, int32_t count, const uf_graph_ios *ios,
                       const char *kind, const char *name) {
    const int32_t number = name != NULL ? uf_graph_io_find(ios, name) : -1;
    if (number >= 0 && number < count) {
        return &list[number].tensor;
    }
    uf_fail(UF_ERROR_NOT_FOUND, "the program has no %s named %s", kind,
            name != NULL ? name : "NULL");
    return NULL;
}

uf_tensor *uf_program_input(uf_program *program, const char *name) {
    if (program == NULL) {
        uf_fail(UF_ERROR_INVALID_ARGUMENT, "uf_program_input: program is NULL");
        return NULL;
    }
    return find(program->inputs, program->input_count, &program->graph->inputs, "input", name);
}

uf_tensor *uf_program_output(uf_program *program, const char *name) {
    if (program == NULL) {
        uf_fail(UF_ERROR_INVALID_ARGUMENT, "uf_program_output: program is NULL");
        return NULL;
    }
    return find(program->outputs, program->output_count, &program->graph->outputs, "output", name);
}

int32_t uf_program_input_count(const uf_program *program) {
    return program != NULL ? program->input_count : 0;
}

int32_t uf_program_output_count(const uf_program *program) {
    return program != NULL ? program->output_count : 0;
}

/* Number `index` of a list; NULL: there is none. */
static const uf_program_io *at(const uf_program_io *list, int32_t count, int32_t index) {
    return index >= 0 && index < count ? &list[index] : NULL;
}

const char *uf_program_input_name(const uf_program *program, int32_t index) {
    const uf_program_io *io =
        program != NULL ? at(program->inputs, program->input_count, index) : NULL;
    return io != NULL ? io->name : NULL;
}

const char *uf_program_output_name(const uf_program *program, int32_t index) {
    const uf_program_io *io =
        program != NULL ? at(program->outputs, program->output_count, index) : NULL;
    return io != NULL ? io->name : NULL;
}

uf_shape uf_program_input_shape(const uf_program *program, int32_t index) {
    const uf_program_io *io =
        program != NULL ? at(program->inputs, program->input_count, index) : NULL;
    return uf_tensor_shape(io != NULL ? &io->tensor : NULL);
}

uf_shape uf_program_output_shape(const uf_program *program, int32_t index) {
    const uf_program_io *io =
        program != NULL ? at(program->outputs, program->output_count, index) : NULL;
    return uf_tensor_shape(io != NULL ? &io->tensor : NULL);
}

uf_tensor *uf_program_gradient(uf_program *program, int32_t pass, uf_value value) {
    if (program == NULL || pass < 0 || pass >= program->pass_count) {
        uf_fail(UF_ERROR_INVALID_ARGUMENT, "uf_program_gradient: no such program or pass %d",
                (int)pass);
        return NULL;
    }
    if (uf_graph_check_value(program->graph, value, "uf_program_gradient: the value") != UF_OK) {
        return NULL;
    }
    const int64_t at = uf_index_find(&program->passes[pass].gradients, (uint64_t)value.id);
    if (at < 0) {
        uf_fail(UF_ERROR_NOT_FOUND, "the pass has no such gradient");
        return NULL;
    }
    return &program->borrowed[at].tensor;
}

uf_tensor *uf_program_seed(uf_program *program, int32_t pass, int32_t loss) {
    if (program == NULL || pass < 0 || pass >= program->pass_count || loss < 0 ||
        loss >= program->passes[pass].loss_count || !program->passes[pass].external_seeds) {
        uf_fail(UF_ERROR_INVALID_ARGUMENT,
                "uf_program_seed: no such program, pass %d or loss %d, or no external_seeds",
                (int)pass, (int)loss);
        return NULL;
    }
    return &program->borrowed[program->passes[pass].first_seed + loss].tensor;
}

uf_status uf_program_losses(uf_program *program, double *losses, int32_t capacity, int64_t *step,
                            bool *finite) {
    UF_CHECK_ARG(program != NULL && losses != NULL && step != NULL && finite != NULL,
                 "uf_program_losses: an argument is NULL");
    UF_CHECK_ARG(capacity >= 0, "uf_program_losses: capacity is %d; it must be 0 or more",
                 (int)capacity);
    UF_TRY(uf_context_check(program->context));
    if (program->record.count == 0) {
        UF_FAIL(UF_ERROR_STATE, "uf_program_losses: the program has no scalar losses");
    }
    const uf_record_kernel_args *record = &program->record;
    uf_loss_entry newest;
    memset(&newest, 0, sizeof newest);
    for (int32_t e = 0; e < UF_LOSS_RING; ++e) {
        /* The writer zeroes `step` first and sets it last: equal before and after means a whole
         * entry. */
        const uf_loss_entry *entry = &record->ring[e];
        const int64_t before = entry->step;
        atomic_thread_fence(memory_order_acquire);
        if (before <= newest.step) {
            continue;
        }
        uf_loss_entry copy;
        copy.finite = entry->finite;
        memcpy(copy.losses, entry->losses, sizeof copy.losses);
        atomic_thread_fence(memory_order_acquire);
        if (entry->step == before) {
            newest = copy;
            newest.step = before;
        }
    }
    *step = newest.step;
    *finite = newest.finite != 0.0;
    for (int32_t i = 0; i < capacity && i < record->count && newest.step > 0; ++i) {
        losses[i] = newest.losses[i];
    }
    return UF_OK;
}

size_t uf_program_memory(const uf_program *program) {
    return program != NULL ? program->arena_size + program->workspace_size + program->packed_size
                           : 0;
}
