/* test_row_stream_wgrad_plan.c - the plan of conv_row_stream_wgrad: shares hold every pixel once,
 * rows do not meet in shared memory, and a row of y stays until the last row of x has met it. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "cuda/plan_helpers.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/wgrad_plan.h"
#include "kernels/cuda/conv/registry.h"
#include "support/random.h"

enum { CASES = 2000 };

/* Layers that the plan takes, or nearly. */
static uf_conv_kernel_args random_layer(test_random *random) {
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
    return args;
}

static void check(const uf_conv_kernel_args *args, const uf_row_stream_wgrad_plan *plan) {
    const int64_t element = (int64_t)uf_dtype_size(args->x.dtype);
    assert_int_equal(args->w.extent[2], UF_ROW_STREAM_WGRAD_LAGS);
    assert_int_equal(args->dilation[0], args->stride[0]);
    assert_int_equal(args->w.extent[3], plan->taps);
    assert_true((int64_t)plan->tile * plan->tiles_w >= args->y.extent[3]);
    assert_true((int64_t)plan->tile * (plan->tiles_w - 1) < args->y.extent[3]);
    assert_int_equal(plan->tile % 16, 0);
    assert_int_equal(args->y.extent[3] % 16, 0);
    assert_true(plan->tile <= UF_ROW_STREAM_WGRAD_PIXELS);
    assert_true((int64_t)plan->band * plan->bands >= args->y.extent[2]);
    assert_true((int64_t)plan->band * (plan->bands - 1) < args->y.extent[2]);
    assert_int_equal(plan->splits, args->x.extent[0] * plan->tiles_w * plan->bands);
    assert_true((int64_t)plan->tiles_k * UF_ROW_STREAM_WGRAD_K * args->groups >= args->w.extent[0]);
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
    assert_true(plan->shared <= UF_ROW_STREAM_WGRAD_SHARED);
    assert_true(plan->shared - UF_ROW_STREAM_WGRAD_HEAD >=
                UF_ROW_STREAM_WGRAD_WARPS * UF_ROW_STREAM_WGRAD_C * UF_ROW_STREAM_WGRAD_K *
                    UF_ROW_STREAM_WGRAD_LAGS * plan->taps * 4);
}

static bool planned(const uf_conv_kernel_args *args, uf_row_stream_wgrad_plan *plan) {
    const uf_conv_problem problem = problem_of(UF_CONV_WGRAD, args);
    return uf_row_stream_wgrad_plan_of(&problem, plan);
}

/* The workspace holds the partial sums as the reduction reads them: by split and tile, rows of
 * `columns`. */
static void check_object(const uf_conv_kernel_args *args, const uf_row_stream_wgrad_plan *plan,
                         int64_t rows, int64_t columns) {
    const uf_conv_problem problem = problem_of(UF_CONV_WGRAD, args);
    uf_conv_plan object;
    assert_true(uf_conv_plan_mma_row_stream_wgrad(&problem, &object));
    assert_int_equal(object.workspace, plan->splits * args->groups * plan->tiles_k * plan->tiles_c *
                                           rows * columns * (int64_t)sizeof(float));
    assert_true(object.cost >= plan->cost);
}

static void test_plans(void **state) {
    (void)state;
    int64_t taken = 0, bf16 = 0, tiles = 0, bands = 0;
    for (int i = 0; i < CASES; ++i) {
        test_random random = test_random_for("stream_wgrad_plan", i);
        const uf_conv_kernel_args args = random_layer(&random);
        uf_row_stream_wgrad_plan plan;
        if (planned(&args, &plan)) {
            check(&args, &plan);
            check_object(&args, &plan, 8, 16 * args.w.extent[2] * args.w.extent[3]);
            ++taken;
            bf16 += args.x.dtype == UF_BF16;
            tiles += plan.tiles_w > 1;
            bands += plan.bands > 1;
        }
    }
    print_message("%lld plans; bf16 %lld, in tiles %lld, in bands %lld\n", (long long)taken,
                  (long long)bf16, (long long)tiles, (long long)bands);
    assert_true(bf16 > 0 && tiles > 0 && bands > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
