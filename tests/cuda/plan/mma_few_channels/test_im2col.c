/* test_im2col.c - the plan of im2col, fprop and dgrad: tiles of cells make and store every element
 * once, and each offset of a cell finds in the records what its phases' taps meet. Needs no GPU. */
#include "cuda/plan/walk.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/plan/helpers.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/plan.h"
#include "kernels/cuda/conv/registry.h"

enum { CELLS = 12 /* of a plan of any size that are looked at */ };

static const conv_limits limits = {.stride = 3,
                                   .large_stride = 9,
                                   .padding = 6,
                                   .dilation = 4,
                                   .kernel = 7,
                                   .extent = {2, 12, 90, 90},
                                   .batch = 9,
                                   .large_batch = 300,
                                   .small_channels = 9,
                                   .channels = 70,
                                   .groups = true,
                                   .bf16 = true};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* By place in shared memory, in units: which record lies there, or -1. */
static int32_t *records_of(const uf_im2col_conv *p) {
    int32_t *const record_at = test_allocate((size_t)p->unit_plane * sizeof *record_at);
    const int32_t skew = (int32_t)p->by_skew.divisor;
    memset(record_at, -1, (size_t)p->unit_plane * sizeof *record_at);
    for (int32_t i = 0; i < p->records; ++i) {
        const int32_t slot = i + (skew > 0 ? i / skew : 0);
        assert_true(slot < p->unit_plane);
        assert_int_equal(record_at[slot], -1);
        record_at[slot] = i;
    }
    return record_at;
}

/* The element of the window, from its first, that a cell finds at a pair of offsets, for channel c.
 */
static void find(const uf_im2col_conv *p, const int32_t *record_at, const int32_t cell[2],
                 const int32_t offset[2], int32_t c, int32_t found[2]) {
    const uf_direct_conv *conv = &p->conv;
    const int32_t bytes = cell[0] * p->cell_row + cell[1] * p->cell_column +
                          p->row_offset[offset[0]] + p->column_offset[offset[1]];
    const int32_t element = p->gathered ? c * p->offsets[1] + offset[1] : c;
    assert_int_equal(bytes % 16, 0);
    assert_true(bytes >= 0 && bytes / 16 < p->unit_plane);
    assert_true(element < p->record * p->unit);
    int32_t place = record_at[bytes / 16];
    assert_true(place >= 0);
    if (p->gathered) {
        const int32_t line = place / conv->axis[1].tile;
        place = line * conv->pitch + place % conv->axis[1].tile * conv->axis[1].in_step +
                p->column_from[offset[1]];
    }
    const int32_t line = place / conv->pitch, residue = line / conv->axis[0].coords;
    assert_true(place < conv->channel_words && residue < conv->axis[0].residues);
    assert_true(place % conv->pitch < conv->axis[1].span);
    found[0] = (line - residue * conv->axis[0].coords) * conv->axis[0].in_step +
               conv->axis[0].residue[residue];
    found[1] = place % conv->pitch;
}

/* ---- the walk ---- */

/* A tile: its group, image and first cell; of its lines, columns that are written. */
typedef struct im2col_at {
    int64_t group, n, cell[2], low, high;
} im2col_at;

static im2col_at tile_of(const uf_im2col_conv *p, int64_t group, int64_t tile) {
    const uf_direct_axis *rows = &p->conv.axis[0], *columns = &p->conv.axis[1];
    im2col_at at = {.group = group};
    const int64_t down = tile / columns->tiles;
    at.n = down / rows->tiles;
    at.cell[0] = rows->cell_first + down % rows->tiles * rows->tile;
    at.cell[1] = columns->cell_first + tile % columns->tiles * p->across;
    at.low = columns->out_step * at.cell[1] - columns->out_shift + p->skip;
    at.high = at.low + p->take;
    return at;
}

/* Channels of a slice that are of a row phase. */
static void channels_of(const uf_im2col_conv *p, int64_t slice, int64_t phase,
                        int64_t channels[2]) {
    const int64_t written = p->conv.written_per_group;
    const int64_t first = slice * p->slice_pairs - phase * written;
    channels[0] = first > 0 ? least(first, written) : 0;
    channels[1] = least(first + p->slice_pairs, written);
    channels[1] = channels[1] < channels[0] ? channels[0] : channels[1];
}

