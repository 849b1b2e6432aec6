/* test_row_stream_wgrad.c - the plan of row_stream, weight gradient: blocks that go down their rows
 * make every product once, rows do not meet in shared memory, and a row of y stays until the last
 * row of x has met it. Needs no GPU. */
#include "cuda/plan/walk.h"

#include <string.h>

#include "cuda/plan/helpers.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/wgrad_plan.h"
#include "kernels/cuda/conv/registry.h"

static bool planned(uf_conv_direction direction, const uf_conv_kernel_args *args,
                    uf_row_stream_wgrad_plan *plan) {
    const uf_conv_problem problem = problem_of(direction, args);
    return uf_row_stream_wgrad_plan_of(&problem, plan);
}

/* Layers that the plan takes, or nearly. */
static void draw(test_random *random, plan_layer *layer) {
    uf_conv_kernel_args args;
    memset(&args, 0, sizeof args);
    const uf_dtype dtype = test_random_integer(random, 0, 1) == 1 ? UF_BF16 : UF_F32;
    const int64_t n = test_random_integer(random, 1, 20);
    const int64_t s = test_random_integer(random, 3, 5);
    int64_t small[2], large[2];
    args.groups = test_random_integer(random, 1, 3);
    const int64_t k = test_random_integer(random, 1, 20) * args.groups;
    const int64_t c = 16 * test_random_integer(random, 1, 3);
    small[0] = test_random_integer(random, 1, 200);
    small[1] = 16 * test_random_integer(random, 3, 40) + test_random_integer(random, 0, 8) / 8;
    for (int axis = 0; axis < 2; ++axis) {
        args.stride[axis] = test_random_integer(random, 1, 4);
        args.dilation[axis] = axis == 0 ? args.stride[0] : test_random_integer(random, 1, 3);
        args.padding[axis] = test_random_integer(random, 0, 3);
        large[axis] = (small[axis] - 1) * args.stride[axis] +
                      ((axis == 0 ? 3 : s) - 1) * args.dilation[axis] + 1 - 2 * args.padding[axis] +
                      test_random_integer(random, 0, 3) % args.stride[axis];
        if (large[axis] < 1) {
            large[axis] += 2 * args.padding[axis];
            args.padding[axis] = 0;
        }
    }
    void *const data = (void *)(uintptr_t)4096;
    args.x = uf_view_nchw(data, dtype, n, c * args.groups, large[0], large[1]);
    args.w = uf_view_nchw(data, dtype, k, c, 3, s);
    args.y = uf_view_nchw(data, dtype, n, k, small[0], small[1]);
    args.math = dtype == UF_BF16                         ? UF_MATH_BF16
                : test_random_integer(random, 0, 1) == 1 ? UF_MATH_TF32
                                                         : UF_MATH_FP32;
    layer->args = args;
}

/* ---- the walk ---- */

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* A row of x and a row of y of the ring that it meets: all pixels, all taps across. */
static void walk_row(plan_walk *walk, const plan_layer *layer, const uf_row_stream_wgrad_plan *plan,
                     int64_t column, plan_term *term) {
    const uf_conv_kernel_args *args = &layer->args;
    const int64_t depth = args->x.dtype == UF_BF16 || args->math == UF_MATH_BF16 ? 16 : 8;
    const int64_t steps = least(plan->tile, args->y.extent[3] - column) / depth;
    for (int64_t i = 0; i < steps * depth * plan->taps; ++i) {
        const int64_t pixel = i / plan->taps;
        term->tap[1] = i % plan->taps;
        term->small[1] = column + pixel;
        const int64_t place = pixel * args->stride[1] + term->tap[1] * args->dilation[1];
        assert_true(place < plan->reach);
        term->large[1] = column * args->stride[1] - args->padding[1] + place;
        plan_make(walk, term);
    }
}

