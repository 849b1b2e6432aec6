/* stride2_k4_layers.c - see cuda/plan/mma_few_channels/stride2_k4_layers.h. */
#include "cuda/plan/mma_few_channels/stride2_k4_layers.h"

#include <string.h>

#include "cuda/plan/helpers.h"

/* Rows as far apart as tensor copies want them, or, now and then, as the row is long. */
static int64_t random_row(test_random *random, uf_dtype dtype, int64_t columns) {
    const int64_t unit = PIECE / (int64_t)uf_dtype_size(dtype);
    const int64_t more = test_random_one_in(random, 4) ? unit : 0;
    return test_random_one_in(random, 8) ? columns : round_up(columns, unit) + more;
}

/* Layers that the plan takes, or nearly. */
void stride2_k4_draw(test_random *random, plan_layer *layer) {
    const uf_conv_direction direction = layer->direction;
    uf_conv_kernel_args args;
    memset(&args, 0, sizeof args);
    const bool dgrad = direction == UF_CONV_DGRAD, wgrad = direction == UF_CONV_WGRAD;
    const uf_dtype dtype = test_random_one_in(random, 2) ? UF_BF16 : UF_F32;
    const int64_t n = test_random_log(random, 1, 100);
    const int64_t c = test_random_integer(random, 1, UF_STRIDE2_K4_LARGE + 1);
    const int64_t k =
        test_random_one_in(random, 4)
            ? test_random_integer(random, UF_STRIDE2_K4_SMALL - 1, UF_STRIDE2_K4_SMALL + 1)
            : test_random_integer(random, 1, UF_STRIDE2_K4_SMALL);
    /* fprop wants rows of whole sixteens of bytes. */
    const int64_t piece = test_random_one_in(random, 4) ? 1 : 8;
    const int64_t small[2] = {test_random_log(random, 1, 30),
                              dgrad ? test_random_integer(random, 1, PIXELS + 1)
                                    : piece * test_random_log(random, 1, 3 * PIXELS / piece)};
    int64_t large[2], kernel[2];
    args.groups = test_random_one_in(random, 40) ? 2 : 1;
    for (int axis = 0; axis < 2; ++axis) {
        args.stride[axis] = test_random_one_in(random, 20) ? test_random_integer(random, 1, 3) : 2;
        args.dilation[axis] = test_random_one_in(random, 20) ? 2 : 1;
        kernel[axis] = test_random_one_in(random, 20) ? test_random_integer(random, 2, 5)
                                                      : test_random_integer(random, 3, 4);
        args.padding[axis] = test_random_integer(random, 0, 5);
        const int64_t more = test_random_integer(random, 0, args.stride[axis] - 1);
        do {
            large[axis] = (small[axis] - 1) * args.stride[axis] - 2 * args.padding[axis] +
                          (kernel[axis] - 1) * args.dilation[axis] + 1 + more;
        } while (large[axis] < 1 && args.padding[axis]-- > 0);
    }
    args.x =
        view_of(dtype, n, c * args.groups, large[0], large[1], random_row(random, dtype, large[1]));
    args.w = view_of(dtype, k * args.groups, c, kernel[0], kernel[1],
                     kernel[1] + (test_random_one_in(random, 8) ? 4 : 0));
    args.y =
        view_of(dtype, n, k * args.groups, small[0], small[1], random_row(random, dtype, small[1]));
    args.x.data = (void *)(uintptr_t)(4096 + (test_random_one_in(random, 20) ? 4 : 0));
    args.y.data = (void *)(uintptr_t)(4096 + (test_random_one_in(random, 20) ? 4 : 0));
    args.w.data = (void *)(uintptr_t)(4096 + (test_random_one_in(random, 8) ? 4 : 0));
    args.math = dtype == UF_BF16 || test_random_one_in(random, 20)
                    ? (uf_math)test_random_integer(random, 0, 2)
                    : (uf_math)test_random_integer(random, 0, 1);
    if (test_random_one_in(random, wgrad ? 2 : 20)) {
        args.mode = UF_ACCUMULATE;
    } else if (!wgrad) {
        args.epilogue.activation.kind =
            test_random_one_in(random, 2) ? UF_ACTIVATION_TANH : UF_ACTIVATION_IDENTITY;
        args.epilogue.scale.data = test_random_one_in(random, 3) ? (void *)4096 : NULL;
        args.epilogue.shift.data = test_random_one_in(random, 3) ? (void *)4096 : NULL;
    }
    layer->args = args;
}

void stride2_k4_draw_large(test_random *random, plan_layer *layer) {
    const bool dgrad = layer->direction == UF_CONV_DGRAD;
    const uf_dtype dtype = test_random_one_in(random, 2) ? UF_BF16 : UF_F32;
    const int64_t n = test_random_log(random, 1, 1 << 22);
    const int64_t rows = test_random_log(random, 1, 1 << 22);
    const int64_t columns =
        dgrad ? test_random_integer(random, 2, PIXELS) : test_random_log(random, 2, 1 << 12);
    const int64_t row = round_up(columns, PIECE / (int64_t)uf_dtype_size(dtype));
    uf_conv_kernel_args args = {.stride = {STRIDE, STRIDE},
                                .padding = {test_random_integer(random, 0, 3), 1},
                                .dilation = {1, 1},
                                .groups = 1,
                                .math = UF_MATH_TF32};
    args.x = view_of(dtype, n, 1, STRIDE * rows, STRIDE * columns, STRIDE * row);
    args.w = uf_view_nchw((void *)4096, dtype, 1, 1, FILTER, FILTER);
    args.y = view_of(dtype, n, 1, rows, columns, row);
    layer->args = args;
}

stride2_k4_coord stride2_k4_coord_of(const uf_stride2_k4_plan *plan, int64_t unit) {
    const int64_t rows = divide(&plan->by_strips, unit);
    const int64_t n = divide(&plan->by_rows, rows);
    return (stride2_k4_coord){n, rows - n * plan->rows, unit - rows * plan->strips};
}

int64_t stride2_k4_first_of(const uf_stride2_k4_plan *plan, int64_t block) {
    return block * plan->units / plan->blocks;
}
