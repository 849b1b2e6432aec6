/* test_row_stream_dgrad.c - the plan of row_stream, dgrad: runs of cells make every product once
 * with the steps of their phases, and every byte of a plane leaves once, in whole sectors but at a
 * run's ends. Needs no GPU. */
#include "cuda/plan/walk.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/plan/helpers.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/dgrad_plan.h"
#include "kernels/cuda/conv/registry.h"

enum { SECTOR = UF_ROW_STREAM_DGRAD_SECTOR, NONE = UF_ROW_STREAM_DGRAD_NONE };

static const conv_limits limits = {.stride = 3,
                                   .large_stride = 7,
                                   .padding = 6,
                                   .dilation = 4,
                                   .kernel = 6,
                                   .extent = {12, 40, 90, 150},
                                   .batch = 3,
                                   .large_batch = 90,
                                   .small_channels = 9,
                                   .channels = 40,
                                   .groups = true,
                                   .bf16 = true};

/* ---- the walk ---- */

static bool planned(uf_conv_direction direction, const uf_conv_kernel_args *args,
                    uf_row_stream_dgrad_plan *plan) {
    const uf_conv_problem problem = problem_of(direction, args);
    return uf_row_stream_dgrad_plan_of(&problem, plan);
}

/* One step of a row of cells: two units, for each column phase that has a tap there. */
static void walk_step(plan_walk *walk, const plan_layer *layer,
                      const uf_row_stream_dgrad_plan *plan, const uf_row_stream_dgrad_step *step,
                      plan_term term) {
    const uf_row_stream_dgrad_conv *stream = &plan->stream;
    const uf_direct_axis *columns = &stream->conv.axis[1];
    const bool bf16 = layer->args.x.dtype == UF_BF16 || layer->args.math == UF_MATH_BF16;
    const int64_t unit = bf16 ? 8 : 4;
    const int32_t cells = stream->tiles * UF_ROW_STREAM_DGRAD_CELLS;
    term.tap[0] = step->row_tap;
    for (int32_t i = 0; i < 2 * columns->live; ++i) {
        const int32_t which = i % 2, live = i / 2;
        const uint8_t tap =
            step->column[which] == NONE ? NONE : stream->column_tap[live][step->column[which]];
        if (tap == NONE || (step->mask >> live & 1) == 0) {
            continue;
        }
        const int32_t place = step->coord[which] / 16;
        term.tap[1] = tap;
        term.k[0] = place / stream->records * unit;
        term.k[1] = term.k[0] + unit;
        for (int32_t cell = columns->cell_first; cell < columns->cell_first + cells; ++cell) {
            term.small[1] = cell + columns->low + place % stream->records;
            term.large[1] = columns->out_step * cell - columns->out_shift + columns->phase[live];
            plan_make(walk, &term);
        }
    }
}

static void store_row(plan_walk *walk, const uf_row_stream_dgrad_conv *stream, plan_term term) {
    for (int64_t w = 0; w < stream->conv.axis[1].written; ++w) {
        term.large[1] = w;
        plan_store(walk, &term);
    }
}

/* A row of cells with all its phases; those without taps are filled. */
static void walk_cell(plan_walk *walk, const plan_layer *layer,
                      const uf_row_stream_dgrad_plan *plan, int32_t cell, plan_term term) {
    const uf_row_stream_dgrad_conv *stream = &plan->stream;
    const uf_direct_axis *rows = &stream->conv.axis[0];
    const int32_t base = rows->out_step * cell - rows->out_shift;
    for (int32_t phase = 0; phase < rows->live; ++phase) {
        term.large[0] = base + rows->phase[phase];
        if (term.large[0] < 0 || term.large[0] >= rows->written) {
            continue;
        }
        store_row(walk, stream, term);
        for (int32_t s = stream->step_begin[phase]; s < stream->step_begin[phase + 1]; ++s) {
            term.small[0] = cell + rows->low + stream->step[s].row;
            walk_step(walk, layer, plan, &stream->step[s], term);
        }
    }
    for (int32_t phase = 0; phase < rows->out_step; ++phase) {
        if (rows->out_step > 1 && rows->map[phase] == UF_DIRECT_DEAD) {
            term.large[0] = base + phase;
            store_row(walk, stream, term);
        }
    }
}

