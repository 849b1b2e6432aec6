/* test_wgrad_channel_blocked_plan.c - the plan of the channel-blocked weight gradient against the
 * definition. Every tap is a unit once, and at every pixel it names the row of a window that the
 * definition pairs with that pixel. Tiles, spans and the workspace cover everything. Needs no GPU.
 */
#include "support/test.h"

#include <string.h>

#include "cuda/plan_helpers.h"
#include "cuda/random_conv.h"
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/plan.h"

enum { CASES = 3000, LONGEST = 16384, LONGEST_SPLIT_F16 = 1 << 20, SHARED = 232448 };

static int64_t longest_of(const uf_channel_blocked_plan *plan) {
    return plan->split_f16 ? LONGEST_SPLIT_F16 : LONGEST;
}

static const conv_limits limits = {.stride = 2,
                                   .large_stride = 5,
                                   .padding = 12,
                                   .dilation = 4,
                                   .kernel = 7,
                                   .extent = {2, 12, 90, 90},
                                   .batch = 9,
                                   .large_batch = 300,
                                   .small_channels = 40,
                                   .channels = 300,
                                   .groups = true,
                                   .bf16 = true};

static uf_conv_kernel_args random_arguments(test_random *random) {
    uf_conv_kernel_args args = random_conv(random, &limits);
    args.math =
        args.x.dtype == UF_F32 && test_random_one_in(random, 3) ? UF_MATH_FP32 : UF_MATH_BF16;
    if (test_random_one_in(random, 2)) { /* rows of a multiple of 16 bytes */
        set_rows(&args.y, round_up(args.y.extent[3], 8));
    }
    return args;
}

typedef struct coord {
    int64_t image, y, x;
} coord;

/* Pixel `pixel` of a tile, from the tile's first: runs of 8 lie beside each other first, then
 * below. */
static coord pixel_coord(const uf_channel_blocked_plan *plan, int64_t pixel) {
    const uf_channel_blocked_axis *down = &plan->axis[0], *across = &plan->axis[1];
    const int64_t beside = across->patch > 8 ? across->patch / 8 : 1;
    const int64_t run = pixel / 8, in_run = pixel % 8;
    const int64_t row = run / beside;
    coord at;
    at.y = row >> down->images_log;
    at.x = run % beside * 8 + (in_run >> across->images_log);
    at.image = ((row & ((1 << down->images_log) - 1)) << across->images_log) +
               (in_run & ((1 << across->images_log) - 1));
    return at;
}

/* Row `row` of a window: [y][image down][x][image across]. */
static coord row_coord(const uf_channel_blocked_plan *plan, int64_t row) {
    const uf_channel_blocked_axis *down = &plan->axis[0], *across = &plan->axis[1];
    coord at;
    at.image = row & ((1 << across->images_log) - 1);
    row >>= across->images_log;
    at.x = row % across->extent;
    row /= across->extent;
    at.image += (row & ((1 << down->images_log) - 1)) << across->images_log;
    at.y = row >> down->images_log;
    return at;
}

/* One unit at one pixel: both of its taps read what the definition says. */
static void check_pixel(const uf_conv_kernel_args *args, const uf_channel_blocked_plan *plan,
                        int32_t unit, int64_t pixel) {
    const int32_t klass = plan->unit_class[unit];
    const int64_t row = plan->step_at[pixel / 16] + (pixel / 8 % 2) * plan->run_pitch + pixel % 8 +
                        plan->shift[unit];
    assert_true(row >= 0 && row < plan->window_rows);
    const coord written = pixel_coord(plan, pixel), read = row_coord(plan, row);
    const int64_t element[2] = {written.y, written.x}, position[2] = {read.y, read.x};
    assert_int_equal(read.image, written.image);
    assert_true(read.y < plan->axis[0].extent);
    for (int half = 0; half < 2; ++half) {
        const int64_t tap = plan->unit_tap[unit][half];
        if (tap < 0) {
            continue;
        }
        const int64_t filter[2] = {tap / args->w.extent[3], tap % args->w.extent[3]};
        for (int axis = 0; axis < 2; ++axis) {
            const int64_t j = element[axis] - (half == 1 && axis == 0 ? plan->twin : 0);
            assert_int_equal((position[axis] + plan->first[klass][axis]) * plan->axis[axis].mul +
                                 plan->class_of[klass][axis],
                             j * args->stride[axis] - args->padding[axis] +
                                 filter[axis] * args->dilation[axis]);
        }
    }
}

