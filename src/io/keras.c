/* keras.c - the variables of a Keras file, named as the store's tensors.
 *
 * Keras 3's save_weights writes LAYER/vars/0, 1, ..., and what they are only the layer's class
 * says: here it is told by which tensors the store has under the layer's prefix. Files of Keras 2,
 * and of Model.save, list their layers in an attribute layer_names and a layer's variables in
 * weight_names, each split into layer_names0, layer_names1, ... where it is long. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/keras.h"
#include "io/loader.h"

#define PATH_SIZE (2 * UF_NAME_SIZE)
#define MODEL "model_weights" /* where Model.save has what save_weights has at the root */

/* One dataset, and whose it is. */
typedef struct variable {
    const uf_file_entry *dataset;
    char layer[PATH_SIZE]; /* "generator/dense" */
    char name[PATH_SIZE];  /* "kernel"; "" where the file numbers them */
    int64_t number;        /* among the layer's */
} variable;

typedef struct finder {
    loader *load;
    const uf_keras_mapping *mapping;
    variable *each;
    int64_t count;
    const uf_file_entry **by_name; /* the file's datasets */
} finder;

static uf_status out_of_memory(const finder *find) {
    UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory loading %s", find->load->path);
}

/* ---- Keras 3: LAYER/vars/NUMBER ---- */

/* The path of a layer without the names of the lists that layers stand in. */
static void layer_of_path(const char *path, size_t length, char layer[PATH_SIZE]) {
    static const char *const lists[] = {"layers", "_layer_checkpoint_dependencies"};
    size_t used = 0;
    for (const char *at = path; at < path + length;) {
        const char *slash = memchr(at, '/', (size_t)(path + length - at));
        const size_t part = slash != NULL ? (size_t)(slash - at) : (size_t)(path + length - at);
        bool is_list = false;
        for (size_t i = 0; i < sizeof lists / sizeof lists[0]; ++i) {
            is_list = is_list || (strlen(lists[i]) == part && memcmp(at, lists[i], part) == 0);
        }
        if (!is_list) {
            used += (size_t)snprintf(layer + used, PATH_SIZE - used, "%s%.*s", used > 0 ? "/" : "",
                                     (int)part, at);
        }
        at += part + 1;
    }
    layer[used] = '\0';
}

/* The state of training, of metrics and of dropout is no layer's. */
static bool is_state(const char *path) {
    static const char *const owners[] = {"optimizer",       "optimizer_weights", "metrics",
                                         "compile_metrics", "loss_tracker",      "seed_generator"};
    for (size_t i = 0; i < sizeof owners / sizeof owners[0]; ++i) {
        const size_t length = strlen(owners[i]);
        for (const char *at = path; at != NULL; at = strchr(at, '/')) {
            at += *at == '/';
            if (strncmp(at, owners[i], length) == 0 && at[length] == '/') {
                return true;
            }
        }
    }
    return false;
}

static bool is_numbered(const char *path, variable *made) {
    static const char vars[] = "/vars/";
    const char *slash = strrchr(path, '/');
    const size_t tail = sizeof vars - 1;
    const size_t head = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    if (head <= tail || memcmp(path + head - tail, vars, tail) != 0 || slash[1] == '\0' ||
        strlen(slash + 1) > 9 || strspn(slash + 1, "0123456789") != strlen(slash + 1)) {
        return false;
    }
    made->number = strtol(slash + 1, NULL, 10);
    layer_of_path(path, head - tail, made->layer);
    return true;
}

static int by_layer(const void *a, const void *b) {
    const variable *one = a, *other = b;
    const int order = strcmp(one->layer, other->layer);
    return order != 0 ? order : (one->number > other->number) - (one->number < other->number);
}

static void find_numbered(finder *find) {
    const uf_file_listing *listing = &find->load->file.listing;
    for (int64_t i = 0; i < listing->count; ++i) {
        variable *made = &find->each[find->count];
        made->dataset = &listing->datasets[i];
        find->count +=
            !is_state(made->dataset->entry.name) && is_numbered(made->dataset->entry.name, made);
    }
    qsort(find->each, (size_t)find->count, sizeof *find->each, by_layer);
}

/* ---- Keras 2, and Model.save: layer_names and weight_names ---- */

static int by_entry_name(const void *a, const void *b) {
    const uf_file_entry *const *one = a, *const *other = b;
    return strcmp((*one)->entry.name, (*other)->entry.name);
}

static int by_key(const void *key, const void *element) {
    const uf_file_entry *const *one = element;
    return strcmp(key, (*one)->entry.name);
}

