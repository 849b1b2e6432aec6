/* test_row_stream_dgrad_plan.c - steps and runs of conv_row_stream_dgrad against the definition: a
 * cell finds at each step what its phases' taps meet, every tap and channel is in one step, and
 * every byte of a plane leaves once, in whole sectors but at a run's ends. Needs no GPU. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/random_conv.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/dgrad_plan.h"
#include "kernels/cuda/conv/registry.h"
#include "plan_helpers.h"

enum { CASES = 3000, CELLS = 4, SECTOR = UF_ROW_STREAM_DGRAD_SECTOR };

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

/* The read element that tap `tap` of `axis` meets at written element `at`. */
static int64_t meets(const uf_conv_kernel_args *args, int axis, int64_t at, int64_t tap) {
    const int64_t shifted = at + args->padding[axis] - tap * args->dilation[axis];
    assert_int_equal(shifted % args->stride[axis], 0);
    return shifted / args->stride[axis];
}

static void check_steps(const uf_conv_kernel_args *args, const uf_row_stream_dgrad_conv *stream,
                        test_random *random) {
    const uf_direct_conv *conv = &stream->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const int32_t taps = conv->kernel[0] * conv->kernel[1];
    int32_t *const seen = calloc((size_t)(taps * stream->units), sizeof *seen);
    assert_non_null(seen);
    int32_t fragments = 0;
    for (int32_t phase = 0; phase < rows->live; ++phase) {
        assert_int_equal(stream->fragment_begin[phase], fragments);
        for (int32_t s = stream->step_begin[phase]; s < stream->step_begin[phase + 1]; ++s) {
            const uf_row_stream_dgrad_step *step = &stream->step[s];
            assert_true(step->row < stream->lines);
            for (int32_t l = 0; l < columns->live; ++l) {
                bool any = false;
                for (int i = 0; i < 2; ++i) {
                    assert_true(step->coord[i] >= 0 && step->coord[i] % 16 == 0);
                    const int32_t place = step->coord[i] / 16;
                    const int32_t offset = place % stream->records;
                    assert_int_equal(place / stream->records, step->unit[i]);
                    assert_true(step->unit[i] < stream->units);
                    /* The last cell of the last tile stays within its unit. */
                    assert_true(offset <= columns->span);
                    const uint8_t tap = step->column[i] == UF_ROW_STREAM_DGRAD_NONE
                                            ? UF_ROW_STREAM_DGRAD_NONE
                                            : stream->column_tap[l][step->column[i]];
                    if (tap == UF_ROW_STREAM_DGRAD_NONE) {
                        continue;
                    }
                    any = true;
                    ++seen[(step->row_tap * conv->kernel[1] + tap) * stream->units + step->unit[i]];
                    for (int k = 0; k < CELLS; ++k) {
                        const int64_t cell[2] = {
                            rows->cell_first + test_random_integer(random, 0, rows->cells - 1),
                            columns->cell_first +
                                test_random_integer(random, 0, columns->cells - 1)};
                        const int64_t h =
                            rows->out_step * cell[0] - rows->out_shift + rows->phase[phase];
                        const int64_t w =
                            columns->out_step * cell[1] - columns->out_shift + columns->phase[l];
                        assert_int_equal(cell[0] + rows->low + step->row,
                                         meets(args, 0, h, step->row_tap));
                        assert_int_equal(cell[1] + columns->low + offset, meets(args, 1, w, tap));
                    }
                }
                assert_int_equal(any, step->mask >> l & 1);
                fragments += any;
            }
        }
    }
    assert_int_equal(stream->fragment_begin[rows->live], fragments);
    assert_true(2 * fragments <= UF_ROW_STREAM_DGRAD_FRAGMENT_BYTES);
    for (int32_t i = 0; i < taps * stream->units; ++i) {
        assert_int_equal(seen[i], 1);
    }
    free(seen);
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
    const int32_t cells = stream->tiles * uf_row_stream_dgrad_cells(plan->phases);
    assert_true(plan->shared <= UF_ROW_STREAM_DGRAD_SHARED);
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

static bool planned(uf_conv_direction direction, const uf_conv_kernel_args *args,
                    uf_row_stream_dgrad_plan *plan) {
    const uf_conv_problem problem = problem_of(direction, args);
    return uf_row_stream_dgrad_plan_of(&problem, plan);
}

/* The object holds the same plan, without addresses: launches bring their own. */
static void check_object(uf_conv_direction direction, const uf_conv_kernel_args *args,
                         const uf_row_stream_dgrad_plan *plan) {
    const uf_conv_problem problem = problem_of(direction, args);
    uf_conv_plan object;
    assert_true(uf_conv_plan_mma_row_stream_dgrad(&problem, &object));
    const uf_row_stream_dgrad_plan *own = UF_CONV_CONST_PLAN_OF(uf_row_stream_dgrad_plan, &object);
    assert_true(object.cost == plan->cost && object.workspace == 0);
    assert_int_equal(own->blocks, plan->blocks);
    assert_null(own->stream.conv.read);
    assert_null(own->stream.conv.weight);
    assert_null(own->stream.conv.written);
}

static void test_plans(void **state) {
    (void)state;
    int64_t taken = 0, slices = 0, dead = 0, odd = 0;
    for (int i = 0; i < CASES; ++i) {
        test_random random = test_random_for("stream_dgrad_plan", i);
        const uf_conv_kernel_args args = random_conv(&random, &limits);
        uf_row_stream_dgrad_plan plan;
        assert_false(planned(UF_CONV_FPROP, &args, &plan));
        if (planned(UF_CONV_DGRAD, &args, &plan)) {
            const int64_t element = (int64_t)uf_dtype_size(args.x.dtype);
            check_object(UF_CONV_DGRAD, &args, &plan);
            check_steps(&args, &plan.stream, &random);
            check_runs(&plan.stream, element, &random);
            check_shared(&plan, args.x.extent[3] * element);
            ++taken;
            slices += plan.stream.slices > 1;
            dead += plan.stream.conv.axis[0].live < plan.stream.conv.axis[0].out_step;
            odd += plan.stream.units % 2;
        }
    }
    print_message("%lld plans; in slices %lld, rows without taps %lld, units odd %lld\n",
                  (long long)taken, (long long)slices, (long long)dead, (long long)odd);
    assert_true(slices > 0 && dead > 0 && odd > 0);
}

/* What it was made for, and what it leaves to others. */
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans), cmocka_unit_test(test_takes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
