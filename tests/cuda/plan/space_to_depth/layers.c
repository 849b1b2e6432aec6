/* layers.c - see cuda/plan/space_to_depth/layers.h. */
#include "cuda/plan/space_to_depth/layers.h"
#include "kernels/cuda/conv/transform/space_to_depth/plan.h"

#include "support/test.h"

#include <math.h>
#include <string.h>

#include "cuda/plan/helpers.h"

int64_t large_of(const uf_conv_kernel_args *args, const sizes *of, int axis) {
    return (of->small[axis] - 1) * args->stride[axis] - 2 * args->padding[axis] +
           (of->kernel[axis] - 1) * args->dilation[axis] + 1 + of->spare[axis];
}

plan_layer layer_of(uf_conv_direction direction, uf_dtype dtype, const uf_conv_kernel_args *args,
                    const sizes *of) {
    void *const nowhere = (void *)4096;
    const int64_t *kernel = of->kernel, *small = of->small, groups = args->groups;
    plan_layer made;
    memset(&made, 0, sizeof made);
    made.direction = direction;
    made.args = *args;
    made.args.x = uf_view_nchw(nowhere, dtype, of->n, of->c * groups, large_of(args, of, 0),
                               large_of(args, of, 1));
    made.args.w = uf_view_nchw(nowhere, dtype, of->k * groups, of->c, kernel[0], kernel[1]);
    made.args.y = uf_view_nchw(nowhere, dtype, of->n, of->k * groups, small[0], small[1]);
    return made;
}

/* Dilation where there are no steps, padding of up to `most`, and a remainder: as uf_conv_check
 * takes them, if the large side is not empty. */
static void draw_axis(test_random *random, int axis, int64_t most, uf_conv_kernel_args *args,
                      sizes *of) {
    const int64_t step = args->stride[axis], kernel = of->kernel[axis];
    args->dilation[axis] = step > 1 && kernel > 1 ? 1 : test_random_integer(random, 1, step + 2);
    args->padding[axis] = test_random_one_in(random, 2) ? test_random_integer(random, 0, most) : 0;
    const int64_t dilation = args->dilation[axis];
    of->spare[axis] = test_random_integer(random, 0, (step > dilation ? step : dilation) - 1);
}

/* Rows that begin at 16 bytes; or any order of axes in memory, with gaps. Tensors that are only
 * read may repeat themselves. */
static void space(test_random *random, uf_view *view, bool written) {
    bool placed[4] = {false};
    int64_t next = 1;
    if (test_random_one_in(random, 2)) {
        set_rows(view, round_up(view->extent[3], 8));
        return;
    }
    for (int i = 0; i < 4; ++i) {
        int64_t axis = test_random_integer(random, 0, 3);
        while (placed[axis]) {
            axis = (axis + 1) % 4;
        }
        placed[axis] = true;
        view->stride[axis] = next + test_random_integer(random, 0, 2);
        next = view->stride[axis] * view->extent[axis];
        if (!written && test_random_one_in(random, 20)) {
            view->stride[axis] = 0;
        }
    }
}

/* ACCUMULATE, or an epilogue: a scale, a shift, both or none, and an activation. */
static void draw_end(test_random *random, plan_layer *of) {
    uf_conv_kernel_args *const args = &of->args;
    const int64_t channels = of->direction == UF_CONV_DGRAD ? args->x.extent[1] : args->y.extent[1];
    uf_view *const vectors[] = {&args->epilogue.scale, &args->epilogue.shift};
    if (args->x.dtype == UF_F32 && of->direction != UF_CONV_FPROP &&
        test_random_one_in(random, 4)) {
        args->mode = UF_ACCUMULATE;
        return;
    }
    for (int i = 0; of->direction != UF_CONV_WGRAD && i < 2; ++i) {
        args->epilogue.activation.kind = (uf_activation_kind)test_random_integer(random, 0, 2);
        if (test_random_one_in(random, 2)) {
            *vectors[i] = uf_view_nchw((void *)4096, args->x.dtype, 1, channels, 1, 1);
            vectors[i]->stride[1] = test_random_integer(random, 0, 3);
        }
    }
}