static int by_attribute_key(const void *key, const void *element) {
    return strcmp(key, ((const uf_file_attribute *)element)->name);
}

/* An attribute of texts, of attributes in the order of their names; `part` 0, 1, ...: one of those
 * that it is split into. NULL: none such. */
static const uf_file_attribute *find_texts(const uf_file_attributes *attributes, const char *name,
                                           int64_t part) {
    char whole[64];
    (void)snprintf(whole, sizeof whole, part < 0 ? "%s" : "%s%" PRId64, name, part);
    const uf_file_attribute *found =
        attributes->count > 0 ? bsearch(whole, attributes->each, (size_t)attributes->count,
                                        sizeof *attributes->each, by_attribute_key)
                              : NULL;
    return found != NULL && (found->texts != NULL || found->count == 0) ? found : NULL;
}

/* The texts of an attribute, whole or split: at(-1) first, then 0, 1, ... */
typedef struct texts {
    const uf_file_attributes *in;
    const char *name;
    int64_t part, next;
    const uf_file_attribute *now;
} texts;

static texts begin_texts(const uf_file_attributes *in, const char *name) {
    const uf_file_attribute *whole = find_texts(in, name, -1);
    return (texts){.in = in,
                   .name = name,
                   .part = whole != NULL ? INT64_MAX : 0,
                   .now = whole != NULL ? whole : find_texts(in, name, 0)};
}

/* The next text; NULL at the end. */
static const char *next_text(texts *from) {
    while (from->now != NULL) {
        if (from->next < from->now->count) {
            return from->now->texts[from->next++];
        }
        from->next = 0;
        from->now = from->part == INT64_MAX ? NULL : find_texts(from->in, from->name, ++from->part);
    }
    return NULL;
}

/* `name` without ":0" and what stands before its last slash. */
static void set_name(variable *made, const char *weight) {
    const char *slash = strrchr(weight, '/');
    const char *name = slash != NULL ? slash + 1 : weight;
    (void)snprintf(made->name, sizeof made->name, "%.*s", (int)strcspn(name, ":"), name);
}

static size_t folder_length(const char *weight) {
    const char *slash = strrchr(weight, '/');
    return slash != NULL ? (size_t)(slash - weight) : 0;
}

/* A group's variables are a layer's own, or those of the layers of a model within the model, whose
 * folders then tell them apart. */
static void set_layer(variable *made, const char *group, const char *weight, bool is_model) {
    const size_t length = folder_length(weight), own = strlen(group);
    const bool repeats = length > own && strncmp(weight, group, own) == 0 && weight[own] == '/';
    const size_t skip = repeats ? own + 1 : 0;
    if (is_model && length > skip) {
        (void)snprintf(made->layer, sizeof made->layer, "%s/%.*s", group, (int)(length - skip),
                       weight + skip);
    } else {
        (void)snprintf(made->layer, sizeof made->layer, "%s", group);
    }
}

static bool has_folders(const uf_file_attributes *attributes) {
    texts from = begin_texts(attributes, "weight_names");
    const char *first = next_text(&from);
    for (const char *one = first; one != NULL; one = next_text(&from)) {
        if (folder_length(one) != folder_length(first) ||
            strncmp(one, first, folder_length(first)) != 0) {
            return true;
        }
    }
    return false;
}

static uf_status add_weights(finder *find, const char *base, const char *group,
                             const uf_file_attributes *attributes) {
    const bool is_model = has_folders(attributes);
    texts from = begin_texts(attributes, "weight_names");
    int64_t number = 0;
    for (const char *weight; (weight = next_text(&from)) != NULL; ++number) {
        char path[PATH_SIZE];
        const int length = snprintf(path, sizeof path, "%s%s/%s", base, group, weight);
        const uf_file_entry **found =
            length < (int)sizeof path
                ? bsearch(path, find->by_name, (size_t)find->load->file.listing.count,
                          sizeof(const uf_file_entry *), by_key)
                : NULL;
        if (found == NULL || find->count == find->load->file.listing.count) {
            UF_FAIL(UF_ERROR_FORMAT,
                    "%s: weight_names of %.128s lists %.128s, which is not there or comes twice",
                    find->load->path, group, weight);
        }
        variable *made = &find->each[find->count++];
        made->dataset = *found;
        made->number = number;
        set_name(made, weight);
        set_layer(made, group, weight, is_model);
    }
    return UF_OK;
}

