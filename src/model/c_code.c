/* c_code.c - a model as a C program: the same calls of layers.h that a person would write.
 *
 * A value whose only reader is the layer behind it is called x; others have variables named as in
 * the model. Options are written where they differ from the default, by a macro where there is one;
 * equal options share a variable. */
#include "model/c_code.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STATEMENT_SIZE = 16384,
    BODY_SIZE = 4096,
    COLUMNS = 100,
    WIDEST = 50, /* indentation of lines that continue a call */
    RECENT = 32, /* options that later layers may share */
    NAME_SIZE = UF_NAME_SIZE + 32
};

/* A variable of options. */
typedef struct options_variable {
    char name[NAME_SIZE];
    char body[BODY_SIZE]; /* its type and what is assigned */
} options_variable;

typedef struct writer {
    const uf_model *model;
    uf_line_function write;
    void *user;
    int32_t *readers;             /* of each value */
    char (*variables)[NAME_SIZE]; /* of each value: "x", or a name of its own */
    uf_index taken;               /* names of variables: the list below */
    char (*names)[NAME_SIZE];
    int64_t name_count;
    bool has_x;
    options_variable recent[RECENT];
    int recent_count;
    char statement[STATEMENT_SIZE], line[STATEMENT_SIZE + 64];
} writer;

/* ---- lines ---- */

static void put(const writer *to, const char *line) {
    to->write(to->user, line);
}

/* The place behind the next comma of `text` that parts arguments of the outermost call, or its end.
 * *depth counts the brackets that are open. */
static const char *piece_end(const char *text, int *depth) {
    bool quoted = false;
    if (strncmp(text, "/*", 2) == 0) {
        return text + strlen(text); /* the shape behind a call */
    }
    for (; *text != '\0' && (quoted || strncmp(text, "/*", 2) != 0); ++text) {
        if (*text == '\\' && quoted && text[1] != '\0') {
            ++text;
        } else if (*text == '"') {
            quoted = !quoted;
        } else if (!quoted && strchr("({", *text) != NULL) {
            *depth += 1;
        } else if (!quoted && strchr(")}", *text) != NULL) {
            *depth -= 1;
        } else if (!quoted && *depth == 1 && text[0] == ',' && text[1] == ' ') {
            return text + 2;
        }
    }
    return text;
}

/* Write to->statement, broken at commas, with the indentation of a function's body. */
static void put_statement(writer *to) {
    const char *at = to->statement, *call = strchr(at, '(');
    const size_t margin = 4, aligned = call != NULL ? margin + (size_t)(call - at) + 1 : WIDEST;
    const size_t indent = aligned < WIDEST ? aligned : 2 * margin;
    size_t used = margin;
    int depth = 0;
    memset(to->line, ' ', used);
    while (*at != '\0') {
        const char *end = piece_end(at, &depth);
        const size_t length = (size_t)(end - at);
        const size_t shown = end[-1] == ' ' ? length - 1 : length;
        if (used + shown > COLUMNS && used > indent) {
            to->line[used - (to->line[used - 1] == ' ')] = '\0';
            put(to, to->line);
            used = indent;
            memset(to->line, ' ', used);
        }
        memcpy(to->line + used, at, length);
        used += length;
        at = end;
    }
    to->line[used] = '\0';
    put(to, to->line);
}

static uf_text begin(writer *to) {
    to->statement[0] = '\0';
    return (uf_text){.at = to->statement, .size = sizeof to->statement};
}

static uf_status end(writer *to, const uf_text *text) {
    if (text->used >= text->size) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "a statement of the C program would have %zu bytes",
                text->used);
    }
    put_statement(to);
    return UF_OK;
}

/* ---- words of C ---- */

static void add_shape(uf_text *text, const uf_shape *shape) {
    uf_text_add(text, shape->rank > 0 ? "UF_SHAPE(" : "UF_SCALAR");
    for (int32_t i = 0; i < shape->rank; ++i) {
        uf_text_add(text, "%s%" PRId64, i == 0 ? "" : ", ", shape->extent[i]);
    }
    uf_text_add(text, shape->rank > 0 ? ")" : "");
}

static void add_integer(uf_text *text, int64_t number) {
    if (number == INT64_MAX || number == INT64_MIN) {
        uf_text_add(text, number > 0 ? "INT64_MAX" : "INT64_MIN");
    } else if (number > INT32_MAX || number < -INT32_MAX) {
        uf_text_add(text, "INT64_C(%" PRId64 ")", number);
    } else {
        uf_text_add(text, "%" PRId64, number);
    }
}

