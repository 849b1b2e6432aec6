/* differentiate.c - the backward steps of one pass, by reverse accumulation over the forward steps.
 *
 * A gradient exists for every value between the pass's losses and what is asked for (parameters of
 * its stores, named values). The first contribution to a gradient overwrites, later ones are added,
 * in the reverse order of the nodes.
 *
 * A norm by the statistics of its own input makes
 *     dx = weight * invstd * (dy - mean(dy) - xhat * mean(dy * xhat)),
 * which sums to 0 over the elements of a mean, because xhat does. The gradient of a bias in front
 * of such a norm is this sum. No backward step computes it: all that it would find is rounding,
 * which Adam scales up to its learning rate. One step for each store writes zeros. */
#include "graph/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A parameter that got a gradient. */
typedef struct written_param {
    const uf_store *store;
    int64_t slot;
    bool written; /* by a backward step; else it is 0 */
} written_param;

typedef struct differentiation {
    uf_program *program;
    uf_scratch *scratch; /* the program's */
    const uf_pass *pass;
    int32_t index;
    uf_index stores; /* the pass's: their numbers */
    uf_index slots;  /* gradients in stores that are there, by address: their numbers in `params` */
    written_param *params;
    int32_t param_count, param_capacity;
} differentiation;

/* Does a store of the pass hold this parameter? */
static bool in_pass(const differentiation *d, const uf_param_ref *ref) {
    const uf_store *store = uf_program_store(d->program, ref->store);
    return ref->store->slots[ref->slot].role == UF_ROLE_PARAMETER &&
           uf_index_find(&d->stores, uf_index_address(store)) >= 0;
}

/* A value of the pass, before its node is looked at. */
static void reset(differentiation *d, int32_t value) {
    d->scratch->wanted[value] = d->scratch->asked[value];
    d->scratch->written[value] = false;
    d->scratch->balanced[value] = false;
    d->scratch->gradient[value] = 0;
}

static void find_wanted(differentiation *d) {
    const uf_graph *graph = d->program->graph;
    bool *wanted = d->scratch->wanted;
    for (int32_t i = 0; i < d->pass->input_count; ++i) {
        d->scratch->asked[d->pass->inputs[i].id] = true;
        reset(d, d->pass->inputs[i].id);
    }
    for (int32_t i = 0; i < d->pass->loss_count; ++i) {
        reset(d, d->pass->losses[i].id); /* may be an input of the graph */
    }
    for (int32_t n = 0; n < d->scratch->node_count; ++n) {
        const uf_node *node = graph->nodes[d->scratch->nodes[n]];
        for (int32_t i = 0; i < node->input_count; ++i) {
            if (graph->values[node->inputs[i]].node < 0) {
                reset(d, node->inputs[i]);
            }
        }
        reset(d, node->output);
        if (node->layer->backward == NULL) {
            continue;
        }
        for (int32_t i = 0; i < node->input_count; ++i) {
            wanted[node->output] =
                wanted[node->output] || (wanted[node->inputs[i]] && uf_node_passes(node, i));
        }
        for (int32_t i = 0; i < node->param_count; ++i) {
            wanted[node->output] = wanted[node->output] || in_pass(d, &node->params[i]);
        }
    }
}

/* The value that holds the gradient of `value`, made at its first use. */
static uf_status gradient_of(differentiation *d, int32_t value, int32_t *gradient) {
    int32_t *made = &d->scratch->gradient[value];
    if (*made == 0) {
        const uf_shape shape = d->program->values[value].shape;
        UF_TRY(uf_program_add_value(d->program, d->program->values[value].dtype, &shape,
                                    d->scratch->asked[value], made));
    }
    *gradient = *made;
    return UF_OK;
}

static uf_write_mode first_overwrites(bool *written) {
    const uf_write_mode mode = *written ? UF_ACCUMULATE : UF_OVERWRITE;
    *written = true;
    return mode;
}

/* loss -> its gradient = its seed. A second loss on the same value would need a sum of seeds:
 * refused. */
