/* test_wgrad_im2col.c - the plan of im2col, weight gradient: boxes of pixels make every product
 * once; after a box has been copied as the kernel copies it, each column and pixel finds the
 * element that the definition names, or zero. Needs no GPU. */
#include "cuda/plan/walk.h"

#include <string.h>

#include "cuda/plan/helpers.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/wgrad_plan.h"
#include "kernels/cuda/conv/registry.h"

enum { STAGE = UF_WGRAD_IM2COL_SHARED };

/* Shared memory holds nothing yet, a zero, or an element of x by its place. */
enum { NOTHING = -2, ZERO = -1 };

static int64_t stage[STAGE];

static const conv_limits limits = {.stride = 2,
                                   .large_stride = 6,
                                   .padding = 20,
                                   .dilation = 4,
                                   .kernel = 6,
                                   .extent = {2, 12, 40, 200},
                                   .batch = 5,
                                   .large_batch = 5,
                                   .small_channels = 20,
                                   .channels = 70,
                                   .groups = true,
                                   .bf16 = true};

static void draw(test_random *random, plan_layer *layer) {
    uf_conv_kernel_args args = random_conv(random, &limits);
    if (test_random_one_in(random, 2)) { /* elements away from 16 bytes */
        args.x.data = (char *)args.x.data +
                      uf_dtype_size(args.x.dtype) * (size_t)test_random_integer(random, 0, 7);
    }
    if (test_random_one_in(random, 3)) { /* rows, channels and images apart */
        args.x.stride[2] += test_random_integer(random, 0, 9);
        args.x.stride[1] = args.x.stride[2] * args.x.extent[2] + test_random_integer(random, 0, 9);
        args.x.stride[0] = args.x.stride[1] * args.x.extent[1] + test_random_integer(random, 0, 9);
    }
    layer->args = args;
}

/* A box as im2col/wgrad_mainloop.cuh brings and repairs it; group 0, channels from `first_c` on. */
static int32_t fill(const uf_conv_kernel_args *args, const uf_wgrad_im2col_plan *p, int64_t n,
                    const int64_t first[2], int64_t first_c) {
    const int32_t unit = 16 / p->size;
    const int64_t base = (int64_t)(uintptr_t)args->x.data / p->size;
    const int64_t from = base + n * args->x.stride[0] + first[0] * args->x.stride[2] + first[1] +
                         first_c * args->x.stride[1];
    const int32_t shift = (int32_t)(from & (unit - 1));
    for (int32_t i = 0; i < p->x_bytes / p->size; ++i) {
        stage[i] = NOTHING;
    }
    for (int32_t i = 0; i < p->lines_x; ++i) {
        int32_t c, of_class, t;
        uf_wgrad_im2col_line(p, i, &c, &of_class, &t);
        const int64_t row = t * args->stride[0] + of_class * args->dilation[0];
        const int64_t offset = c * args->x.stride[1] + row * args->x.stride[2];
        const int32_t at = c * p->pitch_c + of_class * p->pitch_class + t * p->pitch_h + shift;
        const int32_t after = at & (unit - 1);
        const bool inside = first[0] + row >= 0 && first[0] + row < args->x.extent[2] &&
                            first_c + c < args->w.extent[1];
        for (int32_t chunk = 0; chunk < p->chunks; ++chunk) {
            const int64_t to = at + chunk * unit - after;
            const int64_t address = from + offset + chunk * unit - after;
            assert_true(to % unit == 0 && address % unit == 0);
            assert_true(to >= 0 && (to + unit) * p->size <= p->x_bytes);
            for (int32_t e = 0; e < unit; ++e) {
                const int64_t column = first[1] + chunk * unit - after + e;
                assert_true(stage[to + e] == NOTHING);
                stage[to + e] = !inside || column < 0 || column >= args->x.extent[3]
                                    ? ZERO
                                    : address + e - base;
            }
        }
    }
    return shift;
}