typedef struct im2col_walk {
    plan_walk *walk;
    const plan_layer *layer;
    const uf_im2col_conv *p;
    int32_t (*found)[2]; /* by cell and pair of offsets */
} im2col_walk;

/* All offsets of a cell for the pairs of a slice that are of one row phase. */
static void walk_cell(const im2col_walk *of, const im2col_at *at, const int64_t cell[2],
                      int64_t phase, plan_term *term) {
    const uf_im2col_conv *p = of->p;
    const uf_direct_axis *rows = &p->conv.axis[0], *columns = &p->conv.axis[1];
    const bool dgrad = p->conv.dgrad;
    int64_t *const written = dgrad ? term->large : term->small;
    int64_t *const read = dgrad ? term->small : term->large;
    int64_t *const sum = dgrad ? term->k : term->c;
    const int32_t offsets = p->offsets[0] * p->offsets[1];
    for (int64_t i = 0; i < (int64_t)offsets * columns->live; ++i) {
        const int64_t live = i / offsets, r = i % offsets / p->offsets[1];
        const int64_t s = i % p->offsets[1];
        const uint8_t taps[2] = {p->row_tap[phase][r], p->column_tap[live][s]};
        const int32_t *found =
            of->found[(cell[0] * columns->tile + cell[1]) * offsets + i % offsets];
        written[1] =
            columns->out_step * (at->cell[1] + cell[1]) - columns->out_shift + columns->phase[live];
        if (taps[0] == UF_IM2COL_NONE || taps[1] == UF_IM2COL_NONE || written[1] < at->low ||
            written[1] >= at->high) {
            continue;
        }
        term->tap[0] = taps[0];
        term->tap[1] = taps[1];
        read[0] = at->cell[0] * rows->in_step + rows->low + found[0];
        read[1] = at->cell[1] * columns->in_step + columns->low + found[1];
        for (int64_t chunk = 0; chunk < p->conv.chunks; ++chunk) {
            sum[0] = chunk * p->conv.chunk;
            sum[1] = sum[0] + p->conv.chunk;
            plan_make(of->walk, term);
        }
    }
}

static void store_row(const im2col_walk *of, const im2col_at *at, plan_term *term) {
    int64_t *const written = of->p->conv.dgrad ? term->large : term->small;
    for (int64_t w = at->low; w < at->high; ++w) {
        written[1] = w;
        plan_store(of->walk, term);
    }
}

static void walk_slice(const im2col_walk *of, const im2col_at *at, int64_t slice) {
    const uf_direct_axis *rows = &of->p->conv.axis[0], *columns = &of->p->conv.axis[1];
    const bool dgrad = of->p->conv.dgrad;
    plan_term term = {.n = at->n, .group = at->group};
    for (int64_t i = 0; i < (int64_t)rows->tile * rows->live; ++i) {
        const int64_t phase = i % rows->live, row = i / rows->live;
        channels_of(of->p, slice, phase, dgrad ? term.c : term.k);
        (dgrad ? term.large : term.small)[0] =
            rows->out_step * (at->cell[0] + row) - rows->out_shift + rows->phase[phase];
        store_row(of, at, &term);
        for (int64_t column = 0; column < columns->tile; ++column) {
            const int64_t cell[2] = {row, column};
            walk_cell(of, at, cell, phase, &term);
        }
    }
}

/* Rows of phases without taps, of every so many-th channel. */
static void fill_rows(const im2col_walk *of, const im2col_at *at, int64_t part) {
    const uf_direct_axis *rows = &of->p->conv.axis[0];
    plan_term term = {.n = at->n, .group = at->group};
    int64_t *const channel = of->p->conv.dgrad ? term.c : term.k;
    for (int64_t i = 0; i < (int64_t)rows->out_step * rows->tile; ++i) {
        const int64_t phase = i % rows->out_step;
        if (rows->out_step == 1 || rows->map[phase] != UF_DIRECT_DEAD) {
            continue;
        }
        (of->p->conv.dgrad ? term.large : term.small)[0] =
            rows->out_step * (at->cell[0] + i / rows->out_step) - rows->out_shift + phase;
        for (int64_t c = part; c < of->p->conv.written_per_group; c += of->p->parts) {
            channel[0] = c;
            channel[1] = c + 1;
            store_row(of, at, &term);
        }
    }
}

