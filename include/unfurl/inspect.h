/* inspect.h - looking inside: a graph as text, the time of a program's steps, the first number that
 * is not finite. */
#ifndef UNFURL_INSPECT_H
#define UNFURL_INSPECT_H

#include <stdio.h>

#include <unfurl/program.h>

UF_BEGIN_DECLS

/* Receives text, a line per call, without the newline. */
typedef void (*uf_line_function)(void *user, const char *line);

/* Write a table of the graph's inputs, layers and outputs, with shapes, parameters and
 * multiply-adds of one forward run, and totals below: each tensor of a store is counted once,
 * values in f32. Multiply-adds are those of convolutions and Linear, taps on padding too, without
 * bias. A graph whose building failed is written as far as it got, and its error is returned.
 * Errors: INVALID_ARGUMENT, IO (of `file`), OUT_OF_MEMORY. */
UF_API UF_NODISCARD uf_status uf_graph_print(const uf_graph *graph, FILE *file);
UF_API UF_NODISCARD uf_status uf_graph_print_to(const uf_graph *graph, uf_line_function write,
                                                void *user);

/* Write the graph in the language of Graphviz: `dot -Tsvg`. Edges have the shapes of their values.
 * Errors: as uf_graph_print. */
UF_API UF_NODISCARD uf_status uf_graph_dot(const uf_graph *graph, FILE *file);
UF_API UF_NODISCARD uf_status uf_graph_dot_to(const uf_graph *graph, uf_line_function write,
                                              void *user);

/* The time of one step of a program. */
typedef struct uf_profile_row {
    size_t struct_size;
    const char *name;  /* of the layer's scope; for "zero", "clip", "optimize" and "average" of the
                          store that changes; "" where there is none */
    const char *layer; /* "conv2d"; "optimizer", or what `step` says, for steps of no layer */
    const char *step;  /* "forward", "backward", "optimize", "seed", "cast", "zero" (gradients that
                          are 0 whatever the input is), "clip" or "average" */
    double ms;         /* milliseconds, mean over the runs */
} uf_profile_row;

/* Run `program` `runs` times, step by step, and measure each step: on the CPU by a clock, on a GPU
 * by events on the stream. These are whole runs, with all they do to stores and optimizers; a
 * program that has not run yet runs once more before them. A GPU's step that is shorter than the
 * host takes to queue it shows the host's time. *rows is one allocation that the caller frees with
 * uf_profile_free, its texts are the program's; the rows are in the order of the steps, a layer
 * that fusion took is part of the one before it, an upsampling of the one behind it (a
 * conv_transpose2d then, whatever it was). *rows is NULL on failure. Synchronous. Errors: as
 * uf_program_run, INVALID_ARGUMENT (runs below 1), STATE (the caller's stream is under capture),
 * OUT_OF_MEMORY. */
UF_API UF_NODISCARD uf_status uf_program_profile_sized(uf_program *program, int32_t runs,
                                                       uf_profile_row **rows, int64_t *count,
                                                       size_t row_size);
static inline UF_NODISCARD uf_status uf_program_profile(uf_program *program, int32_t runs,
                                                        uf_profile_row **rows, int64_t *count) {
    return uf_program_profile_sized(program, runs, rows, count, sizeof **rows);
}
UF_API void uf_profile_free(uf_profile_row *rows); /* NULL is legal */

/* A number that is not finite, and its place. */
typedef struct uf_nonfinite {
    size_t struct_size;
    bool found;        /* false: all is finite, and the rest is zero */
    const char *name;  /* as in uf_profile_row; of a program's input its name */
    const char *layer; /* as in uf_profile_row; "input" and "parameter" for what steps only read */
    const char *step;  /* as in uf_profile_row; "before" for inputs and parameters */
    char value[UF_NAME_SIZE + 32]; /* "output", "gradient of input 0", "gradient of main.0.weight",
                                      "main.0.weight" */
    uf_shape shape;                /* of the value */
    int64_t index;                 /* of the first such element, in C order */
    double number;                 /* infinite or NaN */
} uf_nonfinite;

/* Run `program` once, step by step, and look for the first number that is not finite: in its
 * inputs, in the parameters and buffers that it reads, in the copies of them that a bf16 program
 * keeps ("cast"), then behind each step in the value, buffers, gradients or parameters that the
 * step wrote. Where one is found the run ends: outputs are of no use then, and steps up to there
 * have changed their stores; optimizers behind it have not. Overwrites *found. A layer that fusion
 * took is part of the one before it: compile with `fuse` off to part them. Downloads every value.
 * Errors: as uf_program_profile. */
UF_API UF_NODISCARD uf_status uf_program_find_nonfinite_sized(uf_program *program,
                                                              uf_nonfinite *found,
                                                              size_t found_size);
static inline UF_NODISCARD uf_status uf_program_find_nonfinite(uf_program *program,
                                                               uf_nonfinite *found) {
    return uf_program_find_nonfinite_sized(program, found, sizeof *found);
}

UF_END_DECLS

#endif
