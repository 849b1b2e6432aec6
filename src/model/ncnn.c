/* ncnn.c - a network of ncnn's as a model: its inputs, its layers line by line, its outputs.
 *
 * ncnn's blobs have no batch axis; a value here has one in front. A layer's function appends to the
 * graph, and the values that it made get their names when it has returned: the blob's, and for
 * those on the way the blob's with the function's behind it. */
#include "model/ncnn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/tensor_file.h"
#include "model/scan.h"

enum { MOST_INPUTS = 64 };  /* each may have the whole text searched */
enum { USUAL_EXTENT = 64 }; /* of height and width that nothing says */

/* ---- what layers ask ---- */

static int64_t find_blob(const uf_ncnn *net, const char *name) {
    return uf_index_find_name(&net->blob_names, net->blobs, sizeof *net->blobs, name);
}

uf_scope uf_ncnn_scope(const uf_ncnn *net) {
    char name[UF_NCNN_NAME_SIZE];
    memcpy(name, net->layer.name, sizeof name);
    for (char *c = name; *c != '\0'; ++c) {
        *c = *c == '/' ? '_' : *c; /* a slash cannot be in the name of a dataset */
    }
    return uf_at(net->model->store, name);
}

/* The blobs of a line have been looked up before its function is called. */
uf_value uf_ncnn_bottom(uf_ncnn *net, int32_t i) {
    return net->blobs[find_blob(net, net->layer.bottoms[i])].value;
}

uf_shape uf_ncnn_shape(const uf_ncnn *net, uf_value value) {
    return uf_value_shape(net->graph, value);
}

bool uf_ncnn_need_rank(uf_ncnn *net, uf_value value, int32_t rank) {
    const uf_shape shape = uf_ncnn_shape(net, value);
    if (shape.rank != rank) {
        uf_ncnn_refuse(net, UF_ERROR_UNSUPPORTED,
                       "an input of %" PRId32 " axes; unfurl has the layer for %" PRId32,
                       shape.rank - 1, rank - 1);
    }
    return shape.rank == rank;
}

int32_t uf_ncnn_axis(uf_ncnn *net, int64_t axis, int32_t rank) {
    if (axis < 1 - rank || axis > rank - 2) {
        uf_ncnn_refuse(net, UF_ERROR_FORMAT,
                       "axis %" PRId64 " of a value with %" PRId32
                       " axes; ncnn counts none for the "
                       "batch",
                       axis, rank - 1);
        return 1;
    }
    return (int32_t)(axis < 0 ? rank + axis : axis + 1);
}

bool uf_ncnn_is_multiple(const uf_ncnn *net, int32_t bottom, int64_t of) {
    const uf_ncnn_blob *blob = &net->blobs[find_blob(net, net->layer.bottoms[bottom])];
    return blob->multiple[0] % of == 0 && blob->multiple[1] % of == 0;
}

/* ---- names ---- */

static uf_status add_blob(uf_ncnn *net, const char *name, uf_value value) {
    if (find_blob(net, name) >= 0) {
        UF_FAIL(UF_ERROR_FORMAT, "the layer writes a blob named %s twice", name);
    }
    UF_TRY(uf_grow((void **)&net->blobs, net->blob_count, &net->blob_capacity, sizeof *net->blobs));
    UF_TRY(uf_index_add_name(&net->blob_names, name, net->blob_count));
    uf_ncnn_blob *blob = &net->blobs[net->blob_count++];
    memset(blob, 0, sizeof *blob);
    memcpy(blob->name, name, strlen(name) + 1);
    blob->value = value;
    blob->multiple[0] = blob->multiple[1] = 1;
    return UF_OK;
}

/* Name the values that the line has made. */
static uf_status add_names(uf_ncnn *net, const uf_value *tops) {
    const uf_graph *graph = net->graph;
    while (net->model->count + 1 < graph->value_count) {
        const int32_t id = net->model->count + 1, node = graph->values[id].node;
        const uf_layer_function *function = uf_function_of(graph->nodes[node]);
        char name[UF_NAME_SIZE];
        int32_t top = 0;
        while (top < net->layer.top_count && tops[top].id != id) {
            ++top;
        }
        if (top < net->layer.top_count) {
            snprintf(name, sizeof name, "%s", net->layer.tops[top]);
        } else {
            snprintf(name, sizeof name, "%s.%.24s", net->layer.tops[0], function->name);
        }
        UF_TRY(uf_model_add_free_name(net->model, name, id));
    }
    return UF_OK;
}

