/* test_small.c - the plans of mma_small: blocks make every product and store every element once,
 * from windows that hold what their taps meet; no two things have one place in shared memory. Needs
 * no GPU. */
#include "cuda/plan/walk.h"

#include <string.h>

#include "kernels/cuda/conv/mma_small/plan.h"
#include "kernels/geometry.h"

enum { WALKED_TABLES = 2 /* steps of K behind the last one, which are read and not multiplied */ };

static const conv_limits limits = {.stride = 3,
                                   .large_stride = 9,
                                   .padding = 6,
                                   .dilation = 4,
                                   .kernel = 7,
                                   .extent = {2, 12, 40, 90},
                                   .batch = 9,
                                   .large_batch = 200,
                                   .small_channels = 9,
                                   .channels = 300,
                                   .groups = true,
                                   .bf16 = true};

static void check_boxes(const int32_t box[3], const int32_t boxes[3], const int64_t positions[3],
                        int32_t most) {
    int64_t together = 1;
    for (int axis = 0; axis < 3; ++axis) {
        assert_true(box[axis] >= 1 && (int64_t)box[axis] * boxes[axis] >= positions[axis] &&
                    (int64_t)box[axis] * (boxes[axis] - 1) < positions[axis]);
        together *= box[axis];
    }
    assert_true(together <= most);
}

static void check_shares(int32_t all, int32_t per_split, int32_t splits) {
    assert_true((int64_t)per_split * splits >= all && (int64_t)per_split * (splits - 1) < all);
}

static int32_t least(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* ---- fprop and dgrad ---- */

static uf_axis_walk axis_of(const plan_layer *layer, int axis, int64_t phase) {
    const uf_conv_kernel_args *args = &layer->args;
    return layer->direction == UF_CONV_DGRAD
               ? uf_axis_dgrad(args->x.extent[2 + axis], args->w.extent[2 + axis],
                               args->stride[axis], args->padding[axis], args->dilation[axis], phase)
               : uf_axis_fprop(args->y.extent[2 + axis], args->w.extent[2 + axis],
                               args->stride[axis], args->padding[axis], args->dilation[axis]);
}

/* A block: its box, its channels, its share of the chunks. */
typedef struct small_block {
    int64_t group, image, position[2], channel, split;
} small_block;

static small_block block_of(const uf_small_plan *plan, int64_t block) {
    small_block at;
    at.split = block % plan->splits;
    block /= plan->splits;
    at.channel = block % plan->channel_tiles * plan->tile_channels;
    block /= plan->channel_tiles;
    at.position[1] = block % plan->boxes[2] * plan->box[2];
    block /= plan->boxes[2];
    at.position[0] = block % plan->boxes[1] * plan->box[1];
    block /= plan->boxes[1];
    at.image = block % plan->boxes[0] * plan->box[0];
    at.group = block / plan->boxes[0];
    return at;
}

/* One position of a box and one of its elements, `coord` within a step of the written side. */
static void walk_element(plan_walk *walk, const plan_layer *layer, const uf_small_plan *plan,
                         const small_block *block, const int64_t in_box[3],
                         const int64_t coord[2]) {
    const bool dgrad = layer->direction == UF_CONV_DGRAD;
    uf_axis_walk of[2];
    plan_term term = {.n = block->image + in_box[0], .group = block->group};
    int64_t *const written = dgrad ? term.large : term.small;
    int64_t *const read = dgrad ? term.small : term.large;
    int64_t *const one = dgrad ? term.c : term.k, *const sum = dgrad ? term.k : term.c;
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t step = dgrad ? layer->args.stride[axis] : 1;
        of[axis] =
            axis_of(layer, axis, dgrad ? (coord[axis] + layer->args.padding[axis]) % step : 0);
        written[axis] = (block->position[axis] + in_box[1 + axis]) * step + coord[axis];
    }
    one[0] = block->channel;
    one[1] = block->channel + plan->tile_channels;
    plan_store(walk, &term);
    const int64_t taps = of[0].taps * of[1].taps;
    assert_true(plan->depth * taps <= plan->most_steps);
    for (int64_t i = 0; i < taps; ++i) {
        const int64_t tap[2] = {i / of[1].taps, i % of[1].taps};
        for (int axis = 0; axis < 2; ++axis) {
            const int64_t in_window = in_box[1 + axis] * of[axis].in_step + of[axis].in_first +
                                      tap[axis] * of[axis].in_tap_step - plan->first[axis];
            assert_true(in_window >= 0 && in_window < plan->window[axis]);
            read[axis] = block->position[axis] * of[axis].in_step + plan->first[axis] + in_window;
            term.tap[axis] = of[axis].tap_first + tap[axis] * of[axis].tap_step;
        }
        const int32_t first = (int32_t)block->split * plan->per_split;
        for (int32_t chunk = first; chunk < least(first + plan->per_split, plan->chunks); ++chunk) {
            sum[0] = (int64_t)chunk * plan->depth;
            sum[1] = sum[0] + plan->depth;
            plan_make(walk, &term);
        }
    }
}

