/* bind.c - from planned values and named parameters to pointers: what the steps run with. */
#include "graph/program.h"

#include <stdlib.h>
#include <string.h>

uf_status uf_program_index_bindings(uf_program *program) {
    for (int32_t i = program->options->binding_count - 1; i >= 0;
         --i) { /* the first of a store counts */
        const uf_binding *binding = &program->options->bindings[i];
        if (binding->with != NULL) {
            UF_TRY(uf_index_put(&program->bindings, uf_index_address(binding->store), i));
        }
    }
    return UF_OK;
}

uf_store *uf_program_store(const uf_program *program, uf_store *store) {
    const int64_t binding = uf_index_find(&program->bindings, uf_index_address(store));
    return binding >= 0 ? program->options->bindings[binding].with : store;
}

uf_status uf_program_add_store(uf_program *program, uf_store *store) {
    if (uf_index_find(&program->store_numbers, uf_index_address(store)) >= 0) {
        return UF_OK;
    }
    UF_TRY(uf_graph_check_store(program->graph, store, "the program"));
    UF_CHECK_ARG(store->dtype == uf_parameter_dtype(program->dtype),
                 "store \"%s\" holds %s, a program in %s takes %s: bind a copy made by "
                 "uf_store_copy",
                 store->name, uf_dtype_name(store->dtype), uf_dtype_name(program->dtype),
                 uf_dtype_name(uf_parameter_dtype(program->dtype)));
    UF_TRY(uf_store_close(store));
    UF_TRY(uf_grow((void **)&program->stores, program->store_count, &program->store_capacity,
                   sizeof *program->stores));
    UF_TRY(uf_index_put(&program->store_numbers, uf_index_address(store), program->store_count));
    uf_object_keep(&store->object);
    program->stores[program->store_count++] = store;
    return UF_OK;
}

uf_status uf_program_slot(uf_program *program, const uf_param_ref *ref, int64_t *index) {
    const uf_store_slot *declared = &ref->store->slots[ref->slot];
    uf_store *store = uf_program_store(program, ref->store);
    UF_TRY(uf_program_add_store(program, store));
    *index = store == ref->store ? ref->slot : uf_store_find(store, declared->name);
    if (*index < 0) {
        UF_FAIL(UF_ERROR_NOT_FOUND, "store \"%s\", bound in place of \"%s\", has no tensor %s",
                store->name, ref->store->name, declared->name);
    }
    const uf_store_slot *slot = &store->slots[*index];
    char text[128], other[128];
    if (!uf_shape_equal(&slot->shape, &declared->shape)) {
        UF_FAIL(UF_ERROR_SHAPE, "%s is %s in store \"%s\", %s in \"%s\" whose place it takes",
                slot->name, uf_shape_format(&slot->shape, text, sizeof text), store->name,
                uf_shape_format(&declared->shape, other, sizeof other), ref->store->name);
    }
    return UF_OK;
}

uf_view uf_program_view(const uf_program *program, int32_t value) {
    const uf_program_value *v = &program->values[value];
    uf_view view =
        uf_view_of((char *)program->arena + program->storages[v->storage].offset + v->offset,
                   v->dtype, &v->shape);
    view.stride[0] = v->pitch != 0 ? v->pitch : view.stride[0];
    return view;
}

/* An absent view for value 0. */
static uf_view optional_view(const uf_program *program, int32_t value) {
    uf_view absent;
    memset(&absent, 0, sizeof absent);
    return value != 0 ? uf_program_view(program, value) : absent;
}

static uf_view tensor_view(const uf_tensor *tensor) {
    return uf_view_of(tensor->data, tensor->dtype, &tensor->shape);
}

/* Note a tensor that must have contents when the program runs. */
static uf_status add_param(uf_program *program, uf_store *store, int64_t slot) {
    UF_TRY(uf_grow((void **)&program->params, program->param_count, &program->param_capacity,
                   sizeof *program->params));
    program->params[program->param_count++] = (uf_param_ref){.store = store, .slot = slot};
    return UF_OK;
}

