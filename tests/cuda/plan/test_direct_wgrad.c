/* test_direct_wgrad.c - the plan of simt_direct, weight gradient: tiles of groups, rows, channels
 * and taps make every product once from boxes of pixels, and columns find in a stage what their
 * taps meet; and its loop over rows, for few channels. Needs no GPU. */
#include "cuda/plan/walk.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/conv/simt_direct/wgrad_plan.h"

static const conv_limits limits = {.stride = 2,
                                   .large_stride = 6,
                                   .padding = 6,
                                   .dilation = 4,
                                   .kernel = 7,
                                   .extent = {2, 12, 24, 60},
                                   .batch = 9,
                                   .large_batch = 60,
                                   .small_channels = 6,
                                   .channels = 60,
                                   .groups = true,
                                   .bf16 = true};

static const struct {
    int32_t kt, ct;
} tiles[] = {
#define UF_DIRECT_WGRAD_TILE(ID, KT, CT) {KT, CT},
    UF_DIRECT_WGRAD_TILES
#undef UF_DIRECT_WGRAD_TILE
};

/* Many groups of a channel or two, and large filters, too. */
static void draw(test_random *random, plan_layer *layer) {
    plan_sizes sizes = {.n = test_random_log(random, 1, 20), .groups = 1};
    if (!test_random_one_in(random, 3)) {
        layer->args = random_conv(random, &limits);
        return;
    }
    const bool large = test_random_one_in(random, 8); /* more taps than a tile has */
    const int64_t kernel =
        large ? test_random_integer(random, 16, 26) : test_random_integer(random, 2, 6);
    const int64_t stride = test_random_integer(random, 1, 2);
    sizes.c = test_random_one_in(random, 2) ? 1 : test_random_integer(random, 1, 3);
    sizes.k = test_random_one_in(random, 2) ? 1 : test_random_integer(random, 1, 3);
    sizes.groups = large ? 1 : test_random_integer(random, 1, 40);
    for (int axis = 0; axis < 2; ++axis) {
        sizes.small[axis] = test_random_log(random, 4, axis == 0 ? 200 : 60);
        sizes.kernel[axis] = kernel;
        sizes.stride[axis] = stride;
        sizes.dilation[axis] = test_random_one_in(random, 8) ? 2 : 1;
        sizes.padding[axis] = test_random_integer(random, 0, 2);
    }
    layer->args = plan_args_of(&sizes, test_random_one_in(random, 2) ? UF_BF16 : UF_F32,
                               (uf_math)test_random_integer(random, 0, 2));
}

/* ---- a tile in registers ---- */

/* The element of x at a word of a channel, from the box's first pixel and tap 0. */
typedef struct word_of_x {
    int32_t n, h, w;
    bool there;
} word_of_x;

/* As direct_make_tables has it. */
static word_of_x *lay_out(const direct_wgrad_plan *p) {
    word_of_x *const at = calloc((size_t)p->pitch_c, sizeof *at);
    assert_non_null(at);
    for (int32_t i = 0; i < p->x_entries; ++i) {
        const int32_t plane = p->longest[0] * p->longest[1], n = i / plane;
        const int32_t position[2] = {i % plane / p->longest[1], i % p->longest[1]};
        int32_t from[2], to[2];
        bool there = true;
        for (int axis = 0; axis < 2; ++axis) {
            const wgrad_rows *lines = &p->lines[axis];
            const int32_t t = position[axis] / lines->step, c = position[axis] % lines->step;
            there = there && (c < lines->longest || t < lines->length - lines->shift);
            from[axis] = t * lines->stride + c * lines->dilation;
            to[axis] = wgrad_line_start(lines, c) + t;
        }
        const int32_t word = n * p->pitch_n + to[0] * p->pitch_h + to[1] * p->pitch_w;
        if (there) {
            assert_true(word >= 0 && word < p->pitch_c && word < 1 << 16 && !at[word].there);
            at[word] = (word_of_x){n, from[0], from[1], true};
        }
    }
    return at;
}