static uf_status add_layer(finder *find, const char *base, const char *group) {
    char path[PATH_SIZE];
    uf_tensor_file *file = &find->load->file;
    uf_file_attributes attributes;
    if (snprintf(path, sizeof path, "/%s%s", base, group) >= (int)sizeof path) {
        UF_FAIL(UF_ERROR_FORMAT, "%s: the layer %.64s... has too long a name", file->path, group);
    }
    UF_TRY(file->kind->attributes(file, path, &attributes));
    const uf_status status = add_weights(find, base, group, &attributes);
    uf_file_attributes_free(&attributes);
    return status;
}

static uf_status find_named(finder *find, const char *base, const uf_file_attributes *attributes) {
    texts from = begin_texts(attributes, "layer_names");
    for (const char *group; (group = next_text(&from)) != NULL;) {
        UF_TRY(add_layer(find, base, group));
    }
    return UF_OK;
}

/* ---- what both are ---- */

/* The padding of a whole model's convolutions is in its configuration. */
static uf_status check_config(const finder *find, const uf_file_attributes *root) {
    const uf_file_attribute *config = find_texts(root, "model_config", -1);
    if (config == NULL || config->count != 1 || find->mapping->same_padding) {
        return UF_OK;
    }
    return uf_keras_check_padding(config->texts[0], find->load->path);
}

static bool has_list(const uf_file_attributes *attributes) {
    return begin_texts(attributes, "layer_names").now != NULL;
}

static uf_status find_listed(finder *find, const uf_file_attributes *root) {
    uf_tensor_file *file = &find->load->file;
    uf_file_attributes model = {0};
    UF_TRY(check_config(find, root));
    if (has_list(root)) {
        return find_named(find, "", root);
    }
    uf_status status = file->kind->attributes(file, "/" MODEL, &model);
    if (status == UF_ERROR_NOT_FOUND) {
        find_numbered(find);
        return UF_OK;
    }
    if (status == UF_OK) {
        status = find_named(find, MODEL "/", &model);
    }
    uf_file_attributes_free(&model);
    return status;
}

static uf_status find_variables(finder *find) {
    uf_tensor_file *file = &find->load->file;
    const int64_t count = file->listing.count;
    uf_file_attributes root;
    find->each = calloc((size_t)count + 1, sizeof *find->each);
    find->by_name = malloc(((size_t)count + 1) * sizeof(const uf_file_entry *));
    if (find->each == NULL || find->by_name == NULL) {
        return out_of_memory(find);
    }
    for (int64_t i = 0; i < count; ++i) {
        find->by_name[i] = &file->listing.datasets[i];
    }
    qsort(find->by_name, (size_t)count, sizeof(const uf_file_entry *), by_entry_name);
    UF_TRY(uf_tensor_file_begin(file));
    uf_status status = file->kind->attributes(file, "/", &root);
    if (status == UF_OK) {
        status = find_listed(find, &root);
        uf_file_attributes_free(&root);
    }
    return uf_tensor_file_end(file, status);
}

/* ---- names in the store ---- */

static const struct {
    const char *keras, *tensor;
} names[] = {
    {"kernel", "weight"},
    {"depthwise_kernel", "weight"},
    {"gamma", "weight"},
    {"embeddings", "weight"},
    {"alpha", "weight"},
    {"bias", "bias"},
    {"beta", "bias"},
    {"moving_mean", "running_mean"},
    {"moving_variance", "running_var"},
};

/* In the order in which Keras 3 numbers them. */
static const char *const tensors[] = {"weight", "bias", "running_mean", "running_var"};
enum { TENSORS = (int)(sizeof tensors / sizeof tensors[0]) };

static const uf_keras_layer *row_at(const uf_keras_mapping *mapping, int32_t i) {
    return (const uf_keras_layer *)((const char *)mapping->layers +
                                    (size_t)i * mapping->layer_size);
}

/* The caller's row of a layer; NULL: the rule has it, if there is one. */
static const uf_keras_layer *find_row(const uf_keras_mapping *mapping, const char *layer) {
    for (int32_t i = 0; i < mapping->layer_count; ++i) {
        if (strcmp(row_at(mapping, i)->layer, layer) == 0) {
            return row_at(mapping, i);
        }
    }
    return NULL;
}

/* The prefix of a layer's tensors, with its dot; false: it has none. */
static bool find_prefix(const uf_keras_mapping *mapping, const uf_keras_layer *row,
                        const char *layer, char prefix[PATH_SIZE]) {
    const char *before = row != NULL ? row->prefix : mapping->prefix;
    if (before == NULL) {
        return false;
    }
    (void)snprintf(prefix, PATH_SIZE, "%s%s", before, row != NULL ? "" : layer);
    const size_t length = strlen(prefix); /* cut where it is too long for a name anyway */
    for (size_t i = row != NULL ? length : strlen(before); i < length; ++i) {
        prefix[i] = prefix[i] == '/' ? '.' : prefix[i];
    }
    if (length > 0 && length + 2 <= PATH_SIZE) {
        memcpy(prefix + length, ".", 2);
    }
    return true;
}

