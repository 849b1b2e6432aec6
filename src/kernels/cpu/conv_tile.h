/* conv_tile.h - the tiles of the variant gemm: some pixels of the written side, and the copy of
 * what their taps read.
 *
 * A tile is some images by rows by columns of one phase. Its taps read a part of each channel,
 * which is copied once, with the padding as zeros. In the copy each tap of each vector of pixels is
 * a vector: with a step, elements of one rest modulo the step lie beside each other; and where a
 * row is shorter than a vector, the elements of `interleave` images do. So a tap is an offset, and
 * a vector of pixels is a place. Vectors may reach over the end of a row: such sums are dropped. */
#ifndef UF_KERNELS_CPU_CONV_TILE_H
#define UF_KERNELS_CPU_CONV_TILE_H

#include "kernels/cpu/conv_plan.h"

/* One axis of the copy: `blocks` of `length` elements. Either a block for each tap, or one for each
 * rest modulo the step that taps have, in which a tap begins at its shift. */
typedef struct uf_conv_lines {
    int64_t blocks, length;
    int64_t first;   /* on the read side, of block 0, for the axis's element 0 */
    int64_t between; /* from one block's first element to the next's */
    bool apart;      /* a block for each tap */
} uf_conv_lines;

/* `count` elements that lie in one row of the read side: from an offset there, to one in the copy
 * of a channel. */
typedef struct uf_conv_copy {
    int64_t to, from, count;
} uf_conv_copy;

/* A row of a tile's pixels: where it begins among the sums. */
typedef struct uf_conv_piece {
    int64_t at, image, row; /* image and row from the tile's first */
} uf_conv_piece;

/* Vectors that a tile has at most. */
#define UF_CONV_TILE_VECTORS (UF_CONV_PIXELS / 4)

typedef struct uf_conv_tile {
    const uf_axis_walk *walk[2];
    int64_t first[3], extent[3]; /* images, rows, columns */
    int64_t interleave, sets;    /* images whose elements alternate; how often so many */
    uf_conv_lines lines[2];
    int64_t block;   /* elements of one block of rows by one of columns */
    int64_t channel; /* of a channel's copy */
    int64_t slots;   /* channels that the copy holds: channel c lies in slot c % slots */
    bool padded;     /* there are elements that no copy fills */
    int64_t copies, vectors, pieces;
    uf_conv_copy *copy;
    int64_t *tap; /* [tap] the offset of what it reads */
    int64_t place[UF_CONV_TILE_VECTORS];
    uf_conv_piece piece[UF_CONV_PIXELS];
} uf_conv_tile;

/* Choose the tiles of a plan, with about `rows` rows to a unit: sets tile, tiles, interleave and
 * the sizes of the copy. */
void uf_conv_tile_choose(uf_cpu_conv_plan *plan, const uf_axis_walk walk[2], int64_t rows);

/* Tile `index` of a plan in the phase of these walks. `scratch` has plan->table_bytes. False when
 * the phase has no such tile. */
bool uf_conv_tile_make(const uf_cpu_conv_plan *plan, const uf_axis_walk *rows,
                       const uf_axis_walk *columns, int64_t index, void *scratch,
                       uf_conv_tile *tile);

#endif