/* Pixel i of a box: image, row, column, from its first. */
static void pixel_of(const direct_wgrad_plan *p, int32_t i, int32_t at[3]) {
    if (p->images_first) {
        at[0] = i % p->box[0];
        at[1] = i / p->box[0] / p->box[2];
        at[2] = i / p->box[0] % p->box[2];
    } else {
        at[0] = i / p->box[2] / p->box[1];
        at[1] = i / p->box[2] % p->box[1];
        at[2] = i % p->box[2];
    }
}

/* All pixels of a box with one tap; `word`: of the tap's column, for pixel 0. */
static void walk_box(plan_walk *walk, const direct_wgrad_plan *p, const word_of_x *x, int32_t word,
                     int32_t box, plan_term *term) {
    const int32_t first[3] = {box / p->boxes[2] / p->boxes[1] * p->box[0],
                              box / p->boxes[2] % p->boxes[1] * p->box[1],
                              box % p->boxes[2] * p->box[2]};
    for (int32_t i = 0; i < p->pixels; ++i) {
        int32_t quad[3], at[3];
        pixel_of(p, i / 4 * 4, quad);
        pixel_of(p, i, at);
        const int32_t on =
            word + quad[0] * p->pitch_n + quad[1] * p->pitch_h + quad[2] * p->pitch_w + i % 4;
        if (at[0] >= p->box[0] || at[1] >= p->box[1]) {
            continue; /* pixels that fill up a quad: y is zero there */
        }
        assert_true(on >= 0 && on < p->pitch_c && x[on].there);
        assert_int_equal(x[on].n, at[0]);
        term->n = first[0] + at[0];
        term->small[0] = first[1] + at[1];
        term->small[1] = first[2] + at[2];
        term->large[0] = first[1] * p->stride[0] - p->padding[0] + x[on].h;
        term->large[1] = first[2] * p->stride[1] - p->padding[1] + x[on].w;
        plan_make(walk, term);
    }
}

/* Each channel and tap of a tile is one column, and channels are pitch_c apart. Gives the words of
 * the first channel, by tap. */
static void find_columns(const direct_wgrad_plan *p, int32_t first_tap, int32_t *word) {
    uint8_t *const times = calloc((size_t)(p->tile_c * p->tile_taps), 1);
    assert_non_null(times);
    for (int32_t tap = 0; tap < p->tile_taps; ++tap) {
        word[tap] = first_tap + tap < p->taps ? direct_tap_offset(p, first_tap + tap) : 0;
    }
    for (int32_t column = 0; column < p->columns; ++column) {
        const direct_column at = direct_column_of(p, column);
        if (at.c < p->tile_c && at.tap < p->tile_taps) {
            ++times[at.c * p->tile_taps + at.tap];
            assert_true(first_tap + at.tap >= p->taps ||
                        direct_column_offset(p, first_tap, column) ==
                            at.c * p->pitch_c + word[at.tap]);
        }
    }
    for (int32_t i = 0; i < p->tile_c * p->tile_taps; ++i) {
        assert_int_equal(times[i], 1);
    }
    free(times);
}

static void walk_tile(plan_walk *walk, const direct_wgrad_plan *p, const word_of_x *x,
                      int32_t index, int32_t begin, int32_t end) {
    const direct_wgrad_tile tile = direct_wgrad_tile_of(p, index);
    int32_t *const word = test_allocate((size_t)p->tile_taps * sizeof *word);
    find_columns(p, tile.tap, word);
    for (int32_t i = 0; i < tile.groups * p->tile_taps; ++i) {
        const int32_t tap = tile.tap + i % p->tile_taps;
        direct_element row;
        const bool there = direct_row_of(p, &tile, i / p->tile_taps << p->log_tile_k, &row);
        plan_term term = {.group = row.group,
                          .tap = {tap / p->taps_w, tap % p->taps_w},
                          .k = {row.k, row.k + p->tile_k},
                          .c = {tile.c, tile.c + p->tile_c}};
        assert_true(there);
        if (tap >= p->taps) {
            continue;
        }
        plan_store(walk, &term);
        for (int32_t box = begin; box < end; ++box) {
            walk_box(walk, p, x, word[tap - tile.tap], box, &term);
        }
    }
    free(word);
}

/* ---- a filter in registers, along rows ---- */

