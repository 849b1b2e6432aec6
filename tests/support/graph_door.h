/* graph_door.h - runs a case, or any graph, through a compiled program. */
#ifndef TEST_SUPPORT_GRAPH_DOOR_H
#define TEST_SUPPORT_GRAPH_DOOR_H

#include "cases/layer_case.h"

/* Fill a store's tensor from doubles, converted to the store's type. */
void store_put(uf_store *store, const char *name, const double *values, int64_t count);

/* One layer as a graph with input "x" and output "y", its weights under "layer" in a store. */
typedef struct graph_door {
    uf_store *store;
    uf_graph *graph;
    uf_program *program;
} graph_door;

/* Build, compile and fill. Fails the test on any error. */
graph_door graph_door_open(uf_context *context, const layer_case *one, uf_dtype dtype, bool fuse);
void graph_door_close(graph_door *door);

/* Upload the case's input, run, download the output as doubles. */
void graph_door_run(graph_door *door, const layer_case *one, double *result);

/* Open, run twice (the second must give the same bits), compare, close. */
void graph_door_check(uf_context *context, const layer_case *one, uf_dtype dtype, bool fuse,
                      double tolerance, double floor);

#endif
