/* differentiate.c - the backward steps of one pass, by reverse accumulation over the forward steps.
 *
 * A gradient exists for every value between the pass's losses and what is asked for (parameters of its
 * stores, named values). The first contribution to a gradient overwrites, later ones are added, in the reverse
 * order of the nodes. */
#include "graph/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct differentiation {
    uf_program *program;
    const uf_pass *pass;
    int32_t index;
    bool *wanted;       /* per graph value: its gradient leads to something that is asked for */
    int32_t *gradient;  /* per graph value: the program's value, or 0; kept by the program's pass */
    bool *written;      /* per graph value: its gradient has a first contribution */
    bool **param_written; /* per store of the pass: per slot */
} differentiation;

static bool is_wanted_input(const uf_pass *pass, int32_t value) {
    for (int32_t i = 0; i < pass->input_count; ++i) {
        if (pass->inputs[i].id == value) {
            return true;
        }
    }
    return false;
}

/* The number of the pass's store that holds this parameter, or -1. */
static int32_t store_of(const differentiation *d, const uf_param_ref *ref) {
    uf_store *store = uf_program_store(d->program, ref->store);
    for (int32_t i = 0; i < d->pass->store_count; ++i) {
        if (uf_program_store(d->program, d->pass->stores[i]) == store) {
            return ref->store->slots[ref->slot].role == UF_ROLE_PARAMETER ? i : -1;
        }
    }
    return -1;
}

static void find_wanted(differentiation *d) {
    const uf_graph *graph = d->program->graph;
    for (int32_t v = 1; v < graph->value_count; ++v) {
        d->wanted[v] = is_wanted_input(d->pass, v);
        if (graph->values[v].node < 0) {
            continue;
        }
        const uf_node *node = &graph->nodes[graph->values[v].node];
        if (node->layer->backward == NULL) {
            continue;
        }
        for (int32_t i = 0; i < node->input_count; ++i) {
            d->wanted[v] = d->wanted[v] || d->wanted[node->inputs[i]];
        }
        for (int32_t i = 0; i < node->param_count; ++i) {
            d->wanted[v] = d->wanted[v] || store_of(d, &node->params[i]) >= 0;
        }
    }
}

/* The value that holds the gradient of `value`, made at its first use. */
static uf_status gradient_of(differentiation *d, int32_t value, int32_t *gradient) {
    if (d->gradient[value] == 0) {
        const uf_shape shape = d->program->values[value].shape;
        UF_TRY(uf_program_add_value(d->program, d->program->dtype, &shape,
                                    is_wanted_input(d->pass, value), &d->gradient[value]));
    }
    *gradient = d->gradient[value];
    return UF_OK;
}

static uf_write_mode first_overwrites(bool *written) {
    const uf_write_mode mode = *written ? UF_ACCUMULATE : UF_OVERWRITE;
    *written = true;
    return mode;
}

/* loss -> its gradient = its seed. A second loss on the same value would need a sum of seeds: refused. */
static uf_status add_seeds(differentiation *d) {
    uf_program *program = d->program;
    uf_program_pass *kept = &program->passes[d->index];
    const uf_pass *pass = d->pass;
    kept->external_seeds = pass->external_seeds;
    kept->seeds = calloc((size_t)pass->loss_count + 1, sizeof *kept->seeds);
    if (kept->seeds == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a pass");
    }
    kept->loss_count = pass->loss_count;
    for (int32_t i = 0; i < pass->loss_count; ++i) {
        const int32_t loss = pass->losses[i].id;
        const uf_shape shape = program->values[loss].shape;
        char text[128];
        UF_CHECK_ARG(pass->external_seeds || uf_shape_count(&shape) == 1,
                     "pass %d: loss %d is %s; a loss is one number unless the pass has external_seeds",
                     (int)d->index, (int)i, uf_shape_format(&shape, text, sizeof text));
        UF_CHECK_ARG(!d->written[loss], "pass %d: loss %d is named twice", (int)d->index, (int)i);
        UF_CHECK_ARG(d->wanted[loss],
                     "pass %d: loss %d does not depend on a parameter of the pass's stores or on its inputs",
                     (int)d->index, (int)i);
        UF_TRY(uf_program_add_value(program, program->dtype, &shape, true, &kept->seeds[i]));
        int32_t gradient;
        UF_TRY(gradient_of(d, loss, &gradient));
        uf_step *step;
        UF_TRY(uf_program_add_step(program, UF_STEP_SEED, &step));
        step->inputs[0] = kept->seeds[i];
        step->input_count = 1;
        step->output = gradient;
        d->written[loss] = true;
    }
    return UF_OK;
}