static void check_box(const uf_conv_kernel_args *args, const uf_wgrad_im2col_plan *p, int64_t n,
                      int64_t box_p, int64_t box_q, int64_t first_c) {
    const int64_t kernel_w = args->w.extent[3];
    const int64_t first[2] = {box_p * p->box[0] * args->stride[0] - args->padding[0],
                              box_q * p->box[1] * args->stride[1] - args->padding[1]};
    const int32_t shift = fill(args, p, n, first, first_c);
    for (int32_t sixteen = 0; sixteen < p->sixteens; ++sixteen) {
        for (int32_t i = 0; i < 16; ++i) {
            int32_t c, tap;
            uf_wgrad_im2col_column(p, sixteen, i, &c, &tap);
            if (c >= p->tile_c || tap >= p->taps || first_c + c >= args->w.extent[1]) {
                continue;
            }
            const int64_t r = tap / kernel_w, s = tap % kernel_w;
            const int32_t place =
                uf_wgrad_im2col_coord(p, c, (int32_t)r, (int32_t)s, (int32_t)args->dilation[1]);
            for (int32_t row = 0; row < p->box[0]; ++row) {
                for (int32_t q = 0; q < p->box[1]; ++q) {
                    const int64_t h = first[0] + row * args->stride[0] + r * args->dilation[0];
                    const int64_t w = first[1] + q * args->stride[1] + s * args->dilation[1];
                    const bool inside =
                        h >= 0 && h < args->x.extent[2] && w >= 0 && w < args->x.extent[3];
                    const int64_t expected = inside ? n * args->x.stride[0] +
                                                          (first_c + c) * args->x.stride[1] +
                                                          h * args->x.stride[2] + w
                                                    : ZERO;
                    const int64_t at = place + shift + row * p->pitch_h + q * args->stride[1];
                    assert_int_equal(stage[at], expected);
                }
            }
        }
    }
}

static void check_columns(const uf_wgrad_im2col_plan *p) {
    static uint8_t seen[1 << 16];
    assert_true(p->tile_c * p->taps <= (int32_t)sizeof seen);
    memset(seen, 0, sizeof seen);
    assert_true(p->sixteens <= p->warps_m * p->m);
    for (int32_t i = 0; i < p->sixteens * 16; ++i) {
        int32_t c, tap;
        uf_wgrad_im2col_column(p, i / 16, i % 16, &c, &tap);
        if (c < p->tile_c && tap < p->taps) {
            assert_int_equal(seen[c * p->taps + tap]++, 0);
            assert_int_equal(uf_wgrad_im2col_sum(p, c, tap), i / 16 * 17 + i % 16);
            assert_true(i / 16 < p->sixteens && i / 16 * 17 + i % 16 < p->pitch_sums);
        }
    }
    for (int32_t i = 0; i < p->tile_c * p->taps; ++i) {
        assert_int_equal(seen[i], 1);
    }
}

/* Threads walk `count` lines of `pairs` copies; each is met once. */
static void check_walk(int32_t threads, int32_t count, int32_t pairs, const int32_t steps[2]) {
    static uint8_t seen[1 << 16];
    assert_true(count * pairs <= (int32_t)sizeof seen);
    memset(seen, 0, sizeof seen);
    for (int32_t thread = 0; thread < threads; ++thread) {
        int32_t line = thread / pairs, at = thread % pairs;
        while (line < count) {
            assert_int_equal(seen[line * pairs + at]++, 0);
            line += steps[0];
            at += steps[1];
            if (at >= pairs) {
                at -= pairs;
                ++line;
            }
        }
    }
    for (int32_t i = 0; i < count * pairs; ++i) {
        assert_int_equal(seen[i], 1);
    }
}

/* Elements of y that are copied at once. */
static void check_copies(const uf_conv_kernel_args *args, const uf_wgrad_im2col_plan *p) {
    const int64_t together = p->copy_y / p->size; /* elements of y */
    assert_true(p->copy_y == p->size || (p->copy_y <= 8 && p->copy_y % p->size == 0));
    assert_true(together == 1 || args->y.stride[3] == 1);
    assert_int_equal((uintptr_t)args->y.data % (uintptr_t)p->copy_y, 0);
    assert_true(p->box[1] % together == 0 && args->y.extent[3] % together == 0);
    for (int axis = 0; axis < 3; ++axis) {
        assert_int_equal(args->y.stride[axis] % together, 0);
    }
}

/* The workspace holds the partial sums as the reduction reads them: by split and tile, rows of
 * `columns`. */
