/* inspect.c - a graph as text: a table of its layers, and the language of Graphviz. */
#include <unfurl/inspect.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

/* Lines go through uf_format_line: names come from files. */
typedef struct writer {
    uf_line_function write;
    void *user;
} writer;

static void put(const writer *to, const char *format, ...) UF_PRINTF(2, 3);

static void put(const writer *to, const char *format, ...) {
    char line[UF_MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    uf_format_line(line, sizeof line, format, arguments);
    va_end(arguments);
    to->write(to->user, line);
}

static void write_to_file(void *file, const char *line) {
    fputs(line, file);
    fputc('\n', file);
}

typedef uf_status (*graph_writer)(const uf_graph *graph, uf_line_function write, void *user);

static uf_status to_file(const char *function, const uf_graph *graph, FILE *file,
                         graph_writer writes) {
    UF_CHECK_ARG(graph != NULL && file != NULL, "%s: graph or file is NULL", function);
    UF_TRY(writes(graph, write_to_file, file));
    if (ferror(file)) {
        UF_FAIL(UF_ERROR_IO, "%s: the file does not take the text", function);
    }
    return UF_OK;
}

/* ---- the table ---- */

/* "1,234,567", or "-" for a negative number. */
static const char *grouped(double number, char text[48]) {
    char digits[32];
    const int length = number >= 0.0 ? snprintf(digits, sizeof digits, "%.0f", number) : 0;
    if (length <= 0 || length >= (int)sizeof digits) {
        return length <= 0 ? "-" : "a great many";
    }
    char *at = text;
    for (int i = 0; i < length; ++i) {
        if (i > 0 && (length - i) % 3 == 0) {
            *at++ = ',';
        }
        *at++ = digits[i];
    }
    *at = '\0';
    return text;
}

static const char *bytes(double number, char text[48]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    for (; number >= 1024.0 && unit + 1 < sizeof units / sizeof units[0]; ++unit) {
        number /= 1024.0;
    }
    snprintf(text, 48, unit == 0 ? "%.0f %s" : "%.1f %s", number, units[unit]);
    return text;
}

/* The sums of a graph, or of one layer. Counters are not counted. */
typedef struct sums {
    double parameters, buffers, parameter_bytes, multiply_adds, values;
} sums;

/* Sum up one node. `seen` has the tensors of earlier nodes; they go into `row` alone. */
static uf_status add_node(const uf_graph *graph, const uf_node *node, uf_index *seen, sums *row,
                          sums *total) {
    uf_shape inputs[UF_MAX_INPUTS];
    uf_infer infer;
    for (int32_t i = 0; i < node->input_count; ++i) {
        inputs[i] = graph->values[node->inputs[i]].shape;
    }
    UF_TRY(uf_node_infer(node, inputs, false, &infer));
    memset(row, 0, sizeof *row);
    row->multiply_adds =
        node->layer->multiply_adds != NULL ? node->layer->multiply_adds(&infer) : 0.0;
    row->values = (double)uf_shape_count(&infer.output);
    for (int32_t i = 0; i < node->param_count; ++i) {
        const uf_store *store = node->params[i].store;
        const uf_store_slot *slot = uf_store_canonical(store, node->params[i].slot);
        const double count = (double)uf_shape_count(&slot->shape);
        const bool is_new = uf_index_find(seen, uf_index_address(slot)) < 0;
        UF_TRY(uf_index_put(seen, uf_index_address(slot), 0));
        if (slot->role == UF_ROLE_PARAMETER) {
            row->parameters += count;
            total->parameters += is_new ? count : 0.0;
            total->parameter_bytes += is_new ? count * (double)uf_dtype_size(store->dtype) : 0.0;
        } else if (slot->role == UF_ROLE_BUFFER) {
            row->buffers += count;
            total->buffers += is_new ? count : 0.0;
        }
    }
    total->multiply_adds += row->multiply_adds;
    total->values += node->layer->shares_input ? 0.0 : row->values;
    return UF_OK;
}

/* Widths of the columns of text. */
typedef struct columns {
    int name, layer, shape;
} columns;

static void widen(int *width, const char *text) {
    const int length = (int)strlen(text);
    *width = length > *width ? length : *width;
}

static columns measure(const uf_graph *graph) {
    char text[128];
    columns widths = {.name = 5, .layer = 5, .shape = 5};
    for (int32_t i = 0; i < graph->inputs.count; ++i) {
        widen(&widths.name, graph->inputs.list[i].name);
    }
    for (int32_t i = 0; i < graph->outputs.count; ++i) {
        widen(&widths.name, graph->outputs.list[i].name);
    }
    for (int32_t n = 0; n < graph->node_count; ++n) {
        widen(&widths.name, graph->nodes[n]->path);
        widen(&widths.layer,
              uf_layer_title(graph->nodes[n]->layer, graph->nodes[n]->attributes.bytes));
    }
    for (int32_t v = 1; v < graph->value_count; ++v) {
        widen(&widths.shape, uf_shape_format(&graph->values[v].shape, text, sizeof text));
    }
    return widths;
}

static void put_row(const writer *to, const columns *widths, const char *name, const char *layer,
                    const char *shape, double parameters, double multiply_adds) {
    char first[48], second[48];
    put(to, "%-*s  %-*s  %-*s  %14s  %18s", widths->name, name, widths->layer, layer, widths->shape,
        shape, grouped(parameters, first), grouped(multiply_adds, second));
}

static void put_ios(const writer *to, const columns *widths, const uf_graph *graph,
                    const uf_graph_ios *ios, const char *kind) {
    char text[128];
    for (int32_t i = 0; i < ios->count; ++i) {
        const uf_graph_value *value = &graph->values[ios->list[i].value];
        put_row(to, widths, ios->list[i].name, kind,
                uf_shape_format(&value->shape, text, sizeof text), -1.0, -1.0);
    }
}

static uf_status put_table(const writer *to, const uf_graph *graph, uf_index *seen) {
    char text[128], more[48], other[48];
    sums total, row;
    memset(&total, 0, sizeof total);
    const columns widths = measure(graph);
    put(to, "%-*s  %-*s  %-*s  %14s  %18s", widths.name, "name", widths.layer, "layer",
        widths.shape, "shape", "parameters", "multiply-adds");
    put_ios(to, &widths, graph, &graph->inputs, "input");
    for (int32_t n = 0; n < graph->node_count; ++n) {
        const uf_node *node = graph->nodes[n];
        UF_TRY(add_node(graph, node, seen, &row, &total));
        put_row(to, &widths, node->path, uf_layer_title(node->layer, node->attributes.bytes),
                uf_shape_format(&graph->values[node->output].shape, text, sizeof text),
                node->param_count > 0 ? row.parameters : -1.0,
                node->layer->multiply_adds != NULL ? row.multiply_adds : -1.0);
    }
    put_ios(to, &widths, graph, &graph->outputs, "output");
    put_row(to, &widths, "total", "", "", total.parameters, total.multiply_adds);
    put(to, "parameters: %s in %s; buffers: %s", grouped(total.parameters, text),
        bytes(total.parameter_bytes, more), grouped(total.buffers, other));
    put(to, "values that layers make: %s, %s in f32 if none shares memory",
        grouped(total.values, text), bytes(4.0 * total.values, more));
    return UF_OK;
}

uf_status uf_graph_print_to(const uf_graph *graph, uf_line_function write, void *user) {
    UF_CHECK_ARG(graph != NULL && write != NULL, "uf_graph_print_to: graph or write is NULL");
    const writer to = {.write = write, .user = user};
    uf_index seen;
    memset(&seen, 0, sizeof seen);
    const uf_status status = put_table(&to, graph, &seen);
    uf_index_free(&seen);
    return status == UF_OK ? uf_graph_status(graph) : status;
}

uf_status uf_graph_print(const uf_graph *graph, FILE *file) {
    return to_file("uf_graph_print", graph, file, uf_graph_print_to);
}

/* ---- Graphviz ---- */

/* A name between the quotes of a label. */
static const char *quoted(const char *name, char text[2 * UF_NAME_SIZE]) {
    char *at = text;
    for (; *name != '\0'; ++name) {
        if (*name == '"' || *name == '\\') {
            *at++ = '\\';
        }
        *at++ = *name;
    }
    *at = '\0';
    return text;
}

/* The box that makes a value: v3 of an input, n5 of a layer. */
static const char *maker(const uf_graph *graph, int32_t value, char text[16]) {
    const int32_t node = graph->values[value].node;
    snprintf(text, 16, node >= 0 ? "n%d" : "v%d", (int)(node >= 0 ? node : value));
    return text;
}

static void put_edge(const writer *to, const uf_graph *graph, int32_t value, const char *box) {
    char text[128], from[16];
    put(to, "  %s -> %s [label=\"%s\"];", maker(graph, value, from), box,
        uf_shape_format(&graph->values[value].shape, text, sizeof text));
}

uf_status uf_graph_dot_to(const uf_graph *graph, uf_line_function write, void *user) {
    UF_CHECK_ARG(graph != NULL && write != NULL, "uf_graph_dot_to: graph or write is NULL");
    const writer to = {.write = write, .user = user};
    char name[2 * UF_NAME_SIZE], box[16];
    put(&to, "digraph unfurl {");
    put(&to, "  node [shape=box];");
    for (int32_t i = 0; i < graph->inputs.count; ++i) {
        const uf_graph_io *io = &graph->inputs.list[i];
        put(&to, "  v%d [label=\"%s\", shape=ellipse];", (int)io->value, quoted(io->name, name));
    }
    for (int32_t n = 0; n < graph->node_count; ++n) {
        const uf_node *node = graph->nodes[n];
        snprintf(box, sizeof box, "n%d", (int)n);
        put(&to, "  %s [label=\"%s%s%s\"];", box, quoted(node->path, name),
            node->path[0] != '\0' ? "\\n" : "",
            uf_layer_title(node->layer, node->attributes.bytes));
        for (int32_t i = 0; i < node->input_count; ++i) {
            put_edge(&to, graph, node->inputs[i], box);
        }
    }
    for (int32_t i = 0; i < graph->outputs.count; ++i) {
        const uf_graph_io *io = &graph->outputs.list[i];
        snprintf(box, sizeof box, "o%d", (int)i);
        put(&to, "  %s [label=\"%s\", shape=ellipse];", box, quoted(io->name, name));
        put_edge(&to, graph, io->value, box);
    }
    put(&to, "}");
    return uf_graph_status(graph);
}

uf_status uf_graph_dot(const uf_graph *graph, FILE *file) {
    return to_file("uf_graph_dot", graph, file, uf_graph_dot_to);
}
