/* test_im2col_plan.c - windows, records, units and tiles of conv_im2col against the definition:
 * what a cell finds at an offset is what each phase's tap there meets, each tap is at one offset,
 * and tiles cover everything. Needs no GPU. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/random_conv.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/plan.h"
#include "kernels/cuda/conv/registry.h"
#include "plan_helpers.h"

enum { CASES = 3000, CELLS = 12 };

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

/* The element that tap `tap` of `axis` meets at written element `at`. */
static int64_t meets(const uf_conv_kernel_args *args, bool dgrad, int axis, int64_t at,
                     int64_t tap) {
    if (!dgrad) {
        return at * args->stride[axis] - args->padding[axis] + tap * args->dilation[axis];
    }
    const int64_t shifted = at + args->padding[axis] - tap * args->dilation[axis];
    assert_int_equal(shifted % args->stride[axis], 0);
    return shifted / args->stride[axis];
}

/* One cell at one pair of offsets, and channel c: all phases that have taps there. */
static void check_read(const uf_conv_kernel_args *args, bool dgrad, const uf_im2col_conv *im2col,
                       const int32_t *record_at, const int32_t cell[2], const int32_t offset[2],
                       int32_t c) {
    const uf_direct_conv *conv = &im2col->conv;
    const int32_t bytes = cell[0] * im2col->cell_row + cell[1] * im2col->cell_column +
                          im2col->row_offset[offset[0]] + im2col->column_offset[offset[1]];
    const int32_t element = im2col->gathered ? c * im2col->offsets[1] + offset[1] : c;
    assert_int_equal(bytes % 16, 0);
    assert_true(bytes >= 0 && bytes / 16 < im2col->unit_plane);
    assert_true(element < im2col->record * im2col->unit);
    int32_t place = record_at[bytes / 16];
    assert_true(place >= 0);
    if (im2col->gathered) {
        const int32_t line = place / conv->axis[1].tile;
        place = line * conv->pitch + place % conv->axis[1].tile * conv->axis[1].in_step +
                im2col->column_from[offset[1]];
    }
    const int32_t line = place / conv->pitch;
    const int32_t residue = line / conv->axis[0].coords;
    assert_true(place < conv->channel_words && residue < conv->axis[0].residues);
    assert_true(place % conv->pitch < conv->axis[1].span);
    const int64_t found[2] = {(int64_t)(line - residue * conv->axis[0].coords) *
                                      conv->axis[0].in_step +
                                  conv->axis[0].residue[residue],
                              place % conv->pitch};
    for (int axis = 0; axis < 2; ++axis) {
        const uf_direct_axis *a = &conv->axis[axis];
        for (int32_t phase = 0; phase < a->live; ++phase) {
            const uint8_t tap =
                (axis == 0 ? im2col->row_tap : im2col->column_tap)[phase][offset[axis]];
            const int64_t at = (int64_t)a->out_step * (a->cell_first + cell[axis]) - a->out_shift +
                               a->phase[phase];
            if (tap != UF_IM2COL_NONE) {
                assert_int_equal((int64_t)a->cell_first * a->in_step + a->low + found[axis],
                                 meets(args, dgrad, axis, at, tap));
            }
        }
    }
}

/* Bulk copies: what lies in shared memory lies as in memory, modulo 16 bytes, and whole ones do not
 * meet. Pairs that leave by lines: the same, within their slots. */