static void walk_split(plan_walk *walk, const plan_layer *layer,
                       const uf_row_stream_wgrad_plan *plan, int64_t split, plan_term *term) {
    const uf_conv_kernel_args *args = &layer->args;
    const int64_t column = split % plan->tiles_w * plan->tile, rest = split / plan->tiles_w;
    const int64_t first = rest % plan->bands * plan->band;
    const int64_t end = least(first + plan->band, args->y.extent[2]);
    term->n = rest / plan->bands;
    for (int64_t i = 0; i < (int64_t)UF_ROW_STREAM_WGRAD_LAGS * plan->taps; ++i) {
        term->tap[0] = i / plan->taps;
        term->tap[1] = i % plan->taps;
        plan_store(walk, term);
    }
    for (int64_t row = first; row < end + UF_ROW_STREAM_WGRAD_LAGS - 1; ++row) {
        term->large[0] = row * args->stride[0] - args->padding[0];
        for (int64_t lag = 0; lag < UF_ROW_STREAM_WGRAD_LAGS; ++lag) {
            term->tap[0] = lag;
            term->small[0] = row - lag;
            if (term->small[0] >= first && term->small[0] < end) {
                walk_row(walk, layer, plan, column, term);
            }
        }
    }
}

static void walk_blocks(plan_walk *walk, const plan_layer *layer, const void *of) {
    const uf_row_stream_wgrad_plan *plan = of;
    const int64_t tiles = layer->args.groups * plan->tiles_k * plan->tiles_c;
    const int64_t ys = UF_ROW_STREAM_WGRAD_HEAD + (int64_t)plan->stages * plan->x_bytes;
    plan_claim(walk, 0, UF_ROW_STREAM_WGRAD_HEAD, 16);
    plan_claim(walk, UF_ROW_STREAM_WGRAD_HEAD, (int64_t)plan->stages * plan->x_bytes, 16);
    for (int64_t row = 0; row < plan->rows_y; ++row) {
        plan_claim(walk, ys + row * plan->y_bytes, plan->y_bytes, 16);
    }
    for (int64_t i = 0; i < tiles * plan->splits; ++i) {
        const int64_t tile = i % tiles, c = tile % plan->tiles_c * UF_ROW_STREAM_WGRAD_C;
        const int64_t k = tile / plan->tiles_c % plan->tiles_k * UF_ROW_STREAM_WGRAD_K;
        plan_term term = {.group = tile / plan->tiles_c / plan->tiles_k,
                          .k = {k, k + UF_ROW_STREAM_WGRAD_K},
                          .c = {c, c + UF_ROW_STREAM_WGRAD_C}};
        walk_split(walk, layer, plan, i / tiles, &term);
    }
}

/* ---- numbers ---- */

/* The workspace holds the partial sums as the reduction reads them: by split and tile, rows of
 * `columns`. */
static void check_object(const plan_layer *layer, const uf_row_stream_wgrad_plan *plan,
                         int64_t rows, int64_t columns) {
    const uf_conv_problem problem = problem_of(layer->direction, &layer->args);
    uf_conv_plan object;
    assert_true(uf_conv_plan_mma_row_stream_wgrad(&problem, &object));
    assert_int_equal(object.workspace, plan->splits * layer->args.groups * plan->tiles_k *
                                           plan->tiles_c * rows * columns * (int64_t)sizeof(float));
    assert_true(object.cost >= plan->cost);
}

