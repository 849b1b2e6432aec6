/* test_wgmma_geometry.c - windows, taps and tiles of the warpgroup kernel against the definition:
 * every product of a convolution is found once, at the row of a window that a descriptor would
 * name, and nothing lies outside. Needs no GPU. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/random_conv.h"
#include "kernels/cuda/conv/wgmma_implicit_gemm/plan.h"
#include "kernels/geometry.h"

enum { CASES = 400 };

static const conv_limits limits = {.stride = 3,
                                   .large_stride = 3,
                                   .padding = 3,
                                   .dilation = 3,
                                   .kernel = 5,
                                   .extent = {1, 20, 20, 200},
                                   .batch = 40,
                                   .large_batch = 40,
                                   .small_channels = 32,
                                   .channels = 150,
                                   .bf16 = true};

/* Written elements (h, w) of one phase pair, by element of the phase. */
static uf_axis_walk walk_of(uf_conv_direction direction, const uf_conv_kernel_args *args, int axis,
                            int64_t phase) {
    return direction == UF_CONV_DGRAD
               ? uf_axis_dgrad(args->x.extent[2 + axis], args->w.extent[2 + axis],
                               args->stride[axis], args->padding[axis], args->dilation[axis], phase)
               : uf_axis_fprop(args->y.extent[2 + axis], args->w.extent[2 + axis],
                               args->stride[axis], args->padding[axis], args->dilation[axis]);
}

/* A row of a window: which image of the tile, which position. */
typedef struct row_coord {
    int64_t image, y, x;
} row_coord;

static row_coord coord_of_row(const uf_wgmma_geometry *g, int64_t row) {
    const uf_wgmma_axis *down = &g->axis[0], *across = &g->axis[1];
    const int64_t image_across = row & ((1 << across->images_log) - 1);
    int64_t rest = row >> across->images_log;
    row_coord at;
    at.x = rest % across->extent;
    rest /= across->extent;
    at.x += 8 * (rest & ((1 << g->patch_log) - 1));
    rest >>= g->patch_log;
    const int64_t image_down = rest & ((1 << down->images_log) - 1);
    rest >>= down->images_log;
    at.y = rest % down->extent;
    at.image = ((rest / down->extent << down->images_log) + image_down) << across->images_log;
    at.image += image_across;
    return at;
}

/* Column `column` of product `product` of a tile: which image, which element of the phase from the
 * tile's first. */
static row_coord coord_of_column(const uf_wgmma_geometry *g, int64_t product, int64_t column) {
    const uf_wgmma_axis *down = &g->axis[0], *across = &g->axis[1];
    const int64_t run = column >> (3 + g->runs_log), in_run = column & 7;
    const int64_t beside = (column >> 3) & ((1 << g->runs_log) - 1);
    row_coord at;
    at.y = (down->mmas > 1 ? product * down->patch : 0) + (run >> down->images_log);
    at.x = (across->mmas > 1 ? product * across->patch : 0) + beside * 8 +
           (in_run >> across->images_log);
    at.image = g->image_mmas > 1 ? product << (down->images_log + across->images_log) : 0;
    at.image += ((run & ((1 << down->images_log) - 1)) << across->images_log) +
                (in_run & ((1 << across->images_log) - 1));
    return at;
}

/* Rows of images below each other: which image, and its row; -1 is above all of them. */
static int64_t unstack(const uf_wgmma_geometry *g, int64_t *row) {
    const int64_t image = g->stack > 0 && *row >= 0 ? *row / g->stack : 0;
    if (g->stack > 0 && *row >= 0) {
        assert_int_equal(image, (int64_t)((uint64_t)*row * g->stack_inverse >> 32));
    }
    *row -= image * g->stack;
    return image;
}

/* A tap of a pair, and whose: where phases are merged, of even columns (0) or odd ones (1). */
typedef struct tap_entry {
    int32_t pair, entry;
    int64_t side, tap[2];
} tap_entry;

