/* test_wgrad_im2col_plan.c - tile, layout and copies of the weight gradient for few channels
 * against the definition: every channel and tap is a column once, and after a box has been copied
 * as the kernel copies it, each column and pixel finds the element that the definition names, or
 * zero. And that planning, which each call does, takes no longer than a small convolution. Needs no
 * GPU. */
#include "support/test.h"

#include <string.h>

#include "cuda/random_conv.h"
#include "kernels/cuda/conv/mma_few_channels/im2col/wgrad_plan.h"
#include "kernels/cuda/conv/registry.h"
#include "plan_helpers.h"

enum { CASES = 1500, STAGE = UF_WGRAD_IM2COL_SHARED };

/* What shared memory holds: nothing yet, a zero, or an element of x by its place. */
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

static uf_conv_kernel_args random_arguments(test_random *random) {
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
    return args;
}

/* A box as im2col/wgrad_mainloop.cuh brings and mends it; group 0, channels from `first_c` on. */
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

static bool plans(const uf_conv_kernel_args *args, uf_wgrad_im2col_plan *plan) {
    const uf_conv_problem problem = problem_of(UF_CONV_WGRAD, args);
    return uf_wgrad_im2col_plan_of(&problem, plan);
}

/* The workspace holds the partial sums as the reduction reads them: by split and tile, rows of
 * `columns`. */
static void check_object(const uf_conv_kernel_args *args, const uf_wgrad_im2col_plan *plan,
                         int64_t rows, int64_t columns) {
    const uf_conv_problem problem = problem_of(UF_CONV_WGRAD, args);
    uf_conv_plan object;
    assert_true(uf_conv_plan_mma_im2col_wgrad(&problem, &object));
    assert_int_equal(object.workspace, plan->splits * args->groups * plan->tiles_k * plan->tiles_c *
                                           rows * columns * (int64_t)sizeof(float));
    assert_true(object.cost >= plan->cost);
}

static void finds_what_the_definition_names(void **state) {
    (void)state;
    int planned = 0;
    for (int i = 0; i < CASES; ++i) {
        test_random random = test_random_for("wgrad_thin_plan", i);
        const uf_conv_kernel_args args = random_arguments(&random);
        uf_wgrad_im2col_plan p;
        if (!plans(&args, &p)) {
            continue;
        }
        ++planned;
        assert_true(p.shared <= UF_WGRAD_IM2COL_SHARED);
        assert_true(p.table_bytes + p.stages * p.stage_bytes <= p.shared);
        assert_true(p.table_bytes % 16 == 0 && p.stage_bytes % 16 == 0 && p.x_bytes % 16 == 0);
        assert_true(p.warps_m * p.warps_p <= UF_WGRAD_IM2COL_WARPS);
        assert_true((p.warps_p & (p.warps_p - 1)) == 0);
        assert_true(p.box[1] % 16 == 0 && p.pitch_y % 16 == 0);
        assert_true(p.n * 8 * p.pitch_sums * 4 <= p.shared);
        const int64_t together = p.copy_y / p.size; /* elements of y */
        assert_true(p.copy_y == p.size || (p.copy_y <= 8 && p.copy_y % p.size == 0));
        assert_true(together == 1 || args.y.stride[3] == 1);
        assert_int_equal((uintptr_t)args.y.data % (uintptr_t)p.copy_y, 0);
        assert_true(p.box[1] % together == 0 && args.y.extent[3] % together == 0);
        for (int axis = 0; axis < 3; ++axis) {
            assert_int_equal(args.y.stride[axis] % together, 0);
        }
        assert_int_equal(p.all_boxes, p.boxes[0] * p.boxes[1] * p.boxes[2]);
        assert_true(p.splits >= 1 && p.splits <= p.all_boxes);
        assert_true((int64_t)p.tiles_c * p.tile_c >= args.w.extent[1]);
        assert_true((int64_t)p.tiles_k * p.n * 8 >= args.w.extent[0] / args.groups);
        for (int axis = 0; axis < 2; ++axis) {
            assert_true((int64_t)p.boxes[1 + axis] * p.box[axis] >= args.y.extent[2 + axis]);
        }
        check_columns(&p);
        check_object(&args, &p, p.n * 8, round_up(p.tile_c * p.taps, 4));
        const int32_t threads = p.warps_m * p.warps_p * 32;
        assert_int_equal(p.chunks % 2, 0);
        check_walk(threads, p.lines_x, p.chunks / 2, p.steps_x);
        check_walk(threads, p.lines_y, p.box[1] * p.size / 32, p.steps_y);
        check_walk(p.warps_p, p.box[0], p.box[1] / 16, p.walk);
        for (int box = 0; box < 3; ++box) {
            const int64_t q = test_random_integer(&random, 0, p.boxes[2] - 1);
            const int64_t row = test_random_integer(&random, 0, p.boxes[1] - 1);
            const int64_t n = test_random_integer(&random, 0, p.boxes[0] - 1);
            const int64_t tile = test_random_integer(&random, 0, p.tiles_c - 1);
            check_box(&args, &p, box == 0 ? 0 : n, box == 0 ? 0 : row, box == 0 ? 0 : q,
                      tile * p.tile_c);
        }
    }
    assert_true(planned > CASES / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_the_definition_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