static void find_all(const uf_im2col_conv *p, int32_t (*found)[2]) {
    const int32_t *const record_at = records_of(p);
    const int32_t offsets = p->offsets[0] * p->offsets[1], wide = p->conv.axis[1].tile;
    for (int32_t i = 0; i < p->cells * offsets; ++i) {
        const int32_t cell[2] = {i / offsets / wide, i / offsets % wide};
        const int32_t offset[2] = {i % offsets / p->offsets[1], i % p->offsets[1]};
        find(p, record_at, cell, offset, 0, found[i]);
    }
    free((void *)(uintptr_t)record_at);
}

static void walk_tiles(plan_walk *walk, const plan_layer *layer, const void *plan_of_it) {
    const uf_im2col_plan *plan = plan_of_it;
    const uf_im2col_conv *p = &plan->im2col;
    const int64_t families = (int64_t)p->conv.groups * p->parts;
    im2col_walk of = {walk, layer, p, NULL};
    of.found =
        test_allocate((size_t)(p->cells * p->offsets[0] * p->offsets[1] + 1) * sizeof *of.found);
    find_all(p, of.found);
    for (int64_t block = 0; block < plan->blocks; ++block) {
        const int64_t group = block % families / p->parts, part = block % p->parts;
        const int64_t first = part * p->part_slices;
        for (int64_t tile = block / families; tile < p->tiles; tile += p->each) {
            const im2col_at at = tile_of(p, group, tile);
            fill_rows(&of, &at, part);
            for (int64_t slice = first; slice < least(first + p->part_slices, p->slices); ++slice) {
                walk_slice(&of, &at, slice);
            }
        }
    }
    free(of.found);
}

/* ---- numbers ---- */

/* Bulk copies: what lies in shared memory lies as in memory, modulo 16 bytes, and whole ones do not
 * meet. Pairs that leave by lines: the same, within their slots. */
static void check_ways(const plan_layer *layer, const uf_im2col_plan *plan) {
    const uf_im2col_conv *p = &plan->im2col;
    const uf_direct_conv *conv = &p->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const uf_view *read = plan_read(layer), *written = plan_written(layer);
    const int64_t element = (int64_t)uf_dtype_size(read->dtype), vector = 16 / element;
    if (p->bulk) {
        assert_true(conv->pitch >= columns->span + vector - 1);
        assert_true(p->bulk_turns * 32 * p->warps >= conv->chunk * p->lines_in);
        assert_int_equal((conv->channel_words - read->stride[1]) % vector, 0);
        for (int32_t line = 1; line < p->lines_in; ++line) {
            const int64_t row = line % rows->coords * rows->in_step +
                                rows->residue[line / rows->coords] - rows->residue[0];
            assert_int_equal((line * (int64_t)conv->pitch - row * read->stride[2]) % vector, 0);
        }
        assert_true((int64_t)p->window_words * 4 >=
                    (int64_t)conv->chunk * conv->channel_words * element + 32);
    }
    if (p->lines) {
        const int64_t length = columns->tile * columns->out_step;
        assert_true(p->line_pitch >= length);
        assert_int_equal((p->line_pitch - rows->out_step * written->stride[2]) % vector, 0);
        assert_true(!p->flat || p->line_pitch == length);
        const int32_t unit = columns->live == 2 ? 32 : 16;
        assert_int_equal(p->stage_pitch % (2 * unit), unit);
        assert_true(p->stage_pitch >=
                    ((rows->tile - 1) * p->line_pitch + length + vector - 1) * element);
        const int32_t staged = p->rounds == 2 ? p->slice_pairs / 2 : p->slice_pairs;
        assert_true(staged * p->stage_pitch <= 4 * p->stage_words);
        assert_true(p->align_words >= p->part_slices * p->slice_pairs);
        assert_true(p->zero_words == 0 || p->zero_words * 4 >= length * element + 16);
        /* Places are told by 16 bits, the last of which is none. */
        assert_true(p->stage_pitch / element < (1 << 16) - 1);
    }
}

/* Everything that im2col/mainloop.cuh lays out has room. */
static void check_room(const uf_im2col_plan *plan) {
    const uf_im2col_conv *p = &plan->im2col;
    const int64_t words = p->window_words + p->record_words + p->weight_words + p->table_words +
                          p->source_words + 4 * ((int64_t)p->lines_in << p->share_bits) + 4 +
                          16 * (int64_t)plan->n + p->align_words +
                          (p->lines ? (1 + (int64_t)p->dead_turns) * plan->n * 8 : 0) +
                          p->zero_words + (p->own_stage ? p->stage_words : 0);
    assert_int_equal(plan->shared, 4 * words);
    if (!p->own_stage) {
        assert_true(p->stage_words <= p->record_words);
        assert_true(p->slices == 1 || p->conv.chunks > 1);
    }
}

