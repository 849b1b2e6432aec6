/* conv_tile.c - see conv_tile.h: which tiles a convolution is cut into, and where all of a tile's
 * elements lie. */
#include "kernels/cpu/conv_tile.h"

/* The model's prices, in products: of an element that is copied, and of a row of them; of an
 * element that is copied alone, between those of other images. */
#define PRICE_COPY 8.0
#define PRICE_LINE 150.0
#define PRICE_INTERLEAVED 40.0
/* Elements of a tile's copy, unless the smallest tile has more. */
#define MOST_ELEMENTS 262144

static uf_conv_lines lines_of(const uf_axis_walk *walk, int64_t count) {
    const int64_t step = walk->in_tap_step < 0 ? -walk->in_tap_step : walk->in_tap_step;
    const int64_t divisor = uf_gcd(step, walk->in_step);
    const int64_t rests = walk->in_step / divisor;
    const int64_t span = uf_max(walk->taps - 1, 0) * step;
    const int64_t shift = span / walk->in_step;
    uf_conv_lines lines = {
        .first = walk->in_first - (walk->in_tap_step < 0 ? span : 0),
        .apart = rests >= walk->taps || shift >= walk->taps * count ||
                 walk->taps * count <= rests * (count + shift),
    };
    lines.blocks = lines.apart ? walk->taps : rests;
    lines.length = lines.apart ? count : count + shift;
    lines.between = lines.apart ? step : divisor;
    return lines;
}

/* Where a tap's first element lies: the block and the place in it. */
static void tap_place(const uf_conv_lines *lines, const uf_axis_walk *walk, int64_t tap,
                      int64_t *block, int64_t *shift) {
    const int64_t in_order = walk->in_tap_step < 0 ? walk->taps - 1 - tap : tap;
    if (lines->apart) {
        *block = in_order;
        *shift = 0;
    } else {
        const int64_t step = walk->in_tap_step < 0 ? -walk->in_tap_step : walk->in_tap_step;
        *block = in_order * step % walk->in_step / lines->between;
        *shift = in_order * step / walk->in_step;
    }
}

/* Elements of one channel: whole lines of the cache, an odd number of them, so that the same
 * element of many channels does not meet in one set of the cache. */
static int64_t channel_elements(int64_t elements) {
    enum { LINE = 16 };
    return (uf_div_up(elements, LINE) | 1) * LINE;
}

/* Channels that a block of the depth may need at a time. */
static int64_t slots_for(const uf_cpu_conv_plan *plan, int64_t taps) {
    return uf_min((plan->depth_block + 2 * taps - 2) / taps, plan->read.channels);
}

/* A tile while it is chosen. */
typedef struct shape {
    int64_t interleave, sets, rows, columns;
} shape;

static int64_t vectors_of(const shape *of, const uf_conv_lines lines[2], int64_t lanes) {
    const int64_t width = of->columns * of->interleave;
    const int64_t by_row = of->sets * of->rows * uf_div_up(width, lanes);
    const int64_t before = ((of->sets - 1) * lines[0].length + of->rows - 1) * lines[1].length;
    return uf_min(by_row, uf_div_up(before * of->interleave + width, lanes));
}

/* The price of one tile for each channel of the read side. */
static double tile_price(const uf_cpu_conv_plan *plan, const uf_axis_walk walk[2], const shape *of,
                         int64_t rows, int64_t *elements) {
    static const double rest[UF_CONV_VECTORS] = {0.0, 1.3, 2.15};
    const uf_conv_lines lines[2] = {lines_of(&walk[0], of->rows), lines_of(&walk[1], of->columns)};
    const int64_t vectors = vectors_of(of, lines, plan->code->lanes);
    const double whole = (double)(vectors - vectors % UF_CONV_VECTORS);
    const double products = (double)(walk[0].taps * walk[1].taps * rows * plan->code->lanes) *
                            (whole + rest[vectors % UF_CONV_VECTORS]);
    const int64_t copies = lines[0].blocks * lines[1].blocks * of->sets * lines[0].length;
    *elements = copies * lines[1].length * of->interleave;
    return products + (of->interleave > 1
                           ? (double)*elements * PRICE_INTERLEAVED
                           : (double)*elements * PRICE_COPY + (double)copies * PRICE_LINE);
}

/* The price of all pixels of a phase in such tiles, those at the ends of rows and columns among
 * them. */
static double price(const uf_cpu_conv_plan *plan, const uf_axis_walk walk[2], const shape *of,
                    int64_t rows, int64_t *elements) {
    const int64_t extent[2] = {walk[0].out_count, walk[1].out_count};
    double sum = 0.0;
    *elements = 0;
    for (int part = 0; part < 4; ++part) {
        const bool last_row = part / 2 == 1, last_column = part % 2 == 1;
        shape piece = *of;
        piece.rows = last_row ? extent[0] % of->rows : of->rows;
        piece.columns = last_column ? extent[1] % of->columns : of->columns;
        const double count = (last_row ? 1.0 : (double)(extent[0] / of->rows)) *
                             (last_column ? 1.0 : (double)(extent[1] / of->columns));
        if (piece.rows > 0 && piece.columns > 0 && count > 0.0) {
            int64_t needed = 0;
            sum += count * tile_price(plan, walk, &piece, rows, &needed);
            *elements = uf_max(*elements, needed);
        }
    }
    return sum * (double)uf_div_up(plan->batch, of->sets * of->interleave);
}

