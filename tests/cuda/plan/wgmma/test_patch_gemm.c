/* test_patch_gemm.c - the plan of patch_gemm, for convolutions whose taps are apart: which they
 * are, that tiles and stages make every product once, and that the order of summation has each
 * channel and column once. Needs no GPU. */
#include "cuda/plan/walk.h"

#include <string.h>

#include "kernels/cuda/conv/wgmma_patch_gemm/plan.h"
#include "kernels/cuda/conv/flatten.h"

static uf_conv_kernel_args arguments(int64_t n, int64_t k, int64_t c, int64_t p, int64_t q,
                                     int64_t down, int64_t across, uf_dtype dtype, uf_math math) {
    uf_conv_kernel_args args;
    void *const nowhere = (void *)4096;
    memset(&args, 0, sizeof args);
    args.y = uf_view_nchw(nowhere, dtype, n, k, p, q);
    args.w = uf_view_nchw(nowhere, dtype, k, c, down, across);
    args.x = uf_view_nchw(nowhere, dtype, n, c, p * down, q * across);
    args.stride[0] = down;
    args.stride[1] = across;
    args.dilation[0] = args.dilation[1] = 1;
    args.groups = 1;
    args.math = math;
    return args;
}

/* ---- the walk ---- */

/* Where a tile is: as patch_coord_of has it. */
typedef struct patch_at {
    int64_t group, n, y, x, row, unit;
} patch_at;

static patch_at tile_of(const uf_conv_kernel_args *flat, const uf_patch_plan *plan, int64_t tile) {
    patch_at at;
    const int64_t column_tile = tile % plan->column_tiles;
    int64_t rest = tile / plan->column_tiles;
    at.row = column_tile % plan->written_rows;
    at.unit = column_tile / plan->written_rows * plan->tile_units;
    at.x = rest % plan->pixel_tiles[1] << plan->log;
    rest /= plan->pixel_tiles[1];
    at.y = rest % plan->pixel_tiles[0] * (UF_PATCH_PIXELS >> plan->log);
    rest /= plan->pixel_tiles[0];
    at.n = rest % flat->y.extent[0];
    at.group = rest / flat->y.extent[0];
    return at;
}

/* Pixel `index` of a tile; of images that are rows, in which image. False: nobody's. */
static bool pixel_of(const plan_layer *layer, const uf_patch_plan *plan, const patch_at *at,
                     bool images, int64_t index, plan_term *term) {
    const int64_t h = at->y + (index >> plan->log), w = at->x + (index & ((1 << plan->log) - 1));
    const int64_t row = layer->args.y.extent[3];
    term->n = images ? h : at->n;
    term->small[0] = images || plan->flat ? w / row : h;
    term->small[1] = images || plan->flat ? w % row : w;
    return h < plan->height && w < plan->width;
}

/* A stage: some channels under a pixel, of one row. */
static void walk_fprop(plan_walk *walk, const uf_patch_plan *plan, const patch_at *at,
                       int64_t stage, plan_term *term) {
    term->tap[0] = stage % plan->read_rows;
    term->large[0] = term->small[0] * plan->read_rows + term->tap[0];
    term->k[0] = at->unit;
    term->k[1] =
        at->unit + plan->tile_units < plan->units ? at->unit + plan->tile_units : plan->units;
    term->c[0] = stage / plan->read_rows * plan->tile.channels;
    term->c[1] = term->c[0] + plan->tile.channels;
    for (int64_t column = 0; column < plan->tile.side; ++column) {
        term->tap[1] = column;
        term->large[1] = term->small[1] * plan->tile.side + column;
        plan_make(walk, term);
    }
}

/* The units of a tile that are the same row and column of their channels, which follow each other.
 */