static void add_number(uf_text *text, double number) {
    if (isinf(number)) {
        uf_text_add(text, number > 0.0 ? "HUGE_VAL" : "-HUGE_VAL");
    } else {
        const size_t before = text->used;
        uf_text_number(text, number);
        if (text->used < text->size && strpbrk(text->at + before, ".en") == NULL) {
            uf_text_add(text, ".0");
        }
    }
}

static void add_axes(uf_text *text, const uf_option *option, const void *attributes) {
    int32_t count;
    memcpy(&count, (const char *)attributes + option->count, sizeof count);
    uf_text_add(text, count > 0 ? "(const int32_t[]){" : "NULL");
    for (int i = 0; i < count; ++i) {
        uf_text_add(text, "%s%" PRId64, i == 0 ? "" : ", ",
                    uf_option_integer(option, attributes, i));
    }
    uf_text_add(text, count > 0 ? "}, %" PRId32 : ", %" PRId32, count);
}

/* One of the numbers of an option, or the whole of what has one. */
static void add_value(uf_text *text, const uf_option *option, const void *attributes, int i) {
    const void *at = (const char *)attributes + option->offset;
    switch (option->kind) {
    case UF_OPTION_INTEGER:
    case UF_OPTION_SMALL:
    case UF_OPTION_PAIR:
        add_integer(text, uf_option_integer(option, attributes, i));
        break;
    case UF_OPTION_NUMBER:
    case UF_OPTION_NUMBERS:
        add_number(text, uf_option_number(option, attributes, i));
        break;
    case UF_OPTION_FLAG:
        uf_text_add(text, uf_option_integer(option, attributes, 0) != 0 ? "true" : "false");
        break;
    case UF_OPTION_CHOICE:
        uf_text_add(text, "%s", option->words[uf_option_integer(option, attributes, 0)].constant);
        break;
    case UF_OPTION_AXES:
        add_axes(text, option, attributes);
        break;
    case UF_OPTION_SHAPE:
        add_shape(text, at);
        break;
    case UF_OPTION_NAME:
        uf_c_string(text, at);
        break;
    }
}

static bool is_pair(const uf_option *option) {
    return option->kind == UF_OPTION_PAIR || option->kind == UF_OPTION_NUMBERS;
}

static bool is_square(const uf_option *option, const void *attributes) {
    if (option->kind == UF_OPTION_NUMBERS) {
        return uf_option_number(option, attributes, 0) == uf_option_number(option, attributes, 1);
    }
    return option->kind != UF_OPTION_PAIR ||
           uf_option_integer(option, attributes, 0) == uf_option_integer(option, attributes, 1);
}

/* ---- names ---- */

/* Words that are taken from the start: C's, C++'s that headers of ours could meet, and the
 * program's own. */
/* clang-format off */
static const char *const reserved[] = {
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
    "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict",
    "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union",
    "unsigned", "void", "volatile", "while", "bool", "true", "false", "graph", "weights", "x",
    "build", "main", "must", "inputs", "outputs", "asm", "stdin", "stdout", "stderr", "errno",
    "NULL", "abs", "exp", "log", "sqrt", "tanh", "div", "y0", "y1", "yn", "j0", "j1", "jn", "gamma",
    "index", "signal", "read", "write", "exit", "free", "malloc", "abort", "remove", "rename",
    "select", "pow", "sin", "cos", "tan", "floor", "ceil", "round", "rint", "linux", "unix", "time",
    "link", "pipe", "typeof", "nullptr", "alignas", "alignof", "constexpr", "static_assert",
    "thread_local", "math_errhandling"};
/* clang-format on */
enum { RESERVED = (int)(sizeof reserved / sizeof reserved[0]) };

static uf_status take(writer *to, const char *name) {
    memcpy(to->names[to->name_count], name, strlen(name) + 1);
    return uf_index_add_name(&to->taken, name, to->name_count++);
}

static bool is_taken(const writer *to, const char *name) {
    return uf_index_find_name(&to->taken, to->names, sizeof *to->names, name) >= 0;
}

/* Macros are in capitals: "EOF" is eof. */
static bool is_in_capitals(const char *name) {
    size_t capitals = 0;
    for (const char *c = name; *c != '\0'; ++c) {
        if (*c >= 'a' && *c <= 'z') {
            return false;
        }
        capitals += *c >= 'A' && *c <= 'Z';
    }
    return capitals > 1;
}