/* ---- inputs ---- */

/* Layers that keep the channels, behind which a convolution may say how many there are. */
static bool keeps_channels(const uf_ncnn_layer *layer) {
    static const char *const types[] = {"Split", "Noop", "Dropout", "Interp", "Padding"};
    for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
        if (strcmp(layer->type, types[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Channels that a convolution takes, by its number of weights; 0: it does not say. */
static int64_t channels_taken(const uf_ncnn_layer *layer) {
    const uf_ncnn_option *options = layer->options;
    const double width = options[1].numbers[0];
    const double height = options[11].given ? options[11].numbers[0] : width;
    const double channels = options[6].numbers[0] / (options[0].numbers[0] * width * height);
    const bool is_conv =
        strcmp(layer->type, "Convolution") == 0 || strcmp(layer->type, "Deconvolution") == 0;
    return is_conv && channels >= 1.0 && channels < 1e6 ? (int64_t)channels : 0;
}

/* The channels of the blob that the layer writes, by the first convolution that reads it; 0: none
 * does. */
static uf_status find_channels(const uf_ncnn *net, int64_t *channels) {
    enum { MOST = 32 };
    char(*names)[UF_NCNN_NAME_SIZE] = malloc(MOST * sizeof *names);
    uf_ncnn_layer *layer = malloc(sizeof *layer);
    uf_ncnn_text text = net->text;
    uf_status status = UF_OK;
    int32_t count = 1;
    bool more = true;
    *channels = 0;
    if (names == NULL || layer == NULL) {
        status = uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a layer of ncnn's");
    } else {
        memcpy(names[0], net->layer.tops[0], sizeof names[0]);
    }
    while (status == UF_OK && *channels == 0) {
        status = uf_ncnn_next(&text, layer, &more);
        if (status != UF_OK || !more) {
            break;
        }
        bool reads = false;
        for (int32_t i = 0; i < count && layer->bottom_count > 0; ++i) {
            reads = reads || strcmp(names[i], layer->bottoms[0]) == 0;
        }
        *channels = reads ? channels_taken(layer) : 0;
        for (int32_t i = 0; reads && keeps_channels(layer) && i < layer->top_count; ++i) {
            if (count < MOST) {
                memcpy(names[count++], layer->tops[i], sizeof names[0]);
            }
        }
    }
    free(layer);
    free(names);
    return status;
}

/* The shape that the caller gave, or the line, or the layers behind it. */
static uf_status input_shape(uf_ncnn *net, uf_shape *shape) {
    const uf_ncnn_options *options = &net->options;
    int64_t extents[3] = {uf_ncnn_integer(net, 2, 0), uf_ncnn_integer(net, 1, 0),
                          uf_ncnn_integer(net, 0, 0)};
    uf_ncnn_only(net, 11, "d", 0);
    for (int32_t i = 0; i < options->input_shape_count; ++i) {
        const uf_input_shape *given = &options->input_shapes[i];
        if (given->input != NULL && strcmp(given->input, net->layer.tops[0]) == 0) {
            *shape = given->shape;
            return UF_OK;
        }
    }
    /* An axis that the line leaves out is none, unless it says nothing about any. */
    const bool some = extents[0] > 0 || extents[1] > 0 || extents[2] > 0;
    *shape = UF_SHAPE(1);
    for (int i = 0; some && i < 3; ++i) {
        if (extents[i] < 0) {
            UF_FAIL(UF_ERROR_FORMAT, "an extent of %" PRId64, extents[i]);
        }
        if (extents[i] > 0) {
            shape->extent[shape->rank++] = extents[i];
        }
    }
    if (!some) {
        UF_TRY(find_channels(net, &extents[0]));
        if (extents[0] == 0) {
            UF_FAIL(UF_ERROR_UNSUPPORTED,
                    "nothing says how many channels the input %s has; give its shape",
                    net->layer.tops[0]);
        }
        *shape = UF_SHAPE(1, extents[0], USUAL_EXTENT, USUAL_EXTENT);
    }
    return UF_OK;
}

static uf_status add_input(uf_ncnn *net) {
    uf_shape shape;
    if (net->layer.bottom_count != 0 || net->layer.top_count != 1) {
        UF_FAIL(UF_ERROR_FORMAT, "an Input has no inputs and one output");
    }
    if (net->graph->inputs.count == MOST_INPUTS) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "the network has more than %d inputs", MOST_INPUTS);
    }
    const char *name = net->layer.tops[0];
    UF_TRY(input_shape(net, &shape));
    UF_TRY(net->status);
    const uf_value value = uf_input(net->graph, name, shape);
    UF_TRY(uf_graph_status(net->graph));
    UF_TRY(uf_model_add_free_name(net->model, name, value.id));
    return add_blob(net, name, value);
}

static uf_status check_given(const uf_ncnn *net) {
    for (int32_t i = 0; i < net->options.input_shape_count; ++i) {
        const char *name = net->options.input_shapes[i].input;
        if (name == NULL || uf_graph_io_find(&net->graph->inputs, name) < 0) {
            UF_FAIL(UF_ERROR_INVALID_ARGUMENT,
                    "%s has no input named %s, of which a shape is given", net->text.path,
                    name != NULL ? name : "NULL");
        }
    }
    return UF_OK;
}

/* N is free, and so are height and width unless a layer means another thing then. Extents that are
 * equal have one symbol. */
static uf_status add_symbols(uf_ncnn *net) {
    static const char *const letters[] = {"", "", "H", "W"};
    const uf_graph *graph = net->graph;
    for (int32_t i = 0; i < graph->inputs.count; ++i) {
        const uf_shape *shape = &graph->values[graph->inputs.list[i].value].shape;
        uf_model_symbols symbols;
        memset(&symbols, 0, sizeof symbols);
        memcpy(symbols.of[0], "N", 2);
        for (int32_t axis = 2; !net->fixed && shape->rank == 4 && axis < 4; ++axis) {
            int32_t first = 0; /* input with this extent there */
            for (;; ++first) {
                const uf_shape *other = &graph->values[graph->inputs.list[first].value].shape;
                if (first == i ||
                    (other->rank == 4 && other->extent[axis] == shape->extent[axis])) {
                    break;
                }
            }
            if (first == 0) {
                snprintf(symbols.of[axis], UF_SYMBOL_SIZE, "%s", letters[axis]);
            } else {
                snprintf(symbols.of[axis], UF_SYMBOL_SIZE, "%s%" PRId32, letters[axis], first + 1);
            }
        }
        UF_TRY(uf_model_add_symbols(net->model, &symbols));
    }
    return UF_OK;
}

/* ---- layers ---- */

static const uf_ncnn_kind *find_kind(const char *type) {
    static const uf_ncnn_kind *const lists[] = {uf_ncnn_conv_kinds, uf_ncnn_pointwise_kinds,
                                                uf_ncnn_norm_kinds, uf_ncnn_shape_kinds,
                                                uf_ncnn_image_kinds};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; ++i) {
        for (const uf_ncnn_kind *kind = lists[i]; kind->type != NULL; ++kind) {
            if (strcmp(kind->type, type) == 0) {
                return kind;
            }
        }
    }
    return NULL;
}

static uf_status check_blobs(uf_ncnn *net) {
    for (int32_t i = 0; i < net->layer.bottom_count; ++i) {
        const int64_t place = find_blob(net, net->layer.bottoms[i]);
        if (place < 0) {
            UF_FAIL(UF_ERROR_FORMAT, "no layer above writes a blob named %s",
                    net->layer.bottoms[i]);
        }
        net->blobs[place].read = true;
    }
    for (int32_t i = 0; i < net->layer.top_count; ++i) {
        if (find_blob(net, net->layer.tops[i]) >= 0) {
            UF_FAIL(UF_ERROR_FORMAT, "a layer above writes a blob named %s too",
                    net->layer.tops[i]);
        }
    }
    return UF_OK;
}

/* The layer's own complaint, the graph's, or an option that nobody looked at. */
static uf_status check_layer(uf_ncnn *net) {
    if (net->status != UF_OK) {
        UF_FAIL(net->status, "%s", net->message);
    }
    UF_TRY(uf_graph_status(net->graph));
    for (int32_t key = 0; key < UF_NCNN_KEYS; ++key) {
        const uf_ncnn_option *option = &net->layer.options[key];
        if (option->given && !option->used) {
            UF_FAIL(UF_ERROR_UNSUPPORTED, "option %" PRId32 " is none that unfurl knows", key);
        }
    }
    return UF_OK;
}

/* Height and width stay, or become a whole number of times as large. */
static void note_multiples(uf_ncnn *net, uf_value top, uf_ncnn_blob *blob) {
    static const char *const scaling[] = {"PixelShuffle", "Interp", "Deconvolution"};
    const uf_shape to = uf_ncnn_shape(net, top);
    if (net->layer.bottom_count == 0 || to.rank != 4) {
        return;
    }
    const uf_ncnn_blob *bottom = &net->blobs[find_blob(net, net->layer.bottoms[0])];
    const uf_shape from = uf_ncnn_shape(net, bottom->value);
    bool scales = false;
    for (size_t i = 0; i < sizeof scaling / sizeof *scaling; ++i) {
        scales = scales || strcmp(scaling[i], net->layer.type) == 0;
    }
    for (int i = 0; from.rank == 4 && i < 2; ++i) {
        const int64_t in = from.extent[2 + i], out = to.extent[2 + i];
        if (out == in || (scales && out % in == 0)) {
            blob->multiple[i] = bottom->multiple[i] * (out / in);
        }
    }
}

static uf_status convert(uf_ncnn *net, const uf_ncnn_kind *kind) {
    const uf_ncnn_layer *layer = &net->layer;
    uf_value tops[UF_NCNN_MOST_BLOBS];
    memset(tops, 0, sizeof tops);
    if (layer->bottom_count < kind->least_bottoms || layer->bottom_count > kind->most_bottoms ||
        layer->top_count < 1 || layer->top_count > kind->most_tops) {
        UF_FAIL(UF_ERROR_FORMAT, "%" PRId32 " inputs and %" PRId32 " outputs", layer->bottom_count,
                layer->top_count);
    }
    kind->convert(net, tops);
    UF_TRY(check_layer(net));
    UF_TRY(add_names(net, tops));
    for (int32_t i = 0; i < layer->top_count; ++i) {
        UF_TRY(add_blob(net, layer->tops[i], tops[i]));
        note_multiples(net, tops[i], &net->blobs[net->blob_count - 1]);
    }
    return UF_OK;
}

static uf_status add_layer(uf_ncnn *net) {
    net->status = UF_OK;
    UF_TRY(check_blobs(net));
    if (strcmp(net->layer.type, "Input") == 0) {
        UF_TRY(add_input(net));
        return check_layer(net);
    }
    const uf_ncnn_kind *kind = find_kind(net->layer.type);
    if (kind == NULL) {
        UF_FAIL(UF_ERROR_UNSUPPORTED, "unfurl has no layer of ncnn's of this type");
    }
    return convert(net, kind);
}

static uf_status add_outputs(uf_ncnn *net) {
    for (int32_t i = 0; i < net->blob_count; ++i) {
        const uf_ncnn_blob *blob = &net->blobs[i];
        if (!blob->read) {
            uf_output(net->graph, blob->name, blob->value);
        }
    }
    UF_TRY(uf_graph_status(net->graph));
    if (net->graph->outputs.count == 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s: the network has no output", net->text.path);
    }
    return UF_OK;
}

/* ---- the whole ---- */

static uf_status add_layers(uf_ncnn *net) {
    bool more = true;
    UF_TRY(uf_ncnn_begin(&net->text));
    while (more) {
        UF_TRY(uf_ncnn_next(&net->text, &net->layer, &more));
        const uf_status status = more ? add_layer(net) : UF_OK;
        if (status != UF_OK) {
            uf_error_prefix("%s: line %" PRId32 ": %s %s", net->text.path, net->text.line,
                            net->layer.type, net->layer.name);
            return status == UF_ERROR_INVALID_ARGUMENT ? UF_ERROR_FORMAT : status;
        }
    }
    if (net->bin_at != net->bin_size) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s has %" PRId64 " bytes; the layers of %s take %" PRId64
                ": the two are not of one network",
                net->bin, net->bin_size, net->text.path, net->bin_at);
    }
    UF_TRY(add_outputs(net));
    UF_TRY(check_given(net));
    return add_symbols(net);
}