static bool units_of(const uf_patch_plan *plan, const patch_at *at, int64_t in_channel,
                     plan_term *term) {
    const int64_t end =
        at->unit + plan->tile_units < plan->units ? at->unit + plan->tile_units : plan->units;
    int32_t row, column;
    term->c[0] = (at->unit - in_channel + plan->fold - 1) / plan->fold;
    term->c[1] = (end - in_channel + plan->fold - 1) / plan->fold;
    if (term->c[0] >= term->c[1]) {
        return false;
    }
    for (int64_t c = term->c[0]; c < term->c[1]; ++c) {
        assert_int_equal(uf_patch_unit(plan, (int32_t)(c * plan->fold + in_channel), &row, &column),
                         c);
    }
    term->tap[0] = row + (plan->written_rows > 1 ? at->row : 0);
    term->tap[1] = column;
    return true;
}

static void walk_dgrad(plan_walk *walk, const uf_patch_plan *plan, const patch_at *at,
                       int64_t stage, plan_term *term, bool first) {
    term->k[0] = stage * plan->tile.channels;
    term->k[1] = term->k[0] + plan->tile.channels;
    for (int64_t in_channel = 0; in_channel < plan->fold; ++in_channel) {
        if (!units_of(plan, at, in_channel, term)) {
            continue;
        }
        const int64_t column = term->tap[1];
        for (int64_t over = 0; over < plan->tile.spread; ++over) {
            term->tap[1] = column + over;
            term->large[0] = term->small[0] * plan->over[0] + term->tap[0];
            term->large[1] = term->small[1] * plan->over[1] + term->tap[1];
            plan_make(walk, term);
            if (first) {
                plan_store(walk, term);
            }
        }
    }
}

static void walk_tiles(plan_walk *walk, const plan_layer *layer, const void *of) {
    const uf_patch_plan *plan = of;
    const uf_conv_kernel_args flat = uf_conv_flat(&layer->args);
    const bool dgrad = layer->direction == UF_CONV_DGRAD;
    const bool images = memcmp(flat.y.extent, layer->args.y.extent, sizeof flat.y.extent) != 0;
    for (int32_t split = 0; split < plan->splits; ++split) {
        plan_share(walk, uf_patch_split_begin(plan, split), uf_patch_split_begin(plan, split + 1),
                   plan->stages);
    }
    for (int64_t i = 0; i < plan->tiles * UF_PATCH_PIXELS; ++i) {
        const patch_at at = tile_of(&flat, plan, i / UF_PATCH_PIXELS);
        plan_term term = {.group = at.group};
        if (!pixel_of(layer, plan, &at, images, i % UF_PATCH_PIXELS, &term)) {
            continue;
        }
        for (int64_t stage = 0; stage < plan->stages; ++stage) {
            if (dgrad) {
                walk_dgrad(walk, plan, &at, stage, &term, stage == 0);
            } else {
                walk_fprop(walk, plan, &at, stage, &term);
            }
        }
        if (!dgrad) {
            plan_store(walk, &term);
        }
    }
}

/* ---- numbers of a plan of any size ---- */

static void check(const plan_layer *layer, const void *of, test_random *random) {
    const uf_patch_plan *plan = of;
    const int64_t read = plan_read(layer)->extent[1] / layer->args.groups;
    (void)random;
    assert_true(plan->channel_tiles * plan->tile_units >= plan->units &&
                (plan->channel_tiles - 1) * plan->tile_units < plan->units);
    assert_true(plan->chunks * plan->tile.channels >= read &&
                (plan->chunks - 1) * plan->tile.channels < read);
    assert_true(plan->pixel_tiles[0] * (UF_PATCH_PIXELS >> plan->log) >= plan->height);
    assert_true((int64_t)plan->pixel_tiles[1] << plan->log >= plan->width);
    assert_int_equal(plan->column_tiles, plan->channel_tiles * plan->written_rows);
    assert_int_equal(plan->tiles, (int64_t)plan->column_tiles * plan->pixel_tiles[0] *
                                      plan->pixel_tiles[1] *
                                      uf_conv_flat(&layer->args).y.extent[0] * layer->args.groups);
    assert_int_equal(plan->stages, plan->chunks * plan->read_rows);
    assert_true(plan->buffers >= 3 && plan->buffers <= UF_PATCH_STAGES);
    assert_true((int64_t)plan->buffers * plan->stage_bytes + UF_PATCH_BARRIERS <= plan->shared);
    assert_true(plan->tile_units * plan->tile.spread <= plan->tile.columns);
    assert_true(plan->splits >= 1 && plan->splits <= UF_PATCH_SPLITS);
    assert_true(plan->splits == 1 || plan->splits * plan->tiles <= 132);
}