static void check(const plan_layer *layer, const void *of, test_random *random) {
    const uf_conv_kernel_args *args = &layer->args;
    const uf_row_stream_wgrad_plan *plan = of;
    check_object(layer, plan, 8, 16 * args->w.extent[2] * args->w.extent[3]);
    (void)random;
    const int64_t element = (int64_t)uf_dtype_size(args->x.dtype);
    assert_int_equal(args->w.extent[2], UF_ROW_STREAM_WGRAD_LAGS);
    assert_int_equal(args->dilation[0], args->stride[0]);
    assert_int_equal(args->w.extent[3], plan->taps);
    assert_true((int64_t)plan->tile * plan->tiles_w >= args->y.extent[3]);
    assert_true((int64_t)plan->tile * (plan->tiles_w - 1) < args->y.extent[3]);
    assert_true((int64_t)plan->band * plan->bands >= args->y.extent[2]);
    assert_true((int64_t)plan->tiles_k * UF_ROW_STREAM_WGRAD_K * args->groups >= args->w.extent[0]);
    assert_int_equal(plan->tile % 16, 0);
    assert_int_equal(args->y.extent[3] % 16, 0);
    assert_true(plan->tile <= UF_ROW_STREAM_WGRAD_PIXELS);
    assert_true((int64_t)plan->band * (plan->bands - 1) < args->y.extent[2]);
    assert_int_equal(plan->splits, args->x.extent[0] * plan->tiles_w * plan->bands);
    assert_int_equal(plan->tiles_c * UF_ROW_STREAM_WGRAD_C, args->w.extent[1]);
    assert_int_equal(plan->reach, (plan->tile - 1) * args->stride[1] +
                                      (args->w.extent[3] - 1) * args->dilation[1] + 1);
    /* Whole sixteens around a row, at any place of memory, end before the next channel's. */
    assert_int_equal(modulo(plan->pitch_x - args->x.stride[1] * element, 16), 0);
    for (int64_t shift = 0; shift < 16; shift += element) {
        for (int64_t c = 0; c < UF_ROW_STREAM_WGRAD_C; ++c) {
            const int64_t begin = shift + c * plan->pitch_x;
            const int64_t end = (begin + plan->reach * element + 15) / 16 * 16;
            assert_true(end <= (begin + plan->pitch_x) / 16 * 16);
            assert_true(end <= plan->x_bytes);
        }
    }
    assert_true(plan->pitch_y >= plan->tile * element && plan->pitch_y % 32 == 16);
    assert_int_equal(plan->y_bytes, UF_ROW_STREAM_WGRAD_K * plan->pitch_y);
    assert_true(plan->stages >= 3 && plan->stages <= UF_ROW_STREAM_WGRAD_STAGES);
    /* A row of y is overwritten after so many rows: the row of x that is then brought finds the
     * stage of one that met the last of the three. And one is zeros. */
    assert_true(plan->rows_y - 1 - plan->stages >= UF_ROW_STREAM_WGRAD_LAGS - 1);
    assert_int_equal((int32_t)plan->zeros_at, (plan->rows_y - 1) * plan->y_bytes);
    assert_int_equal(plan->shared, UF_ROW_STREAM_WGRAD_HEAD + plan->stages * plan->x_bytes +
                                       plan->rows_y * plan->y_bytes);
    assert_true(plan->shared - UF_ROW_STREAM_WGRAD_HEAD >=
                UF_ROW_STREAM_WGRAD_WARPS * UF_ROW_STREAM_WGRAD_C * UF_ROW_STREAM_WGRAD_K *
                    UF_ROW_STREAM_WGRAD_LAGS * plan->taps * 4);
}

static bool plan_of(const plan_layer *layer, void *plan) {
    return planned(UF_CONV_WGRAD, &layer->args, plan);
}

static plan_facts facts_of(const plan_layer *layer, const void *of) {
    const uf_row_stream_wgrad_plan *plan = of;
    return (plan_facts){.cost = plan->cost,
                        .grid = {layer->args.groups * plan->tiles_k * plan->tiles_c, plan->splits},
                        .threads = 32 * (UF_ROW_STREAM_WGRAD_WARPS + 1),
                        .shared = plan->shared,
                        .most_shared = UF_ROW_STREAM_WGRAD_SHARED,
                        .copies = plan->splits};
}

static void count(const plan_layer *layer, const void *of, int64_t seen[PLAN_KINDS]) {
    const uf_row_stream_wgrad_plan *plan = of;
    seen[0] += layer->args.x.dtype == UF_BF16;
    seen[1] += plan->tiles_w > 1;
    seen[2] += plan->bands > 1;
}

static const plan_family family = {.name = "row_stream wgrad",
                                   .directions = PLAN_WGRAD,
                                   .size = sizeof(uf_row_stream_wgrad_plan),
                                   .draw = draw,
                                   .cases = 2000,
                                   .plan = plan_of,
                                   .facts = facts_of,
                                   .walk = walk_blocks,
                                   .check = check,
                                   .kinds = {"bf16", "in tiles", "in bands"},
                                   .count = count,
                                   .least_walked = 20};

int main(void) {
    const struct CMUnitTest tests[] = {plan_unit_test(&family)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