static uf_status add_seeds(differentiation *d) {
    uf_program *program = d->program;
    uf_program_pass *kept = &program->passes[d->index];
    const uf_pass *pass = d->pass;
    kept->external_seeds = pass->external_seeds;
    kept->first_seed = program->borrowed_count;
    for (int32_t i = 0; i < pass->loss_count; ++i) {
        const int32_t loss = pass->losses[i].id;
        const uf_shape shape = program->values[loss].shape;
        char text[128];
        UF_CHECK_ARG(
            pass->external_seeds || uf_shape_count(&shape) == 1,
            "pass %d: loss %d is %s; a loss is one number unless the pass has external_seeds",
            (int)d->index, (int)i, uf_shape_format(&shape, text, sizeof text));
        UF_CHECK_ARG(!d->scratch->written[loss], "pass %d: loss %d is named twice", (int)d->index,
                     (int)i);
        UF_CHECK_ARG(
            d->scratch->wanted[loss],
            "pass %d: loss %d does not depend on a parameter of the pass's stores or on its inputs",
            (int)d->index, (int)i);
        int32_t seed, gradient;
        UF_TRY(uf_program_add_value(program, program->values[loss].dtype, &shape, true, &seed));
        UF_TRY(uf_program_lend(program, seed));
        kept->loss_count += 1;
        UF_TRY(gradient_of(d, loss, &gradient));
        uf_step *step;
        UF_TRY(uf_program_add_step(program, UF_STEP_SEED, &step));
        step->inputs[0] = seed;
        step->input_count = 1;
        step->output = gradient;
        d->scratch->written[loss] = true;
    }
    return UF_OK;
}

/* Did an optimizer between the run of this node and now change what the node computed with? */
static uf_status check_not_stale(const differentiation *d, int32_t n) {
    const uf_program *program = d->program;
    const uf_node *node = program->graph->nodes[n];
    for (int32_t i = 0; i < node->param_count; ++i) {
        const uf_store *store = uf_program_store(program, node->params[i].store);
        const int64_t changed = uf_index_find(&program->changes, uf_index_address(store));
        UF_CHECK_ARG(changed < program->forward_pass[n],
                     "pass %d differentiates through %s, which ran in pass %d before pass %d "
                     "changed its weights: apply the layer again for this pass",
                     (int)d->index, node->path, (int)program->forward_pass[n], (int)changed);
    }
    return UF_OK;
}

/* The gradient of slot `slot`, which is 0 until a step writes it; good until the next one. */
static uf_status param_of(differentiation *d, const uf_store *store, int64_t slot,
                          written_param **param) {
    const uint64_t gradient = uf_index_address(&store->gradients[slot]);
    int64_t at = uf_index_find(&d->slots, gradient);
    if (at < 0) {
        at = d->param_count;
        UF_TRY(uf_index_put(&d->slots, gradient, at));
        UF_TRY(uf_grow((void **)&d->params, d->param_count, &d->param_capacity, sizeof *d->params));
        d->params[d->param_count++] = (written_param){store, slot, false};
    }
    *param = &d->params[at];
    return UF_OK;
}

/* Note a contribution to the gradient of `value`, which is balanced while all of them are. */
static void contribute(differentiation *d, int32_t value, bool balanced, uf_write_mode *mode) {
    uf_scratch *scratch = d->scratch;
    scratch->balanced[value] = balanced && (scratch->balanced[value] || !scratch->written[value]);
    *mode = first_overwrites(&scratch->written[value]);
}

/* Does the layer balance the gradient of its first input, whatever arrives? */
static bool balances(const uf_program *program, const uf_step *step) {
    const uf_node *node = step->node;
    return node->layer->balances_gradient != NULL &&
           node->layer->balances_gradient(node->attributes.bytes,
                                          &program->values[node->inputs[0]].shape, step->training);
}

