/* run.h - one run of a model: what `unfurl run` (run.c) and its --check (run_check.c) share. */
#ifndef UF_TOOLS_RUN_H
#define UF_TOOLS_RUN_H

#include <stdbool.h>

#include <unfurl/unfurl.h>

#include "options.h"
#include "runtime.h"
#include "stream.h"
#include "values.h"

struct run_arguments {
    const char *path, *check, *limit, *tile;
    struct option_list inputs, outputs;
    int64_t seed, rate, quality;
    bool profile, trust;
    struct run_options run;
};

struct run_work {
    const struct run_arguments *arguments;
    struct streams *streams;
    uf_context *context;
    uf_model *model;
    uf_program *program;
    int32_t input_count;
    uf_input_shape *shapes;    /* of the inputs, in their order */
    struct values *inputs;     /* the same; without data where none is given */
    struct values_frame frame; /* of the last picture that went in */
    double seconds;            /* of the run */
    uf_picture picture;        /* with --tile: the input that is cut */
    int32_t tiled;             /* its number, from 1 on; 0: there is none */
};

/* Read "inputs/NAME" of the reference for every input that is not given. */
int run_check_inputs(struct run_work *work);

/* After the run: compare, and report. EXIT_FAILED where a value differs. The program is then that
 * of a second run. */
int run_check(struct run_work *work);

/* Compile the graph for the inputs, and run it. */
int run_compute(struct run_work *work);

/* The contents of one of the program's tensors, as f64. */
int run_download(const uf_tensor *tensor, struct values *values);

/* An output NAME=FILE: its name, and the path to write to, which is a temporary one for stdout.
 * After the writing: send it there. */
struct run_output {
    char name[UF_NAME_SIZE];
    const char *path;
    bool is_stdout;
};
int run_output_open(struct run_work *work, const char *text, struct run_output *output);
int run_output_close(struct run_work *work, const struct run_output *output);

/* Run by work->arguments; the model is opened where it is not yet. */
int run_once(struct run_work *work);

/* Back to the opened model alone. */
void run_forget(struct run_work *work);

/* Folders (run_folder.c): is an input one? Run each of its pictures. */
bool run_is_folder(const struct run_work *work);
int run_folder(struct run_work *work);

/* With --tile (run_tile.c): keep the picture of input `index`; run, write the output, report. */
int run_tile_input(struct run_work *work, int32_t index, const char *path,
                   const uf_picture_map *map);
int run_tiles(struct run_work *work);

#endif
