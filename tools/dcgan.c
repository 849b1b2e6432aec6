#include "dcgan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

/* A tensor's name taken apart: "main.3.weight" is prefix "main.", module 3, leaf "weight". */
struct tensor_name {
    size_t prefix_length; /* its dot included */
    size_t scope_length;  /* prefix and number */
    int64_t module;
    const char *leaf;
};

static bool parse_name(const char *name, struct tensor_name *parsed) {
    const char *dot = strrchr(name, '.');
    if (dot == NULL || dot == name) {
        return false;
    }
    size_t begin = (size_t)(dot - name);
    parsed->scope_length = begin;
    parsed->leaf = dot + 1;
    while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9') {
        begin--;
    }
    size_t digits = parsed->scope_length - begin;
    if (digits == 0 || digits > 6 || (begin > 0 && name[begin - 1] != '.')) {
        return false;
    }
    parsed->prefix_length = begin;
    parsed->module = strtol(name + begin, NULL, 10);
    return true;
}

struct search {
    const uf_store *store;
    const char *path;
    bool *used; /* one for each tensor of the store: belongs to a layer that was found */
    char prefix[UF_NAME_SIZE];
};

/* Find "prefix.MODULE.leaf" and note that it is used. */
static bool find_tensor(struct search *search, int64_t module, const char *leaf,
                        uf_store_entry *found) {
    char name[UF_NAME_SIZE + 64];
    snprintf(name, sizeof name, "%s%" PRId64 ".%s", search->prefix, module, leaf);
    for (int64_t i = 0; i < uf_store_size(search->store); i++) {
        if (uf_store_entry_at(search->store, i, found) == UF_OK && strcmp(found->name, name) == 0) {
            search->used[i] = true;
            return true;
        }
    }
    return false;
}

static int compare_layers(const void *a, const void *b) {
    const struct dcgan_layer *left = a;
    const struct dcgan_layer *right = b;
    return left->index < right->index ? -1 : left->index > right->index ? 1 : 0;
}

/* Note the tensor as a layer's weight. The first one fixes the prefix. */
static int add_layer(struct search *search, const uf_store_entry *entry, struct dcgan *generator) {
    struct tensor_name name;
    if (!parse_name(entry->name, &name)) {
        return fail("%s is no DCGAN generator: its layers must be numbered, as main.0 and main.3 "
                    "are, and it has a convolution %s",
                    search->path, entry->name);
    }
    if (generator->layer_count == 0) {
        snprintf(search->prefix, sizeof search->prefix, "%.*s", (int)name.prefix_length,
                 entry->name);
    } else if (strlen(search->prefix) != name.prefix_length ||
               memcmp(search->prefix, entry->name, name.prefix_length) != 0) {
        return fail("%s is no DCGAN generator: its layers are not one sequence; %s stands beside "
                    "%s%" PRId64 ".weight",
                    search->path, entry->name, search->prefix, generator->layers[0].index);
    }
    if (generator->layer_count == DCGAN_MAX_LAYERS) {
        return fail("%s is no DCGAN generator: it has more than %d convolutions", search->path,
                    DCGAN_MAX_LAYERS);
    }
    struct dcgan_layer *layer = &generator->layers[generator->layer_count++];
    layer->index = name.module;
    snprintf(layer->scope, sizeof layer->scope, "%.*s", (int)name.scope_length, entry->name);
    layer->in_channels = entry->shape.extent[0];
    layer->out_channels = entry->shape.extent[1];
    layer->kernel[0] = entry->shape.extent[2];
    layer->kernel[1] = entry->shape.extent[3];
    return EXIT_DONE;
}

static int find_layers(struct search *search, struct dcgan *generator) {
    for (int64_t i = 0; i < uf_store_size(search->store); i++) {
        uf_store_entry entry;
        TRY_LIBRARY(uf_store_entry_at(search->store, i, &entry));
        const char *dot = strrchr(entry.name, '.');
        if (entry.shape.rank == 4 && strcmp(dot == NULL ? entry.name : dot + 1, "weight") == 0) {
            TRY(add_layer(search, &entry, generator));
            search->used[i] = true;
        }
    }
    if (generator->layer_count == 0) {
        return fail("%s is no DCGAN generator: it has no transposed convolution, that is no "
                    "four-dimensional tensor with a name such as main.0.weight",
                    search->path);
    }
    qsort(generator->layers, (size_t)generator->layer_count, sizeof generator->layers[0],
          compare_layers);
    return EXIT_DONE;
}