static void walk_rows(plan_walk *walk, const direct_wgrad_plan *p, int32_t index, int32_t split) {
    const direct_wgrad_tile tile = direct_wgrad_tile_of(p, index);
    plan_term term = {.group = tile.group, .k = {tile.k, tile.k + 1}, .c = {tile.c, tile.c + 1}};
    for (int32_t tap = 0; tap < p->taps; ++tap) {
        term.tap[0] = tap / p->taps_w;
        term.tap[1] = tap % p->taps_w;
        plan_store(walk, &term);
    }
    for (int32_t i = split * DIRECT_WARPS; i < p->all_boxes;
         i += i % DIRECT_WARPS == DIRECT_WARPS - 1 ? (p->splits - 1) * DIRECT_WARPS + 1 : 1) {
        const int32_t rest = i / p->boxes[2], first = rest % p->boxes[1] * p->box[1];
        for (int32_t j = 0; j < 32 * p->box[1] * p->taps; ++j) {
            const int32_t lane = j % 32, row = j / 32 % p->box[1], tap = j / 32 / p->box[1];
            if (lane / p->box[2] >= p->box[0]) {
                continue;
            }
            term.n = rest / p->boxes[1] * p->box[0] + lane / p->box[2];
            term.small[0] = first + row;
            term.small[1] = i % p->boxes[2] * p->box[2] + lane % p->box[2];
            term.tap[0] = tap / p->taps_w;
            term.tap[1] = tap % p->taps_w;
            term.large[0] = term.small[0] * p->rows_step - p->padding[0] + term.tap[0];
            term.large[1] = term.small[1] * p->stride[1] - p->padding[1] + term.tap[1];
            plan_make(walk, &term);
        }
    }
}

static void walk_blocks(plan_walk *walk, const plan_layer *layer, const void *of) {
    const direct_wgrad_plan *p = of;
    word_of_x *const x = p->rows ? NULL : lay_out(p);
    (void)layer;
    for (int32_t i = 0; i < p->tiles * p->splits; ++i) {
        const int32_t split = i % p->splits;
        if (p->rows) {
            walk_rows(walk, p, i / p->splits, split);
            continue;
        }
        const int32_t begin = (int32_t)((int64_t)split * p->all_boxes / p->splits);
        const int32_t end = (int32_t)((int64_t)(split + 1) * p->all_boxes / p->splits);
        plan_share(walk, begin, end, p->all_boxes);
        walk_tile(walk, p, x, i / p->splits, begin, end);
    }
    free(x);
}

/* ---- numbers ---- */

/* Lanes and warps are a block's; what they hold is its tile. */
static void check_lanes(const direct_wgrad_plan *p) {
    const int32_t kt = tiles[p->tile_id].kt, ct = tiles[p->tile_id].ct;
    assert_int_equal(p->lanes_c * p->lanes_k * p->lanes_g, 32);
    assert_int_equal(p->warps_c * p->warps_k * p->warps_p, DIRECT_WARPS);
    assert_true(1 << p->log_lanes_c == p->lanes_c && 1 << p->log_lanes_k == p->lanes_k);
    assert_true(1 << p->log_warps_c == p->warps_c && 1 << p->log_warps_k == p->warps_k);
    assert_int_equal(p->tile_k, kt * p->lanes_k * p->warps_k);
    assert_int_equal(p->tile_k, 1 << p->log_tile_k);
    assert_true(p->kt == kt && 1 << p->log_kt == kt);
    assert_true(p->columns >= ct * p->lanes_c * p->warps_c);
    assert_true(p->tile_c * p->tile_taps <= ct * p->lanes_c * p->warps_c);
    assert_true(p->size >= p->lanes_g * p->tile_k * p->columns);
}