static void walk_runs(plan_walk *walk, const plan_layer *layer, const void *of) {
    const uf_row_stream_dgrad_plan *plan = of;
    const uf_row_stream_dgrad_conv *stream = &plan->stream;
    const uf_direct_axis *rows = &stream->conv.axis[0];
    const int64_t all = (int64_t)stream->families * rows->cells;
    plan_claim(walk, 0, UF_ROW_STREAM_DGRAD_FIXED, 128);
    plan_claim(walk, stream->fill_at, (int64_t)stream->fills * stream->fill_bytes, 16);
    plan_claim(walk, stream->weight_at,
               (stream->fill_at > stream->weight_at ? stream->fill_at : stream->ring_at) -
                   stream->weight_at,
               16);
    plan_claim(walk, stream->ring_at, (int64_t)stream->ring * stream->line_bytes, 16);
    plan_claim(walk, stream->stage_at, (int64_t)stream->stages * stream->stage_bytes, 16);
    for (int64_t block = 0; block < plan->blocks; ++block) {
        const int64_t begin = block * all / plan->blocks, until = (block + 1) * all / plan->blocks;
        plan_share(walk, begin, until, all);
        for (int64_t at = begin; at < until; ++at) {
            const int64_t family = at / rows->cells, rest = family / stream->slices;
            const int64_t first = family % stream->slices * UF_ROW_STREAM_DGRAD_CHANNELS;
            const plan_term term = {.n = rest / stream->conv.groups,
                                    .group = rest % stream->conv.groups,
                                    .c = {first, first + UF_ROW_STREAM_DGRAD_CHANNELS}};
            walk_cell(walk, layer, plan, rows->cell_first + (int32_t)(at % rows->cells), term);
        }
    }
}

/* ---- numbers ---- */

/* A fragment of weights is a step and a phase across that has a tap there. */
static void check_steps(const uf_row_stream_dgrad_conv *stream) {
    const uf_direct_axis *rows = &stream->conv.axis[0], *columns = &stream->conv.axis[1];
    int32_t fragments = 0;
    for (int32_t phase = 0; phase < rows->live; ++phase) {
        assert_int_equal(stream->fragment_begin[phase], fragments);
        for (int32_t s = stream->step_begin[phase]; s < stream->step_begin[phase + 1]; ++s) {
            const uf_row_stream_dgrad_step *step = &stream->step[s];
            assert_true(step->row < stream->lines);
            for (int32_t i = 0; i < 2 * columns->live; ++i) {
                const int32_t which = i % 2, place = step->coord[which] / 16;
                assert_true(step->coord[which] >= 0 && step->coord[which] % 16 == 0);
                assert_int_equal(place / stream->records, step->unit[which]);
                assert_true(step->unit[which] < stream->units);
                /* The last cell of the last tile stays within its unit. */
                assert_true(place % stream->records <= columns->span);
            }
            for (int32_t l = 0; l < columns->live; ++l) {
                bool any = false;
                for (int i = 0; i < 2; ++i) {
                    any = any || (step->column[i] != NONE &&
                                  stream->column_tap[l][step->column[i]] != NONE);
                }
                assert_int_equal(any, step->mask >> l & 1);
                fragments += any;
            }
        }
    }
    assert_int_equal(stream->fragment_begin[rows->live], fragments);
    assert_true(2 * fragments <= UF_ROW_STREAM_DGRAD_FRAGMENT_BYTES);
}

static void leave(uint8_t *plane, int64_t at, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        ++plane[at + i];
    }
}

/* Rows without taps from h to `end`; `at` is where the plane begins, modulo a sector. */
static void fill(const uf_row_stream_dgrad_conv *stream, uint8_t *plane, int64_t at, int64_t bytes,
                 int32_t h, int32_t end, int32_t run_begin, int32_t run_end) {
    const int64_t from = at + h * bytes, skew = from % SECTOR;
    const int32_t until = (int32_t)(skew + (end - h) * bytes);
    const uf_row_stream_dgrad_span span =
        uf_row_stream_dgrad_span_of((int32_t)skew, until, false, false);
    assert_true(span.low <= span.high);
    assert_true(stream->fill_bytes > 0 && stream->fill_bytes % SECTOR == 0);
    leave(plane, from - skew + span.low, span.high - span.low);
    if (h == run_begin) {
        leave(plane, from, span.low - skew);
    }
    if (end == run_end) {
        leave(plane, from - skew + span.high, until - span.high);
    }
}

