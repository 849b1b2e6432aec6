/* graph.h - the graph's insides: values and nodes in the order of their making. */
#ifndef UF_GRAPH_GRAPH_H
#define UF_GRAPH_GRAPH_H

#include <unfurl/graph.h>

#include "core/index.h"
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
    int32_t draw; /* its number among the graph's layers that draw; 0 for others */
    union {
        unsigned char bytes[UF_ATTRIBUTES_SIZE];
        double align;
    } attributes;
} uf_node;

typedef struct uf_graph_value {
    uf_shape shape;
    int32_t node; /* that makes it; -1 for an input */
    bool i64;     /* an input of indices; all other values are real */
} uf_graph_value;

/* An input or an output. */
typedef struct uf_graph_io {
    char name[UF_NAME_SIZE]; /* the first member, for `names` below */
    int32_t value;
} uf_graph_io;

typedef struct uf_graph_ios {
    uf_graph_io *list; /* inputs: by ascending value */
    int32_t count, capacity;
    uf_index names;
} uf_graph_ios;

struct uf_graph {
    uf_object object;
    uf_context *context;
    uint32_t tag;           /* of its values */
    uf_graph_value *values; /* ids count from 1: values[0] is the invalid one */
    int32_t value_count, value_capacity;
    uf_node **nodes; /* each stays where it is while the graph grows: programs refer to it */
    int32_t node_count, node_capacity;
    int32_t draw_count; /* nodes that draw */
    uf_graph_ios inputs, outputs;
    uf_status status; /* the first error, with its message */
    char message[UF_MESSAGE_SIZE];
};

/* Does a gradient pass from the node's output to its input number `i`? */
static inline bool uf_node_passes(const uf_node *node, int32_t i) {
    const uf_layer *layer = node->layer;
    return layer->backward != NULL &&
           (layer->constant_inputs == NULL ||
            (layer->constant_inputs(node->attributes.bytes) >> i & 1) == 0);
}

/* The value `id` as the user holds it. */
uf_value uf_graph_value_of(const uf_graph *graph, int32_t id);

/* INVALID_ARGUMENT unless `value` is one of this graph; the message begins with `what` and names a
 * value of another graph by its maker. */
uf_status uf_graph_check_value(const uf_graph *graph, uf_value value, const char *what);

/* INVALID_ARGUMENT when the value `value` is an input of indices; `what` begins the message. */
uf_status uf_graph_check_real(const uf_graph *graph, int32_t value, const char *what);

/* INVALID_ARGUMENT, with both contexts, when the store is not of the graph's. `what` begins the
 * message. */
uf_status uf_graph_check_store(const uf_graph *graph, const uf_store *store, const char *what);

/* The number of the input or output called `name`, or -1. */
int32_t uf_graph_io_find(const uf_graph_ios *ios, const char *name);

/* Room for one more element of a growing array. */
uf_status uf_grow(void **array, int32_t count, int32_t *capacity, size_t element);

/* Run a node's inference; errors get the node's path in front. */
uf_status uf_node_infer(const uf_node *node, const uf_shape *inputs, bool training,
                        uf_infer *infer);

#endif