/* A variable's name made of a value's: "main.0" is main_0. */
static uf_status make_name(writer *to, const char *value, const char *suffix,
                           char name[NAME_SIZE]) {
    char base[UF_NAME_SIZE + 1];
    size_t used = 0;
    const bool lower = is_in_capitals(value);
    if (isdigit((unsigned char)value[0]) || value[0] == '\0' || value[0] == '_' ||
        strncmp(value, "uf_", 3) == 0 || strncmp(value, "UF_", 3) == 0) {
        base[used++] = 'v';
    }
    for (const char *c = value; *c != '\0' && used < 60; ++c) {
        const bool fits = (unsigned char)*c < 0x80 && isalnum((unsigned char)*c);
        base[used++] = (char)(!fits ? '_' : lower && *c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    }
    base[used] = '\0';
    snprintf(name, NAME_SIZE, "%s%s", base, suffix);
    for (int number = 2; is_taken(to, name); ++number) {
        snprintf(name, NAME_SIZE, "%s_%d%s", base, number, suffix);
    }
    return take(to, name);
}

/* ---- options ---- */

/* The assignments to the fields that differ from their defaults, of the variable `name`, each ended
 * by a newline; empty where all have them. */
static void add_fields(uf_text *text, const uf_layer_function *function, const void *attributes,
                       const char *name) {
    for (int32_t i = 0; i < function->count; ++i) {
        const uf_option *option = &function->table[i];
        if (option->place != UF_PLACE_FIELD || uf_option_is_default(option, attributes)) {
            continue;
        }
        if (!is_pair(option)) {
            uf_text_add(text, "%s.%s = ", name, option->name);
            add_value(text, option, attributes, 0);
            uf_text_add(text, ";\n");
        } else if (is_square(option, attributes)) {
            uf_text_add(text, "%s.%s[0] = %s.%s[1] = ", name, option->name, name, option->name);
            add_value(text, option, attributes, 0);
            uf_text_add(text, ";\n");
        } else {
            for (int k = 0; k < 2; ++k) {
                uf_text_add(text, "%s.%s[%d] = ", name, option->name, k);
                add_value(text, option, attributes, k);
                uf_text_add(text, ";\n");
            }
        }
    }
}

/* UF_CONV2D(kernel, stride, padding, bias), where these fields tell all. */
static bool add_shorthand(uf_text *text, const uf_layer_function *function,
                          const void *attributes) {
    static const char *const names[] = {"kernel", "stride", "padding", "bias"};
    const uf_option *given[4] = {NULL};
    for (int32_t i = 0; function->shorthand != NULL && i < function->count; ++i) {
        const uf_option *option = &function->table[i];
        int k = 0;
        while (k < 4 && (option->place != UF_PLACE_FIELD || strcmp(names[k], option->name) != 0)) {
            ++k;
        }
        if (k < 4 && is_square(option, attributes)) {
            given[k] = option;
        } else if (option->place == UF_PLACE_FIELD && !uf_option_is_default(option, attributes)) {
            return false;
        }
    }
    for (int k = 0; k < 4; ++k) {
        if (given[k] == NULL) {
            return false;
        }
    }
    uf_text_add(text, "%s(", function->shorthand);
    for (int k = 0; k < 4; ++k) {
        uf_text_add(text, "%s", k == 0 ? "" : ", ");
        add_value(text, given[k], attributes, 0);
    }
    uf_text_add(text, ")");
    return true;
}

/* Declare a variable of options, or find one that has the same. Its name goes to `name`. */
static uf_status declare_options(writer *to, const uf_layer_function *function,
                                 const void *attributes, const char *value, char name[NAME_SIZE]) {
    char body[BODY_SIZE];
    uf_text text = {.at = body, .size = sizeof body};
    uf_text_add(&text, "%s\n", function->options);
    add_fields(&text, function, attributes, "");
    for (int i = 0; i < to->recent_count && i < RECENT; ++i) {
        if (strcmp(to->recent[i].body, body) == 0) {
            memcpy(name, to->recent[i].name, NAME_SIZE);
            return UF_OK;
        }
    }
    UF_TRY(make_name(to, value, "_options", name));
    uf_text line = begin(to);
    uf_text_add(&line, "%s %s = %s_default();", function->options, name, function->options);
    UF_TRY(end(to, &line));
    text.used = 0;
    add_fields(&text, function, attributes, name);
    for (char *at = body, *next; *at != '\0' && text.used > 0; at = next + 1) {
        next = strchr(at, '\n');
        *next = '\0';
        line = begin(to);
        uf_text_add(&line, "%s", at);
        UF_TRY(end(to, &line));
    }
    options_variable *kept = &to->recent[to->recent_count++ % RECENT];
    memcpy(kept->name, name, NAME_SIZE);
    text = (uf_text){.at = kept->body, .size = sizeof kept->body};
    uf_text_add(&text, "%s\n", function->options);
    add_fields(&text, function, attributes, "");
    return UF_OK;
}

/* ---- nodes ---- */

static void add_values(writer *to, uf_text *line, const uf_layer_function *function,
                       const uf_node *node) {
    if (function->list) {
        uf_text_add(line, ", (const uf_value[]){");
        for (int32_t i = 0; i < node->input_count; ++i) {
            uf_text_add(line, "%s%s", i == 0 ? "" : ", ", to->variables[node->inputs[i]]);
        }
        uf_text_add(line, "}, %" PRId32, node->input_count);
        return;
    }
    for (int32_t i = 0; i < function->most_inputs; ++i) {
        uf_text_add(line, ", %s",
                    i < node->input_count ? to->variables[node->inputs[i]] : "(uf_value){0}");
    }
}

static bool is_output(const uf_graph *graph, int32_t value) {
    for (int32_t i = 0; i < graph->outputs.count; ++i) {
        if (graph->outputs.list[i].value == value) {
            return true;
        }
    }
    return false;
}

/* The left side: "x = ", "uf_value x = ", "const uf_value skip = ", "(void)". */
static uf_status add_target(writer *to, uf_text *line, int32_t value) {
    const uf_graph *graph = to->model->graph;
    const int32_t next = value + 1;
    char *variable = to->variables[value];
    bool chained = next == graph->value_count && is_output(graph, value);
    if (to->readers[value] == 1 && next < graph->value_count && graph->values[next].node >= 0) {
        const uf_node *reader = graph->nodes[graph->values[next].node];
        for (int32_t i = 0; i < reader->input_count; ++i) {
            chained = chained || reader->inputs[i] == value;
        }
    }
    if (to->readers[value] == 0 && !chained) {
        uf_text_add(line, "(void)");
    } else if (chained) {
        snprintf(variable, NAME_SIZE, "x");
        uf_text_add(line, to->has_x ? "x = " : "uf_value x = ");
        to->has_x = true;
    } else {
        UF_TRY(make_name(to, uf_model_name_of(to->model, value), "", variable));
        uf_text_add(line, "const uf_value %s = ", variable);
    }
    return UF_OK;
}

static void add_shape_comment(uf_text *line, const uf_shape *shape) {
    char text[192];
    uf_text_add(line, " /* %s */", uf_shape_format(shape, text, sizeof text));
}

static uf_status put_input(writer *to, int32_t value, int32_t input) {
    const uf_graph_value *made = &to->model->graph->values[value];
    uf_text line = begin(to);
    UF_TRY(add_target(to, &line, value));
    uf_text_add(&line, "%s(graph, ", made->i64 ? "uf_input_i64" : "uf_input");
    uf_c_string(&line, to->model->graph->inputs.list[input].name);
    uf_text_add(&line, ", ");
    add_shape(&line, &made->shape);
    uf_text_add(&line, ");");
    return end(to, &line);
}

static uf_status put_node(writer *to, const uf_node *node) {
    const uf_layer_function *function = uf_function_of(node);
    const void *attributes = node->attributes.bytes;
    const char *name = uf_model_name_of(to->model, node->output);
    char options[NAME_SIZE + 64] = "NULL", short_options[256];
    if (function == NULL) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "%s: no function of layers.h makes this layer", name);
    }
    if (function->options != NULL) {
        char body[BODY_SIZE] = "";
        uf_text text = {.at = body, .size = sizeof body};
        uf_text shorter = {.at = short_options, .size = sizeof short_options};
        add_fields(&text, function, attributes, "");
        if (text.used > 0 && add_shorthand(&shorter, function, attributes)) {
            snprintf(options, sizeof options, "%s", short_options);
        } else if (text.used > 0) {
            options[0] = '&';
            UF_TRY(declare_options(to, function, attributes, name, options + 1));
        }
    }
    uf_text line = begin(to);
    /* The variables of the inputs first: the output's may be one of them. */
    uf_text call = {.at = to->line, .size = sizeof to->line};
    uf_text_add(&call, "uf_%s(graph", function->name);
    for (int32_t i = 0; i < function->count; ++i) {
        if (function->table[i].place == UF_PLACE_FIRST) {
            uf_text_add(&call, ", ");
            add_value(&call, &function->table[i], attributes, 0);
        }
    }
    add_values(to, &call, function, node);
    if (function->scope) {
        uf_text_add(&call, ", uf_at(weights, ");
        uf_c_string(&call, node->path);
        uf_text_add(&call, ")");
    }
    for (int32_t i = 0; i < function->count; ++i) {
        if (function->table[i].place == UF_PLACE_ARGUMENT) {
            uf_text_add(&call, ", ");
            add_value(&call, &function->table[i], attributes, 0);
        }
    }
    if (function->options != NULL) {
        uf_text_add(&call, ", %s", options);
    }
    if (call.used >= call.size) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "%s: a call of %zu bytes", name, call.used);
    }
    UF_TRY(add_target(to, &line, node->output));
    uf_text_add(&line, "%s);", to->line);
    add_shape_comment(&line, &to->model->graph->values[node->output].shape);
    return end(to, &line);
}

