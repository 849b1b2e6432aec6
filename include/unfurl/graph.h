/* graph.h - a graph describes a computation on values; it holds no data.
 *
 * Building never needs a check per line: the builder keeps its first error, an invalid value flows
 * through, and uf_program_compile (or uf_graph_status) reports it. */
#ifndef UNFURL_GRAPH_H
#define UNFURL_GRAPH_H

#include <unfurl/store.h>

UF_BEGIN_DECLS

typedef struct uf_graph uf_graph;

/* A value of a graph: layers take and give them. A zeroed uf_value is invalid. One of another graph
 * is refused. */
typedef struct uf_value {
    int32_t id;
    uint32_t graph; /* the tag of the graph that made it */
} uf_value;

/* An empty graph. Destroyed by the caller or with its context; programs compiled from it keep it
 * alive. */
UF_API UF_NODISCARD uf_status uf_graph_create(uf_context *context, uf_graph **graph);
UF_API void uf_graph_destroy(uf_graph *graph); /* NULL is legal */

/* An input of the graph. Names are unique among the inputs. The extents are those of a typical run:
 * a program may be compiled for others (uf_program_options.input_shapes). */
UF_API uf_value uf_input(uf_graph *graph, const char *name, uf_shape shape);

/* The same of i64 elements: class labels, indices. Its tensor is i64 in programs of every type, no
 * gradient reaches it, and only layers whose comments say so take it. */
UF_API uf_value uf_input_i64(uf_graph *graph, const char *name, uf_shape shape);

/* Make `value` an output of every program of the graph, under a name unique among the outputs. */
UF_API void uf_output(uf_graph *graph, const char *name, uf_value value);

/* The value's shape as inferred so far; rank -1 for an invalid value. */
UF_API uf_shape uf_value_shape(const uf_graph *graph, uf_value value);

/* The first error of the building so far (UF_OK when there is none), with its message in
 * uf_last_error(). */
UF_API UF_NODISCARD uf_status uf_graph_status(const uf_graph *graph);

UF_END_DECLS

#endif
