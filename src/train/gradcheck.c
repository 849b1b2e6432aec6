/* gradcheck.c - analytic gradients against central differences.
 *
 * Two programs of the user's graph run in f64 on copies of its stores: one with a pass, for the
 * analytic gradients, and a forward one, for f(x + eps) and f(x - eps). The objective is a random
 * linear form of all
 * outputs: with an upstream of ones a kernel that is flipped or permuted would pass. */
#include <unfurl/gradcheck.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/program.h"

/* A tensor to be checked: an input or a parameter. */
typedef struct subject {
    const char *name;
    uf_tensor *forward; /* perturbed here */
    uf_tensor *gradient;
} subject;

typedef struct gradcheck {
    const uf_gradcheck_options *options;
    uf_graph *graph;
    uf_binding *bindings; /* every store of the graph and its copy */
    uf_store **stores;    /* the graph's, again, for the pass */
    int32_t store_count;
    uf_index store_numbers;
    const uf_gradcheck_input **given; /* per input of the graph: the caller's values; NULL: drawn */
    uf_program *forward, *backward;
    subject *subjects;
    int32_t subject_count;
    uf_value *losses; /* outputs that depend on something */
    const char **loss_names;
    int32_t loss_count;
    uf_value *wanted; /* inputs that something depends on */
    const char **wanted_names;
    int32_t wanted_count;
    double *upstream, *plus, *minus, *middle; /* all outputs in a row */
    int64_t output_count;
    uint64_t random;
} gradcheck;