static void draw(test_random *random, plan_layer *layer) {
    static const int64_t widths[] = {1, 1, 2, 2, 3, 4, 6, 8, 16};
    const int64_t across = widths[test_random_integer(random, 0, COUNT_OF(widths) - 1)];
    const int64_t down = test_random_one_in(random, 2) ? across : test_random_integer(random, 1, 5);
    const bool bf16 = test_random_one_in(random, 2);
    const int64_t n = test_random_log(random, 1, 20), k = test_random_log(random, 1, 300);
    const int64_t c = test_random_log(random, 1, 300), p = test_random_log(random, 1, 60);
    const int64_t q = test_random_log(random, 1, 16) * (test_random_one_in(random, 8) ? 3 : 8);
    layer->args = arguments(n, k, c, p, q, down, across, bf16 ? UF_BF16 : UF_F32,
                            bf16 ? UF_MATH_BF16 : (uf_math)test_random_integer(random, 0, 2));
    if (test_random_one_in(random, 5)) {
        layer->args.groups = 2;
        layer->args.x.extent[1] *= 2;
        layer->args.w.extent[0] *= 2;
        layer->args.y.extent[1] *= 2;
        layer->args.x.stride[0] *= 2;
        layer->args.y.stride[0] *= 2;
    }
}

static bool plan_of(const plan_layer *layer, int tile, void *plan) {
    return uf_patch_plan_of(layer->direction, &layer->args, tile, plan);
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const uf_patch_plan *plan = of;
    (void)layer;
    return (plan_facts){.cost = plan->cost,
                        .grid = {plan->tiles * plan->splits},
                        .threads = 128 * (UF_PATCH_GROUPS + 1),
                        .shared = plan->shared,
                        .most_shared = UF_PATCH_SHARED};
}

static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_patch_plan *plan = of;
    (void)layer;
    seen[0] += plan->splits > 1;
    seen[1] += plan->threes;
    seen[2] += plan->flat;
    seen[3] += plan->written_rows > 1;
    seen[4] += plan->read_rows > 1;
    seen[5] += plan->tile.spread > 1;
    seen[6] += plan->tile.side > 1;
    seen[7] += plan->brief;
    seen[8] += plan->piece < 16;
}

static const plan_family family = {.name = "patch_gemm",
                                   .directions = PLAN_FPROP | PLAN_DGRAD,
                                   .size = sizeof(uf_patch_plan),
                                   .draw = draw,
                                   .cases = 2000,
                                   .tiled = plan_of,
                                   .tiles = UF_PATCH_TILE_NUMBERS,
                                   .all_tiles = true,
                                   .facts = facts_of,
                                   .walk = walk_tiles,
                                   .check = check,
                                   .kinds = {"splits", "threes", "flat", "rows written apart",
                                             "rows summed", "columns together", "columns summed",
                                             "brief", "pieces below 16 bytes"},
                                   .count = count,
                                   .least_walked = 50};

static const uf_conv_direction directions[] = {UF_CONV_DGRAD, UF_CONV_FPROP};

