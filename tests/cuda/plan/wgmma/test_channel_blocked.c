/* test_channel_blocked.c - the plan of channel_blocked, a weight gradient, and of its split_f16:
 * units name, at every pixel of a tile, the row of a window that holds what the definition pairs
 * with it, and every product is made once. Needs no GPU. */
#include "cuda/plan/walk.h"

#include <string.h>

#include "cuda/plan/helpers.h"
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/plan.h"

enum { LONGEST = 16384, LONGEST_SPLIT_F16 = 1 << 20, SHARED = 232448 };

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

static void draw(test_random *random, plan_layer *layer) {
    uf_conv_kernel_args args = random_conv(random, &limits);
    args.math =
        args.x.dtype == UF_F32 && test_random_one_in(random, 3) ? UF_MATH_FP32 : UF_MATH_BF16;
    if (test_random_one_in(random, 2)) { /* rows of a multiple of 16 bytes */
        set_rows(&args.y, round_up(args.y.extent[3], 8));
    }
    layer->args = args;
}

typedef struct image_coord {
    int64_t image, y, x;
} image_coord;

/* Pixel `pixel` of a tile, from the tile's first: runs of 8 lie beside each other first, then
 * below. */
static image_coord pixel_coord(const uf_channel_blocked_plan *plan, int64_t pixel) {
    const uf_channel_blocked_axis *down = &plan->axis[0], *across = &plan->axis[1];
    const int64_t beside = across->patch > 8 ? across->patch / 8 : 1;
    const int64_t run = pixel / 8, in_run = pixel % 8;
    const int64_t row = run / beside;
    image_coord at;
    at.y = row >> down->images_log;
    at.x = run % beside * 8 + (in_run >> across->images_log);
    at.image = ((row & ((1 << down->images_log) - 1)) << across->images_log) +
               (in_run & ((1 << across->images_log) - 1));
    return at;
}

/* Row `row` of a window: [y][image down][x][image across]. */
static image_coord row_coord(const uf_channel_blocked_plan *plan, int64_t row) {
    const uf_channel_blocked_axis *down = &plan->axis[0], *across = &plan->axis[1];
    image_coord at;
    at.image = row & ((1 << across->images_log) - 1);
    row >>= across->images_log;
    at.x = row % across->extent;
    row /= across->extent;
    at.image += (row & ((1 << down->images_log) - 1)) << across->images_log;
    at.y = row >> down->images_log;
    return at;
}

/* ---- the walk ---- */

/* The first image and pixel of a tile. */
static image_coord tile_of(const uf_channel_blocked_plan *plan, int64_t tile) {
    const uf_channel_blocked_axis *down = &plan->axis[0], *across = &plan->axis[1];
    const int64_t plane = (int64_t)down->tiles * across->tiles, rest = tile % plane;
    image_coord at;
    at.image = tile / plane << (down->images_log + across->images_log);
    at.x = (plan->down_first ? rest / down->tiles : rest % across->tiles) * across->patch;
    at.y = (plan->down_first ? rest % down->tiles : rest / across->tiles) * down->patch;
    return at;
}

/* One tap of a unit, at all pixels of a tile. Where a MMA's rows are the same channels twice, those
 * of the second half are `twin` elements further up. */
static void walk_half(plan_walk *walk, const uf_channel_blocked_plan *plan, const image_coord *tile,
                      int32_t kind, int half, plan_term *term) {
    const int32_t klass = plan->unit_class[kind];
    for (int64_t pixel = 0; pixel < UF_CHANNEL_BLOCKED_PIXELS; ++pixel) {
        const int64_t row = plan->step_at[pixel / 16] + (pixel / 8 % 2) * plan->run_pitch +
                            pixel % 8 + plan->shift[kind];
        assert_true(row >= 0 && row < plan->window_rows);
        const image_coord written = pixel_coord(plan, pixel), read = row_coord(plan, row);
        assert_true(read.y < plan->axis[0].extent);
        assert_int_equal(read.image, written.image);
        term->n = tile->image + written.image;
        term->small[0] = tile->y + written.y - (half == 1 ? plan->twin : 0);
        term->small[1] = tile->x + written.x;
        term->large[0] = (tile->y + read.y + plan->first[klass][0]) * plan->axis[0].mul +
                         plan->class_of[klass][0];
        term->large[1] = (tile->x + read.x + plan->first[klass][1]) * plan->axis[1].mul +
                         plan->class_of[klass][1];
        plan_make(walk, term);
    }
}

