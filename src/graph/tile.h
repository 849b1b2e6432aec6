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
    int32_t input, output; /* numbers of the graph's inputs and outputs */
    uf_shape in, out;      /* whole shapes */
    uf_tile_cut cuts[UF_TILE_AXES];
} uf_tile_plan;

/* Free it with uf_tile_plan_free, after a failure too. */
uf_status uf_tile_plan_make(const uf_graph *graph, const uf_tiles_options *options,
                            uf_tile_plan *plan);
void uf_tile_plan_free(uf_tile_plan *plan);

#endif