/* The most rows and sets of images that such vectors hold. */
static void fill(const uf_cpu_conv_plan *plan, const uf_axis_walk walk[2], shape *of) {
    const int64_t lanes = plan->code->lanes, most = plan->pixel_block / lanes;
    const int64_t places = most * lanes / of->interleave;
    const int64_t by_row = most / uf_div_up(of->columns * of->interleave, lanes);
    const uf_conv_lines columns = lines_of(&walk[1], of->columns);
    const int64_t in_one = (places - of->columns) / columns.length + 1;
    const int64_t extent = walk[0].out_count;
    of->rows = uf_min(uf_max(by_row, in_one), extent);
    of->rows = uf_div_up(extent, uf_div_up(extent, of->rows));
    of->sets = 1;
    if (of->rows == extent && of->columns == walk[1].out_count) {
        const uf_conv_lines lines = lines_of(&walk[0], extent);
        const int64_t before = of->columns + (extent - 1) * columns.length;
        const int64_t one_more = lines.length * columns.length;
        const int64_t in_all = before <= places ? (places - before) / one_more + 1 : 1;
        const int64_t sets = uf_div_up(plan->batch, of->interleave);
        of->sets = uf_max(1, uf_min(uf_max(by_row / extent, in_all), sets));
        of->sets = uf_div_up(sets, uf_div_up(sets, of->sets));
    }
}

void uf_conv_tile_choose(uf_cpu_conv_plan *plan, const uf_axis_walk walk[2], int64_t rows) {
    const int64_t lanes = plan->code->lanes;
    const int64_t width = walk[1].out_count;
    shape best = {1, 1, 1, 1};
    double best_price = -1.0;
    int64_t best_elements = 0;
    /* Whole rows, and then 1, 2, ... vectors of them. */
    for (int64_t vectors = 0; vectors * lanes <= uf_min(width - 1, plan->pixel_block); ++vectors) {
        const int64_t columns = vectors == 0 ? width : vectors * lanes;
        const int64_t images = columns == width && width < lanes ? uf_min(lanes, plan->batch) : 1;
        for (int64_t interleave = 1; interleave <= images; interleave *= 2) {
            shape of = {interleave, 1, 1, columns};
            int64_t elements = 0;
            if (columns * interleave > plan->pixel_block) {
                break;
            }
            fill(plan, walk, &of);
            const double cost = price(plan, walk, &of, rows, &elements);
            const bool large = elements > uf_max(MOST_ELEMENTS, best_elements);
            if (best_price < 0.0 || (cost < best_price && !large)) {
                best = of;
                best_price = cost;
                best_elements = elements;
            }
        }
    }
    plan->interleave = best.interleave;
    plan->tile[0] = best.sets * best.interleave;
    plan->tile[1] = best.rows;
    plan->tile[2] = best.columns;
    plan->tiles[0] = uf_div_up(plan->batch, plan->tile[0]);
    plan->tiles[1] = uf_div_up(walk[0].out_count, best.rows);
    plan->tiles[2] = uf_div_up(width, best.columns);
    /* Phases of dgrad may have a tap less. Rows of few columns may have a block for each tap. */
    int64_t copies = 0;
    plan->copy_elements = 0;
    for (int fewer = 0; fewer < (plan->dgrad ? 4 : 1); ++fewer) {
        uf_axis_walk of[2] = {walk[0], walk[1]};
        of[0].taps = uf_max(1, of[0].taps - fewer / 2);
        of[1].taps = uf_max(1, of[1].taps - fewer % 2);
        const uf_conv_lines lines[2] = {lines_of(&of[0], best.rows),
                                        lines_of(&of[1], best.columns)};
        const int64_t there = lines[0].blocks * lines[0].length * plan->tile[0];
        const int64_t channel = channel_elements(there * lines[1].blocks * lines[1].length);
        copies = uf_max(
            copies, there * (best.interleave > 1 ? lines[1].blocks * lines[1].length : of[1].taps));
        plan->copy_elements =
            uf_max(plan->copy_elements, slots_for(plan, of[0].taps * of[1].taps) * channel);
    }
    plan->table_bytes = sizeof(uf_conv_copy) * (size_t)copies +
                        sizeof(int64_t) * (size_t)(walk[0].taps * walk[1].taps);
}