static void test_only_patch(void **state) {
    (void)state;
    uf_patch_plan plan;
    const uf_conv_kernel_args good = arguments(2, 128, 64, 16, 32, 2, 2, UF_F32, UF_MATH_TF32);
    for (int d = 0; d < 2; ++d) {
        assert_true(uf_patch_plan_of(directions[d], &good, UF_CONV_ANY_TILE, &plan));
        uf_conv_kernel_args bad = good;
        bad.padding[1] = 1;
        assert_false(uf_patch_plan_of(directions[d], &bad, UF_CONV_ANY_TILE, &plan));
        bad = good;
        bad.stride[0] = 1;
        assert_false(uf_patch_plan_of(directions[d], &bad, UF_CONV_ANY_TILE, &plan));
        bad = good;
        bad.dilation[0] = 2;
        assert_false(uf_patch_plan_of(directions[d], &bad, UF_CONV_ANY_TILE, &plan));
        bad = good;
        bad.x.extent[2] += 1; /* output_padding */
        assert_false(uf_patch_plan_of(directions[d], &bad, UF_CONV_ANY_TILE, &plan));
        bad = arguments(2, 128, 64, 8, 8, 2, 2, UF_F32, UF_MATH_TF32); /* a quarter of a tile */
        assert_false(uf_patch_plan_of(directions[d], &bad, UF_CONV_ANY_TILE, &plan));
        bad = arguments(2, 128, 64, 80, 5, 2, 2, UF_BF16, UF_MATH_BF16); /* rows of 20 bytes */
        assert_true(!uf_patch_plan_of(directions[d], &bad, UF_CONV_ANY_TILE, &plan) || d == 0);
    }
    const uf_conv_kernel_args brief = arguments(2, 64, 128, 16, 32, 1, 1, UF_F32, UF_MATH_FP32);
    assert_true(uf_patch_plan_of(UF_CONV_DGRAD, &brief, UF_CONV_ANY_TILE, &plan) && plan.brief);
    assert_true(uf_patch_plan_of(UF_CONV_FPROP, &brief, UF_CONV_ANY_TILE, &plan) && !plan.brief);
}

static void test_tiles(void **state) {
    (void)state;
    for (int d = 0; d < 2; ++d) {
        for (int math = 0; math < 4; ++math) {
            static const int64_t widths[] = {1, 2, 4, 8, 16, 3, 6};
            for (int width = 0; width < (d == 0 ? 7 : 5); ++width) {
                const int64_t across = widths[width];
                const uf_conv_kernel_args args =
                    arguments(3, 200, 120, 24, 48, 2, across, math == 3 ? UF_BF16 : UF_F32,
                              math == 3 ? UF_MATH_BF16 : (uf_math)math);
                const plan_layer layer = {directions[d], args};
                test_random random = test_random_for("patch_gemm_tiles", across);
                uf_patch_plan plan;
                plan_examine(&family, &layer, &plan, &random);
                const int64_t rows = plan.written_rows == 2 || d == 1 ? 1 : 2;
                const int64_t written = d == 0 ? 120 * across * rows : 200;
                assert_true(d == 1 || plan.written_rows == 1 || plan.written_rows == 2);
                assert_int_equal(plan.units * plan.tile.spread, written);
                assert_true(plan.pixel_tiles[0] * plan.pixel_tiles[1] >= (plan.flat ? 5 : 6));
                assert_int_equal(plan.tile.side, d == 0 ? 1 : across);
                assert_int_equal(plan.tile.spread, d == 1 || across % 3 == 0 ? 1
                                                   : across < 4              ? across
                                                                             : 4);
                assert_int_equal(plan.threes, across % 3 == 0);
                assert_true(!plan.threes || plan.tile_units % across == 0);
                assert_int_equal(plan.across * plan.tile.spread, plan.over[1]);
            }
        }
    }
}