/* The written elements of a tap; of merged odd columns they are `back` before the even ones'. */
static int64_t walks_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                        const uf_wgmma_geometry *g, const tap_entry *of, uf_axis_walk walk[2]) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    const int64_t phase = dgrad ? of->pair : 0;
    const int64_t across = dgrad ? args->stride[1] : 1;
    walk[0] = walk_of(direction, args, 0, g->merged ? phase : phase / across);
    walk[1] =
        walk_of(direction, args, 1, g->merged ? (of->side + args->padding[1]) % 2 : phase % across);
    assert_true(!g->merged || walk[1].out_count == 0 || walk[1].out_first == of->side);
    return g->merged && of->side == 1 ? g->merged_back : 0;
}

/* Where position `position` of a line is, and is there an element of the image? */
static row_coord coord_on_line(const uf_wgmma_geometry *g, int64_t position) {
    const int64_t row = position / g->line;
    row_coord at;
    assert_int_equal(row, (int64_t)((uint64_t)position * g->line_inverse >> 32));
    if (g->stack > 1) {
        assert_int_equal(row / g->stack, (int64_t)((uint64_t)row * g->stack_inverse >> 32));
    }
    at.image = row / g->stack;
    at.y = row % g->stack;
    at.x = position % g->line;
    return at;
}

/* The same as check_tap where all rows are one line, of every tile: what a tap reads is the element
 * that the definition pairs with it, or a zero where there is none. */
static void check_line_tap(uf_conv_direction direction, const uf_conv_kernel_args *args,
                           const uf_wgmma_geometry *g, const tap_entry *of) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    const int32_t entry = of->entry;
    const int64_t klass = dgrad ? 0 : of->pair;
    uf_axis_walk walk[2];
    const int64_t back = walks_of(direction, args, g, of, walk);
    const uf_view *read_view = dgrad ? &args->y : &args->x;
    const int64_t pixels = (int64_t)g->nt * g->pixels;
    int64_t seen = 0;
    assert_int_equal(g->run_pitch, 8);
    for (int64_t tile = 0; tile < g->axis[1].tiles; ++tile) {
        for (int64_t column = 0; column < pixels; ++column) {
            const int64_t row = column + g->shift[entry];
            assert_true(row >= 0 && row < g->window_rows);
            row_coord written = coord_on_line(g, tile * pixels + column);
            written.x -= back;
            if (written.x < 0 || written.image >= args->y.extent[0] ||
                written.y >= walk[0].out_count || written.x >= walk[1].out_count) {
                continue;
            }
            ++seen;
            const int64_t position =
                tile * pixels + g->axis[1].first + g->class_first[klass][1] + row;
            assert_true(position >= 0 && position < uf_wgmma_line_end(g));
            row_coord read = coord_on_line(g, position);
            const int64_t at[2] = {read.y - g->line_first[0], read.x - g->line_first[1]};
            const int64_t written_at[2] = {written.y, written.x};
            bool wanted = true, there = read.image < args->y.extent[0];
            int64_t source[2];
            for (int axis = 0; axis < 2; ++axis) {
                const int64_t mul = g->axis[axis].mul;
                const int64_t out = walk[axis].out_first + written_at[axis] * walk[axis].out_step;
                const int64_t tap = of->tap[axis] * args->dilation[axis];
                source[axis] = dgrad ? (out + args->padding[axis] - tap) / args->stride[axis]
                                     : out * args->stride[axis] - args->padding[axis] + tap;
                if (dgrad) {
                    const int64_t large = out + args->padding[axis] - tap;
                    assert_int_equal(
                        (large % args->stride[axis] + args->stride[axis]) % args->stride[axis], 0);
                    source[axis] = large < 0 ? -(-large / args->stride[axis]) : source[axis];
                }
                wanted = wanted && source[axis] >= 0 && source[axis] < read_view->extent[2 + axis];
                const int64_t here = at[axis] * mul + g->class_of[klass][axis];
                there = there && at[axis] >= 0 && here < read_view->extent[2 + axis];
            }
            assert_int_equal(wanted, there);
            if (wanted) {
                assert_int_equal(read.image, written.image);
                for (int axis = 0; axis < 2; ++axis) {
                    assert_int_equal(at[axis] * g->axis[axis].mul + g->class_of[klass][axis],
                                     source[axis]);
                }
            }
        }
    }
    assert_int_equal(seen, args->y.extent[0] * walk[0].out_count * walk[1].out_count);
}