/* A channel's plane, cut into runs anywhere: what row_stream/dgrad_mainloop.cuh's writers do. */
static void check_runs(const uf_row_stream_dgrad_conv *stream, int64_t element,
                       test_random *random) {
    const uf_direct_axis *rows = &stream->conv.axis[0];
    const int64_t bytes = stream->conv.axis[1].written * element;
    const int64_t at = test_random_integer(random, 0, SECTOR / element - 1) * element;
    const int64_t all = at + rows->written * bytes;
    uint8_t *const plane = calloc((size_t)all + SECTOR, 1);
    assert_non_null(plane);
    for (int32_t first = 0, cells; first < rows->cells; first += cells) {
        cells = (int32_t)test_random_integer(random, 1, rows->cells - first);
        const int32_t base = rows->out_step * (rows->cell_first + first) - rows->out_shift;
        const int32_t begin = base > 0 ? base : 0;
        const int32_t last = base + rows->out_step * cells;
        const int32_t end = last < rows->written ? last : rows->written;
        bool any = false;
        int64_t carried = 0;
        for (int32_t i = 0; i < cells * rows->live; ++i) {
            const int32_t from = base + i / rows->live * rows->out_step;
            const int32_t phase = i % rows->live, h = from + rows->phase[phase];
            if (h < 0 || h >= rows->written) {
                continue;
            }
            if (!any && h > begin) {
                fill(stream, plane, at, bytes, begin, h, begin, end);
            }
            any = true;
            const uf_row_stream_dgrad_row row =
                uf_row_stream_dgrad_row_of(rows, from, phase, begin, end);
            const int64_t to = at + h * bytes, skew = to % SECTOR;
            const uf_row_stream_dgrad_span span = uf_row_stream_dgrad_span_of(
                (int32_t)skew, (int32_t)(skew + bytes), row.head != UF_ROW_STREAM_DGRAD_ALONE,
                row.tail == UF_ROW_STREAM_DGRAD_FILLED);
            assert_true(span.low >= 0 && span.low <= span.high);
            assert_true(span.high <= stream->stage_pitch);
            leave(plane, to - skew + span.low, span.high - span.low);
            if (row.head == UF_ROW_STREAM_DGRAD_ALONE) {
                assert_int_equal(h, begin);
                leave(plane, to, span.low - skew);
            } else if (row.head == UF_ROW_STREAM_DGRAD_CARRIED) {
                assert_int_equal(carried, skew);
            }
            carried = row.tail == UF_ROW_STREAM_DGRAD_CARRIED ? skew + bytes - span.high : -1;
            if (row.tail == UF_ROW_STREAM_DGRAD_ALONE) {
                assert_int_equal(h + 1, end);
                leave(plane, to - skew + span.high, skew + bytes - span.high);
            }
            if (row.behind > h + 1) {
                assert_true(row.tail == UF_ROW_STREAM_DGRAD_FILLED);
                fill(stream, plane, at, bytes, h + 1, row.behind, begin, end);
            }
        }
        if (!any && end > begin) {
            fill(stream, plane, at, bytes, begin, end, begin, end);
        }
    }
    for (int64_t i = 0; i < all; ++i) {
        assert_int_equal(plane[i], i >= at);
    }
    free(plane);
}

static void check_shared(const uf_row_stream_dgrad_plan *plan, int64_t row_bytes) {
    const uf_row_stream_dgrad_conv *stream = &plan->stream;
    const uf_direct_axis *columns = &stream->conv.axis[1];
    const int32_t cells = stream->tiles * UF_ROW_STREAM_DGRAD_CELLS;
    assert_true(cells >= columns->cells && stream->records >= cells + columns->span);
    assert_int_equal(stream->plane, 16 * stream->records);
    assert_true(stream->line_bytes == stream->small || stream->line_bytes == 2 * stream->small);
    assert_int_equal(stream->small, stream->units * stream->plane);
    assert_true(stream->ring > stream->lines && stream->stages >= 2);
    assert_true(16 * (stream->ring + stream->stages) <= UF_ROW_STREAM_DGRAD_BARRIER_BYTES);
    /* Nobody passes a barrier by twice. */
    assert_true(stream->mmas >= 1 && stream->mmas <= stream->tiles * stream->stages);
    assert_true(stream->mmas <= UF_ROW_STREAM_DGRAD_MMAS);
    assert_true(stream->producers >= 1 && stream->producers <= stream->ring);
    /* Lines of a stage are at multiples of 16 bytes, an odd number of these apart. */
    assert_int_equal(stream->stage_pitch % 32, 16);
    assert_true(stream->stage_pitch >= row_bytes + SECTOR - 1);
    assert_int_equal((stream->weight_at | stream->fill_at | stream->ring_at | stream->stage_at |
                      stream->stage_bytes | stream->line_bytes | stream->fill_bytes) %
                         16,
                     0);
    assert_true(stream->ring_at + stream->ring * stream->line_bytes <= stream->stage_at);
    assert_true((size_t)stream->stage_at + (size_t)(stream->stages * stream->stage_bytes) <=
                plan->shared);
    assert_true(plan->blocks >= 1 &&
                plan->blocks <= (int64_t)stream->families * stream->conv.axis[0].cells);
}

