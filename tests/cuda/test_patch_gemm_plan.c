/* test_patch_gemm_plan.c - the plan of convolutions whose taps are apart: which they are, that
 * tiles cover what is written, and that the order of summation has each channel and column once and
 * no bank conflicts. Needs no GPU. */
#include "support/test.h"

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

static const uf_conv_direction directions[] = {UF_CONV_DGRAD, UF_CONV_FPROP};

static void test_only_patch(void **state) {
    (void)state;
    uf_patch_plan plan;
    const uf_conv_kernel_args good = arguments(2, 128, 64, 16, 32, 2, 2, UF_F32, UF_MATH_TF32);
    for (int d = 0; d < 2; ++d) {
        assert_true(uf_patch_plan_of(directions[d], &good, &plan));
        uf_conv_kernel_args bad = good;
        bad.padding[1] = 1;
        assert_false(uf_patch_plan_of(directions[d], &bad, &plan));
        bad = good;
        bad.stride[0] = 1;
        assert_false(uf_patch_plan_of(directions[d], &bad, &plan));
        bad = good;
        bad.dilation[0] = 2;
        assert_false(uf_patch_plan_of(directions[d], &bad, &plan));
        bad = good;
        bad.x.extent[2] += 1; /* output_padding */
        assert_false(uf_patch_plan_of(directions[d], &bad, &plan));
        bad = arguments(2, 128, 64, 8, 8, 2, 2, UF_F32, UF_MATH_TF32); /* a quarter of a tile */
        assert_false(uf_patch_plan_of(directions[d], &bad, &plan));
        bad = arguments(2, 128, 64, 80, 5, 2, 2, UF_BF16, UF_MATH_BF16); /* rows of 20 bytes */
        assert_true(!uf_patch_plan_of(directions[d], &bad, &plan) || d == 0);
    }
    const uf_conv_kernel_args brief = arguments(2, 64, 128, 16, 32, 1, 1, UF_F32, UF_MATH_FP32);
    assert_true(uf_patch_plan_of(UF_CONV_DGRAD, &brief, &plan) && plan.brief);
    assert_true(uf_patch_plan_of(UF_CONV_FPROP, &brief, &plan) && !plan.brief);
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
                uf_patch_plan plan;
                assert_true(uf_patch_plan_of(directions[d], &args, &plan));
                const int64_t rows = plan.written_rows == 2 || d == 1 ? 1 : 2;
                const int64_t written = d == 0 ? 120 * across * rows : 200;
                assert_true(d == 1 || plan.written_rows == 1 || plan.written_rows == 2);
                assert_int_equal(plan.units * plan.tile.spread, written);
                assert_int_equal(plan.column_tiles, plan.channel_tiles * plan.written_rows);
                const int64_t read = d == 0 ? 200 : 120;
                assert_true(plan.channel_tiles * plan.tile_units >= plan.units &&
                            (plan.channel_tiles - 1) * plan.tile_units < plan.units);
                assert_true(plan.chunks * plan.tile.channels >= read &&
                            (plan.chunks - 1) * plan.tile.channels < read);
                assert_true(plan.pixel_tiles[0] * plan.pixel_tiles[1] >= (plan.flat ? 5 : 6));
                assert_true(plan.pixel_tiles[0] * (UF_PATCH_PIXELS >> plan.log) >= plan.height);
                assert_true((int64_t)plan.pixel_tiles[1] << plan.log >= plan.width);
                assert_int_equal(plan.tiles,
                                 plan.column_tiles * plan.pixel_tiles[0] * plan.pixel_tiles[1] * 3);
                assert_int_equal(plan.stages, plan.chunks * (d == 0 ? 1 : 2));
                assert_true(plan.buffers >= 3 && plan.shared <= UF_PATCH_SHARED);
                assert_int_equal(plan.tile.side, d == 0 ? 1 : across);
                assert_int_equal(plan.tile.spread, d == 1 || across % 3 == 0 ? 1
                                                   : across < 4              ? across
                                                                             : 4);
                assert_int_equal(plan.threes, across % 3 == 0);
                assert_true(plan.tile_units * plan.tile.spread <= plan.tile.columns &&
                            (!plan.threes || plan.tile_units % across == 0));
                assert_int_equal(plan.across * plan.tile.spread, plan.over[1]);
                /* Each unit is a place of its own. */
                bool seen[120 * 32] = {false};
                for (int32_t unit = 0; unit < plan.units; ++unit) {
                    int32_t row, column;
                    const int32_t channel = uf_patch_unit(&plan, unit, &row, &column);
                    assert_true(row >= 0 && row < rows && column >= 0 && column < plan.over[1]);
                    assert_true(column % plan.tile.spread == 0);
                    const int64_t place = (channel * 2 + row) * 16 + column;
                    assert_true(channel >= 0 && place < (d == 0 ? 120 * 32 : 200 * 32));
                    if (d == 0) {
                        assert_false(seen[place]);
                        seen[place] = true;
                    }
                }
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
                const bool taken = uf_patch_plan_of(directions[d], &args, &plan);
                const int32_t piece = planes[i].piece[bf16];
                assert_true(taken || piece < 16); /* of pieces of 8 bytes it depends on the sum */
                assert_true(!taken || piece > 0);
                if (!taken) {
                    continue;
                }
                assert_int_equal(plan.piece, piece);
                assert_int_equal(plan.width, plane);
                assert_int_equal(plan.height, 16);
                assert_true(plan.pixel_tiles[0] * (UF_PATCH_PIXELS >> plan.log) >= 16);
                assert_true((int64_t)plan.pixel_tiles[1] << plan.log >= plane);
                assert_true(plan.splits == 1 || plan.splits * plan.tiles <= 132);
                int32_t before = 0;
                for (int32_t s = 1; s <= plan.splits; ++s) {
                    assert_true(uf_patch_split_begin(&plan, s) > before);
                    before = uf_patch_split_begin(&plan, s);
                }
                assert_int_equal(before, plan.stages);
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
        cmocka_unit_test(test_only_patch), cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_flat),       cmocka_unit_test(test_order),
        cmocka_unit_test(test_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