/* A unit of a warpgroup that holds 64 rows: all of its tiles. */
static void walk_unit(plan_walk *walk, const plan_layer *layer, const uf_channel_blocked_plan *plan,
                      int64_t unit, int64_t begin, int64_t end, plan_term *term) {
    const int32_t kind = (int32_t)(unit % plan->kinds);
    term->c[0] = unit / plan->kinds * plan->width;
    term->c[1] = term->c[0] + plan->width;
    for (int half = 0; half < (plan->twin > 0 ? 2 : 1); ++half) {
        const int64_t tap = plan->unit_tap[kind][half];
        if (tap < 0) {
            continue;
        }
        term->tap[0] = tap / layer->args.w.extent[3];
        term->tap[1] = tap % layer->args.w.extent[3];
        plan_store(walk, term);
        for (int64_t tile = begin; tile < end; ++tile) {
            const image_coord at = tile_of(plan, tile);
            walk_half(walk, plan, &at, kind, half, term);
        }
    }
}

static void walk_block(plan_walk *walk, const plan_layer *layer,
                       const uf_channel_blocked_plan *plan, int64_t block, int64_t most) {
    const int64_t k_block = block % plan->k_blocks, next = block / plan->k_blocks;
    const int64_t units = (int64_t)plan->units * plan->across;
    const int64_t first = next % plan->unit_blocks * units, rest = next / plan->unit_blocks;
    const int64_t split = rest / plan->groups;
    const int64_t begin = split * plan->pixel_tiles / plan->splits;
    const int64_t end = (split + 1) * plan->pixel_tiles / plan->splits;
    const int64_t of_rows = plan->twin > 0 ? UF_CHANNEL_BLOCKED_ROWS / 2 : UF_CHANNEL_BLOCKED_ROWS;
    plan_term term = {.group = rest % plan->groups};
    for (int64_t i = 0; i < plan->rows * units; ++i) {
        term.k[0] = (k_block * plan->rows + i / units) * UF_CHANNEL_BLOCKED_ROWS;
        term.k[1] = term.k[0] + of_rows;
        if (first + i % units < plan->all_units) {
            walk_unit(walk, layer, plan, first + i % units, begin,
                      end - begin > most ? begin + most : end, &term);
        }
    }
}

static void walk_blocks(plan_walk *walk, const plan_layer *layer, const void *of) {
    const uf_channel_blocked_plan *plan = of;
    for (int64_t split = 0; split < plan->splits; ++split) {
        plan_share(walk, split * plan->pixel_tiles / plan->splits,
                   (split + 1) * plan->pixel_tiles / plan->splits, plan->pixel_tiles);
    }
    for (int64_t block = 0; block < plan->blocks; ++block) {
        walk_block(walk, layer, plan, block, INT64_MAX);
    }
}

/* The first block and any, of each one tile. */
static void walk_some(plan_walk *walk, const plan_layer *layer, const void *of,
                      test_random *random) {
    const uf_channel_blocked_plan *plan = of;
    walk_block(walk, layer, plan, 0, 1);
    walk_block(walk, layer, plan, test_random_integer(random, 0, plan->blocks - 1), 1);
}

/* ---- numbers ---- */

static void check_taps(const plan_layer *layer, const uf_channel_blocked_plan *plan) {
    const int64_t taps = layer->args.w.extent[2] * layer->args.w.extent[3];
    bool seen[UF_CHANNEL_BLOCKED_TAPS] = {false};
    int64_t found = 0;
    for (int32_t unit = 0; unit < plan->kinds; ++unit) {
        assert_true(unit == 0 || plan->unit_class[unit] >= plan->unit_class[unit - 1]);
        for (int half = 0; half < 2; ++half) {
            const int tap = plan->unit_tap[unit][half];
            assert_true(tap >= 0 || half == 1 || plan->split_f16);
            assert_false(tap >= 0 && seen[tap]);
            if (tap >= 0) {
                seen[tap] = true;
                ++found;
            }
        }
    }
    assert_int_equal(found, taps);
}

static void check_tiles(const plan_layer *layer, const uf_channel_blocked_plan *plan) {
    const int images_log = plan->axis[0].images_log + plan->axis[1].images_log;
    assert_int_equal(plan->all_units, plan->chunks * plan->kinds);
    assert_true((int64_t)plan->chunks * plan->width >= layer->args.w.extent[1]);
    assert_true((int64_t)plan->unit_blocks * plan->across * plan->units >= plan->all_units);
    assert_true(plan->k_blocks * plan->rows * UF_CHANNEL_BLOCKED_ROWS >= plan->k_per_group);
    assert_true((int64_t)plan->image_tiles << images_log >= layer->args.y.extent[0]);
    for (int axis = 0; axis < 2; ++axis) {
        assert_true((int64_t)plan->axis[axis].tiles * plan->axis[axis].patch >=
                    layer->args.y.extent[2 + axis] + (axis == 0 ? plan->twin : 0));
        assert_true(plan->axis[axis].extent << plan->axis[axis].images_log <= 128);
    }
    assert_int_equal(plan->pixel_tiles,
                     (int64_t)plan->image_tiles * plan->axis[0].tiles * plan->axis[1].tiles);
    assert_int_equal((plan->axis[0].patch * plan->axis[1].patch) << images_log,
                     UF_CHANNEL_BLOCKED_PIXELS);
    assert_true((plan->pixel_tiles + plan->splits - 1) / plan->splits * UF_CHANNEL_BLOCKED_PIXELS <=
                longest_of(plan));
    assert_true(plan->stages >= 2 && plan->stages <= UF_CHANNEL_BLOCKED_STAGES);
    assert_int_equal(plan->window_bytes % 128, 0);
    assert_true(plan->y_bytes + plan->windows * plan->window_bytes <= plan->stage_bytes);
}

