/* c_code.h - the parts of a generated C program: the graph's builder (c_code.c), and the rest
 * (c_frame.c). */
#ifndef UF_MODEL_C_CODE_H
#define UF_MODEL_C_CODE_H

#include "model/model.h"

/* The text as a string of C. */
void uf_c_string(uf_text *text, const char *string);

/* The program in front of the builder, and behind it. */
void uf_c_head(uf_line_function write, void *user);
void uf_c_tail(const uf_graph *graph, uf_line_function write, void *user);

#endif