/* Pointwise layers: images are rows, of whole 16 bytes or not taken, and few tiles are shared. */
static void test_flat(void **state) {
    (void)state;
    static const struct {
        int64_t side;
        int32_t piece[2]; /* f32, bf16 */
    } planes[] = {{14, {16, 8}}, {28, {16, 16}}, {7, {0, 0}}, {10, {16, 8}}, {12, {16, 16}}};
    for (int i = 0; i < 5; ++i) {
        for (int bf16 = 0; bf16 < 2; ++bf16) {
            uf_conv_kernel_args args =
                arguments(16, 2048, 256, planes[i].side, planes[i].side, 1, 1,
                          bf16 == 1 ? UF_BF16 : UF_F32, bf16 == 1 ? UF_MATH_BF16 : UF_MATH_TF32);
            const int64_t plane = planes[i].side * planes[i].side;
            const uf_conv_kernel_args flat = uf_conv_flat(&args);
            assert_int_equal(flat.x.extent[0], 1);
            assert_int_equal(flat.x.extent[2], 16);
            assert_int_equal(flat.x.extent[3], plane);
            assert_int_equal(flat.x.stride[2], args.x.stride[0]);
            for (int d = 0; d < 2; ++d) {
                uf_patch_plan plan;
                const bool taken = uf_patch_plan_of(directions[d], &args, UF_CONV_ANY_TILE, &plan);
                const int32_t piece = planes[i].piece[bf16];
                assert_true(taken || piece < 16); /* of pieces of 8 bytes it depends on the sum */
                assert_true(!taken || piece > 0);
                if (!taken) {
                    continue;
                }
                assert_int_equal(plan.piece, piece);
                assert_int_equal(plan.width, plane);
                assert_int_equal(plan.height, 16);
                assert_true(d == 1 || plane > 200 || plan.splits > 1);
            }
            /* Rows that do not follow each other stay rows. */
            args.x.stride[2] += 1;
            assert_int_equal(uf_conv_flat(&args).x.extent[2], planes[i].side);
        }
    }
}

/* In a unit every channel and column is summed once. */
static void test_order(void **state) {
    (void)state;
    static const struct {
        uf_mma_math math;
        int32_t element;
    } kinds[] = {{UF_MMA_TF32, 4}, {UF_MMA_TF32X3, 4}, {UF_MMA_BF16, 4}, {UF_MMA_BF16, 2}};
    for (int i = 0; i < 4; ++i) {
        for (int32_t side = 1; side <= 16; side *= 2) {
            const uf_patch_tile tile = uf_patch_tile_of(kinds[i].math, kinds[i].element, side, 1);
            bool seen[16][16] = {{false}};
            assert_int_equal(tile.pieces * tile.values, tile.unit * side);
            assert_int_equal(tile.channels % tile.unit, 0);
            assert_int_equal(tile.planes, tile.channels / tile.unit * tile.pieces);
            for (int32_t piece = 0; piece < tile.pieces; ++piece) {
                for (int32_t value = 0; value < tile.values; ++value) {
                    int32_t channel, column;
                    uf_patch_k(&tile, piece, value, &channel, &column);
                    assert_true(channel >= 0 && channel < tile.unit);
                    assert_true(column >= 0 && column < side);
                    assert_false(seen[channel][column]);
                    seen[channel][column] = true;
                }
            }
        }
    }
}

/* A tile's columns are all columns over a pixel of its channels, and a lane has all of a channel.
 */
static void test_columns(void **state) {
    (void)state;
    for (int32_t spread = 1; spread <= 4; spread *= 2) {
        const uf_patch_tile tile = uf_patch_tile_of(UF_MMA_TF32, 4, 1, spread);
        bool seen[128][4] = {{false}};
        int32_t lane_of[128];
        for (int32_t column = 0; column < tile.columns; ++column) {
            int32_t channel, over;
            uf_patch_column(&tile, column, &channel, &over);
            assert_true(channel >= 0 && channel < tile.columns / spread);
            assert_true(over >= 0 && over < spread);
            assert_false(seen[channel][over]);
            seen[channel][over] = true;
            const int32_t lane = column >> 1 & 3;
            assert_true(over == 0 || lane_of[channel] == lane);
            lane_of[channel] = lane;
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        plan_unit_test(&family),      cmocka_unit_test(test_only_patch),
        cmocka_unit_test(test_tiles), cmocka_unit_test(test_flat),
        cmocka_unit_test(test_order), cmocka_unit_test(test_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
