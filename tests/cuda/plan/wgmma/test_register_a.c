/* test_register_a.c - the plan of register_a, a weight gradient: splits or shares of the boxes of
 * all tiles make every product once, and columns find in a stage what their taps meet. Needs no
 * GPU. */
#include "cuda/plan/wgrad_columns.h"

#include "kernels/cuda/conv/wgmma_wgrad/register_a/plan.h"

static const conv_limits limits = {.stride = 2,
                                   .large_stride = 5,
                                   .padding = 6,
                                   .dilation = 3,
                                   .kernel = 6,
                                   .extent = {4, 12, 24, 40},
                                   .batch = 9,
                                   .large_batch = 60,
                                   .small_channels = 16,
                                   .channels = 200,
                                   .groups = true};

static int32_t column_of(const void *plan, int32_t first_column, int32_t column) {
    return wgrad_rs_column_offset(plan, first_column, column);
}

static wgrad_coord coord_of(const void *plan, int32_t first_column, int32_t entry) {
    return wgrad_rs_coord_of(plan, first_column, entry);
}

/* A pixel adds as many words as its bits do: the two lowest, and the others. */
static wgrad_columns columns_of(const wgrad_rs_plan *plan) {
    wgrad_columns of = {&plan->sums, plan, column_of, coord_of, plan->vector, {0}};
    for (int32_t i = 0; i < WGRAD_PIXELS; ++i) {
        of.pixel[i] = wgrad_pixel_offset(&plan->sums, i & 3) + plan->run[i / 4] / 4;
    }
    return of;
}

/* One part of the boxes: of a tile from one of its boxes on, then of further tiles. The CTA with a
 * tile's first boxes stands for all that leave sums of it. */
static void walk_part(plan_walk *walk, const plan_layer *layer, const wgrad_columns *of,
                      const wgrad_rs_part *part, int32_t share) {
    const wgrad_plan *p = of->p;
    for (int32_t on = 0; wgrad_rs_boxes_of(p, part, on) > 0; ++on) {
        const int32_t tile = part->tile + on, boxes = wgrad_rs_boxes_of(p, part, on);
        const int32_t begin = on == 0 ? part->box : 0;
        plan_share(walk, (int64_t)tile * p->all_boxes + begin,
                   (int64_t)tile * p->all_boxes + begin + boxes, (int64_t)p->tiles * p->all_boxes);
        wgrad_walk_boxes(walk, layer, of, tile, begin, begin + boxes);
        if (begin == 0) {
            wgrad_store_tile(walk, p, tile);
        }
        if (p->share > 0) { /* its sum is one of the tile's */
            const wgrad_sums sums = wgrad_sums_of(p, tile);
            assert_true(share + tile >= sums.first && share + tile < sums.first + sums.count);
            assert_int_equal(sums.step, 1);
            assert_true(sums.count <= p->splits);
        }
    }
}

static void walk_blocks(plan_walk *walk, const plan_layer *layer, const void *of) {
    const wgrad_rs_plan *plan = of;
    const wgrad_plan *p = &plan->sums;
    const wgrad_columns columns = columns_of(plan);
    const int64_t before = WGRAD_RS_BARRIERS + wgrad_table_bytes(p);
    wgrad_rs_part part;
    plan_claim(walk, 0, before, 16);
    for (int64_t i = 0; i < p->stages; ++i) {
        plan_claim(walk, before + i * p->stage_words * 4, p->stage_words * 4, 16);
    }
    for (int32_t share = 0; p->share > 0 && share < wgrad_shares(p); ++share) {
        wgrad_rs_share_of(p, share, &part);
        walk_part(walk, layer, &columns, &part, share);
    }
    for (int32_t i = 0; p->share == 0 && i < p->tiles * p->splits; ++i) {
        wgrad_rs_split_of(p, i / p->splits, i % p->splits, &part);
        walk_part(walk, layer, &columns, &part, 0);
    }
}

/* Planes of y do not meet in a stage, and lie before x. */
static void check_stage(const plan_layer *layer, const wgrad_rs_plan *plan) {
    const wgrad_plan *p = &plan->sums;
    const uf_mma_math math = uf_mma_math_of(&layer->args);
    const int32_t pieces = WGRAD_PIXELS / WGRAD_RS_PER_PIECE(math);
    const int32_t sets = math == UF_MMA_TF32 ? 1 : 2;
    assert_true(plan->plane >= p->rows * 16 && plan->plane % 16 == 0);
    assert_true(plan->set >= pieces * plan->plane);
    assert_true((p->stage_words - p->x_words) * 4 >= sets * plan->set);
    for (int step = 0; step < 2 * sets && step * 2 < pieces; ++step) {
        assert_int_equal(plan->operand[0][step] * 16, step * 2 * plan->plane);
        assert_int_equal(plan->operand[1][step] * 16, plan->set + step * 2 * plan->plane);
    }
}

/* Aligned runs of x stay so from box to box: columns of the image are what the lead makes them. */
static void check_vectors(const wgrad_rs_plan *plan) {
    const wgrad_plan *p = &plan->sums;
    assert_true(plan->vector == 1 || plan->vector == 2 || plan->vector == 4);
    if (plan->vector > 1) {
        assert_int_equal((p->padding[1] + plan->lead) % plan->vector, 0);
        assert_int_equal((p->stride[1] << p->log_q) % plan->vector, 0);
        assert_int_equal(p->large[1] % plan->vector, 0);
        assert_int_equal(p->step_h % plan->vector, 0);
        assert_int_equal(p->pitch % plan->vector, 0);
        assert_int_equal(p->x_stride[3], 1);
        for (int axis = 0; axis < 3; ++axis) {
            assert_int_equal(p->x_stride[axis] % plan->vector, 0);
        }
    }
}