/* For one tap of one pair: each column's row of the window is the element that the definition pairs
 * with it. */
static void check_tap(uf_conv_direction direction, const uf_conv_kernel_args *args,
                      const uf_wgmma_geometry *g, const tap_entry *of) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    const int32_t entry = of->entry;
    const int64_t klass = dgrad ? 0 : of->pair;
    uf_axis_walk walk[2];
    const int64_t back = walks_of(direction, args, g, of, walk);
    for (int64_t product = 0; product < g->nt; ++product) {
        for (int64_t column = 0; column < g->pixels; ++column) {
            const int run_log = 3 + g->runs_log - g->patch_log;
            const int64_t row = product * g->mma_rows + (column >> run_log) * g->mma_pitch +
                                (column & ((1 << run_log) - 1)) + g->shift[entry];
            assert_true(row >= 0 && row < g->window_rows);
            row_coord read = coord_of_row(g, row);
            row_coord written = coord_of_column(g, product, column);
            if (g->stack > 0) {
                /* Of a tile in the middle. */
                const int64_t first = (int64_t)g->axis[0].tiles / 2 * g->axis[0].patch;
                read.y += first + g->axis[0].first;
                read.image += unstack(g, &read.y);
                read.y -= g->axis[0].first;
                written.y += first;
                written.image += unstack(g, &written.y);
                if (written.y >= walk[0].out_count) {
                    continue; /* a row of no image */
                }
                if (read.image != written.image) {
                    /* A row of no image, either. */
                    read.y += g->axis[0].first;
                    assert_true(read.image == written.image - 1);
                    assert_true(read.y * g->axis[0].mul + g->class_of[klass][0] >=
                                (dgrad ? args->y.extent[2] : args->x.extent[2]));
                    continue;
                }
            }
            const int64_t read_at[2] = {read.y, read.x};
            const int64_t written_at[2] = {written.y, written.x - back};
            assert_int_equal(read.image, written.image);
            for (int axis = 0; axis < 2; ++axis) {
                /* For the tile that begins at element 0 of the phase. */
                const int64_t source =
                    (read_at[axis] + g->axis[axis].first + g->class_first[klass][axis]) *
                        g->axis[axis].mul +
                    g->class_of[klass][axis];
                const int64_t at = walk[axis].out_first + written_at[axis] * walk[axis].out_step;
                const int64_t tap = of->tap[axis];
                const int64_t small = dgrad ? source : at;
                const int64_t large = dgrad ? at : source;
                assert_int_equal(large, small * args->stride[axis] - args->padding[axis] +
                                            tap * args->dilation[axis]);
            }
        }
    }
}

/* What swap_ab/launch.cu counts on: a product is 64 neighbours of a row, and all that a block
 * keeps lies within its shared memory. */
static void check_narrow(const uf_conv_kernel_args *args, const uf_wgmma_geometry *g,
                         int64_t written) {
    const int64_t taps = args->w.extent[2] * args->w.extent[3];
    const int64_t window = (int64_t)g->window_rows * UF_WGMMA_SWAP_AB_PLANES * 16;
    const int64_t weights = taps * UF_WGMMA_SWAP_AB_PLANES * g->columns * 16;
    const int64_t windows = (int64_t)g->windows * UF_WGMMA_SWAP_AB_TURNS(g->columns);
    int64_t shared = UF_WGMMA_BARRIERS + (g->window_rows + 1) / 2 * 2 * UF_WGMMA_SWAP_AB_POSITION;
    shared += UF_WGMMA_SWAP_AB_GROUPS * UF_WGMMA_SWAP_AB_STAGING(g->columns) * 4;
    shared += g->resident ? weights * g->chunks : weights * windows;
    assert_true(shared + window * windows <= g->shared);
    assert_int_equal(shared % 16, 0);
    assert_int_equal(g->columns % 8, 0);
    assert_true(written <= g->columns);
    assert_int_equal(g->phases * g->classes, 1);
    assert_int_equal(g->pixels, UF_WGMMA_SWAP_AB_PIXELS);
    assert_int_equal(g->axis[1].patch, UF_WGMMA_SWAP_AB_PIXELS);
    assert_int_equal(g->nt % 2, 0); /* FP32 makes two at a time */
    assert_true(windows >= 2 && windows <= UF_WGMMA_WINDOWS);
    assert_true(g->promote >= 1 && g->promote <= 8);
    assert_int_equal(g->blocks_m * g->image_mmas * g->wm * g->depth, 1);
}

