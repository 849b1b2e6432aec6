/* model.c - see cuda/plan/space_to_depth/model.h. */
#include "cuda/plan/space_to_depth/model.h"

#include "support/test.h"

#include <math.h>

#include "core/tensor.h"
#include "cuda/plan/helpers.h"

tensor coords_of(const uf_view *view) {
    tensor made = {*view, view->data != NULL, NULL};
    for (int axis = 0; made.count > 0 && axis < 4; ++axis) {
        made.count += (view->extent[axis] - 1) * view->stride[axis];
    }
    return made;
}

tensor tensor_of(const uf_view *view) {
    tensor made = coords_of(view);
    made.values = test_allocate((size_t)(made.count + 1) * sizeof *made.values);
    for (int64_t i = 0; i < made.count; ++i) {
        made.values[i] = NAN;
    }
    return made;
}

int64_t place_of(const tensor *of, int64_t n, int64_t c, int64_t h, int64_t w) {
    const int64_t *stride = of->view.stride;
    return n * stride[0] + c * stride[1] + h * stride[2] + w * stride[3];
}

double get(const tensor *from, int64_t place) {
    assert_true(place >= 0 && place < from->count);
    assert_false(from->values != NULL && isnan(from->values[place]));
    return from->values != NULL ? from->values[place] : 1.0;
}

void put(const tensor *to, int64_t place, double value) {
    assert_true(place >= 0 && place < to->count);
    if (to->values != NULL) {
        assert_true(isnan(to->values[place]));
        to->values[place] = value;
    }
}

void fill(const tensor *of, test_random *random) {
    const int64_t *extent = of->view.extent;
    for (int64_t i = 0; of->count > 0 && i < uf_view_count(&of->view); ++i) {
        const int64_t row = i / extent[3], plane = row / extent[2];
        const int64_t n = plane / extent[1], c = plane % extent[1];
        of->values[place_of(of, n, c, row % extent[2], i % extent[3])] =
            random != NULL ? (double)test_random_integer(random, -4, 4) : 0.0;
    }
}

/* ---- the kernels: names are those of space_to_depth/move.cuh, numbers as wide ---- */

typedef struct space_to_depth_block {
    int32_t unit, units, cell[2], cells[2];
    int32_t begin, first, last;
} space_to_depth_block;

typedef struct space_to_depth_row {
    int32_t offset, at;
    bool inside;
} space_to_depth_row;

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static int32_t most(int32_t a, int32_t b) {
    return a > b ? a : b;
}

/* The divisor is what the kernel takes it for. */
static int32_t direct_divide(const uf_direct_divisor *by, int32_t x, int32_t divisor) {
    assert_true(x >= 0 && divisor > 0 && divide(by, x) == x / divisor);
    assert_int_equal(by->divisor, divisor);
    return (int32_t)divide(by, x);
}

static int32_t piece_of(const tensor *of) {
    return 16 / (int32_t)uf_dtype_size(of->view.dtype);
}

static space_to_depth_block space_to_depth_block_of(const uf_space_to_depth_move *p,
                                                    int32_t index) {
    const int32_t row_tiles = index / p->tiles[1], group = row_tiles / p->tiles[0];
    space_to_depth_block block = {.unit = group * p->together};
    block.units = least(p->together, p->units - block.unit);
    block.cell[0] = (row_tiles - group * p->tiles[0]) * p->tile[0];
    block.cell[1] = (index - row_tiles * p->tiles[1]) * p->tile[1];
    for (int axis = 0; axis < 2; ++axis) {
        block.cells[axis] = least(p->tile[axis], p->cells[axis] - block.cell[axis]);
        assert_true(block.units > 0 && block.cell[axis] >= 0 && block.cells[axis] > 0);
    }
    block.begin = block.cell[1] * p->phases[1] - p->origin[1];
    block.first = most(block.begin, 0);
    block.last = least(block.begin + block.cells[1] * p->phases[1], p->extent[1]);
    return block;
}

/* The offset of what is outside, which nobody uses, may be beyond 32 bits. */
static space_to_depth_row space_to_depth_row_of(const uf_space_to_depth_move *p,
                                                const space_to_depth_block *block, int32_t index) {
    const int32_t of_block = direct_divide(&p->by_rows, index, p->tile[0]);
    const int32_t unit = block->unit + of_block, i = index - of_block * p->tile[0];
    const int32_t plane = direct_divide(&p->by_row_phases, unit, p->phases[0]);
    const int32_t n = direct_divide(&p->by_channels, plane, p->channels);
    const int32_t channel = plane - n * p->channels;
    const int32_t h =
        (block->cell[0] + i) * p->phases[0] + unit - plane * p->phases[0] - p->origin[0];
    space_to_depth_row row = {.at = index * p->tile[1] * p->spacing};
    row.inside = i < block->cells[0] && h >= 0 && h < p->extent[0];
    if (row.inside) {
        row.offset = n * p->stride[0] + channel * p->stride[1] + h * p->stride[2];
    }
    return row;
}

