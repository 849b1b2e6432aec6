/* compile.c - from a graph to a list of steps with shapes, parameters and memory. */
#include "graph/program.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const uf_shape *input_shape(const uf_program_options *options, const uf_graph_value *value) {
    for (int32_t i = 0; i < options->input_shape_count; ++i) {
        if (strcmp(options->input_shapes[i].input, value->input) == 0) {
            return &options->input_shapes[i].shape;
        }
    }
    return &value->shape;
}

static uf_status check_input_shapes(const uf_graph *graph, const uf_program_options *options) {
    UF_CHECK_ARG(options->input_shape_count >= 0 &&
                     (options->input_shape_count == 0 || options->input_shapes != NULL),
                 "uf_program_options: %d input_shapes at NULL", (int)options->input_shape_count);
    for (int32_t i = 0; i < options->input_shape_count; ++i) {
        const uf_input_shape *given = &options->input_shapes[i];
        bool found = false;
        for (int32_t v = 1; v < graph->value_count && given->input != NULL; ++v) {
            found = found || (graph->values[v].node < 0 &&
                              strcmp(graph->values[v].input, given->input) == 0);
        }
        char text[128];
        if (!found) {
            UF_FAIL(UF_ERROR_NOT_FOUND, "uf_program_options.input_shapes: the graph has no input named %s",
                    given->input != NULL ? given->input : "NULL");
        }
        UF_CHECK_ARG(uf_shape_count(&given->shape) > 0, "input %s: shape %s is not legal", given->input,
                     uf_shape_format(&given->shape, text, sizeof text));
    }
    return UF_OK;
}

/* TRAIN or EVAL for one node: the longest scope that holds it decides. */
static bool node_trains(const uf_program *program, const uf_node *node) {
    uf_mode mode = program->mode;
    size_t longest = 0;
    for (int32_t i = 0; i < program->options->scope_mode_count; ++i) {
        const uf_scope_mode *given = &program->options->scope_modes[i];
        const size_t length = strlen(given->scope.path);
        const char end = length <= strlen(node->path) ? node->path[length] : 'x';
        if (given->scope.store == node->store && length >= longest &&
            strncmp(given->scope.path, node->path, length) == 0 &&
            (length == 0 || end == '\0' || end == '.')) {
            mode = given->mode;
            longest = length;
        }
    }
    return mode == UF_TRAIN;
}

/* One program value per graph value, in the same order, with the shapes of this program. */
static uf_status add_graph_values(uf_program *program, const uf_program_options *options) {
    const uf_graph *graph = program->graph;
    const uf_shape nothing = UF_SHAPE(0);
    int32_t id;
    UF_TRY(uf_program_add_value(program, program->dtype, &nothing, false, &id)); /* id 0 is no value */
    for (int32_t v = 1; v < graph->value_count; ++v) {
        const uf_graph_value *value = &graph->values[v];
        uf_shape shape;
        if (value->node < 0) {
            shape = *input_shape(options, value);
        } else {
            const uf_node *node = &graph->nodes[value->node];
            uf_shape inputs[UF_MAX_INPUTS];
            for (int32_t i = 0; i < node->input_count; ++i) {
                inputs[i] = program->values[node->inputs[i]].shape;
            }
            uf_infer infer;
            UF_TRY(uf_node_infer(node, inputs, node_trains(program, node), &infer));
            for (int32_t i = 0; i < infer.param_count; ++i) {
                /* Only inputs of another shape than the graph's can change what a layer needs. */
                const uf_store_slot *slot = &node->params[i].store->slots[node->params[i].slot];
                char text[128], other[128];
                if (!uf_shape_equal(&infer.params[i].shape, &slot->shape)) {
                    UF_FAIL(UF_ERROR_SHAPE, "%s: with these input shapes %s would be %s, it is %s",
                            node->path, slot->name,
                            uf_shape_format(&infer.params[i].shape, text, sizeof text),
                            uf_shape_format(&slot->shape, other, sizeof other));
                }
            }
            shape = infer.output;
        }
        UF_TRY(uf_program_add_value(program, program->dtype, &shape, false, &id));
        if (value->node >= 0 && graph->nodes[value->node].layer->shares_input) {
            program->values[id].storage =
                program->values[graph->nodes[value->node].inputs[0]].storage;
        }
    }
    return UF_OK;
}

static uf_status add_forward_step(uf_program *program, int32_t n) {
    const uf_node *node = &program->graph->nodes[n];
    uf_step *step = NULL;
    program->forward_step[n] = program->step_count;
    UF_TRY(uf_program_add_step(program, UF_STEP_FORWARD, &step));
    step->node = node;
    step->training = node_trains(program, node);
    step->input_count = node->input_count;
    memcpy(step->inputs, node->inputs, sizeof step->inputs);
    step->output = node->output;
    uf_shape inputs[UF_MAX_INPUTS];
    for (int32_t i = 0; i < node->input_count; ++i) {
        inputs[i] = program->values[node->inputs[i]].shape;
    }
    uf_infer infer;
    UF_TRY(uf_node_infer(node, inputs, step->training, &infer));
    step->saved_count = infer.saved_count;
    for (int32_t i = 0; i < infer.saved_count; ++i) {
        UF_TRY(uf_program_add_value(program, UF_F64, &infer.saved[i], false, &step->saved[i]));
    }
    return UF_OK;
}

