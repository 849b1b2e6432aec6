/* test_wgmma_implicit_gemm.c - the plans of wgmma_implicit_gemm, its swap_ab and split_f16 loops:
 * every product of a convolution is made once, at the row of a window that a descriptor would name,
 * and nothing lies outside. Needs no GPU. */
#include "cuda/plan/wgmma/implicit_gemm_walk.h"

#include <string.h>

enum { SHARED = 232448, HALF_SHARED = 115712 };

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

/* swap_ab/launch.cu counts on this: an MMA is 64 neighbours of a row, and all that a block
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

/* CTAs that share a tile: each has whole windows, and sums fit where windows and weights were. */
static void check_splits(const uf_wgmma_geometry *g) {
    assert_true(g->splits >= 1 && g->splits <= UF_WGMMA_SPLITS);
    for (int32_t split = 0; split < g->splits; ++split) {
        assert_int_equal(uf_wgmma_split_begin(g, split) % g->depth, 0);
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

/* Each tap belongs to one pair of a phase and a class. */
static void check_taps(const uf_conv_kernel_args *args, const uf_wgmma_geometry *g) {
    const int32_t pairs = g->phases * g->classes;
    const int64_t taps = args->w.extent[2] * args->w.extent[3];
    assert_int_equal(g->first_tap[0], 0);
    assert_true(g->merged ? g->first_tap[pairs] <= taps : g->first_tap[pairs] == taps);
}

/* Tiles reach every element of the largest phase, and chunks every channel. */
static void check_reach(const plan_layer *layer, const uf_wgmma_geometry *g) {
    const uf_conv_kernel_args args = uf_wgmma_canonical(&layer->args);
    const uf_view *written = plan_written(layer);
    for (int axis = 0; axis < 2 && g->line == 0; ++axis) {
        const int64_t step = layer->direction == UF_CONV_DGRAD ? args.stride[axis] : 1;
        const int64_t rows = axis == 0 && g->stack > 0
                                 ? (written->extent[0] - 1) * g->stack * step + written->extent[2]
                                 : written->extent[2 + axis];
        assert_true(
            (int64_t)g->axis[axis].tiles * g->axis[axis].patch * g->axis[axis].mmas * step >= rows);
    }
    assert_true(g->stack > 0 ||
                ((int64_t)g->image_tiles * g->image_mmas
                 << (g->axis[0].images_log + g->axis[1].images_log)) >= written->extent[0]);
    assert_true(g->chunks * wgmma_chunk_channels(layer, g) * args.groups >=
                plan_read(layer)->extent[1]);
    assert_int_equal(g->tiles, (int64_t)g->axis[0].tiles * g->axis[1].tiles * g->image_tiles *
                                   g->blocks_m * args.groups);
}

static void check(const plan_layer *layer, const void *of, test_random *random) {
    const uf_wgmma_geometry *g = of;
    const uf_conv_kernel_args *args = &layer->args;
    (void)random;
    check_taps(args, g);
    check_reach(layer, g);
    assert_true(g->windows >= 1 && g->windows <= UF_WGMMA_WINDOWS);
    assert_int_equal(g->chunks % g->depth, 0);
    check_splits(g);
    check_stream_k(g);
    assert_int_equal(g->blocks_m % g->together, 0);
    assert_int_equal((int64_t)g->coords * g->blocks_m, g->tiles);
    assert_true(g->run_pitch == 8 || g->line == 0);
    if (g->columns > 0) {
        check_narrow(args, g, plan_written(layer)->extent[1] / args->groups);
        return;
    }
    assert_true(g->stages * g->wm <= UF_WGMMA_STAGES && g->stages >= 2);
    assert_true(g->promote >= 0 && (g->split_f16 || g->promote < g->stages));
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const uf_wgmma_geometry *g = of;
    (void)layer;
    return (plan_facts){.cost = g->columns > 0 && !(g->cost > 0) ? 1 : g->cost,
                        .grid = {g->stream_k > 0 ? g->stream_k : g->tiles * g->splits},
                        .shared = g->shared,
                        .most_shared = g->columns == 0 && g->wm == 1 ? HALF_SHARED : SHARED};
}

static bool plan_of(const plan_layer *layer, int tile, void *plan) {
    const uf_conv_kernel_args args = uf_wgmma_canonical(&layer->args);
    return uf_wgmma_geometry_of(layer->direction, &args, tile, plan);
}

static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_wgmma_geometry *g = of;
    const uf_conv_kernel_args other = uf_wgmma_canonical(&layer->args);
    seen[0] += g->packed;
    seen[1] += g->stack > 0;
    seen[2] += g->patch_log > 0;
    seen[3] += g->stream_k > 0;
    seen[4] += g->line > 0;
    seen[5] += g->merged;
    seen[6] += memcmp(layer->args.stride, other.stride, sizeof other.stride) != 0;
    seen[7] += g->splits > 1;
    seen[8] += g->paired;
    seen[9] += g->merged && g->merged_back > 0;
}

/* Now and then a way up to few channels, where two phases are the rows of an MMA. */
static void draw(test_random *random, plan_layer *layer) {
    layer->args = random_conv(random, &limits);
    if (layer->direction == UF_CONV_DGRAD && test_random_one_in(random, 4)) {
        const int64_t kernel = test_random_integer(random, 2, 5);
        const plan_sizes sizes = {
            .n = test_random_integer(random, 1, 4),
            .c = test_random_integer(random, 8, 32),
            .k = test_random_integer(random, 32, 200),
            .small = {test_random_integer(random, 8, 24), 32},
            .kernel = {kernel, kernel},
            .stride = {2, 2},
            .padding = {test_random_integer(random, 0, 2), test_random_integer(random, 0, 2)},
            .dilation = {1, 1},
            .spare = {1, test_random_integer(random, 0, 1)},
            .groups = 1};
        layer->args = plan_args_of(&sizes, UF_F32, layer->args.math);
    }
}

static const plan_family family = {.name = "wgmma_implicit_gemm",
                                   .directions = PLAN_FPROP | PLAN_DGRAD,
                                   .size = sizeof(uf_wgmma_geometry),
                                   .draw = draw,
                                   .cases = 600,
                                   .tiled = plan_of,
                                   .tiles = UF_WGMMA_TILES,
                                   .no_plans = 1 << 2 | 1 << 3, /* two MMAs of made windows */
                                   .facts = facts_of,
                                   .walk = wgmma_walk_tiles,
                                   .some = wgmma_walk_some,
                                   .check = check,
                                   .kinds = {"packed", "stacked", "runs apart", "stream-K", "lines",
                                             "merged", "another stride", "splits", "paired",
                                             "merged, odd columns first"},
                                   .least_seen = {[4] = 21 /* lines */},
                                   .count = count,
                                   .least_walked = 50};

/* ---- swap_ab ---- */

static bool swap_ab_of(const plan_layer *layer, void *plan) {
    return uf_wgmma_swap_ab_of(layer->direction, &layer->args, plan);
}

static void count_swap_ab(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_wgmma_geometry *g = of;
    (void)layer;
    ++seen[0];
    seen[1] += g->resident;
    seen[2] += g->columns > 32;
}

static const plan_family swap_ab_family = {
    .name = "wgmma_implicit_gemm swap_ab",
    .directions = PLAN_FPROP | PLAN_DGRAD,
    .size = sizeof(uf_wgmma_geometry),
    .limits = &limits,
    .cases = 400,
    .plan = swap_ab_of,
    .facts = facts_of,
    .walk = wgmma_walk_tiles,
    .some = wgmma_walk_some,
    .check = check,
    .kinds = {"taken", "weights resident", "more than 32 channels"},
    .count = count_swap_ab,
    .least_walked = 20};

/* ---- split_f16, and TF32 halves behind it, which have the same tiles ---- */

static void draw_fp32(test_random *random, plan_layer *layer) {
    layer->args = random_conv(random, &limits);
    layer->args.math = UF_MATH_FP32;
    layer->args.x.dtype = layer->args.w.dtype = layer->args.y.dtype = UF_F32;
    if (test_random_one_in(random, 16)) { /* many images */
        const int64_t image = uf_view_count(plan_read(layer)) / layer->args.x.extent[0];
        layer->args.x.extent[0] = layer->args.y.extent[0] = (INT64_C(1) << 23) / image + 1;
    }
}

static bool split_f16_of(const plan_layer *layer, int tile, void *plan) {
    const uf_conv_kernel_args args = uf_wgmma_canonical(&layer->args);
    return args.x.dtype == UF_F32 && args.math == UF_MATH_FP32 &&
           uf_wgmma_split_f16_of(layer->direction, &args, tile, plan);
}

static bool fixup_of(const plan_layer *layer, int tile, void *plan) {
    const uf_conv_kernel_args args = uf_wgmma_canonical(&layer->args);
    uf_wgmma_geometry split_f16;
    memset(&split_f16, 0, sizeof split_f16);
    if (!split_f16_of(layer, tile, &split_f16)) {
        return false;
    }
    *(uf_wgmma_geometry *)plan = uf_wgmma_fixup(layer->direction, &args, &split_f16);
    return true;
}

static void check_split_f16(const plan_layer *layer, const void *of, test_random *random) {
    const uf_wgmma_geometry *g = of;
    uf_wgmma_geometry again;
    assert_true(g->split_f16 && g->columns == 0);
    assert_int_equal(g->planes, UF_WGMMA_PLANES);
    assert_true(g->promote > 0 && (g->packed || g->promote < g->stages));
    check(layer, g, random);
    assert_true(fixup_of(layer, plan_tile(), &again));
    assert_false(again.split_f16);
    assert_int_equal(again.tiles, g->tiles);
    assert_int_equal(again.coords, g->coords);
    assert_int_equal(again.together, g->together);
    for (int axis = 0; axis < 2; ++axis) {
        assert_int_equal(again.axis[axis].tiles, g->axis[axis].tiles);
        assert_int_equal(again.axis[axis].patch, g->axis[axis].patch);
        assert_int_equal(again.axis[axis].mmas, g->axis[axis].mmas);
    }
}

static void count_split_f16(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_wgmma_geometry *g = of;
    uf_wgmma_geometry again;
    ++seen[0];
    seen[1] += g->packed && fixup_of(layer, plan_tile(), &again) && !again.packed;
    seen[2] += g->splits > 1;
    seen[3] += g->stream_k > 0;
}

/* One warpgroup with made windows, and two MMAs with any. */
enum { SPLIT_F16_NO_PLANS = 0xccd };

static const plan_family split_f16_family = {
    .name = "wgmma_implicit_gemm split_f16",
    .directions = PLAN_FPROP | PLAN_DGRAD,
    .size = sizeof(uf_wgmma_geometry),
    .draw = draw_fp32,
    .cases = 500,
    .tiled = split_f16_of,
    .tiles = UF_WGMMA_SPLIT_F16_TILES,
    .no_plans = SPLIT_F16_NO_PLANS,
    .facts = facts_of,
    .walk = wgmma_walk_tiles,
    .some = wgmma_walk_some,
    .check = check_split_f16,
    .kinds = {"taken", "packed, and made again by producers", "splits", "stream-K"},
    .count = count_split_f16,
    .least_walked = 50};

static const plan_family fixup_family = {.name = "wgmma_implicit_gemm fixup",
                                         .directions = PLAN_FPROP | PLAN_DGRAD,
                                         .size = sizeof(uf_wgmma_geometry),
                                         .draw = draw_fp32,
                                         .cases = 300,
                                         .tiled = fixup_of,
                                         .tiles = UF_WGMMA_SPLIT_F16_TILES,
                                         .no_plans = SPLIT_F16_NO_PLANS,
                                         .facts = facts_of,
                                         .walk = wgmma_walk_tiles,
                                         .some = wgmma_walk_some,
                                         .check = check,
                                         .least_walked = 50};

/* ---- layers by hand ---- */

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
                plan_layer layer = {.direction = (uf_conv_direction)d};
                test_random random = test_random_for("wgmma_narrow", math);
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
                layer.args = args;
                plan_examine(&family, &layer, &geometry, &random);
                assert_true(geometry.columns > 0 || (math == UF_MATH_FP32 && !layers[i].fp32));
            }
        }
    }
}

