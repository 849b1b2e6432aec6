/* read.c - a model's text to a graph. */
#include "layers/weight_norm.h"
#include "model/scan.h"

#include <inttypes.h>
#include <string.h>

/* A node under construction. */
typedef struct call {
    const uf_layer *layer;
    const uf_layer_function *function;
    uf_value inputs[UF_MAX_INPUTS];
    int32_t input_count;
    uint64_t given; /* bit i: option i of the function's table */
    union {
        unsigned char bytes[UF_ATTRIBUTES_SIZE];
        double align;
    } attributes;
    uf_scope scope;
    bool has_scope;
} call;

/* ---- names ---- */

static uf_status take_name(uf_scanner *scanner, const char *what, char name[UF_NAME_SIZE]) {
    const bool is_name =
        scanner->word.kind == UF_WORD_PLAIN || scanner->word.kind == UF_WORD_QUOTED;
    if (!is_name || scanner->word.text[0] == '\0') {
        return uf_scan_fail(scanner, "%s is needed here, not %s", what, uf_scan_shown(scanner));
    }
    memcpy(name, scanner->word.text, UF_NAME_SIZE);
    return uf_scan_word(scanner);
}

static uf_status take_value(uf_scanner *scanner, const uf_model *model, uf_value *value) {
    const uf_scanner before = *scanner;
    char name[UF_NAME_SIZE];
    UF_TRY(take_name(scanner, "the name of a value", name));
    const int32_t id = uf_model_find(model, name);
    if (id == 0) {
        return uf_scan_fail(&before, "no line above makes a value named %s", name);
    }
    *value = uf_graph_value_of(model->graph, id);
    return UF_OK;
}

/* The graph's first failure, with the line. */
static uf_status check_graph(const uf_scanner *scanner, const uf_graph *graph) {
    const uf_status status = uf_graph_status(graph);
    if (status != UF_OK) {
        uf_error_prefix("%s: line %" PRId32, scanner->name, scanner->line);
    }
    return status == UF_OK || status == UF_ERROR_OUT_OF_MEMORY ? status : UF_ERROR_FORMAT;
}

static uf_status end_line(uf_scanner *scanner) {
    return scanner->word.kind == UF_WORD_END
               ? UF_OK
               : uf_scan_fail(scanner, "the line should end here, not go on with %s",
                              uf_scan_shown(scanner));
}

/* ---- options ---- */

/* One word, or up to `most` of them in parentheses, each read by `read`. */
typedef uf_status read_function(uf_scanner *scanner, const char *what, void *to, int32_t place);

static uf_status read_list(uf_scanner *scanner, const char *what, read_function *read, void *to,
                           int32_t least, int32_t most, int32_t *count) {
    *count = 0;
    UF_TRY(uf_scan_mark(scanner, '('));
    while (!uf_scan_is(scanner, ')')) {
        if (*count == most) {
            return uf_scan_fail(scanner, "%s has more than %" PRId32 " numbers", what, most);
        }
        UF_TRY(read(scanner, what, to, *count));
        *count += 1;
        if (!uf_scan_is(scanner, ')')) {
            UF_TRY(uf_scan_mark(scanner, ','));
        }
    }
    if (*count < least) {
        return uf_scan_fail(scanner, "%s has %" PRId32 " numbers; it needs %" PRId32, what, *count,
                            least);
    }
    return uf_scan_word(scanner);
}

static uf_status read_integer(uf_scanner *scanner, const char *what, void *to, int32_t place) {
    int64_t number;
    UF_TRY(uf_scan_integer(scanner, what, INT64_MIN, INT64_MAX, &number));
    memcpy((int64_t *)to + place, &number, sizeof number);
    return UF_OK;
}

static uf_status read_small(uf_scanner *scanner, const char *what, void *to, int32_t place) {
    int64_t number;
    UF_TRY(uf_scan_integer(scanner, what, INT32_MIN, INT32_MAX, &number));
    ((int32_t *)to)[place] = (int32_t)number;
    return UF_OK;
}

