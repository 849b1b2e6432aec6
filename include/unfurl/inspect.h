/* inspect.h - looking inside: a graph as text, a program's time, the first number that is not
 * finite. */
#ifndef UNFURL_INSPECT_H
#define UNFURL_INSPECT_H

#include <stdio.h>

#include <unfurl/program.h>

UF_BEGIN_DECLS

/* Receives text, a line per call, without the newline. */
typedef void (*uf_line_function)(void *user, const char *line);

/* Write a table of the graph's inputs, layers and outputs, with shapes, parameters and
 * multiply-adds of one forward run, and totals below: each tensor of a store is counted once,
 * values in f32. Multiply-adds are those of convolutions and Linear, bias and activations not
 * counted. A graph whose building failed is written as far as it got, and its error is returned.
 * Errors: INVALID_ARGUMENT, IO (of `file`), OUT_OF_MEMORY. */
UF_API UF_NODISCARD uf_status uf_graph_print(const uf_graph *graph, FILE *file);
UF_API UF_NODISCARD uf_status uf_graph_print_to(const uf_graph *graph, uf_line_function write,
                                                void *user);

/* Write the graph in the language of Graphviz: `dot -Tsvg`. Edges have the shapes of their values.
 * Errors: as uf_graph_print. */
UF_API UF_NODISCARD uf_status uf_graph_dot(const uf_graph *graph, FILE *file);
UF_API UF_NODISCARD uf_status uf_graph_dot_to(const uf_graph *graph, uf_line_function write,
                                              void *user);

UF_END_DECLS

#endif