/* Blocks that share a tile: each has whole windows, together they have all chunks, and sums fit
 * where windows and weights were. */
static void check_splits(const uf_wgmma_geometry *g) {
    assert_true(g->splits >= 1 && g->splits <= UF_WGMMA_SPLITS);
    assert_int_equal(uf_wgmma_split_begin(g, 0), 0);
    assert_int_equal(uf_wgmma_split_begin(g, g->splits), g->chunks);
    for (int32_t split = 0; split < g->splits; ++split) {
        assert_int_equal(uf_wgmma_split_begin(g, split) % g->depth, 0);
        assert_true(uf_wgmma_split_begin(g, split) < uf_wgmma_split_begin(g, split + 1));
    }
    if (g->splits > 1) {
        const int64_t window = (int64_t)g->window_rows * g->depth * g->planes * 16;
        const int64_t weights = (int64_t)g->planes * UF_WGMMA_PLANE;
        assert_true(g->packed && g->runs_log == 0 && g->columns == 0);
        assert_int_equal(g->wm, 2);
        assert_true(g->tiles * g->splits <= 132);
        assert_true(g->windows * window + g->wm * g->stages * weights >=
                    (int64_t)g->wm * g->nt * UF_WGMMA_SUMS);
    }
}

/* Blocks that share tiles: together they have all chunks of all of them, none has nothing, and none
 * much more than another. */
static void check_stream_k(const uf_wgmma_geometry *g) {
    uf_wgmma_cut at = {0, 0};
    assert_true(g->stream_k >= 0 && g->stream_k <= 132);
    if (g->stream_k == 0) {
        return;
    }
    assert_true(g->packed && g->runs_log == 0 && g->columns == 0 && g->splits == 1);
    assert_int_equal(g->wm, 2);
    assert_int_equal(g->nt, 1);
    for (int32_t block = 0; block <= g->stream_k; ++block) {
        const uf_wgmma_cut cut = uf_wgmma_cut_of(g, block);
        assert_int_equal(cut.chunk % g->depth, 0);
        assert_true(cut.chunk >= 0 && cut.chunk < g->chunks);
        if (block == 0) {
            assert_int_equal(cut.tile + cut.chunk, 0);
        } else {
            int64_t taps = 0, most = 0;
            assert_true(cut.tile > at.tile || (cut.tile == at.tile && cut.chunk > at.chunk));
            for (int32_t tile = at.tile; tile <= cut.tile && tile < g->tiles; ++tile) {
                const int32_t begin = tile == at.tile ? at.chunk : 0;
                const int32_t end = tile == cut.tile ? cut.chunk : g->chunks;
                const int64_t here = g->turn_taps[tile / (g->coords * g->together)];
                taps += (end - begin) / g->depth * here;
                most = here > most ? here : most;
            }
            assert_true(taps >= g->work / g->stream_k - 2 * most - 1);
            assert_true(taps <= g->work / g->stream_k + 2 * most + 1);
        }
        at = cut;
    }
    assert_int_equal(at.tile, g->tiles);
    assert_int_equal(at.chunk, 0);
}

/* Every block of channels and phases of every place once. */
static void check_order(const uf_wgmma_geometry *g) {
    assert_int_equal(g->blocks_m % g->together, 0);
    assert_int_equal((int64_t)g->coords * g->blocks_m, g->tiles);
}