/* Where `count` pixels from w on are in shared memory; below 0: the block has not this one. */
static void space_to_depth_each_pixel(const uf_space_to_depth_move *p,
                                      const space_to_depth_block *block,
                                      const space_to_depth_row *row, int32_t w, int32_t count,
                                      int32_t *at) {
    const bool whole = w >= block->first && w + count <= block->last;
    const int32_t from = most(w, block->first) - block->begin;
    const int32_t cell = direct_divide(&p->by_phases, from, p->phases[1]);
    int32_t phase = from - cell * p->phases[1], place = row->at + cell * p->spacing + phase;
    const int32_t left = p->phases[1] - phase, next = place + p->spacing - p->phases[1];
    for (int32_t i = 0; i < count; ++i) {
        at[i] = -1;
        if (whole && p->wide) {
            at[i] = (i < left ? place : next) + i;
        } else if (w + i >= block->first && w + i < block->last) {
            at[i] = place;
            place += ++phase == p->phases[1] ? p->spacing - p->phases[1] + 1 : 1;
            phase = phase == p->phases[1] ? 0 : phase;
        }
    }
}

/* space_to_depth_pixels_in and space_to_depth_pixels_out, for one lane: what it has of a segment.
 */
static void move_lane(const uf_space_to_depth_move *p, const space_to_depth_block *block, bool in,
                      int32_t item, int32_t lane, const tensor *pixels, const tensor *shared) {
    const int32_t count = p->vector ? piece_of(pixels) : 1, segments = p->segments[count > 1];
    const int32_t index = direct_divide(&p->by_segments[count > 1], item, segments);
    const space_to_depth_row row = space_to_depth_row_of(p, block, index);
    const int32_t begin = block->first / count * count +
                          (item - index * segments) * UF_SPACE_TO_DEPTH_TOGETHER * 32 * count +
                          lane * count;
    for (int32_t i = 0; row.inside && i < UF_SPACE_TO_DEPTH_TOGETHER; ++i) {
        const int32_t w = begin + i * 32 * count;
        int32_t at[8];
        if (w >= block->last) {
            continue;
        }
        assert_true(count == 1 || (p->stride[3] == 1 && (row.offset + w) % count == 0));
        space_to_depth_each_pixel(p, block, &row, w, count, at);
        for (int32_t e = 0; e < count; ++e) {
            const int32_t from = w + e - block->begin, pixel = row.offset + (w + e) * p->stride[3];
            if (at[e] < 0) {
                continue;
            }
            /* As space_to_depth_write_exact has it. */
            assert_int_equal(at[e],
                             row.at + from + from / p->phases[1] * (p->spacing - p->phases[1]));
            if (in) {
                put(shared, at[e], get(pixels, pixel));
            } else {
                put(pixels, pixel, get(shared, at[e]));
            }
        }
    }
}

/* space_to_depth_cells_in and space_to_depth_cells_out, the same. These go from pixels to cells
 * where `in`. */
static void move_cells(const uf_space_to_depth_move *p, const space_to_depth_block *block, bool in,
                       int32_t item, int32_t lane, const tensor *cells, const tensor *shared) {
    const int32_t count = piece_of(cells);
    const int32_t rest = direct_divide(&p->by_runs, item, p->runs);
    const int32_t unit = direct_divide(&p->by_fours, rest, p->fours);
    const int32_t phase = (rest - unit * p->fours) * 4 + (lane & 3);
    const int32_t index = (item - rest * p->runs) * 8 + (lane >> 2);
    const int32_t i = direct_divide(&p->by_row, index, p->tile[1] / count);
    const int32_t j = index * count - i * p->tile[1], high = block->cells[1] - j;
    if (phase >= p->phases[1] || i >= block->cells[0] || high <= 0) {
        return; /* this offset, too, may be beyond 32 bits */
    }
    const int32_t offset = ((block->unit + unit) * p->phases[1] + phase) * p->plane +
                           (block->cell[0] + i) * p->pitch + block->cell[1] + j;
    const int32_t at = (unit * p->tile[0] * p->tile[1] + index * count) * p->spacing + phase;
    assert_int_equal(offset % count, 0);
    for (int32_t e = 0; e < count; ++e) {
        if (in) {
            put(cells, offset + e, get(shared, at + e * p->spacing));
        } else {
            put(shared, at + e * p->spacing, e < high ? get(cells, offset + e) : 0.0);
        }
    }
}

void move_block(const uf_space_to_depth_move *p, int32_t index, bool in, const tensor *pixels,
                const tensor *cells) {
    double values[UF_SPACE_TO_DEPTH_TILE / 2];
    const int64_t room = UF_SPACE_TO_DEPTH_TILE / (int64_t)uf_dtype_size(pixels->view.dtype);
    const tensor shared = {.count = room, .values = values};
    const space_to_depth_block block = space_to_depth_block_of(p, index);
    const int32_t segments = block.units * p->tile[0] * p->segments[p->vector];
    const int32_t runs = block.units * p->fours * p->runs;
    for (int64_t i = 0; i < room; ++i) {
        values[i] = NAN;
    }
    for (int32_t thread = 0; !in && thread < 32 * runs; ++thread) {
        move_cells(p, &block, in, thread / 32, thread % 32, cells, &shared);
    }
    for (int32_t thread = 0; thread < 32 * segments; ++thread) {
        move_lane(p, &block, in, thread / 32, thread % 32, pixels, &shared);
    }
    for (int64_t i = 0; in && i < room; ++i) { /* what was cleared before: nobody has written it */
        values[i] = isnan(values[i]) ? 0.0 : values[i];
    }
    for (int32_t thread = 0; in && thread < 32 * runs; ++thread) {
        move_cells(p, &block, in, thread / 32, thread % 32, cells, &shared);
    }
}