static void check_ways(const uf_conv_kernel_args *args, bool dgrad, const uf_im2col_plan *plan) {
    const uf_im2col_conv *im2col = &plan->im2col;
    const uf_direct_conv *conv = &im2col->conv;
    const uf_direct_axis *rows = &conv->axis[0], *columns = &conv->axis[1];
    const uf_view *read = dgrad ? &args->y : &args->x, *written = dgrad ? &args->x : &args->y;
    const int64_t element = (int64_t)uf_dtype_size(read->dtype), vector = 16 / element;
    if (im2col->bulk) {
        assert_true(conv->pitch >= columns->span + vector - 1);
        assert_true(im2col->bulk_turns * 32 * im2col->warps >= conv->chunk * im2col->lines_in);
        assert_int_equal((conv->channel_words - read->stride[1]) % vector, 0);
        for (int32_t line = 1; line < im2col->lines_in; ++line) {
            const int64_t row = line % rows->coords * rows->in_step +
                                rows->residue[line / rows->coords] - rows->residue[0];
            assert_int_equal((line * (int64_t)conv->pitch - row * read->stride[2]) % vector, 0);
        }
        assert_true((int64_t)im2col->window_words * 4 >=
                    (int64_t)conv->chunk * conv->channel_words * element + 32);
    }
    if (im2col->lines) {
        const int64_t length = columns->tile * columns->out_step;
        assert_true(im2col->line_pitch >= length);
        assert_int_equal((im2col->line_pitch - rows->out_step * written->stride[2]) % vector, 0);
        assert_true(!im2col->flat || im2col->line_pitch == length);
        const int32_t unit = columns->live == 2 ? 32 : 16;
        assert_int_equal(im2col->stage_pitch % (2 * unit), unit);
        assert_true(im2col->stage_pitch >=
                    ((rows->tile - 1) * im2col->line_pitch + length + vector - 1) * element);
        const int32_t staged = im2col->rounds == 2 ? im2col->slice_pairs / 2 : im2col->slice_pairs;
        assert_true(staged * im2col->stage_pitch <= 4 * im2col->stage_words);
        assert_true(im2col->align_words >= im2col->part_slices * im2col->slice_pairs);
        assert_true(im2col->zero_words == 0 || im2col->zero_words * 4 >= length * element + 16);
        /* Places are told by 16 bits, the last of which is none. */
        assert_true(im2col->stage_pitch / element < (1 << 16) - 1);
    }
    /* Everything that im2col/mainloop.cuh lays out has room. */
    const int64_t words = im2col->window_words + im2col->record_words + im2col->weight_words +
                          im2col->table_words + im2col->source_words +
                          4 * ((int64_t)im2col->lines_in << im2col->share_bits) + 4 +
                          16 * (int64_t)plan->n + im2col->align_words +
                          (im2col->lines ? (1 + (int64_t)im2col->dead_turns) * plan->n * 8 : 0) +
                          im2col->zero_words + (im2col->own_stage ? im2col->stage_words : 0);
    assert_int_equal(plan->shared, 4 * words);
    if (!im2col->own_stage) {
        assert_true(im2col->stage_words <= im2col->record_words);
        assert_true(im2col->slices == 1 || conv->chunks > 1);
    }
}