static void check(uf_conv_direction direction, const uf_conv_kernel_args *args,
                  const uf_wgmma_geometry *g) {
    const int32_t pairs = g->phases * g->classes;
    const int64_t taps = args->w.extent[2] * args->w.extent[3];
    bool seen[UF_WGMMA_TAPS] = {false};
    int64_t found = 0;
    assert_int_equal(g->first_tap[0], 0);
    assert_true(g->merged ? g->first_tap[pairs] <= taps : g->first_tap[pairs] == taps);
    for (int32_t pair = 0; pair < pairs; ++pair) {
        for (int32_t entry = g->first_tap[pair]; entry < g->first_tap[pair + 1]; ++entry) {
            for (int64_t side = 0; side < (g->merged ? 2 : 1); ++side) {
                const tap_entry of = {
                    pair,
                    entry,
                    side,
                    {g->tap_of[entry][0], side == 1 ? g->odd_tap[entry] : g->tap_of[entry][1]}};
                if (of.tap[1] == UF_WGMMA_NO_TAP) {
                    assert_true(g->merged);
                    continue;
                }
                const int64_t tap = of.tap[0] * args->w.extent[3] + of.tap[1];
                assert_false(seen[tap]);
                seen[tap] = true;
                ++found;
                if (g->line > 0) {
                    check_line_tap(direction, args, g, &of);
                } else {
                    check_tap(direction, args, g, &of);
                }
            }
        }
    }
    assert_int_equal(found, taps);
    /* Tiles reach every element of the largest phase, and shared memory holds what the kernel lays
     * out. */
    const uf_view *written = direction == UF_CONV_DGRAD ? &args->x : &args->y;
    for (int axis = 0; axis < 2 && g->line == 0; ++axis) {
        const int64_t step = direction == UF_CONV_DGRAD ? args->stride[axis] : 1;
        const int64_t rows = axis == 0 && g->stack > 0
                                 ? (written->extent[0] - 1) * g->stack * step + written->extent[2]
                                 : written->extent[2 + axis];
        assert_true(
            (int64_t)g->axis[axis].tiles * g->axis[axis].patch * g->axis[axis].mmas * step >= rows);
    }
    assert_true(g->stack > 0 ||
                ((int64_t)g->image_tiles * g->image_mmas
                 << (g->axis[0].images_log + g->axis[1].images_log)) >= written->extent[0]);
    assert_true(g->windows >= 1 && g->windows <= UF_WGMMA_WINDOWS);
    assert_int_equal(g->chunks % g->depth, 0);
    check_splits(g);
    check_stream_k(g);
    check_order(g);
    assert_int_equal(g->tiles,
                     (int64_t)g->axis[0].tiles * g->axis[1].tiles * g->image_tiles * g->blocks_m);
    if (g->columns > 0) {
        assert_true(g->shared <= 232448);
        check_narrow(args, g, written->extent[1]);
        return;
    }
    assert_true(g->shared <= (g->wm == 1 ? 115712 : 232448));
    assert_true(g->stages * g->wm <= UF_WGMMA_STAGES && g->stages >= 2);
    assert_true(g->promote >= 0 && (g->split_f16 || g->promote < g->stages));
}