/* The layer's output must be the next one's input. A discriminator fails here: the weights of its
 * convolutions have their channels the other way round. */
static int check_chain(const struct search *search, const struct dcgan_layer *layer,
                       const struct dcgan_layer *next) {
    if (layer->out_channels == next->in_channels) {
        return EXIT_DONE;
    }
    return fail("%s is no DCGAN generator: %s.weight gives %" PRId64
                " channels and %s.weight takes %" PRId64
                " (a ConvTranspose2d weight is (in, out, height, width))",
                search->path, layer->scope, layer->out_channels, next->scope, next->in_channels);
}

/* The batch norm between a layer and the next one. */
static int find_norm(struct search *search, struct dcgan_layer *layer,
                     const struct dcgan_layer *next) {
    uf_store_entry entry;
    int64_t module = layer->index + 1;
    while (module < next->index && !find_tensor(search, module, "running_mean", &entry)) {
        module++;
    }
    if (module >= next->index) {
        return fail("%s is no DCGAN generator: there is no batch norm between %s and %s "
                    "(%s%" PRId64 ".running_mean is missing)",
                    search->path, layer->scope, next->scope, search->prefix, layer->index + 1);
    }
    snprintf(layer->norm_scope, sizeof layer->norm_scope, "%.*s",
             (int)(strlen(entry.name) - strlen(".running_mean")), entry.name);
    if (!find_tensor(search, module, "running_var", &entry)) {
        return fail("%s is no DCGAN generator: %s.running_var is missing", search->path,
                    layer->norm_scope);
    }
    find_tensor(search, module, "num_batches_tracked", &entry); /* not needed, but no stranger */
    bool weight = find_tensor(search, module, "weight", &entry);
    bool bias = find_tensor(search, module, "bias", &entry);
    if (weight != bias) {
        return fail("%s is no DCGAN generator: %s.%s is missing", search->path, layer->norm_scope,
                    weight ? "bias" : "weight");
    }
    layer->norm_affine = weight;
    return EXIT_DONE;
}

static int check_nothing_left(const struct search *search) {
    for (int64_t i = 0; i < uf_store_size(search->store); i++) {
        if (!search->used[i]) {
            uf_store_entry entry;
            TRY_LIBRARY(uf_store_entry_at(search->store, i, &entry));
            return fail("%s is no DCGAN generator: %s belongs to none of its layers", search->path,
                        entry.name);
        }
    }
    return EXIT_DONE;
}

static int discover(struct search *search, struct dcgan *generator) {
    TRY(find_layers(search, generator));
    for (int i = 0; i < generator->layer_count; i++) {
        struct dcgan_layer *layer = &generator->layers[i];
        uf_store_entry bias;
        layer->bias = find_tensor(search, layer->index, "bias", &bias);
        if (i + 1 < generator->layer_count) {
            TRY(check_chain(search, layer, layer + 1));
            TRY(find_norm(search, layer, layer + 1));
        }
    }
    return check_nothing_left(search);
}

int dcgan_discover(const uf_store *store, const char *path, struct dcgan *generator) {
    *generator = (struct dcgan){0};
    struct search search = {.store = store, .path = path};
    search.used = calloc((size_t)uf_store_size(store) + 1, sizeof *search.used);
    if (search.used == NULL) {
        return fail("out of memory");
    }
    int status = discover(&search, generator);
    free(search.used);
    return status;
}

uf_value dcgan_build(const struct dcgan *generator, uf_graph *graph, uf_store *store, uf_value z) {
    uf_value x = z;
    for (int i = 0; i < generator->layer_count; i++) {
        const struct dcgan_layer *layer = &generator->layers[i];
        uf_conv_transpose2d_options conv = uf_conv_transpose2d_options_default();
        conv.kernel[0] = layer->kernel[0];
        conv.kernel[1] = layer->kernel[1];
        conv.stride[0] = conv.stride[1] = i == 0 ? 1 : 2;
        conv.padding[0] = conv.padding[1] = i == 0 ? 0 : 1;
        conv.bias = layer->bias;
        x = uf_conv_transpose2d(graph, x, uf_at(store, layer->scope), layer->out_channels, &conv);
        if (i + 1 < generator->layer_count) {
            uf_batch_norm2d_options norm = uf_batch_norm2d_options_default();
            norm.affine = layer->norm_affine;
            x = uf_batch_norm2d(graph, x, uf_at(store, layer->norm_scope), &norm);
            x = uf_relu(graph, x);
        } else {
            x = uf_tanh(graph, x);
        }
    }
    return x;
}
