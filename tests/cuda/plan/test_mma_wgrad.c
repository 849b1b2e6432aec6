/* test_mma_wgrad.c - the plan of mma_implicit_gemm, weight gradient: tiles of rows and columns make
 * every product once from boxes of pixels, and columns find in a stage what their taps meet. Needs
 * no GPU. */
#include "cuda/plan/wgrad_columns.h"

static const conv_limits limits = {.stride = 2,
                                   .large_stride = 6,
                                   .padding = 6,
                                   .dilation = 4,
                                   .kernel = 6,
                                   .extent = {2, 12, 20, 40},
                                   .batch = 9,
                                   .large_batch = 90,
                                   .small_channels = 12,
                                   .channels = 150,
                                   .groups = true};

static int32_t column_of(const void *plan, int32_t first_column, int32_t column) {
    return wgrad_column_offset(plan, first_column, column);
}

static wgrad_coord coord_of(const void *plan, int32_t first_column, int32_t entry) {
    return wgrad_coord_of(plan, first_column, entry);
}

static void walk_blocks(plan_walk *walk, const plan_layer *layer, const void *plan) {
    const wgrad_plan *p = plan;
    wgrad_columns of = {p, p, column_of, coord_of, 1, {0}};
    for (int32_t i = 0; i < WGRAD_PIXELS; ++i) {
        of.pixel[i] = wgrad_pixel_offset(p, i);
    }
    plan_claim(walk, 0, wgrad_table_bytes(p), 16);
    for (int64_t i = 0; i < p->stages; ++i) {
        plan_claim(walk, wgrad_table_bytes(p) + i * p->stage_words * 4, p->stage_words * 4, 16);
    }
    for (int32_t i = 0; i < p->tiles * p->splits; ++i) {
        const int32_t split = i % p->splits, tile = i / p->splits;
        const int32_t begin = wgrad_split_begin(p, split), end = wgrad_split_begin(p, split + 1);
        plan_share(walk, begin, end, p->all_boxes);
        wgrad_walk_boxes(walk, layer, &of, tile, begin, end);
        wgrad_store_tile(walk, p, tile);
    }
}

static void check(const plan_layer *layer, const void *plan, test_random *random) {
    const wgrad_plan *p = plan;
    (void)random;
    wgrad_check_tiles(layer, p, WGRAD_ENTRIES);
    assert_true(p->stages <= 4);
    assert_true(p->x_words + p->rows * WGRAD_PITCH <= p->stage_words);
    assert_int_equal(p->share, 0);
    assert_true(uf_wgrad_workspace(p) ==
                (size_t)p->splits * (size_t)p->tiles * (size_t)(p->rows * p->columns) * 4);
}

/* f32 tensors; others are made f32 first. */
static bool plan_of(const plan_layer *layer, int tile, void *plan) {
    *(wgrad_plan *)plan = uf_wgrad_plan_of(&layer->args, tile);
    return layer->args.x.dtype == UF_F32 && ((const wgrad_plan *)plan)->rows > 0;
}

static plan_facts facts_of(const plan_layer *layer, const void *plan) {
    const wgrad_plan *p = plan;
    (void)layer;
    return (plan_facts){.cost = p->cost,
                        .grid = {p->tiles, p->splits},
                        .shared = p->shared_bytes,
                        .most_shared = WGRAD_SHARED,
                        .workspace = (int64_t)uf_wgrad_workspace(p),
                        .copies = p->splits};
}

static void count(const plan_layer *layer, const void *plan, int64_t seen[PLAN_KINDS]) {
    const wgrad_plan *p = plan;
    (void)layer;
    ++seen[p->tile_id];
    seen[5] += p->splits > 1;
    seen[6] += !p->banded;
    seen[7] += p->step_n == 1;
    seen[8] += p->tiles_n > 1;
    seen[9] += p->tiles_m > 1;
    seen[10] += p->channels < 8;
    seen[11] += p->vector_y;
}

static const plan_family family = {
    .name = "mma_implicit_gemm wgrad",
    .directions = PLAN_WGRAD,
    .size = sizeof(wgrad_plan),
    .limits = &limits,
    .cases = 1200,
    .tiled = plan_of,
    .tiles = WGRAD_TILE_NUMBERS,
    .no_plans = 1 << 7, /* fragments alone are too many for the table */
    .facts = facts_of,
    .walk = walk_blocks,
    .check = check,
    .kinds = {"tile 0", "tile 1", "tile 2", "tile 3", "tile 4", "splits", "fragments alone",
              "images first", "tiles of columns", "tiles of rows", "few channels", "vectors of y"},
    .count = count,
    .least_walked = 100};

int main(void) {
    const struct CMUnitTest tests[] = {plan_unit_test(&family)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