/* A layer of a DCGAN has 64 tiles for 132 multiprocessors: two blocks share each. Four could share
 * each of 32 tiles, but no 32 clusters of four run at once, and blocks share all of them. */
static void test_small_tiles(void **state) {
    (void)state;
    for (int math = UF_MATH_FP32; math <= UF_MATH_BF16; ++math) {
        test_random random = test_random_for("wgmma_small_tiles", math);
        plan_layer layer;
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
        layer = (plan_layer){UF_CONV_FPROP, args};
        plan_examine(&family, &layer, &geometry, &random);
        assert_true(geometry.splits > 1 && geometry.tiles * geometry.splits > 100);
        assert_true(uf_wgmma_geometry_of(UF_CONV_DGRAD, &args, UF_CONV_ANY_TILE, &geometry));
        assert_int_equal(geometry.splits, 1);
        for (int axis = 0; axis < 2; ++axis) {
            args.padding[axis] = 0;
        }
        args.x = uf_view_nchw(NULL, UF_F32, 4, 512, 33, 33);
        args.w = uf_view_nchw(NULL, UF_F32, 512, 512, 3, 3);
        args.y = uf_view_nchw(NULL, UF_F32, 4, 512, 16, 16);
        layer = (plan_layer){UF_CONV_FPROP, args};
        plan_examine(&family, &layer, &geometry, &random);
        assert_true(math == UF_MATH_BF16 || geometry.stream_k > 100);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        plan_unit_test(&family),           plan_unit_test(&swap_ab_family),
        plan_unit_test(&split_f16_family), plan_unit_test(&fixup_family),
        cmocka_unit_test(test_narrow),     cmocka_unit_test(test_small_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