static int64_t blocks_of(const uf_small_plan *plan, int64_t groups) {
    return (int64_t)plan->boxes[0] * plan->boxes[1] * plan->boxes[2] * plan->channel_tiles *
           plan->splits * groups;
}

/* Tables, then chunks; sums take the place of these in the end. */
static void claim(plan_walk *walk, const uf_small_plan *plan) {
    const int64_t words = INT64_C(2) * plan->pieces + plan->plane +
                          (int64_t)plan->phases * plan->most_steps +
                          (int64_t)WALKED_TABLES * plan->step;
    const int64_t tables = (words + 3) / 4 * 16;
    plan_claim(walk, 0, tables, 16);
    for (int32_t i = 0; i < least(plan->per_split, UF_SMALL_STAGES); ++i) {
        plan_claim(walk, tables + (int64_t)i * plan->stage, plan->stage, 16);
    }
    assert_true(tables + INT64_C(4) * plan->depth_warps * plan->phases * plan->tile_channels *
                             plan->staging_pitch <=
                plan->shared);
}

static void walk_blocks(plan_walk *walk, const plan_layer *layer, const void *of) {
    const uf_small_plan *plan = of;
    const bool dgrad = layer->direction == UF_CONV_DGRAD;
    const int64_t step[2] = {dgrad ? layer->args.stride[0] : 1, dgrad ? layer->args.stride[1] : 1};
    const int32_t pixels = plan->wide && !plan->tall ? 32 : 64; /* of a warp */
    claim(walk, plan);
    assert_int_equal(plan->phases, step[0] * step[1]);
    for (int64_t i = 0; i < blocks_of(plan, layer->args.groups); ++i) {
        const small_block block = block_of(plan, i);
        for (int64_t j = 0; j < (int64_t)plan->pixel_warps * pixels * plan->phases; ++j) {
            const int64_t at = j / plan->phases, phase = j % plan->phases;
            const int64_t coord[2] = {phase / step[1], phase % step[1]};
            const int64_t in_box[3] = {at / plan->box[2] / plan->box[1],
                                       at / plan->box[2] % plan->box[1], at % plan->box[2]};
            if (in_box[0] < plan->box[0]) {
                walk_element(walk, layer, plan, &block, in_box, coord);
            }
        }
    }
}

/* Steps that fill no whole MMA multiply a plane of zeros. */
static void check_padding(const plan_layer *layer, const uf_small_plan *plan) {
    for (int64_t phase = 0; phase < plan->phases; ++phase) {
        const int64_t across = layer->direction == UF_CONV_DGRAD ? layer->args.stride[1] : 1;
        const int64_t taps =
            axis_of(layer, 0, phase / across).taps * axis_of(layer, 1, phase % across).taps;
        assert_true(plan->depth * taps % plan->step == 0 || plan->padded);
        assert_true(plan->depth * taps <= plan->most_steps);
    }
}