static uf_status read_number(uf_scanner *scanner, const char *what, void *to, int32_t place) {
    double number;
    UF_TRY(uf_scan_number(scanner, what, &number));
    ((double *)to)[place] = number;
    return UF_OK;
}

static uf_status read_flag(uf_scanner *scanner, const char *what, bool *to) {
    const bool is_true = strcmp(scanner->word.text, "true") == 0;
    if (scanner->word.kind != UF_WORD_PLAIN ||
        (!is_true && strcmp(scanner->word.text, "false") != 0)) {
        return uf_scan_fail(scanner, "%s is %s; it must be true or false", what,
                            uf_scan_shown(scanner));
    }
    *to = is_true;
    return uf_scan_word(scanner);
}

static uf_status read_choice(uf_scanner *scanner, const char *what, const uf_option_word *words,
                             int32_t *to) {
    for (int32_t i = 0; scanner->word.kind == UF_WORD_PLAIN && words[i].word != NULL; ++i) {
        if (strcmp(scanner->word.text, words[i].word) == 0) {
            *to = i;
            return uf_scan_word(scanner);
        }
    }
    char list[512];
    uf_text text = {.at = list, .size = sizeof list};
    for (int32_t i = 0; words[i].word != NULL; ++i) {
        uf_text_add(&text, "%s%s", i == 0 ? "" : ", ", words[i].word);
    }
    return uf_scan_fail(scanner, "%s is %s; it must be one of %s", what, uf_scan_shown(scanner),
                        list);
}

/* One number, or two in parentheses; one stands for both. */
static uf_status read_pair(uf_scanner *scanner, const char *what, read_function *read, void *pair,
                           size_t size) {
    int32_t count;
    if (uf_scan_is(scanner, '(')) {
        return read_list(scanner, what, read, pair, 2, 2, &count);
    }
    UF_TRY(read(scanner, what, pair, 0));
    memcpy((char *)pair + size, pair, size);
    return UF_OK;
}

static uf_status read_axes(uf_scanner *scanner, const uf_option *option, void *attributes) {
    char *at = (char *)attributes + option->offset;
    int32_t axes[UF_MAX_RANK], count = 1;
    if (uf_scan_is(scanner, '(')) {
        UF_TRY(read_list(scanner, option->name, read_small, axes, 0, UF_MAX_RANK, &count));
    } else {
        UF_TRY(read_small(scanner, option->name, axes, 0));
    }
    memcpy(at, axes, (size_t)count * sizeof *axes);
    memcpy((char *)attributes + option->count, &count, sizeof count);
    return UF_OK;
}

static uf_status read_shape(uf_scanner *scanner, const char *what, uf_shape *shape) {
    memset(shape, 0, sizeof *shape);
    return read_list(scanner, what, read_integer, shape->extent, 0, UF_MAX_RANK, &shape->rank);
}

static uf_status read_parameter_name(uf_scanner *scanner, const char *what, char *to) {
    char name[UF_NAME_SIZE];
    const uf_scanner before = *scanner;
    UF_TRY(take_name(scanner, what, name));
    if (strlen(name) >= UF_PARAMETER_NAME_SIZE) {
        return uf_scan_fail(&before, "%s must have 1 to %d characters", what,
                            UF_PARAMETER_NAME_SIZE - 1);
    }
    memcpy(to, name, strlen(name) + 1);
    return UF_OK;
}

static uf_status read_option(uf_scanner *scanner, const uf_option *option, void *attributes) {
    void *at = (char *)attributes + option->offset;
    switch (option->kind) {
    case UF_OPTION_INTEGER:
        return read_integer(scanner, option->name, at, 0);
    case UF_OPTION_SMALL:
        return read_small(scanner, option->name, at, 0);
    case UF_OPTION_PAIR:
        return read_pair(scanner, option->name, read_integer, at, sizeof(int64_t));
    case UF_OPTION_NUMBER:
        return read_number(scanner, option->name, at, 0);
    case UF_OPTION_NUMBERS:
        return read_pair(scanner, option->name, read_number, at, sizeof(double));
    case UF_OPTION_FLAG:
        return read_flag(scanner, option->name, at);
    case UF_OPTION_CHOICE:
        return read_choice(scanner, option->name, option->words, at);
    case UF_OPTION_AXES:
        return read_axes(scanner, option, attributes);
    case UF_OPTION_SHAPE:
        return read_shape(scanner, option->name, at);
    case UF_OPTION_NAME:
        return read_parameter_name(scanner, option->name, at);
    }
    return uf_fail(UF_ERROR_INTERNAL, "%s: option of kind %d", option->name, (int)option->kind);
}