static void check(const uf_conv_kernel_args *args, bool dgrad, const uf_im2col_plan *plan,
                  test_random *random) {
    const uf_im2col_conv *im2col = &plan->im2col;
    const uf_direct_conv *conv = &im2col->conv;
    /* Each tap is at one offset of one phase. */
    for (int axis = 0; axis < 2; ++axis) {
        int32_t seen[UF_DIRECT_TAPS] = {0};
        for (int32_t phase = 0; phase < conv->axis[axis].live; ++phase) {
            for (int32_t i = 0; i < im2col->offsets[axis]; ++i) {
                const uint8_t tap = (axis == 0 ? im2col->row_tap : im2col->column_tap)[phase][i];
                if (tap != UF_IM2COL_NONE) {
                    ++seen[tap];
                }
            }
        }
        for (int64_t tap = 0; tap < args->w.extent[2 + axis]; ++tap) {
            assert_int_equal(seen[tap], 1);
        }
    }
    /* Tiles write all rows and, each a part of its lines, all columns. */
    const uf_direct_axis *columns = &conv->axis[1];
    assert_true((int64_t)conv->axis[0].tile * conv->axis[0].tiles >= conv->axis[0].cells);
    const int32_t begin = columns->out_step * columns->cell_first - columns->out_shift;
    assert_true(begin + im2col->skip <= 0 && im2col->skip >= 0);
    assert_int_equal(im2col->take, im2col->across * columns->out_step);
    assert_true(im2col->skip + im2col->take <= columns->tile * columns->out_step);
    assert_true(begin + im2col->skip + (int64_t)columns->tiles * im2col->take >= columns->written);
    if (im2col->skip > 0) {
        assert_int_equal(begin + im2col->skip, 0);
        assert_true(!im2col->flat);
    }
    int32_t *const record_at = malloc((size_t)im2col->unit_plane * sizeof *record_at);
    assert_non_null(record_at);
    memset(record_at, -1, (size_t)im2col->unit_plane * sizeof *record_at);
    const int32_t skew = (int32_t)im2col->by_skew.divisor;
    for (int32_t i = 0; i < im2col->records; ++i) {
        const int32_t slot = i + (skew > 0 ? i / skew : 0);
        assert_true(slot < im2col->unit_plane);
        assert_int_equal(record_at[slot], -1);
        record_at[slot] = i;
    }
    for (int i = 0; i < CELLS; ++i) {
        const int32_t cell[2] = {
            i == 0 ? conv->axis[0].tile - 1
                   : (int32_t)test_random_integer(random, 0, conv->axis[0].tile - 1),
            i == 0 ? conv->axis[1].tile - 1
                   : (int32_t)test_random_integer(random, 0, conv->axis[1].tile - 1)};
        for (int32_t r = 0; r < im2col->offsets[0]; ++r) {
            for (int32_t s = 0; s < im2col->offsets[1]; ++s) {
                const int32_t offset[2] = {r, s};
                check_read(args, dgrad, im2col, record_at, cell, offset,
                           (int32_t)test_random_integer(random, 0, conv->chunk - 1));
            }
        }
    }
    free(record_at);
    check_ways(args, dgrad, plan);
    /* Eight neighbours' units are in all banks. */
    assert_int_equal(im2col->cell_column / 16 % 2, 1);
    /* Copies fill lines and stay aligned; everything has room. */
    assert_true(im2col->vectors * im2col->width >= conv->axis[1].span);
    assert_true(im2col->vectors * im2col->width <= conv->pitch);
    assert_true(im2col->bulk || conv->pitch % 4 == 0);
    assert_true(!im2col->paired || (conv->pitch % 2 == 0 && conv->channel_words % 2 == 0));
    const uf_view *read = dgrad ? &args->y : &args->x;
    const int32_t first = conv->axis[1].cell_first * conv->axis[1].in_step + conv->axis[1].low;
    assert_int_equal((first & (im2col->width - 1)), 0);
    if (conv->axis[1].tiles > 1) {
        assert_int_equal(im2col->across * conv->axis[1].in_step % im2col->width, 0);
    }
    assert_true((int64_t)im2col->window_words * 4 >=
                (int64_t)conv->chunk * conv->channel_words * (int64_t)uf_dtype_size(read->dtype));
    assert_true(im2col->record_words >= im2col->record * im2col->unit_plane * 4);
    assert_true((int64_t)conv->chunk * conv->chunks >= conv->read_per_group);
    assert_true(im2col->units ==
                im2col->record * im2col->offsets[0] * (im2col->gathered ? 1 : im2col->offsets[1]));
    assert_true(2 * im2col->steps >= im2col->units);
    assert_int_equal(im2col->cells, conv->axis[0].tile * conv->axis[1].tile);
    assert_true(im2col->cells <= im2col->warps * plan->m * 16);
    assert_true(plan->m == uf_im2col_rows(plan->n, im2col->split_parts) ||
                plan->m == uf_im2col_fewer_rows(plan->n, im2col->split_parts));
    assert_true(im2col->slice_pairs * conv->axis[1].live <= 8 * plan->n);
    assert_true(im2col->slice_pairs * im2col->slices >= im2col->pairs);
    assert_true(im2col->part_slices * im2col->parts >= im2col->slices);
    if (im2col->rounds == 2) {
        assert_int_equal(im2col->slice_pairs * conv->axis[1].live, 8 * plan->n);
        assert_int_equal(im2col->slice_pairs % 2, 0);
    }
    assert_true(plan->shared <= UF_IM2COL_SHARED && plan->threads <= 32 * UF_IM2COL_WARPS);
    assert_true(plan->blocks >= 1 &&
                plan->blocks <= (int64_t)im2col->tiles * conv->groups * im2col->parts);
    assert_int_equal(plan->blocks % (conv->groups * im2col->parts), 0);
}