static void check_layout(const plan_layer *layer, const uf_small_plan *plan) {
    const bool dgrad = layer->direction == UF_CONV_DGRAD;
    const int64_t element = (int64_t)uf_dtype_size(layer->args.x.dtype), unit = 16 / element;
    const int64_t taps = layer->args.w.extent[2] * layer->args.w.extent[3];
    assert_true((int64_t)plan->box[0] * plan->window[0] * plan->window[1] <= plan->plane);
    assert_int_equal(plan->plane * element % 16, 0);
    assert_int_equal(plan->row_pitch % unit, 0);
    /* Rows of w do not meet, nor channels of a row. */
    const int64_t in_row = dgrad ? plan->tile_channels : plan->depth;
    const int64_t channel = dgrad ? plan->across : plan->deep;
    assert_true(channel >= taps && (in_row - 1) * channel + taps <= plan->row_pitch);
    assert_int_equal(dgrad ? plan->deep : plan->across, plan->row_pitch);
    assert_true(!plan->vector || channel == taps || (taps % unit == 0 && channel % unit == 0));
    const int64_t rows = dgrad ? plan->depth : plan->tile_channels;
    const int64_t planes = plan->depth + (plan->padded ? 1 : 0);
    assert_true((planes * plan->plane + rows * plan->row_pitch) * element <= plan->stage);
    assert_true(plan->stage < 1 << 16); /* the table of steps has 16 bits for places */
}

static void check(const plan_layer *layer, const void *of, test_random *random) {
    const uf_small_plan *plan = of;
    const uf_view *written = plan_written(layer);
    const int32_t pixels = plan->wide && !plan->tall ? 32 : 64;
    int64_t positions[3] = {written->extent[0]};
    (void)random;
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t step = layer->direction == UF_CONV_DGRAD ? layer->args.stride[axis] : 1;
        positions[1 + axis] = (written->extent[2 + axis] + step - 1) / step;
    }
    check_boxes(plan->box, plan->boxes, positions, plan->tile_pixels);
    check_shares(plan->chunks, plan->per_split, plan->splits);
    assert_true((int64_t)plan->depth * plan->chunks * layer->args.groups >=
                plan_read(layer)->extent[1]);
    assert_true((int64_t)plan->tile_channels * plan->channel_tiles * layer->args.groups >=
                written->extent[1]);
    assert_int_equal(plan->pixel_warps * pixels, plan->tile_pixels);
    assert_int_equal(plan->channel_warps * (plan->wide || plan->tall ? 32 : 8),
                     plan->tile_channels);
    assert_true(plan->warps ==
                    plan->phases * plan->pixel_warps * plan->channel_warps * plan->depth_warps &&
                plan->warps <= (plan->tall ? UF_SMALL_TALL_WARPS : UF_SMALL_WARPS));
    assert_int_equal(plan->depth_warps, 1 << plan->depth_log);
    check_padding(layer, plan);
    check_layout(layer, plan);
}

static bool plan_of(const plan_layer *layer, int tile, void *plan) {
    return uf_small_plan_of(layer->direction, &layer->args, tile, plan);
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const uf_small_plan *plan = of;
    return (plan_facts){.cost = plan->micros,
                        .grid = {blocks_of(plan, layer->args.groups)},
                        .threads = 32 * plan->warps,
                        .shared = plan->shared,
                        .most_shared = UF_SMALL_SHARED,
                        .copies = plan->splits};
}

static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_small_plan *plan = of;
    (void)layer;
    seen[0] += plan->splits > 1;
    seen[1] += plan->tall;
    seen[2] += plan->depth_warps > 1;
    seen[3] += plan->padded;
    seen[4] += plan->box[0] > 1;
    seen[5] += plan->phases > 1;
}

static const plan_family family = {
    .name = "mma_small",
    .directions = PLAN_FPROP | PLAN_DGRAD,
    .size = sizeof(uf_small_plan),
    .limits = &limits,
    .cases = 1500,
    .tiled = plan_of,
    .tiles = UF_SMALL_TILES,
    .no_plans = 1 << 11, /* 32 warps */
    .facts = facts_of,
    .walk = walk_blocks,
    .check = check,
    .kinds = {"splits", "tall", "depth shared", "padded", "images together", "phases"},
    .count = count,
    .least_walked = 100};

/* ---- the weight gradient ---- */

static int64_t wgrad_blocks_of(const uf_small_wgrad_plan *plan, int64_t groups) {
    return (int64_t)plan->row_tiles * plan->channel_tiles * plan->splits * groups;
}

