/* wgrad_columns.c - see cuda/plan/wgrad_columns.h. */
#include "cuda/plan/wgrad_columns.h"

#include <stdlib.h>
#include <string.h>

/* The element of x at a word of a stage, of the first channel; from the box's first pixel, tap 0.
 */
typedef struct word_of_x {
    int32_t n, h, w;
    bool there;
} word_of_x;

static word_of_x *lay_out(const wgrad_columns *of, int32_t first_column) {
    const wgrad_plan *p = of->p;
    word_of_x *const at = calloc((size_t)p->x_words, sizeof *at);
    assert_non_null(at);
    for (int32_t i = 0; i < p->entries * of->words; ++i) {
        const wgrad_coord coord = of->coord(of->plan, first_column, i / of->words);
        const int32_t to = coord.to + i % of->words;
        assert_true(to >= 0 && to < p->x_words && !at[to].there);
        at[to] = (word_of_x){coord.n, coord.h, coord.w + i % of->words, true};
    }
    return at;
}

/* Columns of one tap, which are channels side by side: all pixels of a box. */
static void walk_slot(plan_walk *walk, const wgrad_columns *of, const word_of_x *words,
                      const wgrad_corner *corner, int32_t column, const wgrad_box *box,
                      plan_term *term) {
    const wgrad_plan *p = of->p;
    const wgrad_column at = wgrad_column_of(p, column);
    const int32_t first_block = wgrad_first_block(p, corner->column);
    const int32_t local =
        p->banded ? at.channel - first_block * p->channels : (column - corner->column) % 8;
    const int32_t first = of->column(of->plan, corner->column, column) - local * p->pitch;
    const int64_t y[3] = {(int64_t)box->n * (WGRAD_PIXELS >> (p->log_q + p->log_p)),
                          (int64_t)box->p << p->log_p, (int64_t)box->q << p->log_q};
    assert_true(!p->banded || at.block - first_block < p->span);
    term->tap[0] = at.tap / p->taps_w;
    term->tap[1] = at.tap % p->taps_w;
    for (int32_t i = 0; i < WGRAD_PIXELS; ++i) {
        const wgrad_pixel pixel = wgrad_pixel_of(p, i);
        const int32_t word = first + of->pixel[i];
        assert_true(word >= 0 && word < p->x_words && words[word].there);
        assert_int_equal(words[word].n, pixel.n);
        term->n = y[0] + pixel.n;
        term->small[0] = y[1] + pixel.p;
        term->small[1] = y[2] + pixel.q;
        term->large[0] = y[1] * p->stride[0] - p->padding[0] + words[word].h;
        term->large[1] = y[2] * p->stride[1] - p->padding[1] + words[word].w;
        plan_make(walk, term);
    }
}

/* The end of the columns of a slot that lie in a tile; their channels lie side by side. */
static int32_t slot_end(const wgrad_columns *of, const wgrad_corner *corner, int32_t column) {
    const wgrad_plan *p = of->p;
    const int32_t slot = wgrad_column_of(p, column).slot;
    int32_t end = column;
    while (end < corner->column + p->columns && end < p->all_columns &&
           wgrad_column_of(p, end).slot == slot) {
        assert_int_equal(of->column(of->plan, corner->column, end) -
                             of->column(of->plan, corner->column, column),
                         (end - column) * p->pitch);
        ++end;
    }
    return end;
}

void wgrad_walk_boxes(plan_walk *walk, const plan_layer *layer, const wgrad_columns *of,
                      int32_t tile, int32_t begin, int32_t end) {
    const wgrad_plan *p = of->p;
    const wgrad_corner corner = wgrad_corner_of(p, tile);
    word_of_x *const words = lay_out(of, corner.column);
    plan_term term = {.group = corner.group, .k = {corner.row, corner.row + p->rows}};
    (void)layer;
    for (int32_t column = corner.column, next; column < corner.column + p->columns; column = next) {
        if (column >= p->all_columns) {
            break; /* reads something that is there, and nobody keeps it */
        }
        next = slot_end(of, &corner, column);
        term.c[0] = wgrad_column_of(p, column).channel;
        term.c[1] = term.c[0] + next - column;
        wgrad_box box = wgrad_box_of(p, begin);
        for (int32_t i = begin; i < end; ++i) {
            walk_slot(walk, of, words, &corner, column, &box, &term);
            wgrad_next(p, &box);
        }
    }
    free(words);
}

void wgrad_store_tile(plan_walk *walk, const wgrad_plan *p, int32_t tile) {
    for (int32_t column = 0; column < p->columns; ++column) {
        const wgrad_element first = wgrad_element_of(p, tile, column);
        const wgrad_element last = wgrad_element_of(p, tile, (p->rows - 1) * p->columns + column);
        assert_int_equal(last.k - first.k, p->rows - 1);
        const plan_term term = {
            .group = first.group,
            .k = {first.k, (int64_t)first.k + p->rows},
            .c = {first.column.channel, first.column.channel + 1},
            .tap = {first.column.tap / p->taps_w, first.column.tap % p->taps_w}};
        if (first.column.there) {
            plan_store(walk, &term);
        }
    }
}

void wgrad_check_tiles(const plan_layer *layer, const wgrad_plan *p, int32_t most_entries) {
    assert_int_equal(p->tiles, layer->args.groups * p->tiles_m * p->tiles_n);
    assert_true((p->tiles_m - 1) * p->rows < p->k_per_group);
    assert_true((p->tiles_n - 1) * p->columns < p->all_columns);
    assert_int_equal(p->all_boxes, (int64_t)p->boxes[0] * p->boxes[1] * p->boxes[2]);
    assert_true(p->log_q + p->log_p <= 5 && p->entries <= most_entries);
    assert_true(p->adders == 1 || p->adders == 8);
    assert_true(p->stages >= 2);
    if (p->vector_y) { /* four pixels of a row, that begin at 16 bytes if the tensor does */
        assert_true(p->log_q >= 2 && p->small[1] % 4 == 0 && p->y_stride[3] == 1);
        for (int axis = 0; axis < 3; ++axis) {
            assert_int_equal(p->y_stride[axis] % 4, 0);
        }
    }
}
