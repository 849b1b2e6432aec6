/* test_direct.c - the plan of simt_direct, fprop and dgrad: warps make and store every element of
 * their cells once, and runs of phases find in the window what their taps meet. Needs no GPU. */
#include "cuda/plan/walk.h"

#include "cuda/plan/helpers.h"
#include "kernels/cuda/conv/simt_direct/plan.h"

static const conv_limits limits = {.stride = 3,
                                   .large_stride = 9,
                                   .padding = 6,
                                   .dilation = 4,
                                   .kernel = 7,
                                   .extent = {2, 12, 40, 90},
                                   .batch = 9,
                                   .large_batch = 60,
                                   .small_channels = 9,
                                   .channels = 70,
                                   .groups = true,
                                   .bf16 = true};

/* Now and then rows that are about as long as what some warps hold. */
static void draw(test_random *random, plan_layer *layer) {
    layer->args = random_conv(random, &limits);
    if (test_random_one_in(random, 4)) {
        const int64_t stride = test_random_integer(random, 1, 2);
        const plan_sizes sizes = {
            .n = test_random_log(random, 1, 64),
            .c = test_random_integer(random, 1, 6),
            .k = test_random_integer(random, 1, 6),
            .small = {test_random_log(random, 2, 128),
                      128 * test_random_integer(random, 1, 6) - test_random_integer(random, 0, 9)},
            .kernel = {test_random_integer(random, 1, 3), test_random_integer(random, 1, 7)},
            .stride = {stride, stride},
            .padding = {0, test_random_integer(random, 0, 2)},
            .dilation = {1, 1},
            .groups = 1};
        layer->args = plan_args_of(&sizes, UF_F32, UF_MATH_FP32);
    }
}

/* A block's first cells, and one of its warps. */
typedef struct direct_at {
    int64_t n, group, slice, cell[2];
    int64_t first_channel, first_cell;
} direct_at;

static direct_at block_of(const uf_direct_conv *p, int64_t block) {
    const uf_direct_axis *rows = &p->axis[0], *columns = &p->axis[1];
    direct_at at = {.slice = block % p->slices};
    block /= p->slices;
    at.cell[1] = columns->cell_first + block % columns->tiles * columns->tile;
    block /= columns->tiles;
    at.cell[0] = rows->cell_first + block % rows->tiles * rows->tile;
    block /= rows->tiles;
    at.group = block % p->groups;
    at.n = block / p->groups;
    return at;
}

/* Row and column of a warp's cell of the tile; false: none. */
static bool cell_of(const uf_direct_conv *p, int64_t q, int64_t cell[2]) {
    cell[0] = divide(&p->by_pitch, q);
    cell[1] = q - cell[0] * p->pitch;
    assert_int_equal(cell[0], q / p->pitch);
    return cell[0] < p->axis[0].tile && cell[1] < p->axis[1].tile;
}

/* The element of the window, from its first, that lies at a word of a channel. */
static void find(const uf_direct_conv *p, int64_t word, int64_t found[2]) {
    const uf_direct_axis *rows = &p->axis[0], *columns = &p->axis[1];
    const int64_t plane = word / p->plane, coord = word % p->plane / p->pitch;
    const int64_t across = word % p->pitch;
    assert_true(word >= 0 && plane < (int64_t)rows->residues * columns->residues);
    assert_true(word < p->channel_words && coord < rows->coords && across < columns->coords);
    found[0] = coord * rows->in_step + rows->residue[plane / columns->residues];
    found[1] = across * columns->in_step + columns->residue[plane % columns->residues];
}