static void check_object(const plan_layer *layer, const uf_wgrad_im2col_plan *plan, int64_t rows,
                         int64_t columns) {
    const uf_conv_problem problem = tiled_problem_of(layer->direction, &layer->args, plan_tile());
    uf_conv_plan object;
    assert_true(uf_conv_plan_mma_im2col_wgrad(&problem, &object));
    assert_int_equal(object.workspace, plan->splits * layer->args.groups * plan->tiles_k *
                                           plan->tiles_c * rows * columns * (int64_t)sizeof(float));
    assert_true(object.cost >= plan->cost);
}

static void check(const plan_layer *layer, const void *of, test_random *random) {
    const uf_conv_kernel_args *args = &layer->args;
    const uf_wgrad_im2col_plan *p = of;
    check_object(layer, p, p->n * 8, round_up(p->tile_c * p->taps, 4));
    assert_true(p->table_bytes + p->stages * p->stage_bytes <= p->shared);
    assert_true(p->table_bytes % 16 == 0 && p->stage_bytes % 16 == 0 && p->x_bytes % 16 == 0);
    assert_true(p->warps_m * p->warps_p <= UF_WGRAD_IM2COL_WARPS);
    assert_true((p->warps_p & (p->warps_p - 1)) == 0);
    assert_true(p->box[1] % 16 == 0 && p->pitch_y % 16 == 0);
    assert_true(p->n * 8 * p->pitch_sums * 4 <= p->shared);
    check_copies(args, p);
    assert_int_equal(p->all_boxes, p->boxes[0] * p->boxes[1] * p->boxes[2]);
    assert_true(p->splits >= 1 && p->splits <= p->all_boxes);
    const int64_t k = args->w.extent[0] / args->groups, c = args->w.extent[1];
    assert_true(p->tiles_c * p->tile_c >= c && (p->tiles_c - 1) * p->tile_c < c);
    assert_true(p->tiles_k * p->n * 8 >= k && (p->tiles_k - 1) * p->n * 8 < k);
    for (int axis = 0; axis < 2; ++axis) {
        assert_true((int64_t)p->boxes[1 + axis] * p->box[axis] >= args->y.extent[2 + axis]);
    }
    check_columns(p);
    const int32_t threads = p->warps_m * p->warps_p * 32;
    assert_int_equal(p->chunks % 2, 0);
    check_walk(threads, p->lines_x, p->chunks / 2, p->steps_x);
    check_walk(threads, p->lines_y, p->box[1] * p->size / 32, p->steps_y);
    check_walk(p->warps_p, p->box[0], p->box[1] / 16, p->walk);
    for (int box = 0; box < 2; ++box) {
        const int64_t q = test_random_integer(random, 0, p->boxes[2] - 1);
        const int64_t row = test_random_integer(random, 0, p->boxes[1] - 1);
        const int64_t n = test_random_integer(random, 0, p->boxes[0] - 1);
        const int64_t tile = test_random_integer(random, 0, p->tiles_c - 1);
        check_box(args, p, box == 0 ? 0 : n, box == 0 ? 0 : row, box == 0 ? 0 : q,
                  tile * p->tile_c);
    }
}

/* ---- the walk ---- */

/* Row and column, from a box's first, of the element at a place of a channel's x. */
typedef struct place_of_x {
    int32_t row, column;
    bool there;
} place_of_x;

static void lay_out(const uf_conv_kernel_args *args, const uf_wgrad_im2col_plan *p,
                    place_of_x *at) {
    const int32_t unit = 16 / p->size;
    memset(at, 0, (size_t)STAGE * sizeof *at);
    for (int32_t i = 0; i < p->lines_x; ++i) {
        int32_t c, of_class, t;
        uf_wgrad_im2col_line(p, i, &c, &of_class, &t);
        /* Some elements of the last copy may lie before the first one's 16 bytes. */
        for (int32_t e = 0; c == 0 && e <= (p->chunks - 1) * unit; ++e) {
            place_of_x *const to = &at[of_class * p->pitch_class + t * p->pitch_h + e];
            assert_false(to->there);
            *to = (place_of_x){(int32_t)(t * args->stride[0] + of_class * args->dilation[0]), e,
                               true};
        }
    }
}