/* Uniform on [0, 1), splitmix64: quality enough for test vectors. */
static double draw(gradcheck *check) {
    check->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = check->random;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static double draw_off_zero(gradcheck *check) {
    const double magnitude = 0.1 + 0.9 * draw(check);
    return draw(check) < 0.5 ? -magnitude : magnitude;
}

static uf_status out_of_memory(void) {
    return uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a gradient check");
}

/* The caller's values of each input; the last ones given count. */
static uf_status find_given(gradcheck *check) {
    const uf_gradcheck_options *options = check->options;
    const uf_graph_ios *ios = &check->graph->inputs;
    check->given = calloc((size_t)ios->count + 1, sizeof *check->given);
    if (check->given == NULL) {
        return out_of_memory();
    }
    for (int32_t i = 0; i < options->input_count; ++i) {
        const uf_gradcheck_input *given = &options->inputs[i];
        const int32_t input = given->input != NULL ? uf_graph_io_find(ios, given->input) : -1;
        UF_CHECK_ARG(input >= 0 && given->values != NULL,
                     "uf_gradcheck: inputs[%d] names no input of the graph or has no values",
                     (int)i);
        check->given[input] = given;
    }
    return UF_OK;
}

/* An f64 copy of every store that the graph refers to. */
static uf_status copy_stores(gradcheck *check) {
    const uf_graph *graph = check->graph;
    const size_t most = (size_t)graph->node_count + 1;
    check->bindings = calloc(most, sizeof *check->bindings);
    check->stores = calloc(most, sizeof *check->stores);
    if (check->bindings == NULL || check->stores == NULL) {
        return out_of_memory();
    }
    for (int32_t n = 0; n < graph->node_count; ++n) {
        for (int32_t i = 0; i < graph->nodes[n]->param_count; ++i) {
            uf_store *store = graph->nodes[n]->params[i].store;
            const int32_t s = check->store_count;
            if (uf_index_find(&check->store_numbers, uf_index_address(store)) < 0) {
                UF_TRY(uf_index_put(&check->store_numbers, uf_index_address(store), s));
                check->stores[s] = store;
                check->bindings[s].store = store;
                UF_TRY(uf_store_copy(store, store->context, UF_F64, &check->bindings[s].with));
                check->store_count += 1;
            }
        }
    }
    return UF_OK;
}

/* Find the outputs and inputs that a path joins which a gradient can go. */
static uf_status find_paths(gradcheck *check) {
    const uf_graph *graph = check->graph;
    const size_t values = (size_t)graph->value_count;
    bool *down = calloc(values, sizeof *down); /* depends on an input or a parameter */
    bool *up = calloc(values, sizeof *up);     /* an output depends on it */
    check->losses = calloc((size_t)graph->outputs.count + 1, sizeof *check->losses);
    check->loss_names = calloc((size_t)graph->outputs.count + 1, sizeof *check->loss_names);
    check->wanted = calloc((size_t)graph->inputs.count + 1, sizeof *check->wanted);
    check->wanted_names = calloc((size_t)graph->inputs.count + 1, sizeof *check->wanted_names);
    if (down == NULL || up == NULL || check->losses == NULL || check->loss_names == NULL ||
        check->wanted == NULL || check->wanted_names == NULL) {
        free(down);
        free(up);
        return out_of_memory();
    }
    for (int32_t v = 1; v < graph->value_count; ++v) {
        const int32_t n = graph->values[v].node;
        down[v] = n < 0 && !graph->values[v].i64;
        if (n >= 0 && graph->nodes[n]->layer->backward != NULL) {
            down[v] = graph->nodes[n]->param_count > 0;
            for (int32_t i = 0; i < graph->nodes[n]->input_count; ++i) {
                down[v] = down[v] || down[graph->nodes[n]->inputs[i]];
            }
        }
    }
    for (int32_t i = 0; i < graph->outputs.count; ++i) {
        const int32_t value = graph->outputs.list[i].value;
        if (down[value] && !up[value]) { /* one value may have two names */
            up[value] = true;
            check->losses[check->loss_count] = uf_graph_value_of(graph, value);
            check->loss_names[check->loss_count++] = graph->outputs.list[i].name;
        }
    }
    for (int32_t n = graph->node_count - 1; n >= 0; --n) {
        const uf_node *node = graph->nodes[n];
        for (int32_t i = 0;
             up[node->output] && node->layer->backward != NULL && i < node->input_count; ++i) {
            up[node->inputs[i]] = true;
        }
    }
    for (int32_t i = 0; i < graph->inputs.count; ++i) {
        const uf_graph_io *input = &graph->inputs.list[i];
        if (up[input->value] && !graph->values[input->value].i64) {
            check->wanted_names[check->wanted_count] = input->name;
            check->wanted[check->wanted_count++] = uf_graph_value_of(graph, input->value);
        }
    }
    free(down);
    free(up);
    UF_CHECK_ARG(check->loss_count > 0,
                 "uf_gradcheck: no output of the graph depends on an input or a parameter");
    return UF_OK;
}

static uf_status compile_programs(gradcheck *check) {
    uf_program_options options = uf_program_options_default();
    options.dtype = UF_F64;
    options.mode = check->options->mode;
    options.fuse = false; /* elements move without a new version of their store, see fold */
    options.bindings = check->bindings;
    options.binding_count = check->store_count;
    options.scope_modes = check->options->scope_modes;
    options.scope_mode_count = check->options->scope_mode_count;
    UF_TRY(uf_program_compile(check->graph, &options, &check->forward));
    uf_pass pass = uf_pass_default();
    pass.losses = check->losses;
    pass.loss_count = check->loss_count;
    pass.stores = check->stores;
    pass.store_count = check->store_count;
    pass.inputs = check->wanted;
    pass.input_count = check->wanted_count;
    pass.external_seeds = true;
    options.passes = &pass;
    options.pass_count = 1;
    options.fuse = true; /* as training runs it */
    return uf_program_compile(check->graph, &options, &check->backward);
}

/* The values of one input: the caller's, or drawn. */
static uf_status set_input(gradcheck *check, int32_t input) {
    uf_tensor *tensors[2] = {&check->forward->inputs[input].tensor,
                             &check->backward->inputs[input].tensor};
    double *drawn = malloc((size_t)tensors[0]->count * sizeof *drawn);
    const double *values = drawn;
    if (drawn == NULL) {
        return out_of_memory();
    }
    for (int64_t i = 0; i < tensors[0]->count; ++i) {
        drawn[i] = tensors[0]->dtype == UF_I64 ? (double)(draw(check) < 0.5) : draw_off_zero(check);
    }
    if (check->given[input] != NULL) {
        values = check->given[input]->values;
    }
    uf_status status = uf_tensor_upload_as(tensors[0], UF_F64, values, tensors[0]->count);
    if (status == UF_OK) {
        status = uf_tensor_upload_as(tensors[1], UF_F64, values, tensors[1]->count);
    }
    free(drawn);
    return status;
}

static uf_status add_subjects(gradcheck *check) {
    int64_t most = (int64_t)check->wanted_count + 1;
    for (int32_t s = 0; s < check->store_count; ++s) {
        most += check->stores[s]->count;
    }
    check->subjects = calloc((size_t)most, sizeof *check->subjects);
    if (check->subjects == NULL) {
        return out_of_memory();
    }
    for (int32_t i = 0; i < check->wanted_count; ++i) {
        const char *name = check->wanted_names[i];
        subject *input = &check->subjects[check->subject_count++];
        input->name = name;
        input->forward = uf_program_input(check->forward, name);
        input->gradient = uf_program_gradient(check->backward, 0, check->wanted[i]);
    }
    for (int32_t s = 0; s < check->store_count; ++s) {
        uf_store *copy = check->bindings[s].with;
        for (int64_t i = 0; i < copy->count; ++i) {
            if (copy->slots[i].role == UF_ROLE_PARAMETER && copy->slots[i].canonical == i) {
                subject *parameter = &check->subjects[check->subject_count++];
                parameter->name = copy->slots[i].name;
                parameter->forward = &copy->slots[i].tensor;
                parameter->gradient = &copy->gradients[i];
            }
        }
    }
    return UF_OK;
}

/* Draw the upstream and run both programs once: the gradients stand in their tensors afterwards. */
static uf_status run_backward(gradcheck *check) {
    for (int32_t i = 0; i < check->loss_count; ++i) {
        check->output_count += uf_program_seed(check->backward, 0, i)->count;
    }
    const size_t size = (size_t)check->output_count * sizeof(double);
    check->upstream = malloc(size);
    check->plus = malloc(size);
    check->minus = malloc(size);
    check->middle = malloc(size);
    if (check->upstream == NULL || check->plus == NULL || check->minus == NULL ||
        check->middle == NULL) {
        return out_of_memory();
    }
    for (int64_t i = 0; i < check->output_count; ++i) {
        check->upstream[i] = draw_off_zero(check);
    }
    int64_t first = 0;
    for (int32_t i = 0; i < check->loss_count; ++i) {
        uf_tensor *seed = uf_program_seed(check->backward, 0, i);
        UF_TRY(uf_tensor_upload(seed, check->upstream + first));
        first += seed->count;
    }
    return uf_program_run(check->backward);
}

/* Each evaluation draws the numbers that the backward run drew. */
static uf_status outputs(gradcheck *check, double *into) {
    UF_TRY(uf_program_set_random_step(check->forward, 0));
    UF_TRY(uf_program_run(check->forward));
    for (int32_t i = 0; i < check->loss_count; ++i) {
        const uf_tensor *output = uf_program_output(check->forward, check->loss_names[i]);
        UF_TRY(uf_tensor_download(output, into));
        into += output->count;
    }
    return UF_OK;
}

/* <upstream, a - b> / step: differences first, so that the large common part cancels exactly. */
static double slope(const gradcheck *check, const double *a, const double *b, double step) {
    double sum = 0.0;
    for (int64_t i = 0; i < check->output_count; ++i) {
        sum += check->upstream[i] * (a[i] - b[i]);
    }
    return sum / step;
}

static double tolerance(const gradcheck *check, double value) {
    return check->options->atol + check->options->rtol * fabs(value);
}

/* Judge one derivative; `x` was moved to plus and minus and check->plus, check->minus hold the
 * outputs. */
static uf_status judge(gradcheck *check, const subject *s, int64_t index, double analytic,
                       uf_gradcheck_result *result) {
    const double eps = check->options->eps;
    const double numeric = slope(check, check->plus, check->minus, 2.0 * eps);
    const double ratio = fabs(analytic - numeric) / tolerance(check, numeric);
    const bool right = ratio <= 1.0; /* false for NaN */
    if (!right) {
        /* At a kink the central difference means nothing. x has been put back by the caller. */
        UF_TRY(outputs(check, check->middle));
        const double left = slope(check, check->middle, check->minus, eps);
        const double over = slope(check, check->plus, check->middle, eps);
        if (fabs(left - over) > tolerance(check, fmax(fabs(left), fabs(over)))) {
            result->skipped += 1;
            return UF_OK;
        }
        result->failed += 1;
    }
    result->checked += 1;
    if (result->worst_tensor[0] == '\0' || !(ratio <= result->worst_ratio)) {
        strncpy(result->worst_tensor, s->name, sizeof result->worst_tensor - 1);
        result->worst_index = index;
        result->worst_analytic = analytic;
        result->worst_numeric = numeric;
        result->worst_ratio = ratio;
    }
    return UF_OK;
}

/* Set one element, and say so to the store that may have it. */
static uf_status set_element(const subject *s, int64_t i, double value) {
    uf_context *context = s->forward->context;
    double *place = (double *)s->forward->data + i;
    UF_TRY(context->device->upload(context, place, &value, sizeof value));
    uf_tensor_changed(s->forward);
    return UF_OK;
}

/* Every element of one tensor. */
static uf_status check_elements(gradcheck *check, const subject *s, double *values,
                                const double *gradient, uf_gradcheck_result *result) {
    for (int64_t i = 0; i < s->forward->count; ++i) {
        UF_TRY(set_element(s, i, values[i] + check->options->eps));
        UF_TRY(outputs(check, check->plus));
        UF_TRY(set_element(s, i, values[i] - check->options->eps));
        UF_TRY(outputs(check, check->minus));
        UF_TRY(set_element(s, i, values[i]));
        UF_TRY(judge(check, s, i, gradient[i], result));
    }
    return UF_OK;
}

/* A few random directions of one tensor: the derivative along each is <gradient, direction>. */
static uf_status check_directions(gradcheck *check, const subject *s, const double *values,
                                  const double *gradient, uf_gradcheck_result *result) {
    const int64_t count = s->forward->count;
    double *direction = malloc(2 * (size_t)count * sizeof *direction);
    if (direction == NULL) {
        return out_of_memory();
    }
    double *moved = direction + count;
    uf_status status = UF_OK;
    for (int32_t p = 0; p < check->options->projections && status == UF_OK; ++p) {
        double analytic = 0.0;
        /* Unit length: then eps moves the tensor as far as it does in the slow mode. */
        double square = 0.0;
        for (int64_t i = 0; i < count; ++i) {
            direction[i] = draw_off_zero(check);
            square += direction[i] * direction[i];
        }
        for (int64_t i = 0; i < count; ++i) {
            direction[i] /= sqrt(square);
            analytic += gradient[i] * direction[i];
        }
        for (int side = 0; side < 2; ++side) {
            const double step = side == 0 ? check->options->eps : -check->options->eps;
            for (int64_t i = 0; i < count; ++i) {
                moved[i] = values[i] + step * direction[i];
            }
            UF_TRY_GOTO(uf_tensor_upload(s->forward, moved), done);
            UF_TRY_GOTO(outputs(check, side == 0 ? check->plus : check->minus), done);
        }
        UF_TRY_GOTO(uf_tensor_upload(s->forward, values), done);
        UF_TRY_GOTO(judge(check, s, p, analytic, result), done);
    }
done:
    free(direction);
    return status;
}

static uf_status check_subject(gradcheck *check, const subject *s, uf_gradcheck_result *result) {
    const int64_t count = s->forward->count;
    double *values = malloc(2 * (size_t)count * sizeof *values);
    if (values == NULL) {
        return out_of_memory();
    }
    uf_status status = uf_tensor_download(s->forward, values);
    if (status == UF_OK) {
        status = uf_tensor_download(s->gradient, values + count);
    }
    if (status == UF_OK) {
        status = check->options->projections > 0
                     ? check_directions(check, s, values, values + count, result)
                     : check_elements(check, s, values, values + count, result);
    }
    free(values);
    return status;
}

static uf_status run(gradcheck *check, uf_gradcheck_result *result) {
    UF_TRY(find_given(check));
    UF_TRY(uf_graph_status(check->graph));
    UF_TRY(copy_stores(check));
    UF_TRY(find_paths(check));
    UF_TRY(compile_programs(check));
    for (int32_t i = 0; i < check->graph->inputs.count; ++i) {
        UF_TRY(set_input(check, i));
    }
    UF_TRY(add_subjects(check));
    UF_TRY(run_backward(check));
    for (int32_t i = 0; i < check->subject_count; ++i) {
        UF_TRY(check_subject(check, &check->subjects[i], result));
    }
    result->passed = result->failed == 0 && result->checked > 0;
    return UF_OK;
}

static uf_status check_options(const uf_gradcheck_options *options) {
    UF_CHECK_ARG(options->mode == UF_EVAL || options->mode == UF_TRAIN,
                 "uf_gradcheck_options.mode is %d, which is no uf_mode", (int)options->mode);
    UF_CHECK_ARG(options->eps > 0.0 && options->atol >= 0.0 && options->rtol >= 0.0,
                 "uf_gradcheck: eps %g must be positive, atol %g and rtol %g not negative",
                 options->eps, options->atol, options->rtol);
    UF_CHECK_ARG(options->projections >= 0 && options->input_count >= 0 &&
                     (options->input_count == 0 || options->inputs != NULL),
                 "uf_gradcheck: projections and input_count must be 0 or more, inputs not NULL");
    return UF_OK;
}

uf_status uf_gradcheck_sized(uf_graph *graph, const uf_gradcheck_options *given,
                             uf_gradcheck_result *result, size_t result_size) {
    UF_CHECK_ARG(graph != NULL && result != NULL, "uf_gradcheck: graph or result is NULL");
    uf_gradcheck_options options = uf_gradcheck_options_default();
    uf_gradcheck_result known;
    memset(&known, 0, sizeof known);
    memset(result, 0, result_size);
    UF_TRY(uf_read_struct("uf_gradcheck_options", given, &options, sizeof options));
    UF_TRY(check_options(&options));
    gradcheck check;
    memset(&check, 0, sizeof check);
    check.options = &options;
    check.graph = graph;
    check.random = options.seed;
    const uf_status status = run(&check, &known);
    uf_give_struct(&known, sizeof known, result, result_size);
    uf_program_destroy(check.forward);
    uf_program_destroy(check.backward);
    for (int32_t s = 0; s < check.store_count; ++s) {
        uf_store_destroy(check.bindings[s].with);
    }
    free(check.bindings);
    free(check.stores);
    free(check.subjects);
    free(check.losses);
    free(check.loss_names);
    free(check.wanted);
    free(check.wanted_names);
    free(check.given);
    uf_index_free(&check.store_numbers);
    free(check.upstream);
    free(check.plus);
    free(check.minus);
    free(check.middle);
    return status;
}
