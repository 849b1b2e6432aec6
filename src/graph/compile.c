/* compile.c - from a graph to a list of steps with shapes, parameters and memory. */
#include "graph/program.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The inputs, with the shapes that this program gives them. */
static uf_status add_inputs(uf_program *program, const uf_program_options *options) {
    const uf_graph_ios *ios = &program->graph->inputs;
    program->inputs = calloc((size_t)ios->count + 1, sizeof *program->inputs);
    if (program->inputs == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a program");
    }
    program->input_count = ios->count;
    for (int32_t i = 0; i < ios->count; ++i) {
        uf_program_io *io = &program->inputs[i];
        memcpy(io->name, ios->list[i].name, sizeof io->name);
        io->value = ios->list[i].value;
        io->tensor.shape = program->graph->values[io->value].shape;
    }
    UF_CHECK_ARG(options->input_shape_count >= 0 &&
                     (options->input_shape_count == 0 || options->input_shapes != NULL),
                 "uf_program_options: %d input_shapes at NULL", (int)options->input_shape_count);
    for (int32_t i = options->input_shape_count - 1; i >= 0; --i) { /* the first of a name counts */
        const uf_input_shape *given = &options->input_shapes[i];
        const int32_t input = given->input != NULL ? uf_graph_io_find(ios, given->input) : -1;
        char text[128];
        if (input < 0) {
            UF_FAIL(UF_ERROR_NOT_FOUND,
                    "uf_program_options.input_shapes: the graph has no input named %s",
                    given->input != NULL ? given->input : "NULL");
        }
        UF_CHECK_ARG(uf_shape_count(&given->shape) > 0, "input %s: shape %s is not legal",
                     given->input, uf_shape_format(&given->shape, text, sizeof text));
        program->inputs[input].tensor.shape = given->shape;
    }
    return UF_OK;
}

/* How the first `length` characters of `path` in `store` compare with a scope: by store, then by
 * path. */
static int compare_scope(const uf_store *store, const char *path, size_t length,
                         const uf_scope *scope) {
    if (store != scope->store) {
        return uf_index_address(store) < uf_index_address(scope->store) ? -1 : 1;
    }
    const int order = strncmp(path, scope->path, length);
    return order != 0 ? order : scope->path[length] == '\0' ? 0 : -1;
}

static int by_scope(const void *a, const void *b) {
    const uf_scope_mode *left = *(const uf_scope_mode *const *)a;
    const uf_scope_mode *right = *(const uf_scope_mode *const *)b;
    const uf_scope *scope = &left->scope;
    const int order = compare_scope(scope->store, scope->path, strlen(scope->path), &right->scope);
    return order != 0 ? order : left < right ? -1 : left > right;
}

static uf_status sort_scope_modes(uf_program *program, const uf_program_options *options) {
    const size_t count = (size_t)options->scope_mode_count;
    program->scope_modes = calloc(count + 1, sizeof *program->scope_modes);
    if (program->scope_modes == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a program");
    }
    for (size_t i = 0; i < count; ++i) {
        program->scope_modes[i] = &options->scope_modes[i];
    }
    qsort(program->scope_modes, count, sizeof *program->scope_modes, by_scope);
    return UF_OK;
}