/* A box of pixels, all columns of a tile of channels. */
static void walk_box(plan_walk *walk, const plan_layer *layer, const uf_wgrad_im2col_plan *p,
                     const place_of_x *x, const int64_t first[2], plan_term *term) {
    const uf_conv_kernel_args *args = &layer->args;
    for (int64_t i = 0; i < (int64_t)p->box[0] * p->box[1] * p->taps; ++i) {
        const int64_t tap = i % p->taps, pixel = i / p->taps;
        const int64_t row = pixel / p->box[1], q = pixel % p->box[1];
        term->tap[0] = tap / args->w.extent[3];
        term->tap[1] = tap % args->w.extent[3];
        const int64_t at = uf_wgrad_im2col_coord(p, 0, (int32_t)term->tap[0], (int32_t)term->tap[1],
                                                 (int32_t)args->dilation[1]) +
                           row * p->pitch_h + q * args->stride[1];
        assert_true(at >= 0 && at < STAGE && x[at].there);
        term->small[0] = first[0] + row;
        term->small[1] = first[1] + q;
        term->large[0] = first[0] * args->stride[0] - args->padding[0] + x[at].row;
        term->large[1] = first[1] * args->stride[1] - args->padding[1] + x[at].column;
        plan_make(walk, term);
    }
}

static void walk_blocks(plan_walk *walk, const plan_layer *layer, const void *of) {
    static place_of_x x[STAGE];
    const uf_wgrad_im2col_plan *p = of;
    const int64_t groups = layer->args.groups;
    lay_out(&layer->args, p, x);
    plan_claim(walk, 0, p->table_bytes, 16);
    plan_claim(walk, p->table_bytes, (int64_t)p->stages * p->stage_bytes, 16);
    for (int64_t i = 0; i < groups * p->tiles_k * p->tiles_c * p->splits; ++i) {
        const int64_t split = i % p->splits, tile = i / p->splits;
        const int64_t c = tile % p->tiles_c * p->tile_c;
        const int64_t k = tile / p->tiles_c % p->tiles_k * p->n * 8;
        const int64_t begin = split * p->all_boxes / p->splits;
        const int64_t end = (split + 1) * p->all_boxes / p->splits;
        plan_term term = {.group = tile / p->tiles_c / p->tiles_k,
                          .k = {k, k + p->n * 8},
                          .c = {c, c + p->tile_c}};
        plan_share(walk, begin, end, p->all_boxes);
        for (int64_t tap = 0; tap < p->taps; ++tap) {
            term.tap[0] = tap / layer->args.w.extent[3];
            term.tap[1] = tap % layer->args.w.extent[3];
            plan_store(walk, &term);
        }
        for (int64_t box = begin; box < end; ++box) {
            const int64_t first[2] = {box % p->boxes[1] * p->box[0],
                                      box / p->boxes[1] % p->boxes[2] * p->box[1]};
            term.n = box / p->boxes[1] / p->boxes[2];
            walk_box(walk, layer, p, x, first, &term);
        }
    }
}

static bool plan_of(const plan_layer *layer, int tile, void *plan) {
    const uf_conv_problem problem = tiled_problem_of(UF_CONV_WGRAD, &layer->args, tile);
    return uf_wgrad_im2col_plan_of(&problem, plan);
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const uf_wgrad_im2col_plan *p = of;
    return (plan_facts){.cost = p->cost,
                        .grid = {layer->args.groups * p->tiles_k * p->tiles_c, p->splits},
                        .threads = 32 * (int64_t)p->warps_m * p->warps_p,
                        .shared = p->shared,
                        .most_shared = UF_WGRAD_IM2COL_SHARED,
                        .copies = p->splits};
}

static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_wgrad_im2col_plan *p = of;
    (void)layer;
    seen[0] += p->classes > 1;
    seen[1] += p->tiles_c > 1;
    seen[2] += p->warps_p > 1;
    seen[3] += p->vector_y;
    seen[4] += p->copy_y > p->size;
}

static const plan_family family = {.name = "im2col wgrad",
                                   .directions = PLAN_WGRAD,
                                   .size = sizeof(uf_wgrad_im2col_plan),
                                   .draw = draw,
                                   .cases = 800,
                                   .tiled = plan_of,
                                   .tiles = UF_WGRAD_IM2COL_TILES,
                                   .facts = facts_of,
                                   .walk = walk_blocks,
                                   .check = check,
                                   .kinds = {"classes of rows", "tiles of x's channels",
                                             "pixels shared", "vectors of y", "runs of y"},
                                   .count = count,
                                   .least_walked = 50};

int main(void) {
    const struct CMUnitTest tests[] = {plan_unit_test(&family)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
