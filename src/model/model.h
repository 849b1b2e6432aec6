/* model.h - a model's insides, and what reading and writing share. */
#ifndef UF_MODEL_MODEL_H
#define UF_MODEL_MODEL_H

#include <unfurl/model.h>

#include "graph/graph.h"
#include "layers/function.h"

#define UF_MODEL_VERSION 1
#define UF_MODEL_MAX_TEXT ((size_t)16 << 20)
#define UF_MODEL_MAX_LINES 131072
#define UF_MODEL_MAX_EXTENT (INT64_C(1) << 40)
#define UF_SYMBOL_SIZE 16

/* The name of a value. */
typedef struct uf_model_name {
    char name[UF_NAME_SIZE]; /* the first member, for `names` below */
    int32_t value;
    int32_t repeats; /* how many names were made of this one: "relu", "relu_2" */
} uf_model_name;

/* The symbols of an input's extents; "" where an extent is a number. */
typedef struct uf_model_symbols {
    char of[UF_MAX_RANK][UF_SYMBOL_SIZE];
} uf_model_symbols;

typedef struct uf_model_picture_entry {
    bool output;
    int32_t io; /* its number among the graph's inputs or outputs */
    uf_picture_map map;
} uf_model_picture_entry;

struct uf_model {
    uf_object object;
    uf_context *context;
    uf_graph *graph;
    uf_store *store;     /* NULL: the graph has no parameters */
    uf_model_name *list; /* inputs and nodes, in the order of their values */
    int32_t count, capacity;
    uf_index names;
    uf_model_symbols *symbols; /* of each input */
    int32_t symbol_count, symbol_capacity;
    uf_model_picture_entry *pictures;
    int32_t picture_count, picture_capacity;
};

/* An empty model, which takes over the user's references to `graph` and `store`. */
uf_status uf_model_make(uf_context *context, uf_graph *graph, uf_store *store, uf_model **model);

/* An empty model with an empty graph and a store of this type. */
uf_status uf_model_begin(uf_context *context, uf_dtype dtype, uf_model **model);

/* Append the name of the next value. Errors: FORMAT where it is there. */
uf_status uf_model_add_name(uf_model *model, const char *name, int32_t value);

/* The same under `name`, or "conv_2" where a "conv" is taken. */
uf_status uf_model_add_free_name(uf_model *model, const char *name, int32_t value);

/* The value called so; 0: there is none. */
int32_t uf_model_find(const uf_model *model, const char *name);

/* The name of a value. */
const char *uf_model_name_of(const uf_model *model, int32_t value);

uf_status uf_model_add_symbols(uf_model *model, const uf_model_symbols *symbols);

/* The words of uf_channel_order and uf_pad_mode. */
extern const uf_option_word uf_model_channel_words[], uf_model_border_words[];

/* ---- functions ---- */

/* By name; *layer is where it belongs. NULL: there is none. */
const uf_layer_function *uf_function_find(const char *name, const uf_layer **layer);

/* The function that made the node; NULL: none of layers.h does. */
const uf_layer_function *uf_function_of(const uf_node *node);

/* The options of a function that users see. */
static inline bool uf_option_is_shown(const uf_option *option) {
    return option->place != UF_PLACE_FIXED && option->place != UF_PLACE_INPUTS;
}

/* Write the default into the attributes. */
void uf_option_reset(const uf_option *option, void *attributes);

/* Has the attribute its default? */
bool uf_option_is_default(const uf_option *option, const void *attributes);

/* The option's number of place `i` (0; 1 of a pair), of kinds that have numbers. */
double uf_option_number(const uf_option *option, const void *attributes, int i);
int64_t uf_option_integer(const uf_option *option, const void *attributes, int i);

/* Text that may not fit says so once, at its end. */
typedef struct uf_text {
    char *at;
    size_t size, used;
} uf_text;

void uf_text_add(uf_text *text, const char *format, ...) UF_PRINTF(2, 3);

/* A number as C and the model text have it, with as few digits as give it back. */
void uf_text_number(uf_text *text, double number);

/* The option's value as the text has it. */
void uf_text_option(uf_text *text, const uf_option *option, const void *attributes);

/* A name, in quotes where it needs them. */
void uf_text_name(uf_text *text, const char *name);

/* INVALID_ARGUMENT when layers were appended to the graph behind the model's back. */
uf_status uf_model_check(const uf_model *model);

/* ---- from text ---- */

/* Append what the text says to the empty graph of `model`. `name` is for messages. */
uf_status uf_model_read_text(uf_model *model, const char *name, const char *text, size_t size);

#endif