/* A box of positions with all taps: x lies in the window as loaded, y as walked. */
static void walk_box(plan_walk *walk, const plan_layer *layer, const uf_small_wgrad_plan *plan,
                     plan_term term, int32_t box) {
    const uf_conv_kernel_args *args = &layer->args;
    const int64_t first[3] = {(int64_t)(box / plan->boxes[2] / plan->boxes[1]) * plan->box[0],
                              (int64_t)(box / plan->boxes[2] % plan->boxes[1]) * plan->box[1],
                              (int64_t)(box % plan->boxes[2]) * plan->box[2]};
    const int64_t taps = args->w.extent[2] * args->w.extent[3];
    for (int64_t i = 0; i < plan->positions * taps; ++i) {
        const int64_t at = i / taps, tap = i % taps;
        const int64_t in_box[3] = {at / plan->box[2] / plan->box[1],
                                   at / plan->box[2] % plan->box[1], at % plan->box[2]};
        if (in_box[0] >= plan->box[0]) {
            continue;
        }
        term.n = first[0] + in_box[0];
        term.tap[0] = tap / args->w.extent[3];
        term.tap[1] = tap % args->w.extent[3];
        for (int axis = 0; axis < 2; ++axis) {
            const int64_t in_window =
                in_box[1 + axis] * args->stride[axis] + term.tap[axis] * args->dilation[axis];
            assert_true(in_window < plan->window[axis]);
            term.small[axis] = first[1 + axis] + in_box[1 + axis];
            term.large[axis] =
                first[1 + axis] * args->stride[axis] - args->padding[axis] + in_window;
        }
        plan_make(walk, &term);
    }
}

static void walk_wgrad(plan_walk *walk, const plan_layer *layer, const void *of) {
    const uf_small_wgrad_plan *plan = of;
    const int64_t element = (int64_t)uf_dtype_size(layer->args.x.dtype);
    const int64_t step = layer->args.math == UF_MATH_BF16 || element == 2 ? 16 : 8;
    const int64_t table = 4 * (plan->positions + 2 * step);
    plan_claim(walk, 0, table, 4);
    for (int32_t i = 0; i < least(plan->per_split, UF_SMALL_STAGES); ++i) {
        plan_claim(walk, table + i * plan->stage * element, plan->stage * element, 16);
    }
    assert_true(table + INT64_C(4) * plan->depth_warps * plan->rows * plan->staging_pitch <=
                plan->shared);
    assert_int_equal(plan->positions % step, 0);
    for (int64_t i = 0; i < wgrad_blocks_of(plan, layer->args.groups); ++i) {
        const int64_t c = i % plan->channel_tiles * plan->channels, rest = i / plan->channel_tiles;
        const int64_t k = rest % plan->row_tiles * plan->rows, all = rest / plan->row_tiles;
        const int32_t split = (int32_t)(all % plan->splits);
        plan_term term = {
            .group = all / plan->splits, .k = {k, k + plan->rows}, .c = {c, c + plan->channels}};
        for (int64_t tap = 0; tap < layer->args.w.extent[2] * layer->args.w.extent[3]; ++tap) {
            term.tap[0] = tap / layer->args.w.extent[3];
            term.tap[1] = tap % layer->args.w.extent[3];
            plan_store(walk, &term);
        }
        for (int32_t box = split * plan->per_split;
             box < least((split + 1) * plan->per_split, plan->all_boxes); ++box) {
            walk_box(walk, layer, plan, term, box);
        }
    }
}

static void check_wgrad(const plan_layer *layer, const void *of, test_random *random) {
    const uf_small_wgrad_plan *plan = of;
    const uf_view *y = &layer->args.y;
    const int64_t positions[3] = {y->extent[0], y->extent[2], y->extent[3]};
    const int64_t taps = layer->args.w.extent[2] * layer->args.w.extent[3];
    (void)random;
    check_boxes(plan->box, plan->boxes, positions, plan->positions);
    assert_int_equal(plan->all_boxes, (int64_t)plan->boxes[0] * plan->boxes[1] * plan->boxes[2]);
    check_shares(plan->all_boxes, plan->per_split, plan->splits);
    assert_true((int64_t)plan->rows * plan->row_tiles * layer->args.groups >=
                layer->args.w.extent[0]);
    assert_true((int64_t)plan->channels * plan->channel_tiles >= layer->args.w.extent[1]);
    assert_true(plan->positions <= plan->row_pitch);
    assert_true((int64_t)plan->box[0] * plan->window[0] * plan->window[1] <= plan->plane);
    assert_true(plan->channels * taps <= plan->columns && plan->columns <= plan->staging_pitch);
    assert_true(plan->columns <= 32 * plan->column_warps && plan->rows <= 32 * plan->row_warps);
    assert_true((int64_t)plan->rows * plan->row_pitch + (int64_t)plan->channels * plan->plane <=
                plan->stage);
    assert_true(plan->warps == plan->row_warps * plan->column_warps * plan->depth_warps &&
                plan->warps <= UF_SMALL_WARPS);
    assert_int_equal(plan->depth_warps, 1 << plan->depth_log);
}

