/* test_mma_implicit_gemm.c - the plan of mma_implicit_gemm, fprop and dgrad: blocks make every
 * product of their tiles once, k-tiles by splits, and leave out only taps that meet nothing. Needs
 * no GPU. */
#include "cuda/plan/walk.h"

#include "cuda/plan/helpers.h"
#include "kernels/cuda/conv/mma_implicit_gemm/plan.h"
#include "kernels/cuda/conv/registry.h"

static const conv_limits limits = {.stride = 3,
                                   .large_stride = 19,
                                   .padding = 6,
                                   .dilation = 4,
                                   .kernel = 6,
                                   .extent = {2, 12, 20, 60},
                                   .batch = 9,
                                   .large_batch = 40,
                                   .small_channels = 20,
                                   .channels = 300,
                                   .groups = true};

typedef struct mma_range {
    int64_t begin, end;
} mma_range;

/* Taps of an axis from the first to the last that some pixel of the block can use. */
static mma_range used_taps(const mma_axis *axis, const int32_t read_first[MMA_PIXELS],
                           const bool there[MMA_PIXELS], int32_t taps) {
    mma_range used = {taps, 0};
    for (int64_t i = 0; i < (int64_t)taps * MMA_PIXELS; ++i) {
        const int64_t tap = i / MMA_PIXELS, m = i % MMA_PIXELS;
        const int64_t at = read_first[m] + tap * axis->in_tap_step;
        if (there[m] && at >= 0 && at < axis->read) {
            used.begin = tap < used.begin ? tap : used.begin;
            used.end = tap + 1;
        }
    }
    used.begin = used.end == 0 ? 0 : used.begin;
    return used;
}

typedef struct mma_tile_of_pixels {
    mma_walk walk[2];
    mma_pixel pixel[MMA_PIXELS];
    mma_range taps[2];
} mma_tile_of_pixels;

/* False: no such tile of this phase. */
static bool locate(const mma_conv *p, const mma_block *block, mma_tile_of_pixels *made) {
    int32_t first[2][MMA_PIXELS];
    bool there[MMA_PIXELS];
    made->walk[0] = mma_walk_of(&p->axis[0], block->phase / p->axis[1].phases);
    made->walk[1] = mma_walk_of(&p->axis[1], block->phase % p->axis[1].phases);
    if ((int64_t)block->tile * MMA_PIXELS >=
        (int64_t)p->batch * made->walk[0].out_count * made->walk[1].out_count) {
        return false;
    }
    for (int32_t m = 0; m < MMA_PIXELS; ++m) {
        made->pixel[m] =
            mma_locate(p, &made->walk[0], &made->walk[1], block->tile * MMA_PIXELS + m);
        there[m] = made->pixel[m].there;
        first[0][m] = made->pixel[m].read_h;
        first[1][m] = made->pixel[m].read_w;
    }
    for (int axis = 0; axis < 2; ++axis) {
        made->taps[axis] =
            p->batch_fastest ? used_taps(&p->axis[axis], first[axis], there, made->walk[axis].taps)
                             : (mma_range){0, made->walk[axis].taps};
    }
    return true;
}

/* All pixels of a tile with one tap and one chunk of channels; or, to be stored, none. */
static void walk_k_tile(plan_walk *walk, const mma_conv *p, bool dgrad,
                        const mma_tile_of_pixels *tile, const int64_t tap[2], plan_term *term) {
    int64_t *const written = dgrad ? term->large : term->small;
    int64_t *const read = dgrad ? term->small : term->large;
    for (int axis = 0; axis < 2 && tap != NULL; ++axis) {
        term->tap[axis] = tile->walk[axis].tap_first + tap[axis] * p->axis[axis].tap_step;
    }
    for (int m = 0; m < MMA_PIXELS; ++m) {
        const mma_pixel *at = &tile->pixel[m];
        term->n = at->there ? at->n : -1;
        written[0] = tile->walk[0].out_first + (int64_t)at->h * p->axis[0].out_step;
        written[1] = tile->walk[1].out_first + (int64_t)at->w * p->axis[1].out_step;
        if (tap == NULL) {
            plan_store(walk, term);
            continue;
        }
        read[0] = at->read_h + tap[0] * p->axis[0].in_tap_step;
        read[1] = at->read_w + tap[1] * p->axis[1].in_tap_step;
        plan_make(walk, term);
    }
}