static void check(const uf_conv_kernel_args *args, const uf_channel_blocked_plan *plan) {
    const int64_t taps = args->w.extent[2] * args->w.extent[3];
    const int64_t c = args->w.extent[1], k = args->w.extent[0] / args->groups;
    const int64_t of_rows = plan->twin > 0 ? UF_CHANNEL_BLOCKED_ROWS / 2 : UF_CHANNEL_BLOCKED_ROWS;
    bool seen[UF_CHANNEL_BLOCKED_TAPS] = {false};
    int64_t found = 0;
    for (int32_t unit = 0; unit < plan->kinds; ++unit) {
        assert_true(unit == 0 || plan->unit_class[unit] >= plan->unit_class[unit - 1]);
        for (int half = 0; half < 2; ++half) {
            const int tap = plan->unit_tap[unit][half];
            if (tap >= 0) {
                assert_false(seen[tap]);
                seen[tap] = true;
                ++found;
            } else {
                assert_true(half == 1 || plan->split_f16);
            }
        }
        for (int64_t pixel = 0; pixel < UF_CHANNEL_BLOCKED_PIXELS; ++pixel) {
            check_pixel(args, plan, unit, pixel);
        }
    }
    assert_int_equal(found, taps);
    /* Channels, units, pixels: nothing is left out. */
    assert_true((int64_t)plan->chunks * plan->width >= c);
    assert_int_equal(plan->all_units, plan->chunks * plan->kinds);
    assert_true((int64_t)plan->unit_blocks * plan->across * plan->units >= plan->all_units);
    assert_true((int64_t)plan->k_blocks * plan->rows * of_rows >= k);
    for (int axis = 0; axis < 2; ++axis) {
        assert_true((int64_t)plan->axis[axis].tiles * plan->axis[axis].patch >=
                    args->y.extent[2 + axis] + (axis == 0 ? plan->twin : 0));
        assert_true(plan->axis[axis].extent << plan->axis[axis].images_log <= 128);
    }
    const int images_log = plan->axis[0].images_log + plan->axis[1].images_log;
    assert_true((int64_t)plan->image_tiles << images_log >= args->y.extent[0]);
    assert_int_equal(plan->pixel_tiles,
                     (int64_t)plan->image_tiles * plan->axis[0].tiles * plan->axis[1].tiles);
    assert_int_equal((plan->axis[0].patch * plan->axis[1].patch) << images_log,
                     UF_CHANNEL_BLOCKED_PIXELS);
    assert_true(plan->splits >= 1 && plan->splits <= plan->pixel_tiles);
    assert_true((plan->pixel_tiles + plan->splits - 1) / plan->splits * UF_CHANNEL_BLOCKED_PIXELS <=
                longest_of(plan));
    assert_true(plan->stages >= 2 && plan->stages <= UF_CHANNEL_BLOCKED_STAGES);
    assert_true(plan->shared <= SHARED && plan->stages * plan->stage_bytes <= plan->shared);
    assert_int_equal(plan->window_bytes % 128, 0);
    assert_true(plan->y_bytes + plan->windows * plan->window_bytes <= plan->stage_bytes);
}

static int32_t window_of(const uf_channel_blocked_plan *plan, int32_t unit) {
    return unit / plan->kinds * plan->classes + plan->unit_class[unit % plan->kinds];
}