static uf_status bind_node(uf_program *program, const uf_step *step, const uf_node *node,
                           uf_exec *exec) {
    exec->context = program->context;
    exec->attributes = node->attributes.bytes;
    exec->math = program->math;
    exec->training = step->training;
    exec->input_count = step->input_count;
    if (node->layer->draws) {
        exec->draw = uf_program_draw(program, node);
    }
    for (int32_t i = 0; i < node->param_count; ++i) {
        int64_t slot;
        UF_TRY(uf_program_slot(program, &node->params[i], &slot));
        uf_store *store = uf_program_store(program, node->params[i].store);
        exec->params[i] = tensor_view(&store->slots[slot].tensor);
        if (step->kind == UF_STEP_FORWARD) {
            UF_TRY(add_param(program, store, slot));
        }
    }
    return UF_OK;
}

static void needs_workspace(uf_program *program, size_t size) {
    program->workspace_size = size > program->workspace_size ? size : program->workspace_size;
}

static uf_status bind_step(uf_program *program, uf_step *step) {
    uf_exec *exec = &step->exec;
    for (int32_t i = 0; i < step->input_count; ++i) {
        exec->inputs[i] = optional_view(program, step->inputs[i]);
    }
    exec->output = optional_view(program, step->output);
    exec->context = program->context;
    if (step->source.store != NULL) {
        exec->inputs[0] = tensor_view(&step->source.store->slots[step->source.slot].tensor);
    }
    if (step->kind == UF_STEP_SQUARES) {
        needs_workspace(program, UF_CLIP_PARTIALS * sizeof(double));
    }
    for (int64_t i = 0; step->ema != NULL && i < step->ema->store->count; ++i) {
        UF_TRY(add_param(program, step->ema->store, i));
        UF_TRY(add_param(program, step->ema->average, i));
    }
    if (step->node == NULL) {
        return UF_OK;
    }
    UF_TRY(bind_node(program, step, step->node, exec));
    for (int32_t i = 0; i < step->node->input_count; ++i) {
        exec->input_shapes[i] = &program->values[step->node->inputs[i]].shape;
    }
    exec->output_shape = &program->values[step->node->output].shape;
    for (int32_t i = 0; i < step->node->param_count; ++i) {
        if (step->params[i] != 0) {
            exec->params[i] = uf_program_view(program, step->params[i]);
        }
    }
    for (int32_t i = 0; i < step->saved_count; ++i) {
        exec->saved[i] = uf_program_view(program, step->saved[i]);
    }
    exec->epilogue.activation = step->activation;
    if (step->scale_node != NULL) {
        exec->epilogue.scale = uf_program_view(program, step->scale);
        exec->epilogue.shift = uf_program_view(program, step->shift);
        step->scale_exec = calloc(1, sizeof *step->scale_exec);
        if (step->scale_exec == NULL) {
            UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a program");
        }
        UF_TRY(bind_node(program, step, step->scale_node, step->scale_exec));
    }
    if (step->kind == UF_STEP_BACKWARD) {
        exec->grad_output = uf_program_view(program, step->grad_output);
        for (int32_t i = 0; i < step->input_count; ++i) {
            exec->grad_inputs[i] = optional_view(program, step->grad_inputs[i]);
            exec->grad_input_modes[i] = step->grad_input_modes[i];
        }
        for (int32_t i = 0; i < step->node->param_count; ++i) {
            if (step->grad_params[i] != NULL) {
                exec->grad_params[i] = tensor_view(step->grad_params[i]);
                exec->grad_param_modes[i] = step->grad_param_modes[i];
            }
        }
    }
    return UF_OK;
}

