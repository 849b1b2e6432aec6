/* file.c - model files: the text and the weights in HDF5. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/h5_read.h"
#include "io/hdf5_file.h"
#include "model/model.h"

#define TEXT "model"
#define WEIGHTS "weights"

/* ---- loading ---- */

uf_status uf_model_begin(uf_context *context, uf_dtype dtype, uf_model **model) {
    uf_store_options options = uf_store_options_default();
    uf_store *store;
    uf_graph *graph;
    *model = NULL;
    options.dtype = dtype;
    UF_TRY(uf_store_create_with(context, "model", &options, &store));
    uf_status status = uf_graph_create(context, &graph);
    if (status == UF_OK) {
        status = uf_model_make(context, graph, store, model);
        if (status != UF_OK) {
            uf_graph_destroy(graph);
        }
    }
    if (status != UF_OK) {
        uf_store_destroy(store);
    }
    return status;
}

uf_status uf_model_parse(uf_context *context, const char *name, const char *text, size_t size,
                         const uf_model_options *options, uf_model **model) {
    UF_CHECK_ARG(model != NULL, "uf_model_parse: model is NULL");
    *model = NULL;
    UF_CHECK_ARG(context != NULL && name != NULL && text != NULL,
                 "uf_model_parse: context, name or text is NULL");
    uf_model_options known = uf_model_options_default();
    UF_TRY(uf_read_struct("uf_model_options", options, &known, sizeof known));
    uf_model *made;
    UF_TRY(uf_model_begin(context, known.dtype, &made));
    const uf_status status = uf_model_read_text(made, name, text, size);
    if (status != UF_OK) {
        uf_model_destroy(made);
        return status;
    }
    *model = made;
    return UF_OK;
}

/* By the library's own reader: the file may come from anybody. */
static uf_status find_text(uf_h5_file *file, char **text, size_t *size) {
    uf_h5_object object;
    const uf_status status = uf_h5_find(file, TEXT, &object);
    if (status == UF_ERROR_NOT_FOUND) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is no model file: it has no dataset %s", uf_h5_path(file),
                TEXT);
    }
    UF_TRY(status);
    return uf_h5_read_string(file, &object, (int64_t)UF_MODEL_MAX_TEXT, text, size);
}

static uf_status read_text(const char *path, char **text, size_t *size) {
    uf_h5_file *file;
    uf_status status = uf_h5_open(path, &file);
    if (status == UF_OK) {
        status = find_text(file, text, size);
        uf_h5_close(file);
    }
    return uf_h5_settle(status);
}

static uf_status load_weights(const uf_model *model, const char *path, bool untrusted) {
    uf_hdf5_load_options options = uf_hdf5_load_options_default();
    options.group = WEIGHTS;
    options.keep_norms = true;
    options.untrusted = untrusted;
    return uf_store_size(model->store) == 0 ? UF_OK
                                            : uf_store_load_hdf5(model->store, path, &options);
}

uf_status uf_model_load(uf_context *context, const char *path, const uf_model_options *options,
                        uf_model **model) {
    UF_CHECK_ARG(model != NULL, "uf_model_load: model is NULL");
    *model = NULL;
    UF_CHECK_ARG(context != NULL && path != NULL, "uf_model_load: context or path is NULL");
    uf_model_options known = uf_model_options_default();
    UF_TRY(uf_read_struct("uf_model_options", options, &known, sizeof known));
    char *text = NULL;
    size_t size;
    uf_model *made = NULL;
    UF_TRY(read_text(path, &text, &size));
    uf_status status = uf_model_parse(context, path, text, size, &known, &made);
    free(text);
    if (status == UF_OK) {
        status = load_weights(made, path, known.untrusted);
    }
    if (status != UF_OK) {
        uf_model_destroy(made);
        return status;
    }
    *model = made;
    return UF_OK;
}

/* ---- saving ---- */

typedef struct text_buffer {
    char *text;
    size_t size, capacity;
    bool failed;
} text_buffer;

