/* tiling.h - a picture through a model in tiles, into a file: `unfurl upscale` and `run --tile`.
 *
 * Three things go on at once. The device computes a tile; meanwhile this thread reads the next
 * one's pixels and converts those of the last one; threads of the file's writer compress the rows
 * of tiles that are finished. The picture that goes in is in memory as samples; of the one that is
 * made there is one row of tiles. */
#ifndef UF_TOOLS_TILING_H
#define UF_TOOLS_TILING_H

#include <unfurl/unfurl.h>

#include "planes.h"
#include "progress.h"
#include "runtime.h"
#include "values.h"

struct tiling {
    /* The caller's: */
    const char *label; /* of the progress */
    uf_model *model;
    const struct run_options *run;
    uf_program_options program;   /* its input shapes are left to tiling_plan */
    const uf_input_shape *shapes; /* of all inputs; that of the picture by values_shape_of */
    int32_t shape_count, input;   /* `input`: which of them the picture is */
    const char *output;           /* name of the model's */
    const uf_picture *picture;
    struct planes_plan planes;
    uf_picture head;  /* colour, channels (0: the model's) and depth of the picture that is made */
    const char *path; /* of that picture; or FILE.h5, which gets the dataset /output, unrounded */
    int64_t tile, overlap, quality; /* tile, overlap: as in uf_tiles_options */
    /* Fills the other inputs; NULL: there are none. */
    uf_status (*prepare)(void *user, uf_program *program);
    void *user; /* of prepare */
    /* Made by tiling_plan: */
    uf_tile_area area; /* of the output, that becomes the picture */
    uf_tiles_plan plan;
    /* Made by tiling_run: */
    double means_seconds, network_seconds, write_seconds;
    /* Its own: */
    uf_tiles_options options;
    uf_input_shape *solved;
    uf_picture band; /* the rows that the newest row of tiles makes */
    void *values;    /* the output for HDF5 */
    double *row;
    uf_picture_writer *writer; /* from the first finished row of tiles on, under signals_hold */
    bool holds_signals, not_finite;
    int64_t tiles_read;
    struct progress progress;
};

/* After a failure too, tiling_free is called. */
int tiling_plan(struct tiling *tiling);
int tiling_run(struct tiling *tiling);
void tiling_free(struct tiling *tiling);

#endif