/* What the fragments of y read, as tensor copies lay it out, is the pixel that the windows take. */
static void check_y(const uf_conv_kernel_args *args, bool packed,
                    const uf_channel_blocked_plan *plan) {
    const uf_channel_blocked_axis *down = &plan->axis[0], *across = &plan->axis[1];
    const int64_t channels = plan->twin > 0 ? 32 : plan->rows * 64;
    const int64_t columns = (int64_t)across->patch << across->images_log;
    const int64_t size = plan->split_f16 || plan->source == UF_CHANNEL_BLOCKED_F32 ? 4 : 2;
    assert_int_equal(plan->y_rows, down->patch + plan->twin);
    assert_int_equal(plan->y_bytes, channels * columns * (plan->y_rows << down->images_log) * size);
    assert_int_equal(plan->y_bytes % 128, 0);
    assert_true(columns * 2 <= 256 && plan->y_rows <= 256);
    assert_true(plan->twin == 0 || plan->rows == 1);
    assert_true(plan->twin == 0 || plan->k_per_group <= 32);
    const int64_t y_row = UF_CHANNEL_BLOCKED_PIXELS / down->patch;
    for (int half = 0; half < (plan->twin > 0 ? 2 : 1); ++half) {
        for (int64_t pixel = 0; pixel < UF_CHANNEL_BLOCKED_PIXELS; ++pixel) {
            const coord want = pixel_coord(plan, pixel);
            if (plan->source == UF_CHANNEL_BLOCKED_PACKED) {
                int64_t at = (half == 0 ? plan->twin : 0) * y_row + pixel;
                const int64_t ia = at & ((1 << across->images_log) - 1);
                at >>= across->images_log;
                const int64_t x = at % across->patch;
                at /= across->patch;
                const int64_t id = at & ((1 << down->images_log) - 1);
                const int64_t y = (at >> down->images_log) - plan->twin;
                assert_int_equal(x, want.x);
                assert_int_equal(y, want.y - (half == 1 ? plan->twin : 0));
                assert_int_equal((id << across->images_log) + ia, want.image);
            } else {
                assert_int_equal(want.x, pixel % 32);
                assert_int_equal(want.y, pixel / 32);
                assert_int_equal(want.image, 0);
            }
        }
    }
    if (plan->source != UF_CHANNEL_BLOCKED_PACKED) {
        assert_false(packed);
        assert_int_equal(plan->source == UF_CHANNEL_BLOCKED_F32, args->y.dtype == UF_F32);
        assert_int_equal(across->patch, 32);
        assert_int_equal(down->images_log + across->images_log, 0);
        assert_int_equal(plan->y_bytes / plan->y_rows % 1024, 0);
        assert_int_equal(plan->y_bytes % plan->y_rows, 0);
        assert_int_equal(args->y.stride[3], 1);
        for (int i = 0; i < 3; ++i) {
            assert_true(args->y.extent[i] == 1 || args->y.stride[i] * size % 16 == 0);
        }
    }
}

