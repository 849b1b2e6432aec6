/* write.c - a model as text. */
#include "model/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A node's line has a name, a layer, at most 8 inputs and 20 options. */
enum { LINE_SIZE = 8192 };

typedef struct writer {
    const uf_model *model;
    uf_line_function write;
    void *user;
    char line[LINE_SIZE];
} writer;

static uf_text begin(writer *to) {
    to->line[0] = '\0';
    return (uf_text){.at = to->line, .size = sizeof to->line};
}

static uf_status put(writer *to, const uf_text *line) {
    if (line->used >= line->size) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "a line of the model would have %zu bytes; there may be %zu",
                line->used, line->size - 1);
    }
    to->write(to->user, to->line);
    return UF_OK;
}

static uf_status put_input(writer *to, int32_t input) {
    const uf_graph_io *io = &to->model->graph->inputs.list[input];
    const uf_graph_value *value = &to->model->graph->values[io->value];
    uf_text line = begin(to);
    uf_text_add(&line, "input ");
    uf_text_name(&line, io->name);
    uf_text_add(&line, " %s (", value->i64 ? "i64" : "f32");
    for (int32_t i = 0; i < value->shape.rank; ++i) {
        const char *symbol = to->model->symbols[input].of[i];
        uf_text_add(&line, "%s%s%s%" PRId64, i == 0 ? "" : ", ", symbol,
                    symbol[0] != '\0' ? "=" : "", value->shape.extent[i]);
    }
    uf_text_add(&line, ")");
    return put(to, &line);
}

static uf_status put_node(writer *to, const uf_node *node) {
    const uf_layer_function *function = uf_function_of(node);
    const char *name = uf_model_name_of(to->model, node->output);
    uf_text line = begin(to);
    const char *comma = "";
    if (function == NULL) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "%s: a model file cannot describe this layer", name);
    }
    uf_text_name(&line, name);
    uf_text_add(&line, " = %s(", function->name);
    for (int32_t i = 0; i < node->input_count; ++i, comma = ", ") {
        uf_text_add(&line, "%s", comma);
        uf_text_name(&line, uf_model_name_of(to->model, node->inputs[i]));
    }
    if (function->scope && strcmp(node->path, name) != 0) {
        uf_text_add(&line, "%sat=", comma);
        uf_text_name(&line, node->path);
        comma = ", ";
    }
    for (int32_t i = 0; i < function->count; ++i) {
        const uf_option *option = &function->table[i];
        if (uf_option_is_shown(option) &&
            (option->required || !uf_option_is_default(option, node->attributes.bytes))) {
            uf_text_add(&line, "%s%s=", comma, option->name);
            uf_text_option(&line, option, node->attributes.bytes);
            comma = ", ";
        }
    }
    uf_text_add(&line, ")");
    return put(to, &line);
}

static void add_numbers(uf_text *line, const char *name, const double *numbers, int count,
                        double usual) {
    bool given = false;
    for (int i = 0; i < count; ++i) {
        given = given || numbers[i] != usual;
    }
    if (given) {
        uf_text_add(line, " %s=(", name);
        for (int i = 0; i < count; ++i) {
            uf_text_add(line, "%s", i == 0 ? "" : ", ");
            uf_text_number(line, numbers[i]);
        }
        uf_text_add(line, ")");
    }
}

static uf_status put_picture(writer *to, const uf_model_picture_entry *entry) {
    const uf_graph *graph = to->model->graph;
    const uf_picture_map *map = &entry->map;
    const uf_picture_map usual = uf_picture_map_default();
    const double range[2] = {map->minimum, map->maximum};
    uf_text line = begin(to);
    uf_text_add(&line, "picture %s ", entry->output ? "output" : "input");
    uf_text_name(&line, (entry->output ? &graph->outputs : &graph->inputs)->list[entry->io].name);
    if (range[0] != usual.minimum || range[1] != usual.maximum) {
        add_numbers(&line, "range", range, 2, -INFINITY);
    }
    add_numbers(&line, "mean", map->mean, 3, 0.0);
    add_numbers(&line, "std", map->std, 3, 1.0);
    if (map->channels != usual.channels) {
        uf_text_add(&line, " channels=%s", uf_model_channel_words[map->channels].word);
    }
    if (map->border != usual.border) {
        uf_text_add(&line, " border=%" PRId64, map->border);
    }
    if (map->border_mode != usual.border_mode) {
        uf_text_add(&line, " border_mode=%s", uf_model_border_words[map->border_mode].word);
    }
    if (map->scale != usual.scale) {
        uf_text_add(&line, " scale=%" PRId64, map->scale);
    }
    if (map->multiple != usual.multiple) {
        uf_text_add(&line, " multiple=%" PRId64, map->multiple);
    }
    return put(to, &line);
}

static uf_status put_all(writer *to) {
    const uf_graph *graph = to->model->graph;
    uf_text line = begin(to);
    int32_t input = 0;
    uf_text_add(&line, "unfurl model %d", UF_MODEL_VERSION);
    UF_TRY(put(to, &line));
    for (int32_t value = 1; value < graph->value_count; ++value) {
        const int32_t node = graph->values[value].node;
        UF_TRY(node < 0 ? put_input(to, input++) : put_node(to, graph->nodes[node]));
    }
    for (int32_t i = 0; i < graph->outputs.count; ++i) {
        line = begin(to);
        uf_text_add(&line, "output ");
        uf_text_name(&line, graph->outputs.list[i].name);
        uf_text_add(&line, " = ");
        uf_text_name(&line, uf_model_name_of(to->model, graph->outputs.list[i].value));
        UF_TRY(put(to, &line));
    }
    for (int32_t i = 0; i < to->model->picture_count; ++i) {
        UF_TRY(put_picture(to, &to->model->pictures[i]));
    }
    return UF_OK;
}

uf_status uf_model_check(const uf_model *model) {
    UF_TRY(uf_graph_status(model->graph));
    UF_CHECK_ARG(model->graph->value_count == model->count + 1,
                 "the model's graph has grown since it was made a model");
    return UF_OK;
}

uf_status uf_model_write(const uf_model *model, uf_line_function write, void *user) {
    UF_CHECK_ARG(model != NULL && write != NULL, "uf_model_write: model or write is NULL");
    UF_TRY(uf_model_check(model));
    writer *to = malloc(sizeof *to);
    if (to == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory writing a model");
    }
    to->model = model;
    to->write = write;
    to->user = user;
    const uf_status status = put_all(to);
    free(to);
    return status;
}