/* y is [quad][group][k][4], behind x. */
static void check_stage(const direct_wgrad_plan *p) {
    const int32_t quads = p->pixels / 4;
    assert_int_equal(p->pixels % 4, 0);
    assert_true(p->pixels >= p->box[0] * p->box[1] * p->box[2] && p->pixels <= DIRECT_PIXELS);
    assert_true(p->pitch_y >= p->kt * 4 && p->pitch_g >= p->tile_k / p->kt * p->pitch_y);
    assert_true(p->pitch_quad >= (p->lanes_g - 1) * p->pitch_g + p->tile_k / p->kt * p->pitch_y -
                                     (p->pitch_y - p->kt * 4));
    assert_true(p->x_words >= p->lanes_g * p->tile_c * p->pitch_c);
    assert_int_equal(p->x_words % 4, 0);
    assert_true(p->x_words + quads * p->pitch_quad <= p->stage_words);
    const int64_t tables =
        (INT64_C(16) * (p->x_entries + p->y_entries)) + (quads + 3) / 4 * 16 + 4 * p->columns;
    assert_true(p->stages >= 2 && p->stages <= 3);
    assert_true(tables % 16 == 0 &&
                tables + (int64_t)p->stages * p->stage_words * 4 <= p->shared_bytes);
    assert_true(p->x_entries <= DIRECT_ENTRIES);
}

static void check(const plan_layer *layer, const void *of, test_random *random) {
    const direct_wgrad_plan *p = of;
    (void)random;
    assert_int_equal(p->all_boxes, (int64_t)p->boxes[0] * p->boxes[1] * p->boxes[2]);
    assert_int_equal(p->tiles, (int64_t)p->tiles_g * p->tiles_k * p->tiles_c * p->tiles_t);
    assert_true(p->splits >= 1 && p->splits <= DIRECT_SPLITS);
    assert_true(uf_direct_wgrad_workspace(p) >=
                (size_t)p->splits * (size_t)p->tiles * (size_t)p->size * sizeof(float));
    if (p->rows) { /* a filter as high as wide, of steps of 1 or 2 rows, without gaps */
        assert_true(p->box[0] * p->box[2] <= 32 && p->lanes_g == 1);
        assert_int_equal(p->taps, p->taps_w * p->taps_w);
        assert_true(p->taps_w >= 3 && p->taps_w <= 5);
        assert_int_equal(p->rows_step, layer->args.stride[0]);
        assert_true(layer->args.dilation[0] == 1 && layer->args.dilation[1] == 1);
        assert_true(p->size >= p->taps);
        return;
    }
    check_lanes(p);
    check_stage(p);
}

static bool plan_of(const plan_layer *layer, int tile, void *plan) {
    return uf_direct_wgrad_plan_of(&layer->args, tile, plan);
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const direct_wgrad_plan *p = of;
    (void)layer;
    return (plan_facts){.cost = 1, /* it has none of its own */
                        .grid = {p->tiles, p->splits},
                        .threads = DIRECT_THREADS,
                        .shared = p->rows ? 0 : p->shared_bytes,
                        .most_shared = DIRECT_SHARED,
                        .workspace = (int64_t)uf_direct_wgrad_workspace(p),
                        .copies = p->splits};
}

static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const direct_wgrad_plan *p = of;
    (void)layer;
    seen[0] += p->rows;
    seen[1] += !p->rows && p->splits > 1;
    seen[2] += !p->rows && p->lanes_g > 1;
    seen[3] += !p->rows && p->images_first;
    seen[4] += !p->rows && p->y_by_channel;
    seen[5] += !p->rows && p->channels_first;
    seen[6] += !p->rows && p->ordered;
    seen[7] += !p->rows && p->tiles_t > 1;
    seen[8] += !p->rows && p->tiles_c > 1;
    seen[9] += !p->rows && p->tiles_k > 1;
    seen[10] += !p->rows && p->warps_p > 1;
    seen[11] += p->vector_y;
    seen[12] += p->rows && p->boxes[1] > 1;
}

static const plan_family family = {
    .name = "simt_direct wgrad",
    .directions = PLAN_WGRAD,
    .size = sizeof(direct_wgrad_plan),
    .draw = draw,
    .cases = 1500,
    .tiled = plan_of,
    .tiles = DIRECT_WGRAD_TILE_NUMBERS,
    .facts = facts_of,
    .walk = walk_blocks,
    .check = check,
    .kinds = {"along rows", "splits", "groups together", "images first", "y by channel",
              "channels first", "taps ordered", "tiles of taps", "tiles of channels",
              "tiles of rows", "pixels shared", "vectors of y", "bands of rows"},
    .count = count,
    .least_walked = 100};

int main(void) {
    const struct CMUnitTest tests[] = {plan_unit_test(&family)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