/* One tap of a row phase and one run of column phases, at all cells of a warp. */
static void walk_run(plan_walk *walk, const uf_direct_plan *plan, const direct_at *at, int32_t pass,
                     const uf_direct_row_tap *row, const uf_direct_run *run, plan_term *term) {
    const uf_direct_conv *p = &plan->conv;
    const uf_direct_axis *columns = &p->axis[1];
    int64_t *const written = p->dgrad ? term->large : term->small;
    int64_t *const read = p->dgrad ? term->small : term->large;
    int64_t *const sum = p->dgrad ? term->k : term->c;
    term->tap[0] = row->tap;
    for (int64_t i = 0; i < (int64_t)32 * plan->cells * run->count; ++i) {
        const int64_t q = at->first_cell + i / run->count, l = i % run->count;
        int64_t cell[2], found[2];
        if (!cell_of(p, q, cell)) {
            continue;
        }
        const int64_t live = pass * plan->phases + run->first + l, row_of_tile = written[0];
        assert_true(live < columns->live);
        find(p, q + row->offset + run->offset, found);
        term->tap[1] = p->column_tap[run->column + l];
        written[0] += p->axis[0].out_step * cell[0];
        written[1] =
            columns->out_step * (at->cell[1] + cell[1]) - columns->out_shift + columns->phase[live];
        for (int axis = 0; axis < 2; ++axis) {
            read[axis] = at->cell[axis] * p->axis[axis].in_step + p->axis[axis].low + found[axis];
        }
        for (int64_t chunk = 0; chunk < p->chunks; ++chunk) {
            sum[0] = chunk * p->chunk;
            sum[1] = sum[0] + p->chunk;
            plan_make(walk, term);
        }
        written[0] = row_of_tile;
    }
}

/* Columns of a warp's cells that a pass writes: those without taps leave with the first one. */
static void store_cells(plan_walk *walk, const uf_direct_plan *plan, const direct_at *at,
                        int32_t pass, plan_term *term) {
    const uf_direct_conv *p = &plan->conv;
    const uf_direct_axis *columns = &p->axis[1];
    int64_t *const written = p->dgrad ? term->large : term->small;
    const int64_t first = written[0];
    for (int64_t i = 0; i < (int64_t)32 * plan->cells * columns->out_step; ++i) {
        const int64_t phase = i % columns->out_step;
        const int32_t live = columns->out_step > 1 ? columns->map[phase] : 0;
        int64_t cell[2];
        if (cell_of(p, at->first_cell + i / columns->out_step, cell) &&
            (live == UF_DIRECT_DEAD ? pass == 0 : live / plan->phases == pass)) {
            written[0] = first + p->axis[0].out_step * cell[0];
            written[1] = columns->out_step * (at->cell[1] + cell[1]) - columns->out_shift + phase;
            plan_store(walk, term);
        }
    }
    written[0] = first;
}

/* All row phases of a warp, a few at a time. */
static void walk_warp(plan_walk *walk, const uf_direct_plan *plan, const direct_at *at,
                      int64_t row) {
    const uf_direct_conv *p = &plan->conv;
    const uf_direct_axis *rows = &p->axis[0];
    plan_term term = {.n = at->n, .group = at->group};
    int64_t *const channels = p->dgrad ? term.c : term.k;
    channels[0] = at->first_channel;
    channels[1] = at->first_channel + plan->channels;
    (p->dgrad ? term.large : term.small)[0] =
        rows->out_step * at->cell[0] - rows->out_shift + rows->phase[row];
    for (int32_t pass = 0; pass < p->passes; ++pass) {
        store_cells(walk, plan, at, pass, &term);
        for (int32_t t = p->row_begin[row]; t < p->row_begin[row + 1]; ++t) {
            for (int32_t r = p->pass_begin[pass]; r < p->pass_begin[pass + 1]; ++r) {
                walk_run(walk, plan, at, pass, &p->row[t], &p->run[r], &term);
            }
        }
    }
}

/* Rows of phases without taps. */
static void fill_rows(plan_walk *walk, const uf_direct_plan *plan, const direct_at *at) {
    const uf_direct_conv *p = &plan->conv;
    const uf_direct_axis *rows = &p->axis[0], *columns = &p->axis[1];
    plan_term term = {.n = at->n, .group = at->group};
    int64_t *const channels = p->dgrad ? term.c : term.k;
    int64_t *const written = p->dgrad ? term.large : term.small;
    const int64_t wide = (int64_t)columns->out_step * columns->tile;
    channels[0] = at->slice * p->warps_c * plan->channels;
    channels[1] = channels[0] + (int64_t)p->warps_c * plan->channels;
    for (int64_t i = 0; i < (int64_t)rows->tile * rows->out_step * wide; ++i) {
        const int64_t row = i / wide;
        if (rows->live < rows->out_step && rows->map[row % rows->out_step] == UF_DIRECT_DEAD) {
            written[0] = rows->out_step * at->cell[0] - rows->out_shift + row;
            written[1] = columns->out_step * at->cell[1] - columns->out_shift + i % wide;
            plan_store(walk, &term);
        }
    }
}