plan_layer random_layer(test_random *random, uf_conv_direction direction) {
    /* Small; rows of x, planes of x, planes of w, rows of w larger than a tile; long steps; some
     * planes to a tile. */
    static const struct {
        int64_t step, small[2], kernel[2], channels, batch;
    } kinds[] = {{5, {7, 7}, {13, 13}, 3, 3},  {5, {2, 3000}, {2, 12}, 1, 2},
                 {5, {60, 60}, {4, 4}, 1, 2},  {5, {3, 3}, {130, 130}, 1, 1},
                 {5, {2, 3}, {2, 9000}, 1, 1}, {64, {2, 2}, {130, 70}, 1, 2},
                 {5, {2, 1}, {3, 3}, 4, 150}};
    const int64_t some = test_random_integer(random, 1, COUNT_OF(kinds) - 1);
    const int64_t kind = test_random_one_in(random, 2) ? 0 : some;
    const int64_t steps = kinds[kind].step, channels = kinds[kind].channels;
    uf_conv_kernel_args args;
    sizes of;
    memset(&args, 0, sizeof args);
    args.stride[0] = test_random_integer(random, 1, steps);
    args.stride[1] = test_random_integer(random, args.stride[0] == 1 ? 2 : 1, steps);
    args.groups = test_random_one_in(random, 3) ? channels : 1;
    args.math = (uf_math)test_random_integer(random, UF_MATH_FP32, UF_MATH_BF16);
    of.n = test_random_integer(random, 1, kinds[kind].batch);
    of.c = test_random_integer(random, 1, channels);
    of.k = test_random_integer(random, 1, channels);
    for (int axis = 0; axis < 2; ++axis) {
        int64_t *const kernel = &of.kernel[axis];
        *kernel = test_random_integer(random, 1, kinds[kind].kernel[axis]);
        if (*kernel > args.stride[axis] && test_random_one_in(random, 3)) {
            *kernel -= *kernel % args.stride[axis]; /* whole steps */
        }
        do {
            of.small[axis] = test_random_integer(random, 1, kinds[kind].small[axis]);
            draw_axis(random, axis, 2 * *kernel + 2, &args, &of);
        } while (large_of(&args, &of, axis) < 1);
    }
    plan_layer made =
        layer_of(direction, test_random_one_in(random, 2) ? UF_BF16 : UF_F32, &args, &of);
    draw_end(random, &made);
    uf_view *const views[] = {&made.args.y, &made.args.x, &made.args.w}; /* by what writes them */
    for (int i = 0; i < 3; ++i) {
        if (!test_random_one_in(random, 3)) {
            space(random, views[i], i == (int)direction);
        }
    }
    return made;
}

plan_layer random_large(test_random *random, uf_conv_direction direction) {
    uf_conv_kernel_args args;
    sizes of;
    double elements; /* no fewer than any tensor has */
    memset(&args, 0, sizeof args);
    args.groups = test_random_integer(random, 1, 2);
    args.stride[0] = test_random_log(random, 1, UF_SPACE_TO_DEPTH_PHASES);
    args.stride[1] = test_random_log(random, args.stride[0] == 1 ? 2 : 1, UF_SPACE_TO_DEPTH_PHASES);
    args.math = (uf_math)test_random_integer(random, UF_MATH_FP32, UF_MATH_BF16);
    do {
        int64_t *const all[] = {&of.n,         &of.c,        &of.k,       &of.kernel[0],
                                &of.kernel[1], &of.small[0], &of.small[1]};
        for (int i = 0; i < COUNT_OF(all); ++i) {
            *all[i] = test_random_log(random, 1, 8);
        }
        for (int i = 0; i < 2; ++i) {
            *all[test_random_integer(random, 0, 6)] = test_random_log(random, 1, 1 << 28);
        }
        elements = 4.0 * (double)(of.n + of.k) * (double)(of.c + of.k);
        for (int axis = 0; axis < 2; ++axis) {
            draw_axis(random, axis, 2 * of.kernel[axis], &args, &of);
            const int64_t large = large_of(&args, &of, axis);
            elements *= large < 1 ? HUGE_VAL : (double)(large + of.small[axis] + of.kernel[axis]);
        }
    } while (elements > 0x1p57);
    return layer_of(direction, test_random_one_in(random, 2) ? UF_BF16 : UF_F32, &args, &of);
}