static void make_taps(uf_conv_tile *tile) {
    const uf_axis_walk *rows = tile->walk[0], *columns = tile->walk[1];
    int64_t *to = tile->tap;
    for (int64_t r = 0; r < rows->taps; ++r) {
        for (int64_t s = 0; s < columns->taps; ++s) {
            int64_t block[2], shift[2];
            tap_place(&tile->lines[0], rows, r, &block[0], &shift[0]);
            tap_place(&tile->lines[1], columns, s, &block[1], &shift[1]);
            *to++ = (block[0] * tile->lines[1].blocks + block[1]) * tile->block +
                    (shift[0] * tile->lines[1].length + shift[1]) * tile->interleave;
        }
    }
}

/* The parts of the rows of the copy that lie inside the picture; where images alternate, each
 * element. */
static void make_copies(uf_conv_tile *tile, const uf_view *read) {
    const uf_conv_lines *rows = &tile->lines[0], *columns = &tile->lines[1];
    const int64_t step[2] = {tile->walk[0]->in_step, tile->walk[1]->in_step};
    int64_t filled = 0;
    uf_conv_copy *copy = tile->copy;
    for (int64_t b = 0; b < rows->blocks * columns->blocks; ++b) {
        const int64_t row =
            tile->first[1] * step[0] + rows->first + b / columns->blocks * rows->between;
        const int64_t column =
            tile->first[2] * step[1] + columns->first + b % columns->blocks * columns->between;
        const int64_t from = column < 0 ? uf_div_up(-column, step[1]) : 0;
        const int64_t left = read->extent[3] - column;
        const int64_t end = left <= 0 ? 0 : uf_min(uf_div_up(left, step[1]), columns->length);
        for (int64_t image = 0; from < end && image < tile->extent[0]; ++image) {
            const int64_t set = image / tile->interleave;
            for (int64_t y = 0; y < rows->length; ++y) {
                const int64_t h = row + y * step[0];
                if (h < 0 || h >= read->extent[2]) {
                    continue;
                }
                const int64_t to = b * tile->block + image % tile->interleave +
                                   (set * rows->length + y) * columns->length * tile->interleave;
                const int64_t row_from = (tile->first[0] + image) * read->stride[0] +
                                         h * read->stride[2] + column * read->stride[3];
                const int64_t count = tile->interleave > 1 ? 1 : end - from;
                for (int64_t x = from; x < end; x += count, ++copy) {
                    copy->to = to + x * tile->interleave;
                    copy->from = row_from + x * step[1] * read->stride[3];
                    copy->count = count;
                    filled += count;
                }
            }
        }
    }
    tile->copies = copy - tile->copy;
    tile->padded = filled < rows->blocks * columns->blocks * tile->block;
}

/* The vectors, each from the first pixel that none has yet. */
static void make_vectors(uf_conv_tile *tile, int64_t lanes) {
    const int64_t width = tile->extent[2] * tile->interleave;
    int64_t end = 0; /* of the last vector */
    tile->vectors = 0;
    tile->pieces = tile->sets * tile->extent[1];
    for (int64_t i = 0; i < tile->pieces; ++i) {
        uf_conv_piece *piece = &tile->piece[i];
        const int64_t set = i / tile->extent[1];
        piece->image = set * tile->interleave;
        piece->row = i % tile->extent[1];
        const int64_t begin =
            (set * tile->lines[0].length + piece->row) * tile->lines[1].length * tile->interleave;
        /* A row that begins in the last vector goes on behind it. */
        int64_t at = uf_max(begin, end);
        piece->at = tile->vectors * lanes - (at - begin);
        for (; at < begin + width; at = end) {
            tile->place[tile->vectors++] = at;
            end = at + lanes;
        }
    }
}

bool uf_conv_tile_make(const uf_cpu_conv_plan *plan, const uf_axis_walk *rows,
                       const uf_axis_walk *columns, int64_t index, void *scratch,
                       uf_conv_tile *tile) {
    const int64_t extent[3] = {plan->batch, rows->out_count, columns->out_count};
    for (int axis = 2; axis >= 0; --axis) {
        tile->first[axis] = index % plan->tiles[axis] * plan->tile[axis];
        tile->extent[axis] = uf_min(plan->tile[axis], extent[axis] - tile->first[axis]);
        index /= plan->tiles[axis];
        if (tile->extent[axis] <= 0) {
            return false;
        }
    }
    tile->walk[0] = rows;
    tile->walk[1] = columns;
    tile->interleave = plan->interleave;
    tile->sets = uf_div_up(tile->extent[0], plan->interleave);
    tile->lines[0] = lines_of(rows, tile->extent[1]);
    tile->lines[1] = lines_of(columns, tile->extent[2]);
    tile->block = tile->sets * tile->lines[0].length * tile->lines[1].length * tile->interleave;
    tile->channel = channel_elements(tile->lines[0].blocks * tile->lines[1].blocks * tile->block);
    make_vectors(tile, plan->code->lanes);
    const int64_t taps = rows->taps * columns->taps;
    if (taps > 0) {
        tile->slots = slots_for(plan, taps);
        tile->tap = scratch;
        tile->copy = (uf_conv_copy *)(void *)(tile->tap + taps);
        make_taps(tile);
        make_copies(tile, plan->read.view);
    }
    return true;
}