/* Is params[i] a bias, and the gradient of the node's output such that the bias's is 0? */
static bool has_zero_gradient(const differentiation *d, const uf_node *node, int32_t i) {
    const uf_layer *layer = node->layer;
    return d->scratch->balanced[node->output] && (layer->channel_biases >> i & 1) != 0 &&
           (!layer->channels_last || d->program->values[node->output].shape.rank == 2);
}

/* Let the step write the gradients of the node's parameters, the first time over what was there.
 * Raises *any where it writes one. */
static uf_status write_params(differentiation *d, const uf_node *node, uf_step *step, bool *any) {
    for (int32_t i = 0; i < node->param_count; ++i) {
        if (!in_pass(d, &node->params[i])) {
            continue;
        }
        const uf_store *store = uf_program_store(d->program, node->params[i].store);
        written_param *param;
        int64_t slot;
        UF_TRY(uf_program_slot(d->program, &node->params[i], &slot));
        slot = store->slots[slot].canonical;
        UF_TRY(param_of(d, store, slot, &param));
        if (has_zero_gradient(d, node, i)) {
            continue;
        }
        step->grad_params[i] = &store->gradients[slot];
        step->grad_param_modes[i] =
            d->pass->accumulate || param->written ? UF_ACCUMULATE : UF_OVERWRITE;
        param->written = true;
        *any = true;
    }
    return UF_OK;
}

static uf_status add_backward(differentiation *d, int32_t n) {
    uf_program *program = d->program;
    const uf_node *node = program->graph->nodes[n];
    UF_TRY(check_not_stale(d, n));
    int32_t grad_inputs[UF_MAX_INPUTS] = {0};
    bool any = false;
    for (int32_t i = 0; i < node->input_count; ++i) {
        if (d->scratch->wanted[node->inputs[i]] && uf_node_passes(node, i)) {
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
            contribute(d, node->inputs[i], i == 0 && balances(program, step),
                       &step->grad_input_modes[i]);
        }
    }
    step->output = (reads & UF_READS_OUTPUT) != 0 ? node->output : 0;
    step->saved_count = forward->saved_count;
    memcpy(step->saved, forward->saved, sizeof step->saved);
    step->grad_output = d->scratch->gradient[node->output];
    UF_TRY(write_params(d, node, step, &any));
    step->removed = !any;
    return UF_OK;
}

static int by_store(const void *a, const void *b) {
    const written_param *left = a;
    const written_param *right = b;
    const uint64_t store = uf_index_address(left->store);
    const uint64_t other = uf_index_address(right->store);
    if (store != other) {
        return store < other ? -1 : 1;
    }
    return left->slot < right->slot ? -1 : left->slot > right->slot;
}

/* The parameters of `store` that got a gradient, as runs without gaps; for ZERO those that no step
 * writes. Slots lie in the arena in the order of their declaration; d->params is sorted. */