static int32_t window_of(const uf_channel_blocked_plan *plan, int32_t unit) {
    return unit / plan->kinds * plan->classes + plan->unit_class[unit % plan->kinds];
}

/* Fragments of y read, as TMA loads lay it out, the pixel that the windows take. */
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
            const image_coord want = pixel_coord(plan, pixel);
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
    assert_true(plan->x_planes * 8 >= plan->c_per_group && plan->x_planes % 2 == 0);
    assert_true(plan->y_planes * 8 >= plan->k_per_group && plan->y_planes % 2 == 0);
    assert_int_equal(plan->blocks,
                     (int64_t)plan->splits * plan->groups * plan->unit_blocks * plan->k_blocks);
    check_y(args, packed, plan);
}

static void check_both(const plan_layer *layer, const uf_channel_blocked_plan *plan, bool packed) {
    uf_channel_blocked_plan other;
    check_taps(layer, plan);
    check_tiles(layer, plan);
    check_layout(&layer->args, packed, plan);
    /* Layers that suit before addresses are known are still computed when y is not aligned. */
    assert_true(packed ||
                uf_wgrad_channel_blocked_plan_of(&layer->args, true, UF_CONV_ANY_TILE, &other));
}

static void check_packed(const plan_layer *layer, const void *plan, test_random *random) {
    (void)random;
    check_both(layer, plan, true);
}

static void check_aligned(const plan_layer *layer, const void *plan, test_random *random) {
    (void)random;
    check_both(layer, plan, false);
}

/* The plan takes FP32 and BF16. */
static bool is_multiplied(const plan_layer *layer) {
    return layer->args.math == UF_MATH_BF16 ||
           (layer->args.math == UF_MATH_FP32 && layer->args.x.dtype == UF_F32);
}

static bool packed_of(const plan_layer *layer, int tile, void *plan) {
    return is_multiplied(layer) && uf_wgrad_channel_blocked_plan_of(&layer->args, true, tile, plan);
}

static bool aligned_of(const plan_layer *layer, int tile, void *plan) {
    return is_multiplied(layer) &&
           uf_wgrad_channel_blocked_plan_of(&layer->args, false, tile, plan);
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const uf_channel_blocked_plan *plan = of;
    (void)layer;
    return (plan_facts){.cost = plan->cost,
                        .grid = {plan->blocks},
                        .shared = plan->shared,
                        .most_shared = SHARED,
                        .copies = plan->splits};
}

static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_channel_blocked_plan *plan = of;
    (void)layer;
    seen[0] += plan->twin > 0;
    seen[1] += plan->axis[0].images_log + plan->axis[1].images_log > 0;
    seen[2] += plan->classes > 1;
    seen[3] += plan->splits > 1;
    seen[4] += plan->split_f16;
    seen[5] += plan->rows > 1;
    seen[6] += plan->source != UF_CHANNEL_BLOCKED_PACKED;
}

static const plan_family packed_family = {.name = "channel_blocked, y packed",
                                          .directions = PLAN_WGRAD,
                                          .size = sizeof(uf_channel_blocked_plan),
                                          .draw = draw,
                                          .cases = 1200,
                                          .tiled = packed_of,
                                          .tiles = UF_CHANNEL_BLOCKED_IDS,
                                          .facts = facts_of,
                                          .walk = walk_blocks,
                                          .some = walk_some,
                                          .check = check_packed,
                                          .kinds = {"two taps in the rows", "images side by side",
                                                    "classes", "splits", "split f16",
                                                    "two rows of channels"},
                                          .count = count,
                                          .least_walked = 50};

static const plan_family aligned_family = {.name = "channel_blocked, y as it is",
                                           .directions = PLAN_WGRAD,
                                           .size = sizeof(uf_channel_blocked_plan),
                                           .draw = draw,
                                           .cases = 1200,
                                           .tiled = aligned_of,
                                           .tiles = UF_CHANNEL_BLOCKED_IDS,
                                           .facts = facts_of,
                                           .walk = walk_blocks,
                                           .some = walk_some,
                                           .check = check_aligned,
                                           .kinds = {"two taps in the rows", "images side by side",
                                                     "classes", "splits", "split f16",
                                                     "two rows of channels", "y as it is"},
                                           .count = count,
                                           .least_walked = 50};

int main(void) {
    const struct CMUnitTest tests[] = {plan_unit_test(&packed_family),
                                       plan_unit_test(&aligned_family)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