static uf_status read_text(const char *path, char **text, size_t *size) {
    int64_t bytes;
    *text = NULL;
    *size = 0;
    UF_TRY(uf_file_check_readable(path, "a .param of ncnn", &bytes));
    if (bytes > (int64_t)UF_MODEL_MAX_TEXT) {
        UF_FAIL(UF_ERROR_FORMAT, "%s has %" PRId64 " bytes; a .param of ncnn may have %zu", path,
                bytes, UF_MODEL_MAX_TEXT);
    }
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        UF_FAIL(UF_ERROR_IO, "cannot open %s: %s", path, strerror(errno));
    }
    char *read = malloc((size_t)bytes);
    const uf_status status =
        read != NULL ? uf_ncnn_read(descriptor, path, 0, (size_t)bytes, read)
                     : uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory reading %s", path);
    (void)close(descriptor);
    if (status != UF_OK) {
        free(read);
        return status;
    }
    *text = read;
    *size = (size_t)bytes;
    return UF_OK;
}

static void free_net(uf_ncnn *net) {
    for (int32_t i = 0; i < net->weight_count; ++i) {
        free(net->weights[i].made);
    }
    if (net->descriptor >= 0) {
        (void)close(net->descriptor);
    }
    uf_index_free(&net->blob_names);
    free(net->weights);
    free(net->blobs);
    free(net);
}