static uf_status make_spans(const differentiation *d, const uf_store *store, uf_step *step) {
    const int64_t size = (int64_t)uf_dtype_size(store->dtype);
    const written_param least = {store, -1, false};
    int32_t low = 0;
    int32_t capacity = 0;
    for (int32_t high = d->param_count; low < high;) {
        const int32_t middle = low + (high - low) / 2;
        if (by_store(&d->params[middle], &least) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (int32_t i = low; i < d->param_count && d->params[i].store == store; ++i) {
        if (step->kind == UF_STEP_ZERO && d->params[i].written) {
            continue;
        }
        const uf_store_slot *slot = &store->slots[d->params[i].slot];
        const int64_t offset = (int64_t)slot->offset / size;
        const int64_t count =
            (int64_t)uf_align_up((size_t)slot->tensor.count * (size_t)size) / size;
        uf_span *last = step->span_count > 0 ? &step->spans[step->span_count - 1] : NULL;
        if (last != NULL && last->offset + last->count == offset) {
            last->count += count; /* padding between tensors is zero and stays zero */
            continue;
        }
        UF_TRY(uf_grow((void **)&step->spans, step->span_count, &capacity, sizeof *step->spans));
        step->spans[step->span_count++] = (uf_span){offset, count};
    }
    return UF_OK;
}

/* One kind of step for each store that the pass names, in that order. */
static uf_status add_span_steps(differentiation *d, uf_step_kind kind) {
    uf_write_mode mode = UF_OVERWRITE; /* of the sum over all stores */
    for (int32_t i = 0; i < d->pass->store_count; ++i) {
        const uf_store *store = uf_program_store(d->program, d->pass->stores[i]);
        if (uf_index_find(&d->stores, uf_index_address(store)) != i) {
            continue; /* named again */
        }
        uf_step *step;
        UF_TRY(uf_program_add_step(d->program, kind, &step));
        step->store = store;
        step->clip = (uf_clip_kernel_args){
            .mode = mode, .norm = d->pass->clip_norm, .value = d->pass->clip_value};
        UF_TRY(make_spans(d, store, step));
        step->removed = step->span_count == 0;
        mode = step->removed ? mode : UF_ACCUMULATE;
    }
    return UF_OK;
}

static uf_status add_clipping(differentiation *d) {
    if (d->pass->clip_norm == 0.0 && d->pass->clip_value == 0.0) {
        return UF_OK;
    }
    UF_CHECK_ARG(d->param_count > 0, "pass %d clips gradients, and no parameter receives one",
                 (int)d->index);
    if (d->pass->clip_norm > 0.0) {
        UF_TRY(add_span_steps(d, UF_STEP_SQUARES));
    }
    return add_span_steps(d, UF_STEP_CLIP);
}

/* Zeros for the gradients that no step writes. A pass that accumulates adds nothing. */
static uf_status add_zeros(differentiation *d) {
    bool any = false;
    for (int32_t i = 0; i < d->param_count; ++i) {
        any = any || !d->params[i].written;
    }
    return any && !d->pass->accumulate ? add_span_steps(d, UF_STEP_ZERO) : UF_OK;
}

static uf_status add_optimizers(differentiation *d) {
    for (int32_t o = 0; o < d->pass->optimizer_count; ++o) {
        uf_optimizer *optimizer = d->pass->optimizers[o];
        UF_CHECK_ARG(optimizer != NULL, "pass %d: optimizer %d is NULL", (int)d->index, (int)o);
        const uint64_t store = uf_index_address(optimizer->store);
        UF_CHECK_ARG(
            uf_index_find(&d->stores, store) >= 0,
            "pass %d: optimizer %d is of store \"%s\", which receives no gradient in this pass",
            (int)d->index, (int)o, optimizer->store->name);
        UF_TRY(uf_index_put(&d->program->changes, store, d->index));
        uf_step *step;
        UF_TRY(uf_program_add_step(d->program, UF_STEP_OPTIMIZE, &step));
        step->optimizer = optimizer;
        uf_object_keep(&optimizer->object);
        UF_TRY(make_spans(d, optimizer->store, step));
    }
    return UF_OK;
}

/* Whoever reads the averages later in the program reads the new ones. */
static uf_status add_averages(differentiation *d) {
    for (int32_t e = 0; e < d->pass->ema_count; ++e) {
        uf_ema *ema = d->pass->emas[e];
        UF_CHECK_ARG(ema != NULL, "pass %d: average %d is NULL", (int)d->index, (int)e);
        UF_TRY(uf_program_add_store(d->program, ema->store));
        UF_TRY(uf_program_add_store(d->program, ema->average));
        UF_TRY(uf_index_put(&d->program->changes, uf_index_address(ema->average), d->index));
        uf_step *step;
        UF_TRY(uf_program_add_step(d->program, UF_STEP_AVERAGE, &step));
        step->ema = ema;
        uf_object_keep(&ema->object);
    }
    return UF_OK;
}

/* The gradients that the pass's inputs ask for. */
static uf_status lend_gradients(differentiation *d) {
    uf_index *gradients = &d->program->passes[d->index].gradients;
    for (int32_t i = 0; i < d->pass->input_count; ++i) {
        const int32_t value = d->pass->inputs[i].id;
        UF_CHECK_ARG(d->scratch->written[value],
                     "pass %d: no loss depends on the value whose gradient inputs[%d] asks for",
                     (int)d->index, (int)i);
        UF_TRY(uf_index_put(gradients, (uint64_t)value, d->program->borrowed_count));
        UF_TRY(uf_program_lend(d->program, d->scratch->gradient[value]));
    }
    return UF_OK;
}

static uf_status differentiate(differentiation *d) {
    uf_program *program = d->program;
    for (int32_t i = 0; i < d->pass->store_count; ++i) {
        const uf_store *store = uf_program_store(program, d->pass->stores[i]);
        UF_TRY(uf_index_put(&d->stores, uf_index_address(store), i));
    }
    find_wanted(d);
    UF_TRY(add_seeds(d));
    for (int32_t i = d->scratch->node_count - 1; i >= 0; --i) {
        const uf_node *node = program->graph->nodes[d->scratch->nodes[i]];
        if (d->scratch->written[node->output] && d->scratch->wanted[node->output] &&
            node->layer->backward != NULL) {
            UF_TRY(add_backward(d, d->scratch->nodes[i]));
        }
    }
    UF_TRY(lend_gradients(d));
    if (d->param_count > 0) {
        qsort(d->params, (size_t)d->param_count, sizeof *d->params, by_store);
    }
    UF_TRY(add_zeros(d));
    UF_TRY(add_clipping(d));
    UF_TRY(add_optimizers(d));
    return add_averages(d);
}

uf_status uf_program_check_pass(uf_program *program, const uf_pass *pass, int32_t index) {
    UF_CHECK_ARG(pass->loss_count >= 1 && pass->losses != NULL, "pass %d has no losses",
                 (int)index);
    UF_CHECK_ARG((pass->store_count == 0 || pass->stores != NULL) && pass->store_count >= 0 &&
                     (pass->optimizer_count == 0 || pass->optimizers != NULL) &&
                     pass->optimizer_count >= 0 &&
                     (pass->input_count == 0 || pass->inputs != NULL) && pass->input_count >= 0 &&
                     (pass->ema_count == 0 || pass->emas != NULL) && pass->ema_count >= 0,
                 "pass %d: a list has a count and no pointer", (int)index);
    UF_CHECK_ARG(pass->store_count + pass->input_count > 0,
                 "pass %d names neither stores nor inputs to differentiate by", (int)index);
    UF_CHECK_ARG(isfinite(pass->clip_norm) && pass->clip_norm >= 0.0 &&
                     isfinite(pass->clip_value) && pass->clip_value >= 0.0,
                 "pass %d: clip_norm is %g and clip_value %g; they must be 0 or more", (int)index,
                 pass->clip_norm, pass->clip_value);
    char what[64];
    for (int32_t i = 0; i < pass->loss_count; ++i) {
        snprintf(what, sizeof what, "pass %d: loss %d", (int)index, (int)i);
        UF_TRY(uf_graph_check_value(program->graph, pass->losses[i], what));
        UF_TRY(uf_graph_check_real(program->graph, pass->losses[i].id, what));
        UF_CHECK_ARG(pass->loss_weights == NULL || isfinite(pass->loss_weights[i]),
                     "%s has the weight %g, which is not finite", what, pass->loss_weights[i]);
    }
    for (int32_t i = 0; i < pass->input_count; ++i) {
        snprintf(what, sizeof what, "pass %d: inputs[%d]", (int)index, (int)i);
        UF_TRY(uf_graph_check_value(program->graph, pass->inputs[i], what));
        UF_TRY(uf_graph_check_real(program->graph, pass->inputs[i].id, what));
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
    differentiation d = {
        .program = program,
        .scratch = &program->scratch,
        .pass = pass,
        .index = index,
    };
    const uf_status status = differentiate(&d);
    for (int32_t i = 0; i < pass->input_count; ++i) {
        d.scratch->asked[pass->inputs[i].id] = false;
    }
    uf_index_free(&d.stores);
    uf_index_free(&d.slots);
    free(d.params);
    return status;
}
