/* model.c - a model: a graph, its store and names. */
#include "model/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const uf_option_word uf_model_channel_words[] = {
    {"auto", NULL}, {"rgb", NULL}, {"bgr", NULL}, {"grey", NULL}, {NULL, NULL}};
const uf_option_word uf_model_border_words[] = {
    {"zero", NULL}, {"replicate", NULL}, {"reflect", NULL}, {NULL, NULL}};

/* ---- making ---- */

static void free_model(uf_object *object) {
    uf_model *model = (uf_model *)object;
    uf_object_release(model->graph != NULL ? &model->graph->object : NULL);
    uf_object_release(model->store != NULL ? &model->store->object : NULL);
    uf_index_free(&model->names);
    free(model->list);
    free(model->symbols);
    free(model->pictures);
    free(model);
}

uf_status uf_model_make(uf_context *context, uf_graph *graph, uf_store *store, uf_model **model) {
    uf_model *made = calloc(1, sizeof *made);
    if (made == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a model");
    }
    uf_object_begin(context, &made->object, UF_OBJECT_MODEL, free_model);
    made->context = context;
    made->graph = graph;
    made->store = store;
    *model = made;
    return UF_OK;
}

void uf_model_destroy(uf_model *model) {
    uf_object_release(model != NULL ? &model->object : NULL);
}

uf_graph *uf_model_graph(const uf_model *model) {
    return model != NULL ? model->graph : NULL;
}

uf_store *uf_model_store(const uf_model *model) {
    return model != NULL ? model->store : NULL;
}

/* ---- names ---- */

static int64_t find_place(const uf_model *model, const char *name) {
    return uf_index_find_name(&model->names, model->list, sizeof *model->list, name);
}

int32_t uf_model_find(const uf_model *model, const char *name) {
    const int64_t place = find_place(model, name);
    return place < 0 ? 0 : model->list[place].value;
}

uf_status uf_model_add_name(uf_model *model, const char *name, int32_t value) {
    if (find_place(model, name) >= 0) {
        UF_FAIL(UF_ERROR_FORMAT, "the model has two values named %s", name);
    }
    UF_TRY(uf_grow((void **)&model->list, model->count, &model->capacity, sizeof *model->list));
    UF_TRY(uf_index_add_name(&model->names, name, model->count));
    uf_model_name *made = &model->list[model->count++];
    memset(made, 0, sizeof *made);
    memcpy(made->name, name, strlen(name) + 1);
    made->value = value;
    return UF_OK;
}

/* Values are numbered from 1 in the order of their names. */
const char *uf_model_name_of(const uf_model *model, int32_t value) {
    return model->list[value - 1].name;
}

int32_t uf_model_value_count(const uf_model *model) {
    return model != NULL ? model->count : 0;
}

const char *uf_model_value_name(const uf_model *model, int32_t index) {
    return model != NULL && index >= 0 && index < model->count ? model->list[index].name : NULL;
}

uf_status uf_model_value(const uf_model *model, const char *name, uf_value *value) {
    UF_CHECK_ARG(value != NULL, "uf_model_value: value is NULL");
    *value = (uf_value){0};
    UF_CHECK_ARG(model != NULL && name != NULL, "uf_model_value: model or name is NULL");
    const int32_t id = uf_model_find(model, name);
    UF_CHECK_ARG(id != 0, "the model has no value named %s", name);
    *value = uf_graph_value_of(model->graph, id);
    return UF_OK;
}

uf_status uf_model_add_symbols(uf_model *model, const uf_model_symbols *symbols) {
    UF_TRY(uf_grow((void **)&model->symbols, model->symbol_count, &model->symbol_capacity,
                   sizeof *model->symbols));
    model->symbols[model->symbol_count++] = *symbols;
    return UF_OK;
}

/* ---- of a program's graph ---- */

uf_status uf_model_add_free_name(uf_model *model, const char *base, int32_t value) {
    char name[UF_NAME_SIZE];
    const int64_t first = find_place(model, base);
    snprintf(name, sizeof name, "%s", base);
    while (find_place(model, name) >= 0) {
        char number[16];
        const int length =
            snprintf(number, sizeof number, "_%" PRId32, ++model->list[first].repeats + 1);
        snprintf(name, sizeof name, "%.*s%s", (int)(UF_NAME_SIZE - 1 - length), base, number);
    }
    return uf_model_add_name(model, name, value);
}

static uf_status add_node_name(uf_model *model, const uf_node *node) {
    const uf_layer_function *function = uf_function_of(node);
    if (function == NULL) {
        UF_FAIL(UF_ERROR_UNSUPPORTED,
                "%s%s%s: a model file cannot describe this layer, which layers.h does not make "
                "as it is",
                node->path, node->path[0] != '\0' ? ": " : "",
                uf_layer_title(node->layer, node->attributes.bytes));
    }
    UF_CHECK_ARG(node->param_count == 0 || model->store == NULL || model->store == node->store,
                 "%s: a model has one store; this layer's is \"%s\", another's is \"%s\"",
                 node->path, node->store->name, model->store->name);
    if (node->param_count > 0 && model->store == NULL) {
        model->store = node->store;
        uf_object_keep(&model->store->object);
    }
    return uf_model_add_free_name(model, node->path[0] != '\0' ? node->path : function->name,
                                  node->output);
}