static uf_status put_outputs(writer *to) {
    const uf_graph_ios *outputs = &to->model->graph->outputs;
    for (int32_t i = 0; i < outputs->count; ++i) {
        uf_text line = begin(to);
        uf_text_add(&line, "uf_output(graph, ");
        uf_c_string(&line, outputs->list[i].name);
        uf_text_add(&line, ", %s);", to->variables[outputs->list[i].value]);
        UF_TRY(end(to, &line));
    }
    return UF_OK;
}

static void count_readers(writer *to) {
    const uf_graph *graph = to->model->graph;
    for (int32_t n = 0; n < graph->node_count; ++n) {
        for (int32_t i = 0; i < graph->nodes[n]->input_count; ++i) {
            to->readers[graph->nodes[n]->inputs[i]] += 1;
        }
    }
    for (int32_t i = 0; i < graph->outputs.count; ++i) {
        /* Read at the end: x is what was made last. */
        const int32_t value = graph->outputs.list[i].value;
        to->readers[value] += value == graph->value_count - 1 ? 0 : 2;
    }
}

static uf_status put_build(writer *to) {
    const uf_graph *graph = to->model->graph;
    int32_t input = 0;
    bool has_parameters = false;
    for (int i = 0; i < RESERVED; ++i) {
        UF_TRY(take(to, reserved[i]));
    }
    count_readers(to);
    put(to,
        "/* The graph: its inputs, its layers with their parameters in `weights`, its outputs. */");
    put(to, "static void build(uf_graph *graph, uf_store *weights) {");
    for (int32_t n = 0; n < graph->node_count; ++n) {
        const uf_layer_function *function = uf_function_of(graph->nodes[n]);
        has_parameters = has_parameters || (function != NULL && function->scope);
    }
    if (!has_parameters) {
        put(to, "    (void)weights;");
    }
    for (int32_t value = 1; value < graph->value_count; ++value) {
        const int32_t node = graph->values[value].node;
        UF_TRY(node < 0 ? put_input(to, value, input++) : put_node(to, graph->nodes[node]));
    }
    UF_TRY(put_outputs(to));
    put(to, "}");
    return UF_OK;
}

static uf_status put_program(writer *to) {
    uf_c_head(to->write, to->user);
    UF_TRY(put_build(to));
    uf_c_tail(to->model->graph, to->write, to->user);
    return UF_OK;
}

uf_status uf_model_write_c(const uf_model *model, uf_line_function write, void *user) {
    UF_CHECK_ARG(model != NULL && write != NULL, "uf_model_write_c: model or write is NULL");
    UF_TRY(uf_model_check(model));
    const size_t values = (size_t)model->graph->value_count;
    writer *to = calloc(1, sizeof *to);
    uf_status status = UF_OK;
    if (to != NULL) {
        to->model = model;
        to->write = write;
        to->user = user;
        to->readers = calloc(values, sizeof *to->readers);
        to->variables = calloc(values, sizeof *to->variables);
        to->names = calloc(2 * values + RESERVED, sizeof *to->names);
    }
    if (to == NULL || to->readers == NULL || to->variables == NULL || to->names == NULL) {
        status = uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory writing a model as C");
    } else {
        status = put_program(to);
    }
    if (to != NULL) {
        uf_index_free(&to->taken);
        free(to->readers);
        free(to->variables);
        free(to->names);
    }
    free(to);
    return status;
}