/* Scratch for the largest step. */
static uf_status allocate_workspace(uf_program *program) {
    for (int32_t s = 0; s < program->step_count; ++s) {
        const uf_step *step = &program->steps[s];
        if (!step->removed && step->node != NULL && step->node->layer->workspace != NULL) {
            size_t size = 0;
            UF_TRY(
                step->node->layer->workspace(&step->exec, step->kind == UF_STEP_BACKWARD, &size));
            needs_workspace(program, size);
        }
    }
    UF_TRY(uf_context_allocate(program->context, program->workspace_size, UF_MEMORY_DEVICE,
                               &program->workspace));
    for (int32_t s = 0; s < program->step_count; ++s) {
        program->steps[s].exec.workspace = program->workspace;
        program->steps[s].exec.workspace_size = program->workspace_size;
    }
    return UF_OK;
}

/* Tensors over the values of a list. */
static void bind_io(const uf_program *program, uf_program_io *list, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
        const uf_view view = uf_program_view(program, list[i].value);
        list[i].tensor = uf_tensor_over(program->context, view.data, view.dtype,
                                        &program->values[list[i].value].shape);
    }
}

/* Seeds start as the losses' weights. */
static uf_status fill_seeds(const uf_program *program, int32_t p) {
    const uf_program_pass *pass = &program->passes[p];
    const double *weights = program->options->passes[p].loss_weights;
    for (int32_t i = 0; i < pass->loss_count; ++i) {
        const uf_fill_kernel_args args = {
            .output = uf_program_view(program, program->borrowed[pass->first_seed + i].value),
            .value = weights != NULL ? weights[i] : 1.0,
        };
        UF_TRY(program->context->kernels->fill(program->context, &args));
    }
    return UF_OK;
}

/* The ring that scalar losses are written to after every run. */
static uf_status bind_record(uf_program *program) {
    uf_record_kernel_args *record = &program->record;
    for (int32_t p = 0; p < program->pass_count; ++p) {
        const uf_pass *pass = &program->options->passes[p];
        for (int32_t i = 0; i < pass->loss_count; ++i) {
            const uf_view loss = uf_program_view(program, pass->losses[i].id);
            /* With seeds of the caller's a loss may be of any shape, and there may be any number.
             */
            if (pass->external_seeds &&
                (uf_view_count(&loss) != 1 || record->count == UF_LOSS_MAX)) {
                continue;
            }
            UF_CHECK_ARG(record->count < UF_LOSS_MAX, "a program has at most %d losses",
                         UF_LOSS_MAX);
            record->losses[record->count++] = loss;
        }
    }
    if (record->count == 0) {
        return UF_OK;
    }
    const size_t size = UF_LOSS_RING * sizeof *record->ring;
    void *ring, *step;
    UF_TRY(uf_context_allocate(program->context, size, UF_MEMORY_PINNED, &ring));
    memset(ring, 0, size);
    record->ring = ring;
    UF_TRY(uf_context_allocate(program->context, sizeof *record->step, UF_MEMORY_DEVICE, &step));
    record->step = step;
    return program->context->device->zero(program->context, step, sizeof *record->step);
}

static bool calls_every_run(const uf_step *step) {
    return step->node != NULL && step->node->layer->calls_every_run != NULL &&
           step->node->layer->calls_every_run(step->node->attributes.bytes);
}

uf_status uf_program_bind(uf_program *program) {
    UF_TRY(uf_program_begin_random(program));
    for (int32_t s = 0; s < program->step_count; ++s) {
        uf_step *step = &program->steps[s];
        if (!step->removed) {
            UF_TRY(bind_step(program, step));
            program->changes_stores = program->changes_stores || step->kind == UF_STEP_OPTIMIZE ||
                                      step->kind == UF_STEP_AVERAGE ||
                                      (step->kind == UF_STEP_FORWARD && step->training &&
                                       step->node->layer->has_buffer_effects);
            program->capture = program->capture && !calls_every_run(step);
        }
    }
    UF_TRY(uf_program_pack(program));
    UF_TRY(allocate_workspace(program));
    bind_io(program, program->inputs, program->input_count);
    bind_io(program, program->outputs, program->output_count);
    bind_io(program, program->borrowed, program->borrowed_count);
    for (int32_t p = 0; p < program->pass_count; ++p) {
        UF_TRY(fill_seeds(program, p));
    }
    return bind_record(program);
}
