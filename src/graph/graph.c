/* graph.c - building a graph. */
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_graph(uf_object *object) {
    uf_graph *graph = (uf_graph *)object;
    for (int32_t n = 0; n < graph->node_count; ++n) {
        uf_node *node = graph->nodes[n];
        uf_object_release(node->param_count > 0 ? &node->store->object : NULL);
        free(node);
    }
    free(graph->values);
    free(graph->nodes);
    free(graph->inputs.list);
    free(graph->outputs.list);
    uf_index_free(&graph->inputs.names);
    uf_index_free(&graph->outputs.names);
    free(graph);
}

/* Never 0, so that a zeroed value belongs to no graph. */
static uint32_t new_tag(uf_context *context) {
    context->next_tag += context->next_tag == UINT32_MAX ? 2 : 1;
    return context->next_tag;
}

uf_status uf_graph_create(uf_context *context, uf_graph **graph) {
    UF_CHECK_ARG(graph != NULL, "uf_graph_create: graph is NULL");
    *graph = NULL;
    UF_CHECK_ARG(context != NULL, "uf_graph_create: context is NULL");
    uf_graph *made = calloc(1, sizeof *made);
    if (made == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a graph");
    }
    uf_object_begin(context, &made->object, UF_OBJECT_GRAPH, free_graph);
    made->context = context;
    made->tag = new_tag(context);
    made->value_count = 1;
    *graph = made;
    return UF_OK;
}

void uf_graph_destroy(uf_graph *graph) {
    uf_object_release(graph != NULL ? &graph->object : NULL);
}

uf_status uf_graph_status(const uf_graph *graph) {
    UF_CHECK_ARG(graph != NULL, "uf_graph_status: graph is NULL");
    return graph->status == UF_OK ? UF_OK : uf_fail(graph->status, "%s", graph->message);
}

uf_value uf_graph_reject(uf_graph *graph, uf_status status) {
    if (graph != NULL && graph->status == UF_OK) {
        graph->status = status;
        snprintf(graph->message, sizeof graph->message, "%s", uf_last_error());
    }
    return (uf_value){0};
}

bool uf_graph_options(uf_graph *graph, const char *name, const void *given, void *known,
                      size_t size) {
    const uf_status status = uf_read_struct(name, given, known, size);
    if (status != UF_OK) {
        uf_graph_reject(graph, status);
    }
    return status == UF_OK;
}

uf_status uf_grow(void **array, int32_t count, int32_t *capacity, size_t element) {
    if (count < *capacity) {
        return UF_OK;
    }
    if (count == INT32_MAX) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "a graph or program has at most %d elements of a kind",
                INT32_MAX);
    }
    const int32_t doubled = count <= INT32_MAX / 2 ? 2 * count : INT32_MAX;
    const int32_t wider = doubled < 4 ? 4 : doubled;
    void *moved = realloc(*array, (size_t)wider * element);
    if (moved == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for %d elements of a graph or program",
                (int)wider);
    }
    *array = moved;
    *capacity = wider;
    return UF_OK;
}

static uf_status append_value(uf_graph *graph, const uf_shape *shape, int32_t node, bool i64,
                              int32_t *id) {
    UF_TRY(uf_grow((void **)&graph->values, graph->value_count, &graph->value_capacity,
                   sizeof *graph->values));
    graph->values[graph->value_count] = (uf_graph_value){.shape = *shape, .node = node, .i64 = i64};
    *id = graph->value_count;
    graph->value_count += 1;
    return UF_OK;
}

int32_t uf_graph_io_find(const uf_graph_ios *ios, const char *name) {
    return (int32_t)uf_index_find_name(&ios->names, ios->list, sizeof *ios->list, name);
}

static uf_status check_io_name(const uf_graph_ios *ios, const char *kind, const char *name) {
    UF_CHECK_ARG(name != NULL && name[0] != '\0' && strlen(name) < UF_NAME_SIZE,
                 "an %s needs a name of 1 to %d characters", kind, UF_NAME_SIZE - 1);
    UF_CHECK_ARG(uf_graph_io_find(ios, name) < 0, "the graph has two %ss named %s", kind, name);
    return UF_OK;
}

static uf_status append_io(uf_graph_ios *ios, const char *name, int32_t value) {
    UF_TRY(uf_grow((void **)&ios->list, ios->count, &ios->capacity, sizeof *ios->list));
    UF_TRY(uf_index_add_name(&ios->names, name, ios->count));
    uf_graph_io *io = &ios->list[ios->count++];
    memset(io, 0, sizeof *io);
    memcpy(io->name, name, strlen(name) + 1);
    io->value = value;
    return UF_OK;
}

static uf_status add_input(uf_graph *graph, const char *name, const uf_shape *shape, bool i64,
                           uf_value *value) {
    char text[128];
    UF_TRY(check_io_name(&graph->inputs, "input", name));
    UF_CHECK_ARG(uf_shape_count(shape) > 0,
                 "input %s: shape %s is not legal: every extent must be 1 or more", name,
                 uf_shape_format(shape, text, sizeof text));
    int32_t id;
    UF_TRY(append_value(graph, shape, -1, i64, &id));
    UF_TRY(append_io(&graph->inputs, name, id));
    *value = uf_graph_value_of(graph, id);
    return UF_OK;
}