static bool wgrad_plan_of(const plan_layer *layer, int tile, void *plan) {
    return uf_small_wgrad_plan_of(&layer->args, tile, plan);
}

static plan_facts wgrad_facts_of(const plan_layer *layer, const void *of) {
    const uf_small_wgrad_plan *plan = of;
    return (plan_facts){.cost = plan->micros,
                        .grid = {wgrad_blocks_of(plan, layer->args.groups)},
                        .threads = 32 * plan->warps,
                        .shared = plan->shared,
                        .most_shared = UF_SMALL_SHARED,
                        .copies = plan->splits};
}

static void count_wgrad(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_small_wgrad_plan *plan = of;
    (void)layer;
    seen[0] += plan->splits > 1;
    seen[1] += plan->depth_warps > 1;
    seen[2] += plan->box[0] > 1;
    seen[3] += plan->channel_tiles > 1;
    seen[4] += plan->row_tiles > 1;
}

static const plan_family wgrad_family = {.name = "mma_small wgrad",
                                         .directions = PLAN_WGRAD,
                                         .size = sizeof(uf_small_wgrad_plan),
                                         .limits = &limits,
                                         .cases = 1500,
                                         .tiled = wgrad_plan_of,
                                         .tiles = UF_SMALL_WGRAD_TILES,
                                         .facts = wgrad_facts_of,
                                         .walk = walk_wgrad,
                                         .check = check_wgrad,
                                         .kinds = {"splits", "depth shared", "images together",
                                                   "tiles of x's channels",
                                                   "tiles of y's channels"},
                                         .count = count_wgrad,
                                         .least_walked = 100};

static void divides(void **state) {
    (void)state;
    test_random random = test_random_for("small_divide", 0);
    for (int64_t i = 0; i < 600000; ++i) {
        const int64_t most = INT64_C(1) << test_random_integer(&random, 0, 31);
        const int32_t by = (int32_t)test_random_integer(&random, 1, most > 1 ? most - 1 : 1);
        int64_t number = test_random_integer(&random, 0, INT32_MAX);
        if (test_random_one_in(&random, 2)) { /* beside a multiple */
            number = number / by * by - test_random_integer(&random, 0, 1);
            number = number < 0 ? 0 : number;
        }
        assert_int_equal(uf_small_divide((int32_t)number, uf_small_divisor_of(by)), number / by);
    }
}

/* Planes of more positions than an int has are refused, and counted in 64 bits until then: the
 * sanitizers look on. */
static void refuses_large_planes(void **state) {
    (void)state;
    const int64_t high = INT64_C(1) << 16, wide = (INT64_C(1) << 16) + 1;
    const uf_conv_kernel_args args = {.x = uf_view_nchw((void *)4096, UF_F32, 2, 8, high, wide),
                                      .w = uf_view_nchw((void *)4096, UF_F32, 8, 8, 1, 1),
                                      .y = uf_view_nchw((void *)4096, UF_F32, 2, 8, high, wide),
                                      .stride = {1, 1},
                                      .dilation = {1, 1},
                                      .groups = 1};
    uf_small_wgrad_plan plan;
    assert_false(uf_small_wgrad_plan_of(&args, UF_CONV_ANY_TILE, &plan));
}

int main(void) {
    const struct CMUnitTest tests[] = {plan_unit_test(&family), plan_unit_test(&wgrad_family),
                                       cmocka_unit_test(divides),
                                       cmocka_unit_test(refuses_large_planes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