static int64_t find_tensor(const finder *find, const char *prefix, const char *tensor) {
    char name[PATH_SIZE + 16];
    (void)snprintf(name, sizeof name, "%s%s", prefix, tensor);
    return uf_store_find(find->load->store, name);
}

/* The tensors that a row says the file has no variable for. */
static bool is_constant(const uf_keras_layer *row, const char *tensor, double *value) {
    *value = strcmp(tensor, "weight") == 0 ? 1.0 : 0.0;
    return row != NULL && ((row->no_scale && strcmp(tensor, "weight") == 0) ||
                           (row->no_center && strcmp(tensor, "bias") == 0));
}

/* How torch.nn calls the variable at `at` of `count` of a layer; NULL with an error set. */
static uf_status name_tensor(const finder *find, const variable *one, const uf_keras_layer *row,
                             int64_t at, int64_t count, const char *prefix, const char **tensor) {
    const char *found[TENSORS];
    int64_t there = 0;
    double value;
    for (size_t i = 0; one->name[0] != '\0' && i < sizeof names / sizeof names[0]; ++i) {
        if (strcmp(names[i].keras, one->name) == 0) {
            *tensor = names[i].tensor;
            return UF_OK;
        }
    }
    if (one->name[0] != '\0') { /* a layer of another kind: its name says what is unexpected */
        *tensor = one->name;
        return UF_OK;
    }
    for (int i = 0; i < TENSORS; ++i) {
        if (find_tensor(find, prefix, tensors[i]) >= 0 && !is_constant(row, tensors[i], &value)) {
            found[there++] = tensors[i];
        }
    }
    if (there != count) {
        UF_FAIL(UF_ERROR_SHAPE,
                "%s: the layer %s has %" PRId64 " variables, and store \"%s\" has %" PRId64
                " tensors for them that begin with %s; a batch norm without gamma or beta needs "
                "uf_keras_layer.no_scale or no_center",
                find->load->path, one->layer, count, uf_store_name(find->load->store), there,
                prefix);
    }
    *tensor = found[at];
    return UF_OK;
}

static bool is_table(const variable *one) {
    const char *slash = strrchr(one->layer, '/');
    return strcmp(one->name, "embeddings") == 0 ||
           (one->name[0] == '\0' &&
            strncmp(slash != NULL ? slash + 1 : one->layer, "embedding", 9) == 0);
}

static uf_status name_variable(finder *find, const variable *one, int64_t at, int64_t count) {
    char prefix[PATH_SIZE];
    const char *tensor = NULL;
    loader *load = find->load;
    const uf_keras_layer *row = find_row(find->mapping, one->layer);
    if (row != NULL && row->prefix == NULL) {
        return UF_OK;
    }
    item *made = &load->items[load->count++];
    made->dataset = one->dataset;
    made->slot = -1;
    made->shape = one->dataset->entry.shape;
    int length = snprintf(made->name, sizeof made->name, "%s", one->dataset->entry.name);
    if (find_prefix(find->mapping, row, one->layer, prefix)) {
        UF_TRY(name_tensor(find, one, row, at, count, prefix, &tensor));
        length = snprintf(made->name, sizeof made->name, "%s%s", prefix, tensor);
        const int64_t slot = uf_store_find(load->store, made->name);
        if (one->dataset->entry.is_tensor &&
            !uf_keras_find_turn(&one->dataset->entry.shape, row,
                                slot >= 0 ? &load->store->slots[slot].shape : NULL, is_table(one),
                                &made->turn, &made->shape)) {
            char shape[128];
            UF_FAIL(UF_ERROR_SHAPE,
                    "%s in %s is %s: an image of uf_keras_layer \"%s\" does not fit",
                    one->dataset->entry.name, load->path,
                    uf_shape_format(&one->dataset->entry.shape, shape, sizeof shape), row->layer);
        }
    }
    if (length >= (int)sizeof made->name) {
        UF_FAIL(UF_ERROR_FORMAT, "%s in %s: a tensor's name has at most %d characters",
                one->dataset->entry.name, load->path, UF_NAME_SIZE - 1);
    }
    return UF_OK;
}