static void check_layout(const uf_conv_kernel_args *args, bool packed,
                         const uf_channel_blocked_plan *plan) {
    const int32_t slots = plan->across * plan->units;
    /* Classes in the order of the packed tensor. */
    int seen[2][16], count[2] = {0, 0};
    memset(seen, -1, sizeof seen);
    for (int axis = 0; axis < 2; ++axis) {
        assert_int_equal(plan->axis[axis].mul, args->stride[axis]);
        for (int i = 0; i < plan->classes; ++i) {
            const int r = plan->class_of[i][axis];
            assert_true(r >= 0 && r < args->stride[axis]);
            if (seen[axis][r] < 0) {
                seen[axis][r] = count[axis]++;
            }
        }
    }
    for (int i = 0; i < plan->classes; ++i) {
        assert_int_equal(seen[0][plan->class_of[i][0]] * count[1] + seen[1][plan->class_of[i][1]],
                         i);
    }
    assert_int_equal(count[0] * count[1], plan->classes);
    int most = 0;
    for (int32_t b = 0; b < plan->unit_blocks; ++b) {
        const int32_t begin = b * slots;
        const int32_t end = begin + slots < plan->all_units ? begin + slots : plan->all_units;
        assert_true(begin < end);
        const int32_t n = window_of(plan, end - 1) - window_of(plan, begin) + 1;
        most = n > most ? n : most;
        for (int32_t u = begin + 1; u < end; ++u) {
            assert_true(window_of(plan, u) >= window_of(plan, u - 1));
        }
    }
    assert_true(most <= plan->windows);
    assert_int_equal(plan->window_rows, (plan->axis[0].extent << plan->axis[0].images_log) *
                                            (plan->axis[1].extent << plan->axis[1].images_log));
    assert_true(plan->part_bytes >= plan->window_rows * plan->width * 2);
    assert_int_equal(plan->part_bytes % 128, 0);
    assert_int_equal(plan->window_bytes, plan->part_bytes * (plan->split_f16 ? 2 : 1));
    assert_int_equal(plan->split_f16, args->math == UF_MATH_FP32);
    assert_true(!plan->split_f16 || plan->y_bytes % 512 == 0); /* eight rows of 64 or 32 bytes */
    assert_true(plan->window_rows < 16384 && plan->run_pitch < 16384);
    assert_true((plan->axis[1].extent << plan->axis[1].images_log) * 2 <= 256);
    assert_true(plan->axis[0].extent <= 256);
    assert_int_equal(plan->stage_bytes % 1024, 0);
    assert_true(plan->stages * plan->stage_bytes + 128 + 1023 <= plan->shared);
    assert_true((plan->k_blocks - 1) * plan->rows * 64 < plan->k_per_group);
    assert_true(plan->k_blocks * plan->rows * 64 >= plan->k_per_group);
    assert_true(plan->x_planes * 8 >= plan->c_per_group && plan->x_planes % 2 == 0);
    assert_true(plan->y_planes * 8 >= plan->k_per_group && plan->y_planes % 2 == 0);
    assert_int_equal(plan->blocks,
                     (int64_t)plan->splits * plan->groups * plan->unit_blocks * plan->k_blocks);
    int64_t before = 0;
    for (int32_t s = 0; s < plan->splits; ++s) {
        const int64_t a = (int64_t)s * plan->pixel_tiles / plan->splits;
        const int64_t e = (int64_t)(s + 1) * plan->pixel_tiles / plan->splits;
        assert_int_equal(a, before);
        assert_true(e > a && (e - a) * 128 <= longest_of(plan));
        before = e;
    }
    assert_int_equal(before, plan->pixel_tiles);
    check_y(args, packed, plan);
    /* Pixels once, both halves, where few. */
    const int64_t N = args->y.extent[0], P = args->y.extent[2], Q = args->y.extent[3];
    if (N * P * Q > 60000) {
        return;
    }
    for (int half = 0; half < (plan->twin > 0 ? 2 : 1); ++half) {
        static unsigned char hit[60000];
        memset(hit, 0, sizeof hit);
        const int lg = plan->axis[0].images_log + plan->axis[1].images_log;
        for (int64_t t = 0; t < plan->pixel_tiles; ++t) {
            const int64_t plane = (int64_t)plan->axis[0].tiles * plan->axis[1].tiles;
            const int64_t im = t / plane, r = t % plane;
            const int64_t tx = plan->down_first ? r / plan->axis[0].tiles : r % plan->axis[1].tiles;
            const int64_t ty = plan->down_first ? r % plan->axis[0].tiles : r / plan->axis[1].tiles;
            for (int64_t pixel = 0; pixel < 128; ++pixel) {
                const coord at = pixel_coord(plan, pixel);
                const int64_t n = (im << lg) + at.image;
                const int64_t y = ty * plan->axis[0].patch + at.y - (half ? plan->twin : 0);
                const int64_t x = tx * plan->axis[1].patch + at.x;
                if (n < N && y >= 0 && y < P && x < Q) {
                    ++hit[(n * P + y) * Q + x];
                }
            }
        }
        for (int64_t i = 0; i < N * P * Q; ++i) {
            assert_int_equal(hit[i], 1);
        }
    }
}

static bool is_power_of_two(int64_t value) {
    return value > 0 && (value & (value - 1)) == 0;
}

/* Sums of all splits have room, and spans cover w once, in as many elements as a block can hold. */
static void check_reduction(const uf_conv_kernel_args *args, const uf_channel_blocked_plan *plan,
                            const uf_channel_blocked_reduction *r) {
    const int64_t taps = args->w.extent[2] * args->w.extent[3];
    const int64_t c = args->w.extent[1], k = args->w.extent[0] / args->groups;
    assert_int_equal(r->splits, plan->splits);
    assert_int_equal(r->columns, (int64_t)plan->chunks * plan->taps * plan->width);
    assert_true(r->rows <= 64 && r->rows % 8 == 0 && r->tiles_m * r->rows >= k);
    assert_true((r->tiles_m - 1) * 64 < k && (r->rows == 64 || r->tiles_m == 1));
    assert_int_equal(r->tiles, args->groups * r->tiles_m);
    assert_int_equal(1 << r->width_log, plan->width);
    assert_true((int64_t)r->spans << r->span_log >= c);
    assert_true((int64_t)(r->spans - 1) << r->span_log < c);
    assert_int_equal(r->items, args->w.extent[0] * r->spans);
    assert_true(taps << r->span_log <=
                (taps <= 16 ? UF_CHANNEL_BLOCKED_LONG_ELEMENTS : UF_CHANNEL_BLOCKED_SPAN_ELEMENTS));
    assert_true(is_power_of_two(r->adders) && r->adders <= 16);
    assert_true(r->adders == 1 || r->adders * 4 <= r->splits);
}