static uf_status load(uf_ncnn *net, const char *param) {
    char *text = NULL;
    size_t size = 0;
    UF_TRY(uf_ncnn_open_weights(net));
    UF_TRY(read_text(param, &text, &size));
    net->text = (uf_ncnn_text){.path = param, .at = text, .end = text + size};
    uf_c_locale locale;
    uf_status status = uf_c_locale_enter(param, &locale);
    if (status == UF_OK) {
        status = add_layers(net);
        uf_c_locale_leave(&locale);
    }
    free(text);
    if (status == UF_OK) {
        status = uf_ncnn_load(net);
    }
    return status;
}

uf_status uf_model_load_ncnn(uf_context *context, const char *param, const char *bin,
                             const uf_ncnn_options *options, uf_model **model) {
    UF_CHECK_ARG(model != NULL, "uf_model_load_ncnn: model is NULL");
    *model = NULL;
    UF_CHECK_ARG(context != NULL && param != NULL && bin != NULL,
                 "uf_model_load_ncnn: context, param or bin is NULL");
    uf_ncnn_options known = uf_ncnn_options_default();
    UF_TRY(uf_read_struct("uf_ncnn_options", options, &known, sizeof known));
    UF_CHECK_ARG(known.input_shape_count >= 0 &&
                     (known.input_shapes != NULL || known.input_shape_count == 0),
                 "uf_model_load_ncnn: input_shapes is NULL, or input_shape_count below 0");
    uf_ncnn *net = calloc(1, sizeof *net);
    if (net == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory for a network of ncnn's");
    }
    net->options = known;
    net->bin = bin;
    net->descriptor = -1;
    uf_status status = uf_model_begin(context, known.dtype, &net->model);
    if (status == UF_OK) {
        net->graph = net->model->graph;
        status = load(net, param);
    }
    if (status == UF_OK) {
        *model = net->model;
    } else {
        uf_model_destroy(net->model);
    }
    free_net(net);
    return status;
}