/* The tensors of a layer that become constants. */
static uf_status add_constants(finder *find, const char *layer) {
    char prefix[PATH_SIZE];
    double value;
    loader *load = find->load;
    const uf_keras_layer *row = find_row(find->mapping, layer);
    for (int i = 0; i < TENSORS; ++i) {
        if (!is_constant(row, tensors[i], &value) ||
            !find_prefix(find->mapping, row, layer, prefix)) {
            continue;
        }
        const int64_t slot = find_tensor(find, prefix, tensors[i]);
        for (int64_t j = 0; j < load->made_count; ++j) {
            if (load->made[j].slot == slot) {
                UF_FAIL(UF_ERROR_SHAPE, "two layers of %s are both %s%s", load->path, prefix,
                        tensors[i]);
            }
        }
        for (int64_t j = 0; j < load->count; ++j) {
            if (slot >= 0 && strcmp(load->items[j].name, load->store->slots[slot].name) == 0) {
                UF_FAIL(UF_ERROR_SHAPE,
                        "%s: the layer %s has %s, which uf_keras_layer.no_scale or no_center says "
                        "it has not",
                        load->path, layer, load->items[j].dataset->entry.name);
            }
        }
        if (slot < 0) {
            UF_FAIL(UF_ERROR_NOT_FOUND, "store \"%s\" has no %s%s for the layer %s",
                    uf_store_name(load->store), prefix, tensors[i], layer);
        }
        UF_TRY(uf_loader_make_room(load));
        load->made[load->made_count++] = (made_weight){.value = value, .slot = slot};
    }
    return UF_OK;
}

static uf_status name_variables(finder *find) {
    for (int64_t first = 0, end; first < find->count; first = end) {
        for (end = first + 1;
             end < find->count && strcmp(find->each[first].layer, find->each[end].layer) == 0;
             ++end) {
        }
        for (int64_t i = first; i < end; ++i) {
            UF_TRY(name_variable(find, &find->each[i], i - first, end - first));
        }
        UF_TRY(add_constants(find, find->each[first].layer));
    }
    return UF_OK;
}

static uf_status check_mapping(const finder *find, const uf_keras_mapping *mapping) {
    const loader *load = find->load;
    UF_CHECK_ARG(mapping->layer_count >= 0 &&
                     (mapping->layer_count == 0 || mapping->layers != NULL),
                 "uf_keras_mapping.layers is NULL or its count is negative (%" PRId32 ")",
                 mapping->layer_count);
    UF_CHECK_ARG(mapping->layer_size >= sizeof(uf_keras_layer) &&
                     mapping->layer_size % _Alignof(uf_keras_layer) == 0,
                 "uf_keras_mapping.layer_size is %zu: take uf_keras_mapping_default()",
                 mapping->layer_size);
    for (int32_t i = 0; i < mapping->layer_count; ++i) {
        UF_CHECK_ARG(row_at(mapping, i)->layer != NULL,
                     "uf_keras_mapping.layers[%" PRId32 "].layer is NULL", i);
    }
    UF_CHECK_ARG(load->file.kind->format == UF_WEIGHTS_HDF5, "%s is no HDF5 file, as Keras writes",
                 load->path);
    if (uf_store_size(load->store) == 0) {
        UF_FAIL(UF_ERROR_STATE,
                "store \"%s\" is empty: the tensors that a Keras file is mapped to are declared "
                "first, by a graph",
                uf_store_name(load->store));
    }
    return UF_OK;
}

/* A row that names no layer of the file is a mistake of the mapping. */
static uf_status check_rows(const finder *find) {
    for (int32_t i = 0; i < find->mapping->layer_count; ++i) {
        const uf_keras_layer *row = row_at(find->mapping, i);
        bool found = false;
        for (int64_t j = 0; j < find->count && !found; ++j) {
            found = strcmp(find->each[j].layer, row->layer) == 0;
        }
        if (!found && row->prefix != NULL) {
            UF_FAIL(UF_ERROR_NOT_FOUND, "%s has no layer \"%s\" with weights; it has %s%s%s",
                    find->load->path, row->layer, find->count > 0 ? "\"" : "no layers of Keras",
                    find->count > 0 ? find->each[0].layer : "",
                    find->count > 0 ? "\" and others" : "");
        }
    }
    return UF_OK;
}

uf_status uf_loader_name_keras(loader *load, const uf_keras_mapping *given) {
    uf_keras_mapping mapping = uf_keras_mapping_default();
    finder find = {.load = load, .mapping = &mapping};
    UF_TRY(uf_read_struct("uf_keras_mapping", given, &mapping, sizeof mapping));
    UF_TRY(check_mapping(&find, &mapping));
    uf_status status = find_variables(&find);
    if (status == UF_OK) {
        status = check_rows(&find);
    }
    if (status == UF_OK) {
        status = name_variables(&find);
    }
    free(find.each);
    free(find.by_name);
    return status;
}