static void walk_blocks(plan_walk *walk, const plan_layer *layer, const void *of) {
    const uf_direct_plan *plan = of;
    const uf_direct_conv *p = &plan->conv;
    const int64_t cells = 32 * plan->cells;
    (void)layer;
    for (int64_t block = 0; block < plan->blocks; ++block) {
        direct_at at = block_of(p, block);
        fill_rows(walk, plan, &at);
        for (int64_t i = 0; i < (int64_t)p->warps_m * p->warps_c * p->axis[0].live; ++i) {
            const int64_t m = i % p->warps_m, c = i / p->warps_m % p->warps_c;
            at.first_cell = p->row_warps > 0
                                ? m / p->row_warps * p->pitch + m % p->row_warps * cells
                                : m * cells;
            at.first_channel = (at.slice * p->warps_c + c) * plan->channels;
            walk_warp(walk, plan, &at, i / p->warps_m / p->warps_c);
        }
    }
}

static void check(const plan_layer *layer, const void *of, test_random *random) {
    const uf_direct_plan *plan = of;
    const uf_direct_conv *p = &plan->conv;
    const int32_t warps = p->warps_m * p->warps_c * p->warps_h;
    (void)random;
    assert_int_equal(p->dgrad, layer->direction == UF_CONV_DGRAD);
    assert_true(plan->threads == 32 * warps && warps <= UF_DIRECT_WARPS);
    assert_int_equal(plan->blocks, (int64_t)p->batch * p->groups * p->slices * p->axis[0].tiles *
                                       p->axis[1].tiles);
    assert_true(p->row_warps == 0 || p->warps_m % p->row_warps == 0);
    for (int axis = 0; axis < 2; ++axis) {
        assert_true((int64_t)p->axis[axis].tile * p->axis[axis].tiles >= p->axis[axis].cells);
    }
    assert_true((int64_t)p->slices * p->warps_c * plan->channels >= p->written_per_group);
    assert_true((int64_t)p->chunk * p->chunks >= p->read_per_group);
    assert_true(p->buffers == 1 || (p->buffers == 2 && p->chunks > 1));
    /* The window and the weights of a chunk; results on their way out. */
    const int64_t taps = (int64_t)p->kernel[0] * p->kernel[1];
    assert_true((int64_t)p->chunk * p->channel_words <= p->input_words);
    assert_true(p->warps_c * taps * p->chunk * uf_direct_weight_step(plan->channels) <=
                p->weight_words);
    assert_true(4 * ((int64_t)p->buffers * (p->input_words + p->weight_words) +
                     (int64_t)warps * p->stage_words) <=
                (int64_t)plan->shared);
    assert_int_equal(p->input_words % 4, 0);
    if (p->vector) {
        assert_true(p->pitch % 4 == 0 && p->axis[1].in_step == 1);
    }
}

static bool plan_of(const plan_layer *layer, int tile, void *plan) {
    const uf_conv_problem problem = tiled_problem_of(layer->direction, &layer->args, tile);
    return uf_direct_plan_of(&problem, plan);
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const uf_direct_plan *plan = of;
    (void)layer;
    return (plan_facts){.cost = plan->cost,
                        .grid = {plan->blocks},
                        .threads = plan->threads,
                        .shared = (int64_t)plan->shared,
                        .most_shared = UF_DIRECT_SHARED};
}

static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_direct_conv *p = &((const uf_direct_plan *)of)->conv;
    (void)layer;
    seen[0] += p->passes > 1;
    seen[1] += p->chunks > 1;
    seen[2] += p->buffers > 1;
    seen[3] += p->slices > 1;
    seen[4] += p->row_warps > 0;
    seen[5] += p->warps_h > 1;
    seen[6] += p->warps_c > 1;
    seen[7] += p->vector;
    seen[8] += p->axis[0].live < p->axis[0].out_step;
    seen[9] += p->axis[1].residues > 1;
}

static const plan_family family = {
    .name = "simt_direct",
    .directions = PLAN_FPROP | PLAN_DGRAD,
    .size = sizeof(uf_direct_plan),
    .draw = draw,
    .cases = 1500,
    .tiled = plan_of,
    .tiles = 3,
    .facts = facts_of,
    .walk = walk_blocks,
    .check = check,
    .kinds = {"passes", "chunks", "two buffers", "slices", "warps side by side",
              "row phases shared", "channels shared", "vectors", "rows without taps", "residues"},
    .count = count,
    .least_walked = 100};

int main(void) {
    const struct CMUnitTest tests[] = {plan_unit_test(&family)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