/* Copies fill lines and stay aligned; everything has room. */
static void check_copies(const plan_layer *layer, const uf_im2col_conv *p) {
    const uf_direct_conv *conv = &p->conv;
    const uf_direct_axis *columns = &conv->axis[1];
    /* Eight neighbours' units are in all banks. */
    assert_int_equal(p->cell_column / 16 % 2, 1);
    assert_true(p->vectors * p->width >= columns->span);
    assert_true(p->vectors * p->width <= conv->pitch);
    assert_true(p->bulk || conv->pitch % 4 == 0);
    assert_true(!p->paired || (conv->pitch % 2 == 0 && conv->channel_words % 2 == 0));
    const int32_t first = columns->cell_first * columns->in_step + columns->low;
    assert_int_equal((first & (p->width - 1)), 0);
    if (columns->tiles > 1) {
        assert_int_equal(p->across * columns->in_step % p->width, 0);
    }
    assert_true((int64_t)p->window_words * 4 >=
                (int64_t)conv->chunk * conv->channel_words *
                    (int64_t)uf_dtype_size(plan_read(layer)->dtype));
    assert_true(p->record_words >= p->record * p->unit_plane * 4);
}

static void check_tiles(const uf_im2col_plan *plan) {
    const uf_im2col_conv *p = &plan->im2col;
    const uf_direct_conv *conv = &p->conv;
    const uf_direct_axis *columns = &conv->axis[1];
    const int32_t begin = columns->out_step * columns->cell_first - columns->out_shift;
    assert_true(begin + p->skip <= 0 && p->skip >= 0);
    assert_int_equal(p->take, p->across * columns->out_step);
    assert_true(p->skip + p->take <= columns->tile * columns->out_step);
    assert_true((int64_t)conv->axis[0].tile * conv->axis[0].tiles >= conv->axis[0].cells);
    assert_true(begin + p->skip + (int64_t)columns->tiles * p->take >= columns->written);
    assert_true((int64_t)conv->chunk * conv->chunks >= conv->read_per_group);
    assert_true(p->slice_pairs * p->slices >= p->pairs);
    assert_true(p->part_slices * p->parts >= p->slices);
    assert_true(p->skip == 0 || (begin + p->skip == 0 && !p->flat));
    assert_true(p->units == p->record * p->offsets[0] * (p->gathered ? 1 : p->offsets[1]));
    assert_true(2 * p->steps >= p->units);
    assert_int_equal(p->cells, conv->axis[0].tile * conv->axis[1].tile);
    assert_true(p->cells <= p->warps * plan->m * 16);
    assert_true(plan->m == uf_im2col_rows(plan->n, p->split_parts) ||
                plan->m == uf_im2col_fewer_rows(plan->n, p->split_parts));
    assert_true(p->slice_pairs * conv->axis[1].live <= 8 * plan->n);
    if (p->rounds == 2) {
        assert_int_equal(p->slice_pairs * conv->axis[1].live, 8 * plan->n);
        assert_int_equal(p->slice_pairs % 2, 0);
    }
    assert_int_equal(p->tiles, (int64_t)conv->batch * conv->axis[0].tiles * columns->tiles);
    assert_true(plan->blocks <= (int64_t)p->tiles * conv->groups * p->parts);
    assert_int_equal(plan->blocks, (int64_t)p->each * conv->groups * p->parts);
}

/* Some cells with all offsets, of any channel of a chunk: the place is that of the first one. */
static void check_channels(const uf_im2col_conv *p, test_random *random) {
    const int32_t *const record_at = records_of(p);
    const uf_direct_axis *axis = p->conv.axis;
    for (int i = 0; i < CELLS; ++i) {
        const int32_t cell[2] = {
            i == 0 ? axis[0].tile - 1 : (int32_t)test_random_integer(random, 0, axis[0].tile - 1),
            i == 0 ? axis[1].tile - 1 : (int32_t)test_random_integer(random, 0, axis[1].tile - 1)};
        for (int32_t j = 0; j < p->offsets[0] * p->offsets[1]; ++j) {
            const int32_t offset[2] = {j / p->offsets[1], j % p->offsets[1]};
            const int32_t c = (int32_t)test_random_integer(random, 0, p->conv.chunk - 1);
            int32_t one[2], other[2];
            find(p, record_at, cell, offset, 0, one);
            find(p, record_at, cell, offset, c, other);
            assert_memory_equal(one, other, sizeof one);
        }
    }
    free((void *)(uintptr_t)record_at);
}