/* ---- nodes ---- */

/* The word before '=' is an option's name. */
static uf_status take_option(uf_scanner *scanner, const uf_model *model, call *made) {
    const uf_layer_function *function = made->function;
    if (function->scope && strcmp(scanner->word.text, "at") == 0) {
        UF_TRY(uf_scan_word(scanner));
        UF_TRY(uf_scan_mark(scanner, '='));
        if (made->has_scope ||
            (scanner->word.kind != UF_WORD_PLAIN && scanner->word.kind != UF_WORD_QUOTED)) {
            return uf_scan_fail(scanner, "at is one scope, not %s", uf_scan_shown(scanner));
        }
        made->scope = uf_at(model->store, scanner->word.text);
        made->has_scope = true;
        return uf_scan_word(scanner);
    }
    for (int32_t i = 0; i < function->count; ++i) {
        const uf_option *option = &function->table[i];
        if (!uf_option_is_shown(option) || strcmp(option->name, scanner->word.text) != 0) {
            continue;
        }
        if ((made->given >> i & 1) != 0) {
            return uf_scan_fail(scanner, "%s has %s twice", function->name, option->name);
        }
        made->given |= UINT64_C(1) << i;
        UF_TRY(uf_scan_word(scanner));
        UF_TRY(uf_scan_mark(scanner, '='));
        return read_option(scanner, option, made->attributes.bytes);
    }
    return uf_scan_fail(scanner, "%s has no option %s", function->name, scanner->word.text);
}

static uf_status take_arguments(uf_scanner *scanner, const uf_model *model, call *made) {
    const uf_layer_function *function = made->function;
    UF_TRY(uf_scan_mark(scanner, '('));
    while (!uf_scan_is(scanner, ')')) {
        if (scanner->next.kind == UF_WORD_MARK && scanner->next.text[0] == '=') {
            UF_TRY(take_option(scanner, model, made));
        } else {
            if (made->input_count == function->most_inputs) {
                return uf_scan_fail(scanner, "%s takes at most %" PRId32 " values", function->name,
                                    function->most_inputs);
            }
            UF_TRY(take_value(scanner, model, &made->inputs[made->input_count]));
            made->input_count += 1;
        }
        if (!uf_scan_is(scanner, ')')) {
            UF_TRY(uf_scan_mark(scanner, ','));
        }
    }
    if (made->input_count < function->least_inputs) {
        return uf_scan_fail(scanner, "%s takes %" PRId32 " values, not %" PRId32, function->name,
                            function->least_inputs, made->input_count);
    }
    for (int32_t i = 0; i < function->count; ++i) {
        const uf_option *option = &function->table[i];
        if (option->required && (made->given >> i & 1) == 0) {
            return uf_scan_fail(scanner, "%s needs %s", function->name, option->name);
        }
        if (option->place == UF_PLACE_INPUTS) {
            const bool all = made->input_count == function->most_inputs;
            memcpy(made->attributes.bytes + option->offset, &all, sizeof all);
        }
    }
    UF_TRY(uf_scan_word(scanner));
    return end_line(scanner);
}