static void append_line(void *user, const char *line) {
    text_buffer *to = user;
    const size_t length = strlen(line);
    if (to->failed || to->size + length + 2 > to->capacity) {
        const size_t wider = 2 * (to->size + length + 2);
        char *moved = to->failed ? NULL : realloc(to->text, wider);
        to->failed = moved == NULL;
        if (moved == NULL) {
            return;
        }
        to->text = moved;
        to->capacity = wider;
    }
    memcpy(to->text + to->size, line, length);
    to->size += length;
    to->text[to->size++] = '\n';
    to->text[to->size] = '\0';
}

/* Write the tensors that the graph's layers name; `saved` marks the slots that are written. */
static uf_status save_weights(const uf_model *model, uf_hdf5_file *file, void *host, bool *saved) {
    for (int32_t n = 0; n < model->graph->node_count; ++n) {
        const uf_node *node = model->graph->nodes[n];
        for (int32_t i = 0; i < node->param_count; ++i) {
            const uf_store_slot *slot = &model->store->slots[node->params[i].slot];
            char name[sizeof WEIGHTS + 1 + UF_NAME_SIZE];
            if (saved[node->params[i].slot]) {
                continue;
            }
            saved[node->params[i].slot] = true;
            snprintf(name, sizeof name, "%s/%s", WEIGHTS, slot->name);
            UF_TRY(uf_tensor_download(&slot->tensor, host));
            UF_TRY(uf_hdf5_write_tensor(file, name, slot->tensor.dtype, &slot->shape, host,
                                        (uf_hdf5_storage){0}));
        }
    }
    return UF_OK;
}

static uf_status save_file(const uf_model *model, const char *path, const text_buffer *text,
                           void *host, bool *saved) {
    uf_hdf5_file file;
    UF_TRY(uf_hdf5_create(path, &file));
    uf_hdf5_make_groups(&file, WEIGHTS "/x");
    uf_status status = uf_hdf5_write_string(&file, TEXT, text->text, text->size);
    if (status == UF_OK && model->store != NULL) {
        status = save_weights(model, &file, host, saved);
    }
    return uf_hdf5_finish(&file, status);
}

/* The largest tensor's bytes. */
static uf_status measure(const uf_store *store, size_t *largest) {
    for (int64_t i = 0; store != NULL && i < store->count; ++i) {
        const uf_tensor *tensor = &store->slots[i].tensor;
        const size_t bytes = (size_t)tensor->count * uf_dtype_size(tensor->dtype);
        UF_CHECK_ARG(
            strchr(store->slots[i].name, '/') == NULL && uf_file_is_name(store->slots[i].name),
            "store \"%s\": %s cannot be the name of a dataset", store->name, store->slots[i].name);
        *largest = bytes > *largest ? bytes : *largest;
    }
    return UF_OK;
}

uf_status uf_model_save(uf_model *model, const char *path) {
    UF_CHECK_ARG(model != NULL && path != NULL, "uf_model_save: model or path is NULL");
    UF_CHECK_ARG(model->graph->outputs.count > 0, "uf_model_save: the graph has no output");
    text_buffer text = {0};
    size_t largest = 1;
    UF_TRY(model->store != NULL ? uf_store_close(model->store) : UF_OK);
    UF_TRY(measure(model->store, &largest));
    uf_status status = uf_model_write(model, append_line, &text);
    void *host = malloc(largest);
    bool *saved = calloc(model->store != NULL ? (size_t)model->store->count + 1 : 1, sizeof *saved);
    if (status == UF_OK && (host == NULL || saved == NULL || text.failed)) {
        status = uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory saving %s", path);
    }
    if (status == UF_OK && text.size > UF_MODEL_MAX_TEXT) {
        status = uf_fail(UF_ERROR_UNSUPPORTED, "%s: the text has %zu bytes; there may be %zu", path,
                         text.size, UF_MODEL_MAX_TEXT);
    }
    if (status == UF_OK) {
        status = save_file(model, path, &text, host, saved);
    }
    free(saved);
    free(host);
    free(text.text);
    return status;
}