/* Copies and sums lie one behind another, aligned, with the bytes that the kernels write. */
static void check_workspace(const uf_conv_kernel_args *args, const uf_channel_blocked_plan *plan) {
    const size_t begin = 512;
    const uf_channel_blocked_workspace w = uf_channel_blocked_workspace_of(args, plan, begin);
    const uf_channel_blocked *const copies[2] = {&w.x, &w.y};
    const int64_t planes[2] = {plan->x_planes, plan->y_planes};
    const int64_t tensors = plan->split_f16 ? 2 : 1;
    int64_t bytes[2];
    for (int i = 0; i < 2; ++i) {
        const uf_channel_blocked *b = copies[i];
        const int64_t classes = i == 0 ? plan->classes : 1;
        assert_int_equal(b->classes[0] * b->classes[1], classes);
        assert_true(b->pitch >= b->columns << b->images_log[1]);
        assert_true(b->plane >= ((int64_t)b->image_groups * b->rows * b->pitch)
                                    << b->images_log[0]);
        assert_true((int64_t)b->image_groups << (b->images_log[0] + b->images_log[1]) >=
                    args->x.extent[0]);
        assert_true((int64_t)b->rows * b->mul[0] >= b->extent[0]);
        assert_true((int64_t)b->columns * b->mul[1] >= b->extent[1]);
        bytes[i] = tensors * args->groups * classes * planes[i] * b->plane * 16;
    }
    assert_int_equal(w.x_at, begin);
    assert_int_equal(w.y_at, round_up((int64_t)begin + bytes[0], 256));
    assert_int_equal(w.sums_at, plan->source == UF_CHANNEL_BLOCKED_PACKED
                                    ? round_up((int64_t)w.y_at + bytes[1], 256)
                                    : (int64_t)w.y_at);
    check_reduction(args, plan, &w.reduction);
    assert_int_equal(w.end - w.sums_at, (int64_t)plan->splits * w.reduction.tiles *
                                            w.reduction.rows * w.reduction.columns * 4);
}

/* The main loop's plan has both plans, and scratch for either. */
static void check_problem(const uf_conv_kernel_args *args, const uf_channel_blocked_plan *plan) {
    const uf_conv_problem problem = problem_of(UF_CONV_WGRAD, args);
    uf_conv_plan made;
    assert_int_equal(uf_conv_plan_wgmma_channel_blocked(&problem, &made), !plan->split_f16);
    if (!plan->split_f16) {
        const uf_channel_blocked_plans *own =
            UF_CONV_CONST_PLAN_OF(uf_channel_blocked_plans, &made);
        assert_true(made.cost == own->aligned.cost && made.cost > 0.0);
        assert_true(own->any.source == UF_CHANNEL_BLOCKED_PACKED);
        assert_true(made.workspace >= uf_channel_blocked_workspace_of(args, plan, 0).end);
    }
}

static void test_random_plans(void **state) {
    int64_t taken = 0, twins = 0, together = 0, unpacked = 0, classes = 0;
    (void)state;
    for (int64_t i = 0; i < CASES; ++i) {
        test_random random = test_random_for("wgrad_blocks_plan", i);
        const uf_conv_kernel_args args = random_arguments(&random);
        uf_channel_blocked_plan plan, other;
        const bool packed = test_random_one_in(&random, 2);
        if (!uf_wgrad_channel_blocked_plan_of(&args, packed, &plan)) {
            continue;
        }
        /* What suits before addresses are known is still computed when y is not aligned. */
        assert_true(packed || uf_wgrad_channel_blocked_plan_of(&args, true, &other));
        ++taken;
        twins += plan.twin > 0 ? 1 : 0;
        together += plan.axis[0].images_log + plan.axis[1].images_log > 0 ? 1 : 0;
        unpacked += plan.source != UF_CHANNEL_BLOCKED_PACKED ? 1 : 0;
        classes += plan.classes > 1 ? 1 : 0;
        check(&args, &plan);
        check_layout(&args, packed, &plan);
        check_workspace(&args, &plan);
        check_problem(&args, &plan);
    }
    print_message(
        "%lld of %d taken: %lld with two taps in the rows, %lld with images side by side, "
        "%lld with y as it is, %lld with classes\n",
        (long long)taken, CASES, (long long)twins, (long long)together, (long long)unpacked,
        (long long)classes);
    assert_true(taken > CASES / 2);
    assert_true(twins > 0 && together > 0 && unpacked > 0 && classes > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
