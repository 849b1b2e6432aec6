/* tile.h - how a graph runs over an image in tiles. */
#ifndef UF_GRAPH_TILE_H
#define UF_GRAPH_TILE_H

#include <unfurl/tiles.h>

#include "graph/graph.h"

#define UF_TILE_AXES 2 /* rows, columns */

/* One axis cut: a piece reads in_begin … in_end and gives out_begin … out_end. */
typedef struct uf_tile_piece {
    int64_t in_begin, in_end, out_begin, out_end;
    int64_t first; /* of the whole output, what the piece's own output begins with */
} uf_tile_piece;

typedef struct uf_tile_cut {
    uf_tile_piece *pieces; /* owned */
    int64_t count, capacity;
    int64_t longest; /* in_end - in_begin of a piece */
    int64_t before, behind;
} uf_tile_cut;

typedef struct uf_tile_plan {
    const char *input, *output; /* names; the graph's */
    uf_shape in, out;           /* whole shapes */
    uf_tile_cut cuts[UF_TILE_AXES];
} uf_tile_plan;

/* Free it with uf_tile_plan_free, after a failure too. */
uf_status uf_tile_plan_make(const uf_graph *graph, const uf_tiles_options *options,
                            uf_tile_plan *plan);
void uf_tile_plan_free(uf_tile_plan *plan);

/* One tile, which is the image; the graph's input has its shape. */
uf_status uf_tile_plan_whole(const uf_graph *graph, const uf_tiles_options *options,
                             uf_tile_plan *plan);

/* The names and the input's shape of a plan, checked; no cuts yet. */
uf_status uf_tile_plan_begin(const uf_graph *graph, const uf_tiles_options *options,
                             uf_tile_plan *plan);

/* ---- tile_sums.c ---- */

/* A layer that sums over the whole image. */
typedef struct uf_tile_sum {
    int32_t node, value; /* the layer, and the image that it reads */
    bool is_mean;
    char name[32];  /* of the input that stands for the image */
    uf_shape shape; /* that input's: the image's with extents of 1 */
    double *planes; /* owned: sums, or means */
} uf_tile_sum;

typedef struct uf_tile_sums {
    const uf_graph *graph;
    uf_shape in; /* of the input that is cut, whole */
    const char *input;
    uf_tile_sum *list; /* owned; in the graph's order */
    int32_t count;
} uf_tile_sums;

/* The sums that the plan's output needs. Free them with uf_tile_sums_free, after a failure too. */
uf_status uf_tile_sums_find(const uf_graph *graph, const uf_tile_plan *plan, uf_tile_sums *sums);
void uf_tile_sums_free(uf_tile_sums *sums);

/* A graph of what `value` needs, its one output called `name`. With `cut` each of the sums reads an
 * image of one pixel, a new input. The image that is cut has its whole shape. */
uf_status uf_tile_sums_copy(const uf_tile_sums *sums, int32_t value, const char *name, bool cut,
                            uf_graph **graph);

/* Give a program of such a copy the sums that it has as inputs. */
uf_status uf_tile_sums_upload(const uf_tile_sums *sums, uf_program *program);

#endif