/* Did an optimizer between the run of this node and now change what the node computed with? */
static uf_status check_not_stale(const differentiation *d, int32_t n) {
    const uf_program *program = d->program;
    const uf_node *node = &program->graph->nodes[n];
    for (int32_t p = program->forward_pass[n]; p < d->index; ++p) {
        const uf_pass *earlier = &program->options->passes[p];
        for (int32_t o = 0; o < earlier->optimizer_count; ++o) {
            for (int32_t i = 0; i < node->param_count; ++i) {
                UF_CHECK_ARG(earlier->optimizers[o]->store != uf_program_store(program, node->params[i].store),
                             "pass %d differentiates through %s, which ran in pass %d before pass %d "
                             "changed its weights: apply the layer again for this pass",
                             (int)d->index, node->path, (int)program->forward_pass[n], (int)p);
            }
        }
    }
    return UF_OK;
}

static uf_status add_backward(differentiation *d, int32_t n) {
    uf_program *program = d->program;
    const uf_node *node = &program->graph->nodes[n];
    UF_TRY(check_not_stale(d, n));
    int32_t grad_inputs[UF_MAX_INPUTS] = {0};
    bool any = false;
    for (int32_t i = 0; i < node->input_count; ++i) {
        if (d->wanted[node->inputs[i]]) {
            UF_TRY(gradient_of(d, node->inputs[i], &grad_inputs[i]));
            any = true;
        }
    }
    uf_step *step = NULL;
    UF_TRY(uf_program_add_step(program, UF_STEP_BACKWARD, &step));
    const uf_step *forward = &program->steps[program->forward_step[n]];
    const uint32_t reads = node->layer->backward_reads != NULL
                               ? node->layer->backward_reads(node->attributes.bytes)
                               : 0;
    step->node = node;
    step->training = forward->training;
    step->input_count = node->input_count;
    for (int32_t i = 0; i < node->input_count; ++i) {
        step->inputs[i] = (reads >> i & 1) != 0 ? node->inputs[i] : 0;
        step->grad_inputs[i] = grad_inputs[i];
        if (grad_inputs[i] != 0) {
            step->grad_input_modes[i] = first_overwrites(&d->written[node->inputs[i]]);
        }
    }
    step->output = (reads & UF_READS_OUTPUT) != 0 ? node->output : 0;
    step->saved_count = forward->saved_count;
    memcpy(step->saved, forward->saved, sizeof step->saved);
    step->grad_output = d->gradient[node->output];
    for (int32_t i = 0; i < node->param_count; ++i) {
        const int32_t s = store_of(d, &node->params[i]);
        if (s < 0) {
            continue;
        }
        uf_store *store = uf_program_store(program, node->params[i].store);
        int64_t slot;
        UF_TRY(uf_program_slot(program, &node->params[i], &slot));
        slot = store->slots[slot].canonical;
        step->grad_params[i] = &store->gradients[slot];
        step->grad_param_modes[i] =
            d->pass->accumulate ? UF_ACCUMULATE : first_overwrites(&d->param_written[s][slot]);
        d->param_written[s][slot] = true;
        any = true;
    }
    step->removed = !any;
    return UF_OK;
}

/* The parameters of store number `s` that got a gradient, as runs without gaps. Slots lie in the arena in the
 * order of their declaration. */
static uf_status make_spans(const differentiation *d, int32_t s, uf_step *step) {
    const uf_store *store = uf_program_store(d->program, d->pass->stores[s]);
    const int64_t size = (int64_t)uf_dtype_size(store->dtype);
    step->spans = calloc((size_t)store->count + 1, sizeof *step->spans);
    if (step->spans == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a pass");
    }
    for (int64_t i = 0; i < store->count; ++i) {
        const uf_store_slot *slot = &store->slots[i];
        if (slot->role != UF_ROLE_PARAMETER || slot->canonical != i || !d->param_written[s][i]) {
            continue;
        }
        const int64_t offset = (int64_t)slot->offset / size;
        const int64_t count =
            (int64_t)uf_align_up((size_t)slot->tensor.count * (size_t)size) / size;
        uf_span *last = step->span_count > 0 ? &step->spans[step->span_count - 1] : NULL;
        if (last != NULL && last->offset + last->count == offset) {
            last->count += count; /* padding between tensors is zero and stays zero */
        } else {
            step->spans[step->span_count++] = (uf_span){offset, count};
        }
    }
    return UF_OK;
}