/* The last given mode of exactly this scope, or NULL. */
static const uf_scope_mode *find_scope_mode(const uf_program *program, const uf_node *node,
                                            size_t length) {
    int32_t low = 0;
    int32_t high = program->options->scope_mode_count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        const uf_scope *scope = &program->scope_modes[middle]->scope;
        if (compare_scope(node->store, node->path, length, scope) < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    const uf_scope_mode *found = low > 0 ? program->scope_modes[low - 1] : NULL;
    return found != NULL && compare_scope(node->store, node->path, length, &found->scope) == 0
               ? found
               : NULL;
}

/* TRAIN or EVAL for one node: the longest scope that holds it decides. */
static bool node_trains(const uf_program *program, const uf_node *node) {
    const uf_scope_mode *given = NULL;
    for (size_t left = strlen(node->path) + 1; left > 0 && given == NULL; --left) {
        const size_t length = left - 1;
        if (length == 0 || node->path[length] == '\0' || node->path[length] == '.') {
            given = find_scope_mode(program, node, length);
        }
    }
    return (given != NULL ? given->mode : program->mode) == UF_TRAIN;
}

/* The type of a node's output: that of its real inputs, but for a loss of a bf16 program. A node
 * without real inputs makes the program's type. */
static uf_status output_dtype(const uf_program *program, const uf_node *node, uf_dtype *dtype) {
    uf_dtype first = program->dtype;
    int32_t real = -1; /* the first real input */
    for (int32_t i = 0; i < node->input_count; ++i) {
        const uf_dtype other = program->values[node->inputs[i]].dtype;
        if (other == UF_I64) {
            continue;
        }
        UF_CHECK_ARG(real < 0 || other == first,
                     "%s: input %d is %s and input %d is %s; in a bf16 program losses, and what is "
                     "computed from them alone, are f32 and are not joined with bf16",
                     node->layer->name, (int)real, uf_dtype_name(first), (int)i,
                     uf_dtype_name(other));
        real = real < 0 ? i : real;
        first = other;
    }
    *dtype = node->layer->makes_f32 ? uf_parameter_dtype(first) : first;
    return UF_OK;
}

/* One program value per graph value, in the same order, with the shapes of this program. */
static uf_status add_graph_values(uf_program *program) {
    const uf_graph *graph = program->graph;
    const uf_shape nothing = UF_SHAPE(0);
    int32_t input = 0;
    int32_t id;
    UF_TRY(
        uf_program_add_value(program, program->dtype, &nothing, false, &id)); /* id 0 is no value */
    for (int32_t v = 1; v < graph->value_count; ++v) {
        const uf_graph_value *value = &graph->values[v];
        uf_shape shape;
        uf_dtype dtype = program->dtype;
        if (value->node < 0) {
            shape = program->inputs[input++].tensor.shape;
            dtype = value->i64 ? UF_I64 : dtype;
        } else {
            const uf_node *node = graph->nodes[value->node];
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
            UF_TRY(output_dtype(program, node, &dtype));
        }
        UF_TRY(uf_program_add_value(program, dtype, &shape, false, &id));
        if (value->node >= 0 && graph->nodes[value->node]->layer->shares_input) {
            program->values[id].storage =
                program->values[graph->nodes[value->node]->inputs[0]].storage;
        }
    }
    return UF_OK;
}

static uf_status add_forward_step(uf_program *program, int32_t n) {
    const uf_node *node = program->graph->nodes[n];
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
    /* The memory of an output is the user's between runs. */
    step->kept = node->layer->of_parameters && !step->training && program->options->fuse &&
                 program->options->pass_count == 0 &&
                 !program->storages[program->values[step->output].storage].persistent;
    for (int32_t i = 0; i < infer.saved_count; ++i) {
        UF_TRY(uf_program_add_value(program, UF_F64, &infer.saved[i], step->kept, &step->saved[i]));
    }
    if (step->kept) {
        program->storages[program->values[step->output].storage].persistent = true;
    }
    return UF_OK;
}

/* The search in hand has found what makes `value`. */
static void find_maker(uf_program *program, int32_t value) {
    uf_scratch *scratch = &program->scratch;
    const int32_t node = program->graph->values[value].node;
    if (node >= 0 && scratch->mark[node] != scratch->search) {
        scratch->mark[node] = scratch->search;
        scratch->nodes[scratch->node_count++] = node;
    }
}

static int ascending(const void *a, const void *b) {
    const int32_t left = *(const int32_t *)a;
    const int32_t right = *(const int32_t *)b;
    return left < right ? -1 : left > right;
}

/* Append the forward steps of what the nodes found need, themselves included, and that have none
 * yet. */
static uf_status add_forward(uf_program *program, int32_t pass) {
    uf_scratch *scratch = &program->scratch;
    for (int32_t i = 0; i < scratch->node_count; ++i) { /* the list is its own queue */
        const uf_node *node = program->graph->nodes[scratch->nodes[i]];
        for (int32_t k = 0; k < node->input_count; ++k) {
            find_maker(program, node->inputs[k]);
        }
    }
    qsort(scratch->nodes, (size_t)scratch->node_count, sizeof *scratch->nodes, ascending);
    for (int32_t i = 0; i < scratch->node_count; ++i) {
        const int32_t n = scratch->nodes[i];
        if (program->forward_pass[n] < 0) {
            program->forward_pass[n] = pass;
            UF_TRY(add_forward_step(program, n));
        }
    }
    return UF_OK;
}

static void begin_search(uf_scratch *scratch) {
    scratch->search += 1;
    scratch->node_count = 0;
}

static uf_status allocate_scratch(uf_program *program) {
    const size_t nodes = (size_t)program->graph->node_count + 1;
    const size_t values = (size_t)program->graph->value_count;
    uf_scratch *scratch = &program->scratch;
    program->forward_pass = malloc(nodes * sizeof *program->forward_pass);
    program->forward_step = calloc(nodes, sizeof *program->forward_step);
    program->passes = calloc((size_t)program->options->pass_count + 1, sizeof *program->passes);
    scratch->mark = calloc(nodes, sizeof *scratch->mark);
    scratch->nodes = calloc(nodes, sizeof *scratch->nodes);
    scratch->asked = calloc(values, sizeof *scratch->asked);
    scratch->wanted = calloc(values, sizeof *scratch->wanted);
    scratch->written = calloc(values, sizeof *scratch->written);
    scratch->balanced = calloc(values, sizeof *scratch->balanced);
    scratch->gradient = calloc(values, sizeof *scratch->gradient);
    if (program->forward_pass == NULL || program->forward_step == NULL || program->passes == NULL ||
        scratch->mark == NULL || scratch->nodes == NULL || scratch->asked == NULL ||
        scratch->wanted == NULL || scratch->written == NULL || scratch->balanced == NULL ||
        scratch->gradient == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a program");
    }
    for (size_t n = 0; n < nodes; ++n) {
        program->forward_pass[n] = -1;
    }
    return UF_OK;
}

/* The passes in their order, then whatever the outputs still need. */
static uf_status add_steps(uf_program *program, const uf_program_options *options) {
    UF_TRY(allocate_scratch(program));
    program->pass_count = options->pass_count;
    for (int32_t p = 0; p < options->pass_count; ++p) {
        const uf_pass *pass = &options->passes[p];
        UF_TRY(uf_program_check_pass(program, pass, p));
        begin_search(&program->scratch);
        for (int32_t i = 0; i < pass->loss_count; ++i) {
            find_maker(program, pass->losses[i].id);
        }
        UF_TRY(add_forward(program, p));
        UF_TRY(uf_program_differentiate(program, pass, p));
    }
    begin_search(&program->scratch);
    for (int32_t i = 0; i < program->output_count; ++i) {
        find_maker(program, program->outputs[i].value);
    }
    return add_forward(program, options->pass_count);
}

/* The memory of inputs and outputs is kept between runs. */
static void keep(uf_program *program, const uf_program_io *list, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
        program->storages[program->values[list[i].value].storage].persistent = true;
    }
}