static bool planned(uf_conv_direction direction, const uf_conv_kernel_args *args,
                    uf_im2col_plan *plan) {
    const uf_conv_problem problem = problem_of(direction, args);
    return uf_im2col_plan_of(&problem, plan);
}

/* The object holds the same plan, without addresses: launches bring their own. */
static void check_object(uf_conv_direction direction, const uf_conv_kernel_args *args,
                         const uf_im2col_plan *plan) {
    const uf_conv_problem problem = problem_of(direction, args);
    uf_conv_plan object;
    assert_true(uf_conv_plan_mma_im2col(&problem, &object));
    const uf_im2col_plan *own = UF_CONV_CONST_PLAN_OF(uf_im2col_plan, &object);
    assert_true(object.cost == plan->cost && object.workspace == 0);
    assert_int_equal(own->blocks, plan->blocks);
    assert_null(own->im2col.conv.read);
    assert_null(own->im2col.conv.weight);
    assert_null(own->im2col.conv.written);
}

static void test_plans(void **state) {
    (void)state;
    int64_t taken = 0, gathered = 0, skewed = 0, chunks = 0, rounds = 0, bulk = 0, lines = 0;
    int64_t late = 0;
    for (int i = 0; i < CASES; ++i) {
        test_random random = test_random_for("thin_plan", i);
        const uf_conv_kernel_args args = random_conv(&random, &limits);
        for (int d = 0; d < 2; ++d) {
            uf_im2col_plan plan;
            if (planned(d == 0 ? UF_CONV_FPROP : UF_CONV_DGRAD, &args, &plan)) {
                check(&args, d == 1, &plan, &random);
                check_object(d == 0 ? UF_CONV_FPROP : UF_CONV_DGRAD, &args, &plan);
                ++taken;
                gathered += plan.im2col.gathered;
                skewed += plan.im2col.by_skew.divisor > 0;
                chunks += plan.im2col.conv.chunks > 1;
                rounds += plan.im2col.rounds > 1;
                bulk += plan.im2col.bulk;
                lines += plan.im2col.lines;
                late += plan.im2col.skip > 0;
            }
        }
    }
    print_message("%lld plans; gathered %lld, skewed %lld, in chunks %lld, in two rounds %lld, "
                  "bulk %lld, lines %lld, lines that begin late %lld\n",
                  (long long)taken, (long long)gathered, (long long)skewed, (long long)chunks,
                  (long long)rounds, (long long)bulk, (long long)lines, (long long)late);
    assert_true(gathered > 0 && skewed > 0 && chunks > 0 && rounds > 0 && bulk > 0 && lines > 0 &&
                late > 0);
}

/* Weights and windows that leave a multiprocessor few warps of cells: the other warps of a block
 * move data. */
static void test_movers(void **state) {
    (void)state;
    uf_conv_kernel_args args;
    uf_im2col_plan plan;
    memset(&args, 0, sizeof args);
    args.x = uf_view_nchw(NULL, UF_BF16, 16, 64, 318, 638);
    args.w = uf_view_nchw(NULL, UF_BF16, 32, 64, 3, 3);
    args.y = uf_view_nchw(NULL, UF_BF16, 16, 32, 64, 128);
    for (int axis = 0; axis < 2; ++axis) {
        args.stride[axis] = 5;
        args.padding[axis] = 1;
        args.dilation[axis] = 2;
    }
    args.groups = 1;
    args.math = UF_MATH_BF16;
    assert_true(planned(UF_CONV_FPROP, &args, &plan));
    assert_int_equal(plan.im2col.warps, UF_IM2COL_WARPS);
    assert_int_equal(plan.threads, 32 * UF_IM2COL_WARPS);
    assert_true(plan.im2col.cells <= 16 * plan.m * UF_IM2COL_WARPS / 2);
    assert_false(plan.im2col.exact);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans), cmocka_unit_test(test_movers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