static uf_status add_names(uf_model *model) {
    const uf_graph *graph = model->graph;
    int32_t input = 0;
    for (int32_t value = 1; value < graph->value_count; ++value) {
        const int32_t node = graph->values[value].node;
        UF_TRY(node < 0 ? uf_model_add_free_name(model, graph->inputs.list[input++].name, value)
                        : add_node_name(model, graph->nodes[node]));
    }
    return UF_OK;
}

static uf_status add_batch(uf_model *model) {
    const uf_graph *graph = model->graph;
    uf_model_symbols symbols;
    memset(&symbols, 0, sizeof symbols);
    bool same = true;
    for (int32_t i = 0; i < graph->inputs.count; ++i) {
        const uf_shape *first = &graph->values[graph->inputs.list[0].value].shape;
        const uf_shape *shape = &graph->values[graph->inputs.list[i].value].shape;
        same = same && shape->rank > 0 && shape->extent[0] == first->extent[0];
    }
    if (same) {
        memcpy(symbols.of[0], "N", 2);
    }
    for (int32_t i = 0; i < graph->inputs.count; ++i) {
        UF_TRY(uf_model_add_symbols(model, &symbols));
    }
    return UF_OK;
}

uf_status uf_model_create(uf_graph *graph, uf_model **model) {
    UF_CHECK_ARG(model != NULL, "uf_model_create: model is NULL");
    *model = NULL;
    UF_CHECK_ARG(graph != NULL, "uf_model_create: graph is NULL");
    UF_TRY(uf_graph_status(graph));
    uf_model *made = NULL;
    UF_TRY(uf_model_make(graph->context, graph, NULL, &made));
    uf_object_keep(&graph->object);
    uf_status status = add_names(made);
    if (status == UF_OK) {
        status = add_batch(made);
    }
    if (status != UF_OK) {
        uf_model_destroy(made);
        return status;
    }
    *model = made;
    return UF_OK;
}

/* ---- shapes ---- */

int32_t uf_model_input_count(const uf_model *model) {
    return model != NULL ? model->graph->inputs.count : 0;
}

uf_dtype uf_model_input_dtype(const uf_model *model, int32_t index) {
    const bool exists = model != NULL && index >= 0 && index < model->graph->inputs.count;
    return exists && model->graph->values[model->graph->inputs.list[index].value].i64 ? UF_I64
                                                                                      : UF_F32;
}

int32_t uf_model_output_count(const uf_model *model) {
    return model != NULL ? model->graph->outputs.count : 0;
}

const char *uf_model_io_name(const uf_model *model, bool output, int32_t index) {
    const uf_graph_ios *ios = model == NULL ? NULL
                              : output      ? &model->graph->outputs
                                            : &model->graph->inputs;
    return ios != NULL && index >= 0 && index < ios->count ? ios->list[index].name : NULL;
}

typedef struct bound_symbol {
    const char *name;
    int64_t extent;
} bound_symbol;

/* Let the symbols of input `input` have the extents of `shape`. There are at most UF_MAX_RANK for
 * each input. */
static uf_status bind_symbols(const uf_model *model, int32_t input, const uf_shape *shape,
                              bound_symbol *bound, int32_t *count) {
    const char *name = model->graph->inputs.list[input].name;
    const uf_shape *usual = &model->graph->values[model->graph->inputs.list[input].value].shape;
    char text[128], other[128];
    bool fits = shape->rank == usual->rank;
    for (int32_t i = 0; fits && i < usual->rank; ++i) {
        const char *symbol = model->symbols[input].of[i];
        fits = shape->extent[i] >= 1 && (symbol[0] != '\0' || shape->extent[i] == usual->extent[i]);
        int32_t k = 0;
        while (k < *count && strcmp(bound[k].name, symbol) != 0) {
            ++k;
        }
        if (symbol[0] != '\0' && k == *count) {
            bound[(*count)++] = (bound_symbol){symbol, shape->extent[i]};
        } else if (symbol[0] != '\0' && bound[k].extent != shape->extent[i]) {
            UF_FAIL(UF_ERROR_SHAPE, "input %s: %s is %" PRId64 " here and %" PRId64 " elsewhere",
                    name, symbol, shape->extent[i], bound[k].extent);
        }
    }
    if (!fits) {
        UF_FAIL(UF_ERROR_SHAPE, "input %s cannot be %s: the model has %s, in which %s", name,
                uf_shape_format(shape, text, sizeof text),
                uf_shape_format(usual, other, sizeof other),
                model->symbols[input].of[0][0] != '\0' ? "the first extent may be another"
                                                       : "not every extent may be another");
    }
    return UF_OK;
}