static uf_status add_optimizers(differentiation *d) {
    for (int32_t o = 0; o < d->pass->optimizer_count; ++o) {
        uf_optimizer *optimizer = d->pass->optimizers[o];
        int32_t s = 0;
        UF_CHECK_ARG(optimizer != NULL, "pass %d: optimizer %d is NULL", (int)d->index, (int)o);
        while (s < d->pass->store_count &&
               uf_program_store(d->program, d->pass->stores[s]) != optimizer->store) {
            ++s;
        }
        UF_CHECK_ARG(s < d->pass->store_count,
                     "pass %d: optimizer %d is of store \"%s\", which receives no gradient in this pass",
                     (int)d->index, (int)o, optimizer->store->name);
        uf_step *step;
        UF_TRY(uf_program_add_step(d->program, UF_STEP_OPTIMIZE, &step));
        step->optimizer = optimizer;
        uf_object_keep(&optimizer->object);
        UF_TRY(make_spans(d, s, step));
    }
    return UF_OK;
}

static uf_status differentiate(differentiation *d) {
    uf_program *program = d->program;
    find_wanted(d);
    UF_TRY(add_seeds(d));
    for (int32_t n = program->graph->node_count - 1; n >= 0; --n) {
        const int32_t output = program->graph->nodes[n].output;
        if (d->written[output] && d->wanted[output] && program->graph->nodes[n].layer->backward != NULL) {
            UF_TRY(add_backward(d, n));
        }
    }
    for (int32_t i = 0; i < d->pass->input_count; ++i) {
        UF_CHECK_ARG(d->written[d->pass->inputs[i].id],
                     "pass %d: no loss depends on the value whose gradient inputs[%d] asks for",
                     (int)d->index, (int)i);
    }
    return add_optimizers(d);
}

static uf_status check_pass(uf_program *program, const uf_pass *pass, int32_t index) {
    UF_CHECK_ARG(pass->loss_count >= 1 && pass->losses != NULL, "pass %d has no losses", (int)index);
    UF_CHECK_ARG((pass->store_count == 0 || pass->stores != NULL) && pass->store_count >= 0 &&
                     (pass->optimizer_count == 0 || pass->optimizers != NULL) &&
                     pass->optimizer_count >= 0 && (pass->input_count == 0 || pass->inputs != NULL) &&
                     pass->input_count >= 0,
                 "pass %d: a list has a count and no pointer", (int)index);
    UF_CHECK_ARG(pass->store_count + pass->input_count > 0,
                 "pass %d names neither stores nor inputs to differentiate by", (int)index);
    char what[64];
    for (int32_t i = 0; i < pass->loss_count; ++i) {
        snprintf(what, sizeof what, "pass %d: loss %d", (int)index, (int)i);
        UF_TRY(uf_graph_check_value(program->graph, pass->losses[i], what));
    }
    for (int32_t i = 0; i < pass->input_count; ++i) {
        snprintf(what, sizeof what, "pass %d: inputs[%d]", (int)index, (int)i);
        UF_TRY(uf_graph_check_value(program->graph, pass->inputs[i], what));
    }
    for (int32_t i = 0; i < pass->store_count; ++i) {
        UF_CHECK_ARG(pass->stores[i] != NULL, "pass %d: store %d is NULL", (int)index, (int)i);
        uf_store *store = uf_program_store(program, pass->stores[i]);
        const uf_status status = uf_program_add_store(program, store);
        if (status != UF_OK) {
            uf_error_prefix("pass %d", (int)index);
            return status;
        }
        UF_TRY(uf_store_make_gradients(store));
    }
    return UF_OK;
}

uf_status uf_program_differentiate(uf_program *program, const uf_pass *pass, int32_t index) {
    UF_TRY(check_pass(program, pass, index));
    const size_t values = (size_t)program->graph->value_count;
    differentiation d = {
        .program = program,
        .pass = pass,
        .index = index,
        .wanted = calloc(values, sizeof *d.wanted),
        .gradient = calloc(values, sizeof *d.gradient),
        .written = calloc(values, sizeof *d.written),
        .param_written = calloc((size_t)pass->store_count + 1, sizeof *d.param_written),
    };
    program->passes[index].gradients = d.gradient;
    bool complete = d.wanted != NULL && d.gradient != NULL && d.written != NULL && d.param_written != NULL;
    for (int32_t i = 0; i < pass->store_count && complete; ++i) {
        const uf_store *store = uf_program_store(program, pass->stores[i]);
        d.param_written[i] = calloc((size_t)store->count + 1, sizeof **d.param_written);
        complete = d.param_written[i] != NULL;
    }
    const uf_status status =
        complete ? differentiate(&d) : uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a pass");
    for (int32_t i = 0; i < pass->store_count && d.param_written != NULL; ++i) {
        free(d.param_written[i]);
    }
    free(d.param_written);
    free(d.wanted);
    free(d.written);
    return status;
}
