/* elementwise.h - how elementwise kernels walk views of one shape, whatever their strides. */
#ifndef UF_KERNELS_CPU_ELEMENTWISE_H
#define UF_KERNELS_CPU_ELEMENTWISE_H

#include "kernels/kernels.h"

#define UF_ROW 512             /* elements brought into a buffer on the stack at a time */
#define UF_UNIT_ELEMENTS 16384 /* of one unit of work, about */

/* Rows of the views: the last axis, with the axes before it folded in where every view allows. A
 * unit is a piece of a long row, or some short ones. */
typedef struct uf_row_walk {
    int64_t extent[3]; /* of the axes before the row */
    int64_t row;       /* elements of a row */
    int64_t stride[4][4];
    int64_t rows_per_unit, pieces, units;
} uf_row_walk;

/* `outer`: how many axes must not be folded into the row (2 keeps n and c apart). */
static inline uf_row_walk uf_row_walk_of(const uf_view *const *views, int count, int outer) {
    uf_row_walk walk;
    for (int axis = 0; axis < 4; ++axis) {
        for (int i = 0; i < 4; ++i) {
            walk.stride[i][axis] = i < count ? views[i]->stride[axis] : 0;
        }
    }
    walk.row = views[0]->extent[3];
    bool fold = true;
    for (int axis = 2; axis >= 0; --axis) {
        walk.extent[axis] = views[0]->extent[axis];
        fold = fold && axis >= outer;
        for (int i = 0; i < count; ++i) {
            fold = fold &&
                   (walk.extent[axis] == 1 || walk.stride[i][axis] == walk.row * walk.stride[i][3]);
        }
        if (fold) {
            walk.row *= walk.extent[axis];
            walk.extent[axis] = 1;
        }
    }
    const int64_t rows = walk.extent[0] * walk.extent[1] * walk.extent[2];
    walk.rows_per_unit =
        walk.row > 0 && walk.row < UF_UNIT_ELEMENTS ? UF_UNIT_ELEMENTS / walk.row : 1;
    walk.pieces = (walk.row + UF_UNIT_ELEMENTS - 1) / UF_UNIT_ELEMENTS;
    walk.units = (rows + walk.rows_per_unit - 1) / walk.rows_per_unit * walk.pieces;
    return walk;
}

/* A stretch of one row, at most UF_ROW long. */
typedef struct uf_row_piece {
    int64_t channel, count;
    int64_t offset[4]; /* of its first element in each view */
    int64_t next_row, next_column, end_row, end_column, first_column;
} uf_row_piece;

static inline uf_row_piece uf_row_begin(const uf_row_walk *walk, int64_t unit) {
    const int64_t rows = walk->extent[0] * walk->extent[1] * walk->extent[2];
    uf_row_piece piece;
    piece.next_row = unit / walk->pieces * walk->rows_per_unit;
    piece.end_row = piece.next_row + walk->rows_per_unit;
    piece.end_row = piece.end_row < rows ? piece.end_row : rows;
    piece.first_column = unit % walk->pieces * UF_UNIT_ELEMENTS;
    piece.end_column = piece.first_column + UF_UNIT_ELEMENTS;
    piece.end_column = piece.end_column < walk->row ? piece.end_column : walk->row;
    piece.next_column = piece.first_column;
    piece.channel = 0;
    piece.count = 0;
    return piece;
}

/* The unit's next stretch; false when there is none. */
static inline bool uf_row_next(const uf_row_walk *walk, uf_row_piece *piece) {
    if (piece->next_row >= piece->end_row) {
        return false;
    }
    const int64_t row = piece->next_row;
    const int64_t h = row % walk->extent[2];
    const int64_t c = row / walk->extent[2] % walk->extent[1];
    const int64_t n = row / walk->extent[2] / walk->extent[1];
    const int64_t left = piece->end_column - piece->next_column;
    piece->channel = c;
    piece->count = left < UF_ROW ? left : UF_ROW;
    for (int i = 0; i < 4; ++i) {
        piece->offset[i] = n * walk->stride[i][0] + c * walk->stride[i][1] +
                           h * walk->stride[i][2] + piece->next_column * walk->stride[i][3];
    }
    piece->next_column += piece->count;
    if (piece->next_column == piece->end_column) {
        piece->next_column = piece->first_column;
        ++piece->next_row;
    }
    return true;
}

#endif