/* f16 halves, and TF32 halves behind them, which have the same tiles. */
static bool check_split_f16(uf_conv_direction direction, const uf_conv_kernel_args *args,
                            bool large, int64_t *by_producers) {
    const int64_t read =
        (direction == UF_CONV_DGRAD ? args->y.extent[1] : args->x.extent[1]) / args->groups;
    uf_conv_kernel_args fp32 = *args;
    uf_wgmma_geometry geometry;
    fp32.math = UF_MATH_FP32;
    fp32.x.dtype = fp32.w.dtype = fp32.y.dtype = UF_F32;
    if (large) { /* by images */
        const int64_t image =
            uf_view_count(direction == UF_CONV_DGRAD ? &args->y : &args->x) / args->x.extent[0];
        fp32.x.extent[0] = fp32.y.extent[0] = (INT64_C(1) << 23) / image + 1;
    }
    if (!uf_wgmma_split_f16_of(direction, &fp32, &geometry)) {
        return false;
    }
    assert_true(geometry.split_f16 && geometry.columns == 0);
    assert_int_equal(geometry.planes, UF_WGMMA_PLANES);
    assert_true(geometry.promote > 0 && (geometry.packed || geometry.promote < geometry.stages));
    assert_true((int64_t)geometry.chunks * 32 >= read);
    check(direction, &fp32, &geometry);
    const uf_wgmma_geometry again = uf_wgmma_fixup(direction, &fp32, &geometry);
    assert_false(again.split_f16);
    assert_true((int64_t)again.chunks * 16 >= read);
    assert_int_equal(again.tiles, geometry.tiles);
    assert_int_equal(again.coords, geometry.coords);
    assert_int_equal(again.together, geometry.together);
    for (int axis = 0; axis < 2; ++axis) {
        assert_int_equal(again.axis[axis].tiles, geometry.axis[axis].tiles);
        assert_int_equal(again.axis[axis].patch, geometry.axis[axis].patch);
        assert_int_equal(again.axis[axis].mmas, geometry.axis[axis].mmas);
    }
    check(direction, &fp32, &again);
    *by_producers += geometry.packed && !again.packed ? 1 : 0;
    return true;
}

static void test_random_geometries(void **state) {
    (void)state;
    int64_t taken = 0, packed = 0, narrow = 0, stacked = 0, apart = 0, shared = 0;
    int64_t canonical_count = 0, lines = 0, merged = 0, halves = 0, loaders = 0;
    for (int64_t i = 0; i < CASES; ++i) {
        test_random random = test_random_for("wgmma_geometry", i);
        const uf_conv_kernel_args args = random_conv(&random, &limits);
        const uf_conv_kernel_args canonical = uf_wgmma_canonical(&args);
        canonical_count += memcmp(args.stride, canonical.stride, sizeof args.stride) != 0 ? 1 : 0;
        for (int d = UF_CONV_FPROP; d <= UF_CONV_DGRAD; ++d) {
            uf_wgmma_geometry geometry;
            if (uf_wgmma_geometry_of((uf_conv_direction)d, &canonical, &geometry)) {
                check((uf_conv_direction)d, &canonical, &geometry);
                ++taken;
                packed += geometry.packed ? 1 : 0;
                stacked += geometry.stack > 0 ? 1 : 0;
                apart += geometry.patch_log > 0 ? 1 : 0;
                shared += geometry.stream_k > 0 ? 1 : 0;
                lines += geometry.line > 0 ? 1 : 0;
                merged += geometry.merged ? 1 : 0;
            }
            halves += check_split_f16((uf_conv_direction)d, &canonical, false, &loaders) ? 1 : 0;
            if (i % 16 == 0) {
                (void)check_split_f16((uf_conv_direction)d, &canonical, true, &loaders);
            }
            if (uf_wgmma_swap_ab_of((uf_conv_direction)d, &args, &geometry)) {
                check((uf_conv_direction)d, &args, &geometry);
                ++narrow;
            }
        }
    }
    print_message(
        "%lld of %d taken, %lld packed, %lld narrow, %lld stacked, %lld with runs apart, "
        "%lld shared, %lld lines, %lld merged, %lld with another stride, %lld by f16 halves, "
        "%lld packed and made again by loaders\n",
        (long long)taken, 2 * CASES, (long long)packed, (long long)narrow, (long long)stacked,
        (long long)apart, (long long)shared, (long long)lines, (long long)merged,
        (long long)canonical_count, (long long)halves, (long long)loaders);
    assert_true(taken > CASES);
    assert_true(packed > 0 && narrow > 20 && stacked > 0 && apart > 0 && shared > 0 && lines > 20 &&
                merged > 0 && canonical_count > 0 && halves > CASES / 2 && loaders > 5);
}

/* Where few channels are written and rows are long, pixels are the rows of products: layers that
 * were measured both ways. */
