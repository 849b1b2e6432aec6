/* tiles.h - a model on a picture that is larger than memory: in tiles, without seams.
 *
 * Each tile of the input overlaps its neighbours by as much as the outputs on its edge depend on,
 * which follows from the graph; at the picture's edges a tile ends where the picture does. So the
 * result is that of the whole picture, but for the last bits: convolutions may add in another
 * order.
 *
 * Sums and means over the whole picture (uf_sum, uf_mean, uf_global_avg_pool2d) are no obstacle:
 * for each of them there is a pass over all tiles before, which adds up what the layer reads. */
#ifndef UNFURL_TILES_H
#define UNFURL_TILES_H

#include <unfurl/program.h>

UF_BEGIN_DECLS

/* A part of a tensor (N, C, H, W), of all its images and channels; of (N, C, W) it has a height of
 * 1. */
typedef struct uf_tile_area {
    int64_t top, left, height, width;
} uf_tile_area;

/* Fill `values`, (N, C, height, width) in C order, with this part of the input. Each pass asks for
 * its parts. Another status than UF_OK ends the run, which returns it. */
typedef uf_status (*uf_tile_read)(void *user, const uf_tile_area *area, void *values);

/* Take this part of the output. Parts come row by row, from left to right; they do not overlap, and
 * together they are the whole output, or the area of the options. */
typedef uf_status (*uf_tile_write)(void *user, const uf_tile_area *area, const void *values);

typedef struct uf_tiles_options {
    size_t struct_size;
    const char *input;  /* that is cut; NULL: the graph's first */
    const char *output; /* NULL: the graph's first */
    uf_shape shape;     /* of the whole input, (N, C, H, W) or (N, C, W); rank 0: the graph's */
    /* Rows and columns of the input that a tile has besides its overlap, rounded up to what the
     * model's strides ask for; fewer where as many tiles then are of equal size. 0: 128, or half of
     * the overlap where that is more. As many as the image has: the model runs once, whatever its
     * layers are. */
    int64_t tile;
    const uf_program_options *program; /* NULL: defaults. In EVAL, without passes */
    uf_tile_read read;                 /* values are f64 of an f64 program, else f32 */
    uf_tile_write write;
    /* Called with each program that is compiled, to fill its other inputs, which are whole; may be
     * NULL. */
    uf_status (*prepare)(void *user, uf_program *program);
    void *user; /* given to all three */
    /* The part of the output that is wanted; of a height of 0: all of it. */
    uf_tile_area area;
    /* Rows and columns beside a tile's own, on each side, beyond which the input is not looked at:
     * faster, and no longer exact where the model looks further. -1: exact. */
    int64_t overlap;
} uf_tiles_options;

static inline uf_tiles_options uf_tiles_options_default(void) {
    uf_tiles_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.overlap = -1;
    return options;
}

/* How a run would go. */
typedef struct uf_tiles_plan {
    size_t struct_size;
    uf_shape output;    /* the whole output's */
    int64_t rows;       /* of tiles */
    int64_t columns;    /* tiles of a row */
    uf_shape tile;      /* the largest tile of the input, with its overlap */
    int64_t overlap[4]; /* rows above and below, columns left and right: beyond what a tile keeps */
    int64_t tiles;      /* that are computed: in the passes for sums, and rows * columns at last */
} uf_tiles_plan;

/* Plan, without computing: `read` and `write` are not needed. Errors: INVALID_ARGUMENT, SHAPE,
 * NOT_FOUND (no input or output of the name), UNSUPPORTED (a layer on the way depends on the whole
 * image, and is named), OUT_OF_MEMORY. *plan is zeroed on failure. */
UF_API UF_NODISCARD uf_status uf_tiles_plan_sized(uf_graph *graph, const uf_tiles_options *options,
                                                  uf_tiles_plan *plan, size_t plan_size);
static inline UF_NODISCARD uf_status uf_tiles_plan_of(uf_graph *graph,
                                                      const uf_tiles_options *options,
                                                      uf_tiles_plan *plan) {
    return uf_tiles_plan_sized(graph, options, plan, sizeof *plan);
}

/* Run the graph tile by tile, the part of it that the output needs. Compiles a program for each
 * shape of tiles, at most two of which are there at a time; nothing that it holds grows with the
 * picture. While the device computes a tile the next one is read. Synchronous. Errors: those of
 * uf_tiles_plan_of, of compiling and running, and whatever a function of the options returns. */
UF_API UF_NODISCARD uf_status uf_tiles_run(uf_graph *graph, const uf_tiles_options *options);

UF_END_DECLS

#endif