static uf_value input_of(uf_graph *graph, const char *name, const uf_shape *shape, bool i64) {
    uf_value value = {0};
    if (graph == NULL || graph->status != UF_OK) {
        return value;
    }
    const uf_status status = add_input(graph, name, shape, i64, &value);
    return status == UF_OK ? value : uf_graph_reject(graph, status);
}

uf_value uf_input(uf_graph *graph, const char *name, uf_shape shape) {
    return input_of(graph, name, &shape, false);
}

uf_value uf_input_i64(uf_graph *graph, const char *name, uf_shape shape) {
    return input_of(graph, name, &shape, true);
}

static bool is_value(const uf_graph *graph, uf_value value) {
    return value.graph == graph->tag && value.id > 0 && value.id < graph->value_count;
}

uf_value uf_graph_value_of(const uf_graph *graph, int32_t id) {
    return (uf_value){.id = id, .graph = graph->tag};
}

/* The name of an input of the graph, by its value. */
static const char *input_name(const uf_graph *graph, int32_t value) {
    int32_t i = 0;
    while (graph->inputs.list[i].value != value) {
        ++i;
    }
    return graph->inputs.list[i].name;
}

/* "the output of main.3 (conv2d)" of a graph that lives; "a value" of one that does not. */
static const char *describe_value(const uf_context *context, uf_value value, char *text,
                                  size_t size) {
    snprintf(text, size, "a value");
    for (const uf_object *object = context->objects; object != NULL; object = object->next) {
        const uf_graph *graph = (const uf_graph *)object;
        if (object->kind != UF_OBJECT_GRAPH || !is_value(graph, value)) {
            continue;
        }
        const uf_graph_value *made = &graph->values[value.id];
        if (made->node < 0) {
            snprintf(text, size, "input %s", input_name(graph, value.id));
        } else {
            const uf_node *node = graph->nodes[made->node];
            snprintf(text, size, "the output of %s%s%s%s", node->path,
                     node->path[0] != '\0' ? " (" : "", node->layer->name,
                     node->path[0] != '\0' ? ")" : "");
        }
    }
    return text;
}

uf_status uf_graph_check_value(const uf_graph *graph, uf_value value, const char *what) {
    char text[2 * UF_NAME_SIZE];
    if (is_value(graph, value)) {
        return UF_OK;
    }
    UF_CHECK_ARG(value.graph != 0 && value.graph != graph->tag, "%s is not a value of this graph",
                 what);
    UF_FAIL(UF_ERROR_INVALID_ARGUMENT, "%s is %s of another graph", what,
            describe_value(graph->context, value, text, sizeof text));
}

uf_status uf_graph_check_real(const uf_graph *graph, int32_t value, const char *what) {
    UF_CHECK_ARG(!graph->values[value].i64,
                 "%s is input %s, which has i64 elements, where real values are needed", what,
                 input_name(graph, value));
    return UF_OK;
}

uf_status uf_graph_check_store(const uf_graph *graph, const uf_store *store, const char *what) {
    UF_CHECK_ARG(store->context == graph->context,
                 "%s: store \"%s\" belongs to another context (%s) than the graph (%s)", what,
                 store->name, store->context->description, graph->context->description);
    return UF_OK;
}

static uf_status add_output(uf_graph *graph, const char *name, uf_value value) {
    UF_TRY(check_io_name(&graph->outputs, "output", name));
    char what[UF_NAME_SIZE + 32];
    snprintf(what, sizeof what, "output %s", name);
    UF_TRY(uf_graph_check_value(graph, value, what));
    return append_io(&graph->outputs, name, value.id);
}

void uf_output(uf_graph *graph, const char *name, uf_value value) {
    if (graph == NULL || graph->status != UF_OK) {
        return;
    }
    const uf_status status = add_output(graph, name, value);
    if (status != UF_OK) {
        uf_graph_reject(graph, status);
    }
}

uf_shape uf_value_shape(const uf_graph *graph, uf_value value) {
    if (graph == NULL || !is_value(graph, value)) {
        return uf_shape_from(NULL, -1);
    }
    return graph->values[value.id].shape;
}

uf_status uf_node_infer(const uf_node *node, const uf_shape *inputs, bool training,
                        uf_infer *infer) {
    memset(infer, 0, sizeof *infer);
    infer->attributes = node->attributes.bytes;
    infer->inputs = inputs;
    infer->input_count = node->input_count;
    infer->training = training;
    uf_status status = node->layer->infer(infer);
    if (status == UF_OK && uf_shape_count(&infer->output) < 1) {
        char text[128];
        status = uf_fail(UF_ERROR_INVALID_ARGUMENT,
                         "%s: the output would be %s, which is empty or too large",
                         node->layer->name, uf_shape_format(&infer->output, text, sizeof text));
    }
    if (status != UF_OK && node->path[0] != '\0') {
        uf_error_prefix("%s", node->path);
    }
    return status;
}