void move(const uf_space_to_depth_move *p, bool in, const tensor *pixels, const tensor *cells) {
    for (int32_t index = 0; index < p->blocks; ++index) {
        move_block(p, index, in, pixels, cells);
    }
}

/* ---- those of space_to_depth/filter.cuh ---- */

static int32_t space_to_depth_take(int32_t *index, const uf_direct_divisor *by, int32_t divisor) {
    const int32_t rest = direct_divide(by, *index, divisor);
    *index -= rest * (int32_t)by->divisor;
    return rest;
}

void filter_in(const uf_space_to_depth_filter *p, int32_t index, const tensor *w,
               const tensor *moved) {
    int32_t column = index;
    int32_t row = space_to_depth_take(&column, &p->by_taps[1], p->taps[1]);
    int32_t across = space_to_depth_take(&row, &p->by_taps[0], p->taps[0]);
    int32_t down = space_to_depth_take(&across, &p->by_phases[1], p->phases[1]);
    int32_t c = space_to_depth_take(&down, &p->by_phases[0], p->phases[0]);
    const int32_t k = space_to_depth_take(&c, &p->by_channels, p->channels);
    const int32_t r = row * p->phases[0] + down, s = column * p->phases[1] + across;
    const bool inside = r < p->kernel[0] && s < p->kernel[1];
    put(moved, index,
        inside ? get(w, k * p->stride[0] + c * p->stride[1] + r * p->stride[2] + s * p->stride[3])
               : 0.0);
}

void filter_out(const uf_space_to_depth_filter *p, int32_t index, const tensor *moved,
                const tensor *w) {
    int32_t s = index;
    int32_t r = space_to_depth_take(&s, &p->by_kernel[1], p->kernel[1]);
    const int32_t filter = space_to_depth_take(&r, &p->by_kernel[0], p->kernel[0]);
    int32_t across = s, down = r, c = filter;
    const int32_t column = space_to_depth_take(&across, &p->by_phases[1], p->phases[1]);
    const int32_t row = space_to_depth_take(&down, &p->by_phases[0], p->phases[0]);
    const int32_t channel = (filter * p->phases[0] + down) * p->phases[1] + across;
    const int32_t k = space_to_depth_take(&c, &p->by_channels, p->channels);
    put(w, k * p->stride[0] + c * p->stride[1] + r * p->stride[2] + s * p->stride[3],
        get(moved, (channel * p->taps[0] + row) * p->taps[1] + column));
}

tensor spread_of(const tensor *vector, const uf_view *view, const uf_space_to_depth_plan *plan) {
    const tensor made = tensor_of(view);
    const int32_t phases = plan->tensor.phases[0] * plan->tensor.phases[1];
    for (int32_t i = 0; made.count > 0 && i < plan->spread; ++i) {
        put(&made, i, get(vector, i / phases * vector->view.stride[1]));
    }
    return made;
}

/* ---- what space_to_depth/plan.h says of them ---- */

void check_cells(const int32_t phases[2], const int32_t origin[2], const tensor *pixels,
                 const tensor *cells, bool moved_out) {
    const int64_t *extent = cells->view.extent, all = (int64_t)phases[0] * phases[1];
    for (int64_t i = 0; i < uf_view_count(&cells->view); ++i) {
        const int64_t row = i / extent[3], plane = row / extent[2], n = plane / extent[1];
        const int64_t channel = plane % extent[1], phase = channel % all;
        const int64_t h = row % extent[2] * phases[0] + phase / phases[1] - origin[0];
        const int64_t w = i % extent[3] * phases[1] + phase % phases[1] - origin[1];
        const bool inside =
            h >= 0 && h < pixels->view.extent[2] && w >= 0 && w < pixels->view.extent[3];
        const double value =
            get(cells, place_of(cells, n, channel, row % extent[2], i % extent[3]));
        const double pixel = inside ? get(pixels, place_of(pixels, n, channel / all, h, w)) : 0.0;
        assert_true(value == pixel || (moved_out && !inside));
    }
}

void check_whole(const tensor *of) {
    const int64_t *extent = of->view.extent;
    int64_t written = 0;
    for (int64_t i = 0; i < uf_view_count(&of->view); ++i) {
        const int64_t row = i / extent[3], plane = row / extent[2];
        (void)get(
            of, place_of(of, plane / extent[1], plane % extent[1], row % extent[2], i % extent[3]));
    }
    for (int64_t i = 0; i < of->count; ++i) {
        written += !isnan(of->values[i]);
    }
    assert_int_equal(written, uf_view_count(&of->view));
}