uf_status uf_program_add_forward(uf_program *program, const int32_t *values, int32_t count,
                                 int32_t pass) {
    const uf_graph *graph = program->graph;
    bool *needed = calloc((size_t)graph->node_count + 1, sizeof *needed);
    if (needed == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a program");
    }
    for (int32_t i = 0; i < count; ++i) {
        if (graph->values[values[i]].node >= 0) {
            needed[graph->values[values[i]].node] = true;
        }
    }
    for (int32_t n = graph->node_count - 1; n >= 0; --n) {
        for (int32_t i = 0; needed[n] && i < graph->nodes[n].input_count; ++i) {
            const int32_t maker = graph->values[graph->nodes[n].inputs[i]].node;
            if (maker >= 0) {
                needed[maker] = true;
            }
        }
    }
    uf_status status = UF_OK;
    for (int32_t n = 0; n < graph->node_count && status == UF_OK; ++n) {
        if (needed[n] && program->forward_pass[n] < 0) {
            program->forward_pass[n] = pass;
            status = add_forward_step(program, n);
        }
    }
    free(needed);
    return status;
}

/* The passes in their order, then whatever the outputs still need. */
static uf_status add_steps(uf_program *program, const uf_program_options *options) {
    const uf_graph *graph = program->graph;
    const size_t nodes = (size_t)graph->node_count + 1;
    program->forward_pass = malloc(nodes * sizeof *program->forward_pass);
    program->forward_step = calloc(nodes, sizeof *program->forward_step);
    program->passes = calloc((size_t)options->pass_count + 1, sizeof *program->passes);
    int32_t *wanted = calloc((size_t)graph->value_count + (size_t)graph->output_count, sizeof *wanted);
    uf_status status = UF_OK;
    if (program->forward_pass == NULL || program->forward_step == NULL || program->passes == NULL ||
        wanted == NULL) {
        status = uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a program");
        goto done;
    }
    for (size_t n = 0; n < nodes; ++n) {
        program->forward_pass[n] = -1;
    }
    program->pass_count = options->pass_count;
    for (int32_t p = 0; p < options->pass_count; ++p) {
        const uf_pass *pass = &options->passes[p];
        int32_t count = 0;
        for (int32_t i = 0; i < pass->loss_count && count < graph->value_count; ++i) {
            if (uf_graph_check_value(graph, pass->losses[i], "the loss") == UF_OK) {
                wanted[count++] = pass->losses[i].id; /* an invalid one is reported just below */
            }
        }
        UF_TRY_GOTO(uf_program_add_forward(program, wanted, count, p), done);
        UF_TRY_GOTO(uf_program_differentiate(program, pass, p), done);
    }
    for (int32_t i = 0; i < graph->output_count; ++i) {
        wanted[i] = graph->outputs[i].value;
    }
    UF_TRY_GOTO(uf_program_add_forward(program, wanted, graph->output_count, options->pass_count), done);
done:
    free(wanted);
    return status;
}

/* The inputs and outputs, whose memory is kept between runs. */
static uf_status add_io(uf_program *program) {
    const uf_graph *graph = program->graph;
    program->inputs = calloc((size_t)graph->value_count, sizeof *program->inputs);
    program->outputs = calloc((size_t)graph->output_count + 1, sizeof *program->outputs);
    if (program->inputs == NULL || program->outputs == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a program");
    }
    for (int32_t v = 1; v < graph->value_count; ++v) {
        if (graph->values[v].node < 0) {
            uf_program_io *io = &program->inputs[program->input_count++];
            memcpy(io->name, graph->values[v].input, sizeof io->name);
            io->value = v;
        }
    }
    for (int32_t i = 0; i < graph->output_count; ++i) {
        uf_program_io *io = &program->outputs[program->output_count++];
        memcpy(io->name, graph->outputs[i].name, sizeof io->name);
        io->value = graph->outputs[i].value;
    }
    for (int32_t i = 0; i < program->input_count; ++i) {
        program->storages[program->values[program->inputs[i].value].storage].persistent = true;
    }
    for (int32_t i = 0; i < program->output_count; ++i) {
        program->storages[program->values[program->outputs[i].value].storage].persistent = true;
    }
    return UF_OK;
}