static uf_status add_outputs(uf_program *program) {
    const uf_graph_ios *ios = &program->graph->outputs;
    program->outputs = calloc((size_t)ios->count + 1, sizeof *program->outputs);
    if (program->outputs == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a program");
    }
    program->output_count = ios->count;
    for (int32_t i = 0; i < ios->count; ++i) {
        memcpy(program->outputs[i].name, ios->list[i].name, sizeof program->outputs[i].name);
        program->outputs[i].value = ios->list[i].value;
    }
    return UF_OK;
}

static uf_status compile(uf_program *program, const uf_program_options *options) {
    uf_graph *graph = program->graph;
    UF_TRY(uf_graph_status(graph));
    UF_CHECK_ARG(graph->outputs.count > 0 || options->pass_count > 0,
                 "the graph has no output: name one with uf_output");
    UF_TRY(add_inputs(program, options));
    UF_TRY(sort_scope_modes(program, options));
    UF_TRY(uf_program_index_bindings(program));
    UF_TRY(add_graph_values(program));
    UF_TRY(add_outputs(program));
    keep(program, program->inputs, program->input_count);
    keep(program, program->outputs, program->output_count);
    UF_TRY(add_steps(program, options));
    if (options->fuse) {
        UF_TRY(uf_program_fuse(program));
    }
    UF_TRY(uf_program_cast(program));
    UF_TRY(uf_program_plan(program));
    return uf_program_bind(program);
}

