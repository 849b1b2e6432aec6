/* graph.h - the graph's insides: values and nodes in the order of their making. */
#ifndef UF_GRAPH_GRAPH_H
#define UF_GRAPH_GRAPH_H

#include <unfurl/graph.h>

#include "core/store.h"
#include "layers/layer.h"

/* A store's tensor that a node uses. */
typedef struct uf_param_ref {
    uf_store *store;
    int64_t slot;
} uf_param_ref;

typedef struct uf_node {
    const uf_layer *layer;
    uf_store *store;         /* NULL for layers with no parameters */
    char path[UF_NAME_SIZE]; /* the scope's, "main.3" */
    int32_t input_count;
    int32_t inputs[UF_MAX_INPUTS]; /* value ids */
    int32_t output;                /* value id */
    int32_t param_count;
    uf_param_ref params[UF_MAX_PARAMS];
    union {
        unsigned char bytes[UF_ATTRIBUTES_SIZE];
        double align;
    } attributes;
} uf_node;

typedef struct uf_graph_value {
    uf_shape shape;
    int32_t node;              /* that makes it; -1 for an input */
    char input[UF_NAME_SIZE];  /* the input's name; "" otherwise */
} uf_graph_value;

typedef struct uf_graph_output {
    char name[UF_NAME_SIZE];
    int32_t value;
} uf_graph_output;

struct uf_graph {
    uf_object object;
    uf_context *context;
    uint32_t tag; /* of its values */
    uf_graph_value *values; /* ids count from 1: values[0] is the invalid one */
    int32_t value_count, value_capacity;
    uf_node *nodes;
    int32_t node_count, node_capacity;
    uf_graph_output *outputs;
    int32_t output_count, output_capacity;
    uf_status status; /* the first error, with its message */
    char message[UF_MESSAGE_SIZE];
};

/* The value `id` as the user holds it. */
uf_value uf_graph_value_of(const uf_graph *graph, int32_t id);

/* INVALID_ARGUMENT unless `value` is one of this graph; the message begins with `what` and names a value of another
 * graph by its maker. */
uf_status uf_graph_check_value(const uf_graph *graph, uf_value value, const char *what);

/* INVALID_ARGUMENT, with both contexts, when the store is not of the graph's. `what` begins the message. */
uf_status uf_graph_check_store(const uf_graph *graph, const uf_store *store, const char *what);

/* Run a node's inference; errors get the node's path in front. */
uf_status uf_node_infer(const uf_node *node, const uf_shape *inputs, bool training, uf_infer *infer);

#endif