static uf_status solve(const uf_model *model, const uf_input_shape *given, int32_t count,
                       bound_symbol *bound, uf_input_shape *shapes) {
    const uf_graph *graph = model->graph;
    int32_t bound_count = 0;
    for (int32_t i = 0; i < count; ++i) {
        const int32_t input =
            given[i].input != NULL ? uf_graph_io_find(&graph->inputs, given[i].input) : INT32_C(-1);
        UF_CHECK_ARG(input >= 0, "the model has no input named %s",
                     given[i].input != NULL ? given[i].input : "NULL");
        UF_TRY(bind_symbols(model, input, &given[i].shape, bound, &bound_count));
    }
    for (int32_t i = 0; i < graph->inputs.count; ++i) {
        shapes[i].input = graph->inputs.list[i].name;
        shapes[i].shape = graph->values[graph->inputs.list[i].value].shape;
        for (int32_t axis = 0; axis < shapes[i].shape.rank; ++axis) {
            for (int32_t k = 0; k < bound_count; ++k) {
                if (strcmp(bound[k].name, model->symbols[i].of[axis]) == 0) {
                    shapes[i].shape.extent[axis] = bound[k].extent;
                }
            }
        }
    }
    return UF_OK;
}

uf_status uf_model_input_shapes(const uf_model *model, const uf_input_shape *given, int32_t count,
                                uf_input_shape *shapes) {
    UF_CHECK_ARG(model != NULL && shapes != NULL && count >= 0 && (given != NULL || count == 0),
                 "uf_model_input_shapes: model, given or shapes is NULL, or count below 0");
    const size_t most = (size_t)model->graph->inputs.count * UF_MAX_RANK + 1;
    bound_symbol *bound = calloc(most, sizeof *bound);
    if (bound == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for the symbols of a model");
    }
    const uf_status status = solve(model, given, count, bound, shapes);
    free(bound);
    return status;
}

/* ---- pictures ---- */

static uf_status find_picture(const uf_model *model, bool output, const char *name, int32_t *io,
                              uf_model_picture_entry **entry) {
    const uf_graph_ios *ios = output ? &model->graph->outputs : &model->graph->inputs;
    *io = name != NULL ? uf_graph_io_find(ios, name) : INT32_C(-1);
    UF_CHECK_ARG(*io >= 0, "the model has no %s named %s", output ? "output" : "input",
                 name != NULL ? name : "NULL");
    *entry = NULL;
    for (int32_t i = 0; i < model->picture_count; ++i) {
        uf_model_picture_entry *one = &model->pictures[i];
        *entry = one->output == output && one->io == *io ? one : *entry;
    }
    return UF_OK;
}

uf_status uf_model_picture_sized(const uf_model *model, bool output, const char *name,
                                 uf_picture_map *map, size_t map_size) {
    const uf_picture_map usual = uf_picture_map_default();
    uf_model_picture_entry *entry = NULL;
    int32_t io;
    UF_CHECK_ARG(model != NULL && map != NULL, "uf_model_picture: model or map is NULL");
    UF_TRY(find_picture(model, output, name, &io, &entry));
    uf_give_struct(entry != NULL ? &entry->map : &usual, sizeof usual, map, map_size);
    return UF_OK;
}

static uf_status check_map(const uf_picture_map *map) {
    UF_CHECK_ARG(isfinite(map->minimum) && isfinite(map->maximum) && map->minimum < map->maximum,
                 "a picture's range is %g to %g; the second must be above the first", map->minimum,
                 map->maximum);
    for (int i = 0; i < 3; ++i) {
        UF_CHECK_ARG(isfinite(map->mean[i]) && isfinite(map->std[i]) && map->std[i] > 0.0,
                     "a picture's mean is %g and its std %g; std must be above 0", map->mean[i],
                     map->std[i]);
    }
    UF_CHECK_ARG((unsigned)map->channels <= UF_CHANNELS_GREY &&
                     (unsigned)map->border_mode <= UF_PAD_REFLECT,
                 "a picture's channels or border_mode are no value of their enumerations");
    UF_CHECK_ARG(map->border >= 0 && map->border <= 65536 && map->scale >= 1 && map->scale <= 64,
                 "a picture's border is %" PRId64 " and its scale %" PRId64
                 "; they must be 0 to 65536 and 1 to 64",
                 map->border, map->scale);
    UF_CHECK_ARG(map->multiple >= 1 && map->multiple <= 65536,
                 "a picture's multiple is %" PRId64 "; it must be 1 to 65536", map->multiple);
    return UF_OK;
}

uf_status uf_model_set_picture(uf_model *model, bool output, const char *name,
                               const uf_picture_map *map) {
    uf_picture_map known = uf_picture_map_default();
    uf_model_picture_entry *entry = NULL;
    int32_t io;
    UF_CHECK_ARG(model != NULL, "uf_model_set_picture: model is NULL");
    UF_TRY(uf_read_struct("uf_picture_map", map, &known, sizeof known));
    UF_TRY(find_picture(model, output, name, &io, &entry));
    UF_TRY(check_map(&known));
    if (entry == NULL) {
        UF_TRY(uf_grow((void **)&model->pictures, model->picture_count, &model->picture_capacity,
                       sizeof *model->pictures));
        entry = &model->pictures[model->picture_count++];
        entry->output = output;
        entry->io = io;
    }
    entry->map = known;
    return UF_OK;
}