/* The object holds the same plan, without addresses: launches bring their own. */
static void check_object(const plan_layer *layer, const uf_im2col_plan *plan) {
    const uf_conv_problem problem = tiled_problem_of(layer->direction, &layer->args, plan_tile());
    uf_conv_plan object;
    assert_true(uf_conv_plan_mma_im2col(&problem, &object));
    const uf_im2col_plan *own = UF_CONV_CONST_PLAN_OF(uf_im2col_plan, &object);
    assert_true(object.cost == plan->cost && object.workspace == 0);
    assert_int_equal(own->blocks, plan->blocks);
    assert_null(own->im2col.conv.read);
    assert_null(own->im2col.conv.weight);
    assert_null(own->im2col.conv.written);
}

static void check(const plan_layer *layer, const void *of, test_random *random) {
    const uf_im2col_plan *plan = of;
    check_object(layer, plan);
    check_channels(&plan->im2col, random);
    check_ways(layer, plan);
    check_room(plan);
    check_copies(layer, &plan->im2col);
    check_tiles(plan);
}

static bool plan_of(const plan_layer *layer, int tile, void *plan) {
    const uf_conv_problem problem = tiled_problem_of(layer->direction, &layer->args, tile);
    uf_conv_plan object;
    return uf_conv_plan_mma_im2col(&problem, &object) && uf_im2col_plan_of(&problem, plan);
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const uf_im2col_plan *plan = of;
    (void)layer;
    return (plan_facts){.cost = plan->cost,
                        .grid = {plan->blocks},
                        .threads = plan->threads,
                        .shared = (int64_t)plan->shared,
                        .most_shared = UF_IM2COL_SHARED};
}

static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_im2col_conv *p = &((const uf_im2col_plan *)of)->im2col;
    (void)layer;
    seen[0] += p->gathered;
    seen[1] += p->by_skew.divisor > 0;
    seen[2] += p->conv.chunks > 1;
    seen[3] += p->rounds > 1;
    seen[4] += p->bulk;
    seen[5] += p->lines;
    seen[6] += p->skip > 0;
    seen[7] += p->parts > 1;
    seen[8] += p->conv.axis[0].live < p->conv.axis[0].out_step;
}

static const plan_family family = {.name = "im2col",
                                   .directions = PLAN_FPROP | PLAN_DGRAD,
                                   .size = sizeof(uf_im2col_plan),
                                   .limits = &limits,
                                   .cases = 3000,
                                   .tiled = plan_of,
                                   .tiles = UF_IM2COL_TILE_NUMBERS,
                                   .facts = facts_of,
                                   .walk = walk_tiles,
                                   .check = check,
                                   .kinds = {"gathered", "skewed", "in chunks", "in two rounds",
                                             "bulk", "lines", "lines that begin late", "parts",
                                             "rows without taps"},
                                   .count = count,
                                   .least_walked = 100};

/* Weights and windows that leave a multiprocessor few warps of cells: the other warps of a block
 * move data. */
static void test_movers(void **state) {
    static const plan_sizes sizes = {.n = 16,
                                     .c = 64,
                                     .k = 32,
                                     .small = {64, 128},
                                     .kernel = {3, 3},
                                     .stride = {5, 5},
                                     .padding = {1, 1},
                                     .dilation = {2, 2},
                                     .groups = 1};
    const plan_layer layer = {UF_CONV_FPROP, plan_args_of(&sizes, UF_BF16, UF_MATH_BF16)};
    test_random random = test_random_for("im2col_movers", 0);
    uf_im2col_plan plan;
    (void)state;
    plan_examine(&family, &layer, &plan, &random);
    assert_int_equal(plan.im2col.warps, UF_IM2COL_WARPS);
    assert_int_equal(plan.threads, 32 * UF_IM2COL_WARPS);
    assert_true(plan.im2col.cells <= 16 * plan.m * UF_IM2COL_WARPS / 2);
    assert_false(plan.im2col.exact);
}

int main(void) {
    const struct CMUnitTest tests[] = {plan_unit_test(&family), cmocka_unit_test(test_movers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