static void check(const plan_layer *layer, const void *of, test_random *random) {
    const wgrad_rs_plan *plan = of;
    const wgrad_plan *p = &plan->sums;
    (void)random;
    wgrad_check_tiles(layer, p, WGRAD_RS_ENTRIES);
    check_stage(layer, plan);
    check_vectors(plan);
    assert_true(p->stages <= WGRAD_RS_STAGES);
    assert_int_equal(p->columns, plan->mmas * WGRAD_RS_M);
    assert_true(p->rows == 32 || p->rows == 64 || p->rows == 128);
    assert_int_equal(WGRAD_RS_PRODUCERS % plan->group_warps, 0);
    assert_true(plan->group_warps * p->stages >= WGRAD_RS_PRODUCERS);
    assert_true(p->share == 0 || WGRAD_RS_SHARES(uf_mma_math_of(&layer->args), p->rows));
}

/* f32 tensors; others are made f32 first. */
static bool plan_of(const plan_layer *layer, int tile, void *plan) {
    *(wgrad_rs_plan *)plan = uf_wgrad_rs_plan_of(&layer->args, tile);
    return layer->args.x.dtype == UF_F32 && ((const wgrad_rs_plan *)plan)->sums.rows > 0;
}

static bool moved_plan_of(const plan_layer *layer, int tile, void *plan) {
    *(wgrad_rs_plan *)plan = uf_wgrad_rs_plan_at(&layer->args, tile);
    return layer->args.x.dtype == UF_F32 && ((const wgrad_rs_plan *)plan)->sums.rows > 0;
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const wgrad_rs_plan *plan = of;
    const wgrad_plan *p = &plan->sums;
    (void)layer;
    return (plan_facts){
        .cost = plan->cost,
        .grid = {p->share > 0 ? wgrad_shares(p) : p->tiles, p->share > 0 ? 1 : p->splits},
        .threads = 128 * WGRAD_RS_CONSUMERS + 32 * WGRAD_RS_PRODUCERS,
        .shared = p->shared_bytes,
        .most_shared = WGRAD_RS_SHARED,
        .workspace = (int64_t)uf_wgrad_workspace(p)};
}

static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const wgrad_rs_plan *plan = of;
    const wgrad_plan *p = &plan->sums;
    (void)layer;
    seen[0] += p->share > 0;
    seen[1] += p->share == 0 && p->splits > 1;
    seen[2] += plan->vector == 4;
    seen[3] += plan->vector == 1;
    seen[4] += p->rows == 32;
    seen[5] += p->rows == 64;
    seen[6] += p->rows == 128;
    seen[7] += p->tiles_n > 1;
    seen[8] += p->channels < 8;
    seen[9] += plan->lead > 0;
}

static const plan_family family = {.name = "register_a",
                                   .directions = PLAN_WGRAD,
                                   .size = sizeof(wgrad_rs_plan),
                                   .limits = &limits,
                                   .cases = 700,
                                   .tiled = plan_of,
                                   .tiles = WGRAD_RS_TILE_NUMBERS,
                                   .facts = facts_of,
                                   .walk = walk_blocks,
                                   .check = check,
                                   .kinds = {"shares", "splits", "vectors of 4", "single words",
                                             "32 rows", "64 rows", "128 rows", "tiles of columns",
                                             "few channels", "rows that begin early"},
                                   .count = count,
                                   .least_walked = 100};

/* Tensors away from 16 bytes: the same splits, narrower copies. */
static void draw_moved(test_random *random, plan_layer *layer) {
    layer->args = random_conv(random, &limits);
    layer->args.x.data = (char *)layer->args.x.data + 4 * test_random_integer(random, 0, 3);
    layer->args.y.data = (char *)layer->args.y.data + 4 * test_random_integer(random, 0, 3);
}

static void check_moved(const plan_layer *layer, const void *of, test_random *random) {
    const wgrad_rs_plan *plan = of;
    wgrad_rs_plan other;
    check(layer, of, random);
    assert_true(plan_of(layer, plan_tile(), &other));
    assert_int_equal(plan->sums.splits, other.sums.splits);
    assert_int_equal(plan->sums.share, other.sums.share);
    assert_true(plan->vector == 1 || (uintptr_t)layer->args.x.data % 16 == 0);
    assert_true(!plan->sums.vector_y || (uintptr_t)layer->args.y.data % 16 == 0);
}

static const plan_family moved_family = {.name = "register_a, moved",
                                         .directions = PLAN_WGRAD,
                                         .size = sizeof(wgrad_rs_plan),
                                         .draw = draw_moved,
                                         .cases = 200,
                                         .tiled = moved_plan_of,
                                         .tiles = WGRAD_RS_TILE_NUMBERS,
                                         .facts = facts_of,
                                         .walk = walk_blocks,
                                         .check = check_moved,
                                         .least_walked = 50};

int main(void) {
    const struct CMUnitTest tests[] = {plan_unit_test(&family), plan_unit_test(&moved_family)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