static void test_narrow(void **state) {
    static const struct {
        int64_t batch, read, written, height, width, kernel[2], padding, dilation;
        bool fp32; /* too? */
    } layers[] = {{8, 32, 32, 512, 1024, {3, 3}, 0, 1, true},
                  {8, 32, 32, 512, 1024, {3, 7}, 1, 1, true},
                  {8, 64, 64, 1024, 1024, {3, 3}, 0, 1, false}};
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; ++i) {
        for (int math = UF_MATH_FP32; math <= UF_MATH_BF16; ++math) {
            for (int d = UF_CONV_FPROP; d <= UF_CONV_DGRAD; ++d) {
                const bool dgrad = d == UF_CONV_DGRAD;
                const int64_t c = dgrad ? layers[i].written : layers[i].read;
                const int64_t k = dgrad ? layers[i].read : layers[i].written;
                int64_t small[2] = {layers[i].height, layers[i].width}, large[2];
                uf_conv_kernel_args args;
                uf_wgmma_geometry geometry;
                memset(&args, 0, sizeof args);
                for (int axis = 0; axis < 2; ++axis) {
                    args.stride[axis] = 1;
                    args.padding[axis] = layers[i].padding;
                    args.dilation[axis] = layers[i].dilation;
                    large[axis] = small[axis] - 1 - 2 * layers[i].padding +
                                  (layers[i].kernel[axis] - 1) * layers[i].dilation + 1;
                }
                args.x = uf_view_nchw(NULL, UF_F32, layers[i].batch, c, large[0], large[1]);
                args.w = uf_view_nchw(NULL, UF_F32, k, c, layers[i].kernel[0], layers[i].kernel[1]);
                args.y = uf_view_nchw(NULL, UF_F32, layers[i].batch, k, small[0], small[1]);
                args.groups = 1;
                args.math = (uf_math)math;
                assert_true(uf_wgmma_geometry_of((uf_conv_direction)d, &args, &geometry));
                assert_true(geometry.columns > 0 || (math == UF_MATH_FP32 && !layers[i].fp32));
                check((uf_conv_direction)d, &args, &geometry);
            }
        }
    }
}

/* A layer of a DCGAN has 64 tiles for 132 multiprocessors: two blocks share each. Of 32 tiles four
 * could, but no 32 clusters of four run at once, and blocks share all of them. */
static void test_small_tiles(void **state) {
    (void)state;
    for (int math = UF_MATH_FP32; math <= UF_MATH_BF16; ++math) {
        uf_conv_kernel_args args;
        uf_wgmma_geometry geometry;
        memset(&args, 0, sizeof args);
        for (int axis = 0; axis < 2; ++axis) {
            args.stride[axis] = 2;
            args.padding[axis] = args.dilation[axis] = 1;
        }
        args.x = uf_view_nchw(NULL, UF_F32, 128, 256, 8, 8);
        args.w = uf_view_nchw(NULL, UF_F32, 512, 256, 4, 4);
        args.y = uf_view_nchw(NULL, UF_F32, 128, 512, 4, 4);
        args.groups = 1;
        args.math = (uf_math)math;
        assert_true(uf_wgmma_geometry_of(UF_CONV_FPROP, &args, &geometry));
        assert_true(geometry.splits > 1 && geometry.tiles * geometry.splits > 100);
        check(UF_CONV_FPROP, &args, &geometry);
        assert_true(uf_wgmma_geometry_of(UF_CONV_DGRAD, &args, &geometry));
        assert_int_equal(geometry.splits, 1);
        for (int axis = 0; axis < 2; ++axis) {
            args.padding[axis] = 0;
        }
        args.x = uf_view_nchw(NULL, UF_F32, 4, 512, 33, 33);
        args.w = uf_view_nchw(NULL, UF_F32, 512, 512, 3, 3);
        args.y = uf_view_nchw(NULL, UF_F32, 4, 512, 16, 16);
        assert_true(uf_wgmma_geometry_of(UF_CONV_FPROP, &args, &geometry));
        assert_true(math == UF_MATH_BF16 || geometry.stream_k > 100);
        check(UF_CONV_FPROP, &args, &geometry);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_geometries),
        cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_small_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
