/* test_im2col.c - the plan of im2col, fprop and dgrad: tiles of cells make and store every element
 * once, and each offset of a cell finds in the records what its phases' taps meet. Needs no GPU. */
#include "cuda/plan/walk.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/conv/mma_few_channels/im2col/plan.h"

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
static int32_t *records_of(const uf_im2col_conv *thin) {
    int32_t *const record_at = test_allocate((size_t)thin->unit_plane * sizeof *record_at);
    const int32_t skew = (int32_t)thin->by_skew.divisor;
    memset(record_at, -1, (size_t)thin->unit_plane * sizeof *record_at);
    for (int32_t i = 0; i < thin->records; ++i) {
        const int32_t slot = i + (skew > 0 ? i / skew : 0);
        assert_true(slot < thin->unit_plane);
        assert_int_equal(record_at[slot], -1);
        record_at[slot] = i;
    }
    return record_at;
}

/* The element of the window, from its first, that a cell finds at a pair of offsets, for channel c. */
static void find(const uf_im2col_conv *thin, const int32_t *record_at, const int32_t cell[2],
                 const int32_t offset[2], int32_t c, int32_t found[2]) {
    const uf_direct_conv *conv = &thin->conv;
    const int32_t bytes = cell[0] * thin->cell_row + cell[1] * thin->cell_column +
                          thin->row_coord[offset[0]] + thin->column_coord[offset[1]];
    const int32_t element = thin->gathered ? c * thin->offsets[1] + offset[1] : c;
    assert_int_equal(bytes % 16, 0);
    assert_true(bytes >= 0 && bytes / 16 < thin->unit_plane);
    assert_true(element < thin->record * thin->unit);
    int32_t place = record_at[bytes / 16];
    assert_true(place >= 0);
    if (thin->gathered) {
        const int32_t line = place / conv->axis[1].tile;
        place = line * conv->pitch + place % conv->axis[1].tile * conv->axis[1].in_step +
                thin->column_from[offset[1]];
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

static im2col_at tile_of(const uf_im2col_conv *thin, int64_t group, int64_t tile) {
    const uf_direct_axis *rows = &thin->conv.axis[0], *columns = &thin->conv.axis[1];
    im2col_at at = {.group = group};
    const int64_t down = tile / columns->tiles;
    at.n = down / rows->tiles;
    at.cell[0] = rows->cell_first + down % rows->tiles * rows->tile;
    at.cell[1] = columns->cell_first + tile % columns->tiles * thin->across;
    at.low = columns->out_step * at.cell[1] - columns->out_shift + thin->skip;
    at.high = at.low + thin->take;
    return at;
}

/* Channels of a slice that are of a row phase. */
static void channels_of(const uf_im2col_conv *thin, int64_t slice, int64_t phase,
                        int64_t channels[2]) {
    const int64_t written = thin->conv.written_per_group;
    const int64_t first = slice * thin->slice_pairs - phase * written;
    channels[0] = first > 0 ? least(first, written) : 0;
    channels[1] = least(first + thin->slice_pairs, written);
    channels[1] = channels[1] < channels[0] ? channels[0] : channels[1];
}

typedef struct im2col_walk {
    plan_walk *walk;
    const plan_layer *layer;
    const uf_im2col_conv *thin;
    int32_t (*found)[2]; /* by cell and pair of offsets */
} im2col_walk;

/* All offsets of a cell for the pairs of a slice that are of one row phase. */
static void walk_cell(const im2col_walk *of, const im2col_at *at, const int64_t cell[2],
                      int64_t phase, plan_term *term) {
    const uf_im2col_conv *thin = of->thin;
    const uf_direct_axis *rows = &thin->conv.axis[0], *columns = &thin->conv.axis[1];
    const bool dgrad = thin->conv.dgrad;
    int64_t *const written = dgrad ? term->large : term->small;
    int64_t *const read = dgrad ? term->small : term->large;
    int64_t *const sum = dgrad ? term->k : term->c;
    const int32_t offsets = thin->offsets[0] * thin->offsets[1];
    for (int64_t i = 0; i < (int64_t)offsets * columns->live; ++i) {
        const int64_t live = i / offsets, r = i % offsets / thin->offsets[1];
        const int64_t s = i % thin->offsets[1];
        const uint8_t taps[2] = {thin->row_tap[phase][r], thin->column_tap[live][s]};
        const int32_t *found =
            of->found[(cell[0] * columns->tile + cell[1]) * offsets + i % offsets];
        written[1] = columns->out_step * (at->cell[1] + cell[1]) - columns->out_shift +
                     columns->phase[live];
        if (taps[0] == UF_IM2COL_NONE || taps[1] == UF_IM2COL_NONE || written[1] < at->low ||
            written[1] >= at->high) {
            continue;
        }
        term->tap[0] = taps[0];
        term->tap[1] = taps[1];
        read[0] = at->cell[0] * rows->in_step + rows->low + found[0];
        read[1] = at->cell[1] * columns->in_step + columns->low + found[1];
        for (int64_t chunk = 0; chunk < thin->conv.chunks; ++chunk) {
            sum[0] = chunk * thin->conv.chunk;
            sum[1] = sum[0] + thin->conv.chunk;
            plan_make(of->walk, term);
        }
    }
}

static void store_row(const im2col_walk *of, const im2col_at *at, plan_term *term) {
    int64_t *const written = of->thin->conv.dgrad ? term->large : term->small;
    for (int64_t w = at->low; w < at->high; ++w) {
        written[1] = w;
        plan_store(of->walk, term);
    }
}

static void walk_slice(const im2col_walk *of, const im2col_at *at, int64_t slice) {
    const uf_direct_axis *rows = &of->thin->conv.axis[0], *columns = &of->thin->conv.axis[1];
    const bool dgrad = of->thin->conv.dgrad;
    plan_term term = {.n = at->n, .group = at->group};
    for (int64_t i = 0; i < (int64_t)rows->tile * rows->live; ++i) {
        const int64_t phase = i % rows->live, row = i / rows->live;
        channels_of(of->thin, slice, phase, dgrad ? term.c : term.k);
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
    const uf_direct_axis *rows = &of->thin->conv.axis[0];
    plan_term term = {.n = at->n, .group = at->group};
    int64_t *const channel = of->thin->conv.dgrad ? term.c : term.k;
    for (int64_t i = 0; i < (int64_t)rows->out_step * rows->tile; ++i) {
        const int64_t phase = i % rows->out_step;
        if (rows->out_step == 1 || rows->map[phase] != UF_DIRECT_DEAD) {
            continue;
        }
        (of->thin->conv.dgrad ? term.large : term.small)[0] =
            rows->out_step * (at->cell[0] + i / rows->out_step) - rows->out_shift + phase;
        for (int64_t c = part; c < of->thin->conv.written_per_group; c += of->thin->parts) {
            channel[0] = c;
            channel[1] = c + 1;
            store_row(of, at, &term);
        }
    }
}

static void find_all(const uf_im2col_conv *thin, int32_t (*found)[2]) {
    const int32_t *const record_at = records_of(thin);
    const int32_t offsets = thin->offsets[0] * thin->offsets[1], wide = thin->conv.axis[1].tile;
    for (int32_t i = 0; i < thin->cells * offsets; ++i) {
        const int32_t cell[2] = {i / offsets / wide, i / offsets % wide};
        const int32_t offset[2] = {i % offsets / thin->offsets[1], i % thin->offsets[1]};
        find(thin, record_at, cell, offset, 0, found[i]);
    }
    free((void *)(uintptr_t)record_at);
}

static void walk_tiles(plan_walk *walk, const plan_layer *layer, const void *plan_of_it) {
    const uf_im2col_plan *plan = plan_of_it;
    const uf_im2col_conv *thin = &plan->im2col;
    const int64_t families = (int64_t)thin->conv.groups * thin->parts;
    im2col_walk of = {walk, layer, thin, NULL};
    of.found = test_allocate((size_t)(thin->cells * thin->offsets[0] * thin->offsets[1] + 1) *
                             sizeof *of.found);
    find_all(thin, of.found);
    for (int64_t block = 0; block < plan->blocks; ++block) {
        const int64_t group = block % families / thin->parts, part = block % thin->parts;
        const int64_t first = part * thin->part_slices;
        for (int64_t tile = block / families; tile < thin->tiles; tile += thin->each) {
            const im2col_at at = tile_of(thin, group, tile);
            fill_rows(&of, &at, part);
            for (int64_t slice = first;
                 slice < least(first + thin->part_slices, thin->slices); ++slice) {
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
    const uf_im2col_conv *thin = &plan->im2col;
    const uf_direct_conv *conv = &thin->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const uf_view *read = plan_read(layer), *written = plan_written(layer);
    const int64_t element = (int64_t)uf_dtype_size(read->dtype), vector = 16 / element;
    if (thin->bulk) {
        assert_true(conv->pitch >= columns->span + vector - 1);
        assert_true(thin->bulk_turns * 32 * thin->warps >= conv->chunk * thin->lines_in);
        assert_int_equal((conv->channel_words - read->stride[1]) % vector, 0);
        for (int32_t line = 1; line < thin->lines_in; ++line) {
            const int64_t row = line % rows->coords * rows->in_step +
                                rows->residue[line / rows->coords] - rows->residue[0];
            assert_int_equal((line * (int64_t)conv->pitch - row * read->stride[2]) % vector, 0);
        }
        assert_true((int64_t)thin->window_words * 4 >=
                    (int64_t)conv->chunk * conv->channel_words * element + 32);
    }
    if (thin->lines) {
        const int64_t length = columns->tile * columns->out_step;
        assert_true(thin->line_pitch >= length);
        assert_int_equal((thin->line_pitch - rows->out_step * written->stride[2]) % vector, 0);
        assert_true(!thin->flat || thin->line_pitch == length);
        const int32_t unit = columns->live == 2 ? 32 : 16;
        assert_int_equal(thin->stage_pitch % (2 * unit), unit);
        assert_true(thin->stage_pitch >=
                    ((rows->tile - 1) * thin->line_pitch + length + vector - 1) * element);
        const int32_t staged = thin->rounds == 2 ? thin->slice_pairs / 2 : thin->slice_pairs;
        assert_true(staged * thin->stage_pitch <= 4 * thin->stage_words);
        assert_true(thin->align_words >= thin->part_slices * thin->slice_pairs);
        assert_true(thin->zero_words == 0 || thin->zero_words * 4 >= length * element + 16);
        /* Places are told by 16 bits, the last of which is none. */
        assert_true(thin->stage_pitch / element < (1 << 16) - 1);
    }
}

/* Everything that im2col/mainloop.cuh lays out has room. */
static void check_room(const uf_im2col_plan *plan) {
    const uf_im2col_conv *thin = &plan->im2col;
    const int64_t words = thin->window_words + thin->record_words + thin->weight_words +
                          thin->table_words + thin->source_words +
                          4 * ((int64_t)thin->lines_in << thin->share_bits) + 4 +
                          16 * (int64_t)plan->n + thin->align_words +
                          (thin->lines ? (1 + (int64_t)thin->dead_turns) * plan->n * 8 : 0) +
                          thin->zero_words + (thin->stage_spacing ? thin->stage_words : 0);
    assert_int_equal(plan->shared, 4 * words);
    if (!thin->stage_spacing) {
        assert_true(thin->stage_words <= thin->record_words);
        assert_true(thin->slices == 1 || thin->conv.chunks > 1);
    }
}

/* Copies fill lines and stay aligned; everything has room. */
static void check_copies(const plan_layer *layer, const uf_im2col_conv *thin) {
    const uf_direct_conv *conv = &thin->conv;
    const uf_direct_axis *columns = &conv->axis[1];
    /* Eight neighbours' units are in all banks. */
    assert_int_equal(thin->cell_column / 16 % 2, 1);
    assert_true(thin->vectors * thin->width >= columns->span);
    assert_true(thin->vectors * thin->width <= conv->pitch);
    assert_true(thin->bulk || conv->pitch % 4 == 0);
    assert_true(!thin->paired || (conv->pitch % 2 == 0 && conv->channel_words % 2 == 0));
    const int32_t first = columns->cell_first * columns->in_step + columns->low;
    assert_int_equal((first & (thin->width - 1)), 0);
    if (columns->tiles > 1) {
        assert_int_equal(thin->across * columns->in_step % thin->width, 0);
    }
    assert_true((int64_t)thin->window_words * 4 >=
                (int64_t)conv->chunk * conv->channel_words *
                    (int64_t)uf_dtype_size(plan_read(layer)->dtype));
    assert_true(thin->record_words >= thin->record * thin->unit_plane * 4);
}

static void check_tiles(const uf_im2col_plan *plan) {
    const uf_im2col_conv *thin = &plan->im2col;
    const uf_direct_conv *conv = &thin->conv;
    const uf_direct_axis *columns = &conv->axis[1];
    const int32_t begin = columns->out_step * columns->cell_first - columns->out_shift;
    assert_true(begin + thin->skip <= 0 && thin->skip >= 0);
    assert_int_equal(thin->take, thin->across * columns->out_step);
    assert_true(thin->skip + thin->take <= columns->tile * columns->out_step);
    assert_true(thin->skip == 0 || (begin + thin->skip == 0 && !thin->flat));
    assert_true(thin->units ==
                thin->record * thin->offsets[0] * (thin->gathered ? 1 : thin->offsets[1]));
    assert_true(2 * thin->steps >= thin->units);
    assert_int_equal(thin->cells, conv->axis[0].tile * conv->axis[1].tile);
    assert_true(thin->cells <= thin->warps * plan->m * 16);
    assert_true(plan->m == uf_im2col_rows(plan->n, thin->half_tiles) ||
                plan->m == uf_im2col_fewer_rows(plan->n, thin->half_tiles));
    assert_true(thin->slice_pairs * conv->axis[1].live <= 8 * plan->n);
    if (thin->rounds == 2) {
        assert_int_equal(thin->slice_pairs * conv->axis[1].live, 8 * plan->n);
        assert_int_equal(thin->slice_pairs % 2, 0);
    }
    assert_int_equal(thin->tiles, (int64_t)conv->batch * conv->axis[0].tiles * columns->tiles);
    assert_true(plan->blocks <= (int64_t)thin->tiles * conv->groups * thin->parts);
    assert_int_equal(plan->blocks, (int64_t)thin->each * conv->groups * thin->parts);
}

/* Some cells with all offsets, of any channel of a chunk: the place is that of the first one. */
static void check_channels(const uf_im2col_conv *thin, test_random *random) {
    const int32_t *const record_at = records_of(thin);
    const uf_direct_axis *axis = thin->conv.axis;
    for (int i = 0; i < CELLS; ++i) {
        const int32_t cell[2] = {
            i == 0 ? axis[0].tile - 1 : (int32_t)test_random_integer(random, 0, axis[0].tile - 1),
            i == 0 ? axis[1].tile - 1 : (int32_t)test_random_integer(random, 0, axis[1].tile - 1)};
        for (int32_t j = 0; j < thin->offsets[0] * thin->offsets[1]; ++j) {
            const int32_t offset[2] = {j / thin->offsets[1], j % thin->offsets[1]};
            const int32_t c = (int32_t)test_random_integer(random, 0, thin->conv.chunk - 1);
            int32_t one[2], other[2];
            find(thin, record_at, cell, offset, 0, one);
            find(thin, record_at, cell, offset, c, other);
            assert_memory_equal(one, other, sizeof one);
        }
    }
    free((void *)(uintptr_t)record_at);
}

static void check(const plan_layer *layer, const void *of, test_random *random) {
    const uf_im2col_plan *plan = of;
    check_channels(&plan->im2col, random);
    check_ways(layer, plan);
    check_room(plan);
    check_copies(layer, &plan->im2col);
    check_tiles(plan);
}

static bool plan_of(const plan_layer *layer, void *plan) {
    return uf_im2col_plan_of(layer->direction, &layer->args, plan);
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
    const uf_im2col_conv *thin = &((const uf_im2col_plan *)of)->im2col;
    (void)layer;
    seen[0] += thin->gathered;
    seen[1] += thin->by_skew.divisor > 0;
    seen[2] += thin->conv.chunks > 1;
    seen[3] += thin->rounds > 1;
    seen[4] += thin->bulk;
    seen[5] += thin->lines;
    seen[6] += thin->skip > 0;
    seen[7] += thin->parts > 1;
    seen[8] += thin->conv.axis[0].live < thin->conv.axis[0].out_step;
}

static const plan_family family = {
    .name = "im2col",
    .directions = PLAN_FPROP | PLAN_DGRAD,
    .size = sizeof(uf_im2col_plan),
    .limits = &limits,
    .cases = 3000,
    .plan = plan_of,
    .facts = facts_of,
    .walk = walk_tiles,
    .check = check,
    .kinds = {"gathered", "skewed", "in chunks", "in two rounds", "bulk", "lines",
              "lines that begin late", "parts", "rows without taps"},
    .count = count,
    .least_walked = 100};

/* Weights and windows that leave a multiprocessor few warps of cells: the other warps of a block
 * move data. */
static void test_movers(void **state) {
    static const plan_sizes sizes = {.n = 16, .c = 64, .k = 32, .small = {64, 128},
                                     .kernel = {3, 3}, .stride = {5, 5}, .padding = {1, 1},
                                     .dilation = {2, 2}, .groups = 1};
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