/* NAME = LAYER(...), at its layer. */
static uf_status read_node(uf_scanner *scanner, uf_model *model, const char *name) {
    call made;
    memset(&made, 0, sizeof made);
    const uf_scanner before = *scanner;
    char layer[UF_NAME_SIZE];
    UF_TRY(take_name(scanner, "a layer", layer));
    made.function = uf_function_find(layer, &made.layer);
    if (made.function == NULL) {
        return uf_scan_fail(&before, "there is no layer named %s", layer);
    }
    for (int32_t i = 0; i < made.function->count; ++i) {
        uf_option_reset(&made.function->table[i], made.attributes.bytes);
    }
    UF_TRY(take_arguments(scanner, model, &made));
    if (!made.has_scope) {
        made.scope = uf_at(model->store, name);
    }
    if (made.function->complete != NULL) {
        made.function->complete(made.attributes.bytes);
    }
    const uf_value value =
        uf_graph_append(model->graph, made.layer, made.attributes.bytes, made.function->size,
                        made.inputs, made.input_count, &made.scope);
    UF_TRY(check_graph(scanner, model->graph));
    return uf_model_add_name(model, name, value.id);
}

/* ---- inputs and outputs ---- */

/* An extent, which may be a symbol's: N=64. */
static uf_status read_extent(uf_scanner *scanner, const char *what, uf_shape *shape,
                             uf_model_symbols *symbols) {
    if (shape->rank == UF_MAX_RANK) {
        return uf_scan_fail(scanner, "%s has more than %d extents", what, UF_MAX_RANK);
    }
    if (scanner->next.kind == UF_WORD_MARK && scanner->next.text[0] == '=') {
        const char first = scanner->word.text[0];
        const bool is_letter = (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z');
        if (scanner->word.kind != UF_WORD_PLAIN || !is_letter ||
            strlen(scanner->word.text) >= UF_SYMBOL_SIZE) {
            return uf_scan_fail(scanner,
                                "%s is no symbol: a letter and at most %d characters in all",
                                uf_scan_shown(scanner), UF_SYMBOL_SIZE - 1);
        }
        memcpy(symbols->of[shape->rank], scanner->word.text, UF_SYMBOL_SIZE);
        UF_TRY(uf_scan_word(scanner));
        UF_TRY(uf_scan_mark(scanner, '='));
    }
    return uf_scan_integer(scanner, what, 1, UF_MODEL_MAX_EXTENT, &shape->extent[shape->rank++]);
}

/* A symbol has one extent in all inputs. */
static uf_status check_symbols(const uf_scanner *scanner, const uf_model *model,
                               const uf_shape *shape, const uf_model_symbols *symbols) {
    for (int32_t i = 0; i < shape->rank; ++i) {
        for (int32_t k = 0; symbols->of[i][0] != '\0' && k < model->symbol_count; ++k) {
            const uf_shape *other = &model->graph->values[model->graph->inputs.list[k].value].shape;
            for (int32_t j = 0; j < other->rank; ++j) {
                if (strcmp(model->symbols[k].of[j], symbols->of[i]) == 0 &&
                    other->extent[j] != shape->extent[i]) {
                    return uf_scan_fail(scanner, "%s is %" PRId64 " here and %" PRId64 " above",
                                        symbols->of[i], shape->extent[i], other->extent[j]);
                }
            }
        }
    }
    return UF_OK;
}

/* input NAME TYPE SHAPE, at NAME. */
static uf_status read_input(uf_scanner *scanner, uf_model *model) {
    static const uf_option_word types[] = {{"f32", NULL}, {"i64", NULL}, {NULL, NULL}};
    char name[UF_NAME_SIZE];
    int32_t type = 0;
    uf_shape shape;
    uf_model_symbols symbols;
    memset(&shape, 0, sizeof shape);
    memset(&symbols, 0, sizeof symbols);
    const uf_scanner before = *scanner;
    UF_TRY(take_name(scanner, "the name of an input", name));
    if (uf_model_find(model, name) != 0) {
        return uf_scan_fail(&before, "a line above makes a value named %s", name);
    }
    UF_TRY(read_choice(scanner, "the type", types, &type));
    UF_TRY(uf_scan_mark(scanner, '('));
    while (!uf_scan_is(scanner, ')')) {
        UF_TRY(read_extent(scanner, "the shape", &shape, &symbols));
        if (!uf_scan_is(scanner, ')')) {
            UF_TRY(uf_scan_mark(scanner, ','));
        }
    }
    UF_TRY(check_symbols(scanner, model, &shape, &symbols));
    UF_TRY(uf_scan_word(scanner));
    UF_TRY(end_line(scanner));
    const uf_value value =
        type == 0 ? uf_input(model->graph, name, shape) : uf_input_i64(model->graph, name, shape);
    UF_TRY(check_graph(scanner, model->graph));
    UF_TRY(uf_model_add_symbols(model, &symbols));
    return uf_model_add_name(model, name, value.id);
}

/* output NAME = VALUE, at NAME. */
static uf_status read_output(uf_scanner *scanner, uf_model *model) {
    char name[UF_NAME_SIZE];
    uf_value value;
    UF_TRY(take_name(scanner, "the name of an output", name));
    UF_TRY(uf_scan_mark(scanner, '='));
    UF_TRY(take_value(scanner, model, &value));
    UF_TRY(end_line(scanner));
    uf_output(model->graph, name, value);
    return check_graph(scanner, model->graph);
}

/* ---- pictures ---- */

static uf_status read_picture_option(uf_scanner *scanner, const char *option, uf_picture_map *map) {
    double numbers[3];
    int32_t count, choice = 0;
    if (strcmp(option, "range") == 0) {
        UF_TRY(read_list(scanner, option, read_number, numbers, 2, 2, &count));
        map->minimum = numbers[0];
        map->maximum = numbers[1];
        return UF_OK;
    }
    if (strcmp(option, "mean") == 0) {
        return read_list(scanner, option, read_number, map->mean, 3, 3, &count);
    }
    if (strcmp(option, "std") == 0) {
        return read_list(scanner, option, read_number, map->std, 3, 3, &count);
    }
    if (strcmp(option, "channels") == 0) {
        UF_TRY(read_choice(scanner, option, uf_model_channel_words, &choice));
        map->channels = (uf_channel_order)choice;
        return UF_OK;
    }
    if (strcmp(option, "border_mode") == 0) {
        UF_TRY(read_choice(scanner, option, uf_model_border_words, &choice));
        map->border_mode = (uf_pad_mode)choice;
        return UF_OK;
    }
    if (strcmp(option, "border") == 0) {
        return read_integer(scanner, option, &map->border, 0);
    }
    if (strcmp(option, "scale") == 0) {
        return read_integer(scanner, option, &map->scale, 0);
    }
    if (strcmp(option, "multiple") == 0) {
        return read_integer(scanner, option, &map->multiple, 0);
    }
    return uf_scan_fail(scanner, "a picture has no option %s", option);
}

static uf_status read_picture_options(uf_scanner *scanner, uf_picture_map *map) {
    char option[UF_NAME_SIZE];
    while (scanner->word.kind != UF_WORD_END) {
        UF_TRY(take_name(scanner, "an option", option));
        UF_TRY(uf_scan_mark(scanner, '='));
        UF_TRY(read_picture_option(scanner, option, map));
    }
    return UF_OK;
}

/* picture input|output NAME OPTION=..., at "input" or "output". */
static uf_status read_picture(uf_scanner *scanner, uf_model *model) {
    static const uf_option_word sides[] = {{"input", NULL}, {"output", NULL}, {NULL, NULL}};
    char name[UF_NAME_SIZE];
    int32_t side = 0;
    uf_picture_map map = uf_picture_map_default();
    UF_TRY(read_choice(scanner, "the side of a picture", sides, &side));
    UF_TRY(take_name(scanner, "the name of an input or output", name));
    UF_TRY(read_picture_options(scanner, &map));
    const uf_status status = uf_model_set_picture(model, side == 1, name, &map);
    if (status == UF_ERROR_INVALID_ARGUMENT) {
        uf_error_prefix("%s: line %" PRId32, scanner->name, scanner->line);
        return UF_ERROR_FORMAT;
    }
    return status;
}

/* ---- lines ---- */

static uf_status read_line(uf_scanner *scanner, uf_model *model) {
    static const struct {
        const char *word;
        uf_status (*read)(uf_scanner *scanner, uf_model *model);
    } kinds[] = {{"input", read_input}, {"output", read_output}, {"picture", read_picture}};
    const bool is_node = scanner->next.kind == UF_WORD_MARK && scanner->next.text[0] == '=';
    for (size_t i = 0; !is_node && i < sizeof kinds / sizeof *kinds; ++i) {
        if (scanner->word.kind == UF_WORD_PLAIN && strcmp(scanner->word.text, kinds[i].word) == 0) {
            UF_TRY(uf_scan_word(scanner));
            return kinds[i].read(scanner, model);
        }
    }
    if (!is_node) {
        return uf_scan_fail(scanner,
                            "a line begins with input, output, picture or the name of a node and "
                            "'=', not with %s",
                            uf_scan_shown(scanner));
    }
    char name[UF_NAME_SIZE];
    const uf_scanner before = *scanner;
    UF_TRY(take_name(scanner, "the name of a node", name));
    if (uf_model_find(model, name) != 0) {
        return uf_scan_fail(&before, "a line above makes a value named %s", name);
    }
    UF_TRY(uf_scan_mark(scanner, '='));
    return read_node(scanner, model, name);
}

static uf_status read_head(uf_scanner *scanner) {
    int64_t version;
    bool more;
    UF_TRY(uf_scan_line(scanner, &more));
    const bool first = more && strcmp(scanner->word.text, "unfurl") == 0 &&
                       strcmp(scanner->next.text, "model") == 0;
    if (!first) {
        return uf_scan_fail(scanner, "a model begins with 'unfurl model %d'", UF_MODEL_VERSION);
    }
    UF_TRY(uf_scan_word(scanner));
    UF_TRY(uf_scan_word(scanner));
    const uf_scanner before = *scanner;
    UF_TRY(uf_scan_integer(scanner, "the version", 1, INT32_MAX, &version));
    if (version != UF_MODEL_VERSION) {
        return uf_scan_fail(&before,
                            "the model is of version %" PRId64 "; this library reads version %d",
                            version, UF_MODEL_VERSION);
    }
    return end_line(scanner);
}

static uf_status read_lines(uf_model *model, const char *name, const char *text, size_t size) {
    uf_scanner scanner;
    bool more = true;
    uf_scan_begin(&scanner, name, text, size);
    UF_TRY(read_head(&scanner));
    while (more) {
        UF_TRY(uf_scan_line(&scanner, &more));
        if (more) {
            UF_TRY(read_line(&scanner, model));
        }
    }
    if (model->graph->outputs.count == 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s: the model has no output", name);
    }
    return UF_OK;
}

uf_status uf_model_read_text(uf_model *model, const char *name, const char *text, size_t size) {
    uf_c_locale locale;
    if (size > UF_MODEL_MAX_TEXT) {
        UF_FAIL(UF_ERROR_FORMAT, "%s: a model's text of %zu bytes; there may be %zu", name, size,
                UF_MODEL_MAX_TEXT);
    }
    UF_TRY(uf_c_locale_enter(name, &locale));
    const uf_status status = read_lines(model, name, text, size);
    uf_c_locale_leave(&locale);
    return status;
}

static uf_status read_one_map(const char *text, uf_picture_map *map) {
    uf_scanner scanner;
    bool more;
    uf_scan_begin(&scanner, "picture", text, strlen(text));
    UF_TRY(uf_scan_line(&scanner, &more));
    UF_TRY(read_picture_options(&scanner, map));
    UF_TRY(uf_scan_line(&scanner, &more));
    return more ? uf_scan_fail(&scanner, "a picture has one line") : UF_OK;
}

uf_status uf_picture_map_parse_sized(const char *text, uf_picture_map *map, size_t map_size) {
    uf_picture_map made = uf_picture_map_default();
    uf_c_locale locale;
    UF_CHECK_ARG(text != NULL && map != NULL, "uf_picture_map_parse: text or map is NULL");
    UF_TRY(uf_c_locale_enter("a picture's options", &locale));
    const uf_status status = read_one_map(text, &made);
    uf_c_locale_leave(&locale);
    UF_TRY(status);
    uf_give_struct(&made, sizeof made, map, map_size);
    return UF_OK;
}