/* Declare a node's parameters in its store and remember their slots. */
static uf_status declare_params(const uf_graph *graph, uf_node *node, const uf_infer *infer,
                                const uf_scope *scope) {
    node->param_count = infer->param_count;
    if (infer->param_count == 0) {
        return UF_OK;
    }
    UF_CHECK_ARG(scope != NULL && scope->store != NULL, "%s needs a store for its parameters",
                 node->layer->name);
    UF_TRY(uf_graph_check_store(graph, scope->store, node->layer->name));
    for (int32_t i = 0; i < infer->param_count; ++i) {
        const uf_param_need *need = &infer->params[i];
        const uf_scope name = uf_in(*scope, need->name);
        const uf_status status = uf_store_declare(scope->store, name.path, need->shape, need->role);
        if (status != UF_OK) {
            uf_error_prefix("%s: %s", scope->path[0] != '\0' ? scope->path : scope->store->name,
                            node->layer->name);
            return status;
        }
        node->params[i].store = scope->store;
        node->params[i].slot = uf_store_find(scope->store, name.path);
    }
    return UF_OK;
}

/* Everything about a node but its output. */
static uf_status make_node(const uf_graph *graph, const uf_layer *layer, const void *attributes,
                           size_t attributes_size, const uf_value *inputs, int32_t input_count,
                           const uf_scope *scope, uf_node *node, uf_infer *infer) {
    if (attributes_size > UF_ATTRIBUTES_SIZE) {
        UF_FAIL(UF_ERROR_INTERNAL, "%s: %zu bytes of attributes", layer->name, attributes_size);
    }
    UF_CHECK_ARG(input_count >= 0 && input_count <= UF_MAX_INPUTS,
                 "%s takes at most %d inputs, not %d", layer->name, UF_MAX_INPUTS,
                 (int)input_count);
    memset(node, 0, sizeof *node);
    node->layer = layer;
    node->input_count = input_count;
    if (attributes_size > 0) {
        memcpy(node->attributes.bytes, attributes, attributes_size);
    }
    if (scope != NULL) {
        node->store = scope->store;
        memcpy(node->path, scope->path, sizeof node->path);
    }
    uf_shape shapes[UF_MAX_INPUTS];
    UF_CHECK_ARG(inputs != NULL || input_count == 0, "%s: inputs is NULL", layer->name);
    for (int32_t i = 0; i < input_count; ++i) {
        char what[2 * UF_NAME_SIZE];
        snprintf(what, sizeof what, "%s%s%s: input %d", node->path,
                 node->path[0] != '\0' ? ": " : "", layer->name, (int)i);
        UF_TRY(uf_graph_check_value(graph, inputs[i], what));
        if ((layer->i64_inputs >> i & 1) == 0) {
            UF_TRY(uf_graph_check_real(graph, inputs[i].id, what));
        } else {
            UF_CHECK_ARG(graph->values[inputs[i].id].i64,
                         "%s has real values where indices are needed (uf_input_i64)", what);
        }
        node->inputs[i] = inputs[i].id;
        shapes[i] = graph->values[inputs[i].id].shape;
    }
    UF_TRY(uf_node_infer(node, shapes, false, infer));
    return declare_params(graph, node, infer, scope);
}

/* Keep a copy of a node, and its output. */
static uf_status append_node(uf_graph *graph, const uf_node *made, const uf_shape *output,
                             uf_value *value) {
    UF_TRY(uf_grow((void **)&graph->nodes, graph->node_count, &graph->node_capacity,
                   sizeof *graph->nodes));
    uf_node *node = malloc(sizeof *node);
    if (node == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a layer");
    }
    *node = *made;
    const uf_status status = append_value(graph, output, graph->node_count, false, &node->output);
    if (status != UF_OK) {
        free(node);
        return status;
    }
    if (node->param_count > 0) {
        uf_object_keep(&node->store->object);
    }
    node->draw = node->layer->draws ? graph->draw_count++ : 0;
    graph->nodes[graph->node_count++] = node;
    *value = uf_graph_value_of(graph, node->output);
    return UF_OK;
}

uf_value uf_graph_append(uf_graph *graph, const uf_layer *layer, const void *attributes,
                         size_t attributes_size, const uf_value *inputs, int32_t input_count,
                         const uf_scope *scope) {
    uf_value value = {0};
    if (graph == NULL || graph->status != UF_OK) {
        return value;
    }
    uf_node node;
    uf_infer infer;
    uf_status status = make_node(graph, layer, attributes, attributes_size, inputs, input_count,
                                 scope, &node, &infer);
    if (status == UF_OK) {
        status = append_node(graph, &node, &infer.output, &value);
    }
    return status == UF_OK ? value : uf_graph_reject(graph, status);
}