static uf_status compile(uf_program *program, const uf_program_options *options) {
    uf_graph *graph = program->graph;
    UF_TRY(uf_graph_status(graph));
    UF_CHECK_ARG(graph->output_count > 0 || options->pass_count > 0,
                 "the graph has no output: name one with uf_output");
    UF_TRY(check_input_shapes(graph, options));
    program->value_capacity = graph->value_count + 16;
    program->values = calloc((size_t)program->value_capacity, sizeof *program->values);
    program->storages = calloc((size_t)program->value_capacity, sizeof *program->storages);
    if (program->values == NULL || program->storages == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a program");
    }
    UF_TRY(add_graph_values(program, options));
    UF_TRY(add_io(program));
    UF_TRY(add_steps(program, options));
    if (options->fuse && options->pass_count == 0) {
        UF_TRY(uf_program_fuse(program));
    }
    UF_TRY(uf_program_plan(program));
    return uf_program_bind(program);
}

/* The caller's passes, which begin with their own size, as an array of this library's. */
static uf_status read_passes(const uf_program_options *options, uf_pass **passes) {
    *passes = calloc((size_t)options->pass_count + 1, sizeof **passes);
    if (*passes == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a program");
    }
    const size_t zeroed = UF_SIZE_UP_TO(uf_pass, external_seeds);
    const unsigned char *given = (const unsigned char *)options->passes;
    size_t first = 0;
    for (int32_t p = 0; p < options->pass_count; ++p) {
        size_t size;
        memcpy(&size, given, sizeof size);
        first = p == 0 ? size : first;
        UF_CHECK_ARG(size == first, "pass %d has struct_size %zu, pass 0 has %zu", (int)p, size, first);
        (*passes)[p] = uf_pass_default();
        UF_TRY(uf_read_zeroed_struct("uf_pass", given, &(*passes)[p], sizeof **passes, zeroed));
        given += size != 0 ? size : zeroed;
    }
    return UF_OK;
}

static uf_status check_options(const uf_program_options *options) {
    UF_CHECK_ARG(options->dtype == UF_F32 || options->dtype == UF_F64,
                 "uf_program_options.dtype is %s; programs compute in f32 or f64",
                 uf_dtype_name(options->dtype));
    UF_CHECK_ARG((unsigned)options->math <= UF_MATH_BF16, "uf_program_options.math is %d, which is no uf_math",
                 (int)options->math);
    UF_CHECK_ARG((unsigned)options->mode <= UF_TRAIN, "uf_program_options.mode is %d, which is no uf_mode",
                 (int)options->mode);
    UF_CHECK_ARG((unsigned)options->plan <= UF_PLAN_POISON, "uf_program_options.plan is %d, which is no uf_plan",
                 (int)options->plan);
    UF_CHECK_ARG(options->binding_count >= 0 && (options->binding_count == 0 || options->bindings != NULL),
                 "uf_program_options: %d bindings at NULL", (int)options->binding_count);
    UF_CHECK_ARG(options->scope_mode_count >= 0 &&
                     (options->scope_mode_count == 0 || options->scope_modes != NULL),
                 "uf_program_options: %d scope_modes at NULL", (int)options->scope_mode_count);
    for (int32_t i = 0; i < options->scope_mode_count; ++i) {
        UF_CHECK_ARG((unsigned)options->scope_modes[i].mode <= UF_TRAIN,
                     "uf_program_options.scope_modes[%d].mode is %d, which is no uf_mode", (int)i,
                     (int)options->scope_modes[i].mode);
    }
    UF_CHECK_ARG(options->pass_count >= 0 && (options->pass_count == 0 || options->passes != NULL),
                 "uf_program_options: %d passes at NULL", (int)options->pass_count);
    return UF_OK;
}

static uf_status make_program(uf_graph *graph, const uf_program_options *options, uf_program **program) {
    uf_program *made = calloc(1, sizeof *made);
    if (made == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a program");
    }
    uf_object_begin(graph->context, &made->object, UF_OBJECT_PROGRAM, uf_program_free);
    uf_object_keep(&graph->object);
    made->context = graph->context;
    made->graph = graph;
    made->dtype = options->dtype;
    made->math = options->math;
    made->mode = options->mode;
    made->plan = options->plan;
    made->capture = options->capture;
    made->options = options;
    const uf_status status = compile(made, options);
    made->options = NULL;
    if (status != UF_OK) {
        uf_program_destroy(made);
        return status;
    }
    *program = made;
    return UF_OK;
}

uf_status uf_program_compile(uf_graph *graph, const uf_program_options *given, uf_program **program) {
    UF_CHECK_ARG(program != NULL, "uf_program_compile: program is NULL");
    *program = NULL;
    UF_CHECK_ARG(graph != NULL, "uf_program_compile: graph is NULL");
    uf_program_options options = uf_program_options_default();
    UF_TRY(uf_read_struct("uf_program_options", given, &options, sizeof options));
    UF_TRY(check_options(&options));
    UF_TRY(uf_context_check(graph->context));
    uf_pass *passes;
    uf_status status = read_passes(&options, &passes);
    if (status == UF_OK) {
        options.passes = passes;
        status = make_program(graph, &options, program);
    }
    free(passes);
    return status;
}