/* The object holds the same plan, without addresses: launches bring their own. */
static void check_object(const plan_layer *layer, const uf_row_stream_dgrad_plan *plan) {
    const uf_conv_problem problem = problem_of(layer->direction, &layer->args);
    uf_conv_plan object;
    assert_true(uf_conv_plan_mma_row_stream_dgrad(&problem, &object));
    const uf_row_stream_dgrad_plan *own = UF_CONV_CONST_PLAN_OF(uf_row_stream_dgrad_plan, &object);
    assert_true(object.cost == plan->cost && object.workspace == 0);
    assert_int_equal(own->blocks, plan->blocks);
    assert_null(own->stream.conv.read);
    assert_null(own->stream.conv.weight);
    assert_null(own->stream.conv.written);
}

static void check(const plan_layer *layer, const void *of, test_random *random) {
    const uf_row_stream_dgrad_plan *plan = of;
    const uf_conv_kernel_args *args = &layer->args;
    const int64_t element = (int64_t)uf_dtype_size(args->x.dtype);
    check_object(layer, plan);
    uf_row_stream_dgrad_plan none;
    assert_false(planned(UF_CONV_FPROP, args, &none));
    assert_true((int64_t)plan->stream.slices * UF_ROW_STREAM_DGRAD_CHANNELS >=
                plan->stream.conv.written_per_group);
    check_steps(&plan->stream);
    check_runs(&plan->stream, element, random);
    check_shared(plan, args->x.extent[3] * element);
}

static bool plan_of(const plan_layer *layer, void *plan) {
    return planned(layer->direction, &layer->args, plan);
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const uf_row_stream_dgrad_plan *plan = of;
    (void)layer;
    return (plan_facts){.cost = plan->cost,
                        .grid = {plan->blocks},
                        .threads = plan->threads,
                        .shared = (int64_t)plan->shared,
                        .most_shared = UF_ROW_STREAM_DGRAD_SHARED};
}

static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_row_stream_dgrad_conv *stream = &((const uf_row_stream_dgrad_plan *)of)->stream;
    (void)layer;
    seen[0] += stream->slices > 1;
    seen[1] += stream->conv.axis[0].live < stream->conv.axis[0].out_step;
    seen[2] += stream->units % 2;
}

static const plan_family family = {.name = "row_stream dgrad",
                                   .directions = PLAN_DGRAD,
                                   .size = sizeof(uf_row_stream_dgrad_plan),
                                   .limits = &limits,
                                   .cases = 3000,
                                   .plan = plan_of,
                                   .facts = facts_of,
                                   .walk = walk_runs,
                                   .check = check,
                                   .kinds = {"in slices", "rows without taps", "units odd"},
                                   .count = count,
                                   .least_walked = 20};

/* Its own layers, and those that it leaves to others. */
static void test_takes(void **state) {
    (void)state;
    uf_conv_kernel_args args;
    uf_row_stream_dgrad_plan plan;
    memset(&args, 0, sizeof args);
    args.x = uf_view_nchw(NULL, UF_F32, 16, 64, 257, 766);
    args.w = uf_view_nchw(NULL, UF_F32, 32, 16, 3, 5);
    args.y = uf_view_nchw(NULL, UF_F32, 16, 32, 128, 256);
    args.stride[0] = 2;
    args.stride[1] = 3;
    args.padding[0] = 1;
    args.padding[1] = 2;
    args.dilation[0] = 2;
    args.dilation[1] = 1;
    args.groups = 4;
    args.math = UF_MATH_FP32;
    assert_true(planned(UF_CONV_DGRAD, &args, &plan));
    assert_int_equal(plan.phases, 3);
    args.mode = UF_ACCUMULATE;
    assert_false(planned(UF_CONV_DGRAD, &args, &plan));
    args.mode = UF_OVERWRITE;
    args.epilogue.activation.kind = UF_ACTIVATION_RELU;
    assert_false(planned(UF_CONV_DGRAD, &args, &plan));
    args.epilogue.activation.kind = UF_ACTIVATION_IDENTITY;
    args.x.stride[2] += 2;
    assert_false(planned(UF_CONV_DGRAD, &args, &plan));
}

int main(void) {
    const struct CMUnitTest tests[] = {plan_unit_test(&family), cmocka_unit_test(test_takes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