/* The caller's passes, which begin with their own size, as an array of this library's. */
static uf_status read_passes(const uf_program_options *options, uf_pass **passes) {
    *passes = calloc((size_t)options->pass_count + 1, sizeof **passes);
    if (*passes == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a program");
    }
    const unsigned char *given = (const unsigned char *)options->passes;
    size_t first = 0;
    for (int32_t p = 0; p < options->pass_count; ++p) {
        size_t size;
        memcpy(&size, given, sizeof size);
        size = size == 0 ? options->pass_size : size;
        first = p == 0 ? size : first;
        UF_CHECK_ARG(size == first, "pass %d has struct_size %zu, pass 0 has %zu", (int)p, size,
                     first);
        (*passes)[p] = uf_pass_default();
        UF_TRY(uf_read_zeroed_struct("uf_pass", given, &(*passes)[p], sizeof **passes, size));
        given += size;
    }
    return UF_OK;
}

static uf_status check_options(const uf_program_options *options) {
    UF_CHECK_ARG(options->dtype == UF_F32 || options->dtype == UF_F64 || options->dtype == UF_BF16,
                 "uf_program_options.dtype is %s; programs compute in f32, f64 or bf16",
                 uf_dtype_name(options->dtype));
    UF_CHECK_ARG((unsigned)options->math <= UF_MATH_BF16,
                 "uf_program_options.math is %d, which is no uf_math", (int)options->math);
    UF_CHECK_ARG((unsigned)options->mode <= UF_TRAIN,
                 "uf_program_options.mode is %d, which is no uf_mode", (int)options->mode);
    UF_CHECK_ARG((unsigned)options->plan <= UF_PLAN_POISON,
                 "uf_program_options.plan is %d, which is no uf_plan", (int)options->plan);
    UF_CHECK_ARG(options->binding_count >= 0 &&
                     (options->binding_count == 0 || options->bindings != NULL),
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

static uf_status make_program(uf_graph *graph, const uf_program_options *options,
                              uf_program **program) {
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
    made->random_seed = options->random_seed;
    made->options = options;
    const uf_status status = compile(made, options);
    uf_program_free_scratch(made);
    made->options = NULL;
    if (status != UF_OK) {
        uf_program_destroy(made);
        return status;
    }
    *program = made;
    return UF_OK;
}

uf_status uf_program_compile(uf_graph *graph, const uf_program_options *given,
                             uf_program **program) {
    UF_CHECK_ARG(program != NULL, "uf_program_compile: program is NULL");
    *program = NULL;
    UF_CHECK_ARG(graph != NULL, "uf_program_compile: graph is NULL");
    uf_program_options options = uf_program_options_default();
    options.pass_size = 0; /* the caller's or none, never this library's */
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