static void walk_block(plan_walk *walk, const plan_layer *layer, const mma_plan *plan,
                       const mma_block *block, const mma_tile_of_pixels *tile, int64_t split) {
    const mma_conv *p = &plan->conv;
    const bool dgrad = layer->direction == UF_CONV_DGRAD;
    const int64_t depth = uf_mma_math_of(&layer->args) == UF_MMA_BF16 ? 32 : 16;
    const int64_t across = tile->taps[1].end - tile->taps[1].begin;
    const int64_t window = (tile->taps[0].end - tile->taps[0].begin) * across;
    const int64_t all = p->chunks * window, first = block->channel_block % p->blocks_n;
    plan_term term = {.group = block->channel_block / p->blocks_n};
    int64_t *const written = dgrad ? term.c : term.k, *const read = dgrad ? term.k : term.c;
    written[0] = first * plan->tile_n;
    written[1] = written[0] + plan->tile_n;
    walk_k_tile(walk, p, dgrad, tile, NULL, &term);
    for (int64_t i = all * split / p->splits; i < all * (split + 1) / p->splits; ++i) {
        const int64_t tap[2] = {tile->taps[0].begin + i % window / across,
                                tile->taps[1].begin + i % window % across};
        read[0] = i / window * depth;
        read[1] = read[0] + depth;
        walk_k_tile(walk, p, dgrad, tile, tap, &term);
    }
}

static void walk_blocks(plan_walk *walk, const plan_layer *layer, const void *of) {
    const mma_plan *plan = of;
    mma_tile_of_pixels tile;
    for (int64_t i = 0; i < plan->blocks; ++i) {
        const mma_block block = mma_block_of(&plan->conv, (int32_t)i);
        for (int64_t split = 0; locate(&plan->conv, &block, &tile) && split < plan->conv.splits;
             ++split) {
            walk_block(walk, layer, plan, &block, &tile, split);
        }
    }
}

static void check(const plan_layer *layer, const void *of, test_random *random) {
    const mma_plan *plan = of;
    const uf_view *written = plan_written(layer);
    (void)random;
    assert_true(plan->tile_n == 32 || plan->tile_n == 64 || plan->tile_n == 128);
    assert_true((plan->conv.blocks_n - 1) * plan->tile_n < plan->conv.written_per_group);
    assert_true(plan->conv.splits >= 1 && plan->conv.splits <= 64);
    assert_int_equal(plan->conv.partial_count, uf_view_count(written));
    /* Packed weights, then the sums of the splits. */
    const int64_t taps = layer->args.w.extent[2] * layer->args.w.extent[3];
    const int64_t depth = uf_mma_math_of(&layer->args) == UF_MMA_BF16 ? 32 : 16;
    const int64_t packed = layer->args.groups * plan->conv.blocks_n * plan->tile_n *
                           plan->conv.chunks * depth * taps * (depth == 32 ? 2 : 4);
    assert_true(plan->workspace >=
                packed +
                    (plan->conv.splits > 1 ? plan->conv.splits * plan->conv.partial_count * 4 : 0));
    assert_true(plan->pack_rows >= 1 && plan->pack_rows <= 65535);
    assert_true(plan->add_rows <= 65535);
}

/* f32 tensors; others are made f32 first. */
static bool plan_of(const plan_layer *layer, int tile, void *plan) {
    mma_plan *const made = plan;
    *made = uf_mma_shape_of(layer->direction, &layer->args, tile);
    uf_mma_bind(made, layer->direction, &layer->args);
    return layer->args.x.dtype == UF_F32;
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const mma_plan *plan = of;
    const uf_conv_problem problem = tiled_problem_of(layer->direction, &layer->args, plan_tile());
    uf_conv_plan object;
    assert_true(uf_conv_plan_mma_implicit_gemm(&problem, &object));
    return (plan_facts){.cost = object.cost,
                        .grid = {plan->blocks, plan->conv.splits},
                        .threads = plan->tile_n == 128 ? 256 : 128,
                        .workspace = plan->workspace,
                        .copies = plan->conv.splits};
}

static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const mma_plan *plan = of;
    (void)layer;
    seen[0] += plan->conv.splits > 1;
    seen[1] += plan->conv.batch_fastest;
    seen[2] += plan->conv.axis[0].phases > MMA_PHASES;
    seen[3] += plan->tile_n == 32;
    seen[4] += plan->tile_n == 64;
    seen[5] += plan->tile_n == 128;
    seen[6] += plan->conv.chunks > 1;
    seen[7] += plan->conv.blocks_n > 1;
}

static const plan_family family = {.name = "mma_implicit_gemm",
                                   .directions = PLAN_FPROP | PLAN_DGRAD,
                                   .size = sizeof(mma_plan),
                                   .limits = &limits,
                                   .cases = 1500,
                                   .tiled = plan_of,
                                   .tiles = MMA_TILES,
                                   .facts = facts_of,
                                   .walk = walk_blocks,
                                   .check = check,
                                   .kinds = {"splits", "images fastest", "many phases",
                                             "tiles of 32 channels", "of 64", "of 128", "chunks",
                                             "tiles of channels"},
                                   .count = count,
                                   .least_walked = 100};

int main(void) {
    const struct CMUnitTest tests[] = {plan_unit_test(&family)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
