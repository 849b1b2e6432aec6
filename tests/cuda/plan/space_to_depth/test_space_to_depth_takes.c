/* test_space_to_depth_takes.c - which layers conv_space_to_depth's plan takes, what is refused for
 * one reason each, and of which fprop is looked at again. Needs no GPU. */
#include "support/test.h"

#include <string.h>

#include "core/tensor.h"
#include "cuda/plan/space_to_depth/layers.h"
#include "kernels/cuda/conv/transform/space_to_depth/plan.h"

enum {
    LIMIT = 1 << 28, /* of extents, channels and elements of w */
    FAR = 1 << 30,   /* of offsets */
    BYTES = 16       /* rows of cells begin at such */
};

#define FURTHEST (INT64_C(1) << 40)

/* Is `base` taken with this change to `of`? */
#define TAKEN_WITH(change, taken)                                                                  \
    do {                                                                                           \
        plan_layer of = *base;                                                                     \
        uf_conv_kernel_args *const args = &of.args;                                                \
        uf_view *const x = &args->x, *const w = &args->w, *const y = &args->y;                     \
        uf_space_to_depth_plan plan;                                                               \
        (void)x, (void)w, (void)y;                                                                 \
        change;                                                                                    \
        assert_int_equal(space_to_depth_plan_of(of.direction, args, &plan), taken);                \
    } while (0)

static void check_geometry(const plan_layer *base) {
    const bool f32 = base->args.x.dtype == UF_F32;
    TAKEN_WITH((void)0, true);
    TAKEN_WITH(args->mode = UF_ACCUMULATE, f32 && of.direction != UF_CONV_FPROP);
    TAKEN_WITH(x->dtype = w->dtype = y->dtype = UF_F64, false);
    TAKEN_WITH(x->dtype = w->dtype = y->dtype = UF_F16, false);
    TAKEN_WITH(args->stride[0] = args->stride[1] = 1, false);
    for (int i = 0; i < 2; ++i) {
        TAKEN_WITH(args->stride[i] = 1, true);
        TAKEN_WITH(args->stride[i] = 1; args->dilation[i] = 2, true);
        TAKEN_WITH(args->stride[i] = UF_SPACE_TO_DEPTH_PHASES, true);
        TAKEN_WITH(args->stride[i] = UF_SPACE_TO_DEPTH_PHASES + 1, false);
        TAKEN_WITH(args->stride[i] = FURTHEST, false);
        TAKEN_WITH(args->dilation[i] = 2; w->extent[2 + i] = 3, false);
        TAKEN_WITH(args->dilation[i] = 2; w->extent[2 + i] = 1, true);
        TAKEN_WITH(args->padding[i] = FURTHEST, false);
    }
    for (int axis = 0; axis < 4; ++axis) {
        TAKEN_WITH(x->extent[axis] = 0, false);
        TAKEN_WITH(w->extent[axis] = 0, false);
        TAKEN_WITH(y->extent[axis] = 0, false);
        TAKEN_WITH(x->extent[axis] = FURTHEST, false);
        TAKEN_WITH(w->extent[axis] = FURTHEST, false);
        TAKEN_WITH(y->extent[axis] = FURTHEST, false);
    }
}

/* The largest of each number, and one more, where no other one is large. */
static void check_limits(const plan_layer *whole) {
    plan_layer line = *whole, tiny = *whole;
    uf_conv_kernel_args *const of_line = &line.args;
    const plan_layer *base;
    /* One row of one plane, in the longest steps; and planes of two times two cells. */
    of_line->x.extent[0] = of_line->x.extent[1] = of_line->x.extent[2] = 1;
    of_line->w.extent[0] = of_line->w.extent[1] = of_line->w.extent[2] = 1;
    of_line->y.extent[0] = of_line->y.extent[1] = of_line->y.extent[2] = 1;
    of_line->stride[0] = 1;
    of_line->stride[1] = UF_SPACE_TO_DEPTH_PHASES;
    of_line->padding[0] = 0;
    tiny.args.x = uf_view_nchw(tiny.args.x.data, tiny.args.x.dtype, 3, 5, 2, 2);
    tiny.args.y.extent[2] = tiny.args.y.extent[3] = 1;
    const int64_t plane = 2 * BYTES / (int64_t)uf_dtype_size(tiny.args.x.dtype);
    for (int64_t more = 0; more < 2; ++more) {
        const bool taken = more == 0;
        base = &tiny; /* cells, elements of the filter, channels, results */
        TAKEN_WITH(x->extent[0] = (FAR / plane - 1) / 20 + more, taken);
        TAKEN_WITH(w->extent[0] = y->extent[1] = (LIMIT / 16 - 1) / 5 + more;
                   y->extent[0] = 1, taken);
        TAKEN_WITH(x->extent[1] = w->extent[1] = LIMIT / 16 - 1 + more;
                   x->extent[0] = w->extent[0] = y->extent[1] = 1, taken);
        TAKEN_WITH(y->extent[0] = 4 * (int64_t)LIMIT - 1 + more; y->extent[1] = 1, taken);
        base = &line; /* padding, x, w (a quotient is rounded down), cells */
        TAKEN_WITH(args->padding[1] = LIMIT - 1 + more; y->extent[3] = LIMIT / 32, taken);
        TAKEN_WITH(x->extent[3] = LIMIT - 1 + more; y->extent[3] = LIMIT / 64, taken);
        TAKEN_WITH(x->extent[3] = LIMIT - 1 + more; args->stride[0] = 2;
                   args->stride[1] = 1, taken);
        TAKEN_WITH(w->extent[3] = LIMIT / 2 + more, taken);
        TAKEN_WITH(y->extent[3] = LIMIT - 2 + more; args->stride[1] = 2, taken);
        base = whole; /* the last element of x */
        TAKEN_WITH(x->stride[0] = FAR - uf_view_count(x) / 3 + more; x->extent[0] = 2, taken);
    }
    for (int axis = 0; axis < 4; ++axis) {
        TAKEN_WITH(x->stride[axis] = FURTHEST, false);
        TAKEN_WITH(w->stride[axis] = y->stride[axis] = FURTHEST, true);
        TAKEN_WITH(x->stride[axis] = FURTHEST; x->extent[axis] = 1, true);
    }
    /* As many taps as a filter of one can become, by as many as an axis without steps can have. */
    TAKEN_WITH(args->stride[1] = 1; args->dilation[0] = LIMIT; args->padding[0] = 0;
               w->extent[2] = y->extent[2] = 1; x->extent[2] = LIMIT - 1; w->extent[3] = FURTHEST;
               args->padding[1] = FURTHEST / 2; y->extent[3] = x->extent[3] + 1;
               assert_ok(uf_conv_check(of.direction, args)), false);
}

static void test_refuses(void **state) {
    (void)state;
    static const sizes of = {3, 5, 7, {4, 4}, {8, 9}, {0, 0}};
    for (int i = 0; i < 6; ++i) {
        const uf_conv_kernel_args args = {
            .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
        const plan_layer base =
            layer_of((uf_conv_direction)(i % 3), i < 3 ? UF_F32 : UF_BF16, &args, &of);
        check_geometry(&base);
        check_limits(&base);
    }
}

/* fprop is looked at again where the filter is filled up, and FP32 everywhere. */
static void test_fixups(void **state) {
    (void)state;
    static const struct {
        int64_t kernel[2], spare[2];
        bool filled;
    } layers[] = {{{4, 4}, {0, 0}, false}, {{2, 6}, {0, 0}, false}, {{3, 4}, {0, 0}, true},
                  {{4, 5}, {0, 0}, true},  {{4, 4}, {1, 0}, true},  {{4, 4}, {0, 1}, true},
                  {{3, 3}, {1, 1}, true},  {{1, 2}, {0, 0}, true}};
    for (int64_t i = 0; i < 12 * COUNT_OF(layers); ++i) {
        const uf_conv_direction direction = (uf_conv_direction)(i / 4 % 3);
        const uf_dtype dtype = i % 4 == 3 ? UF_BF16 : UF_F32;
        const uf_conv_kernel_args args = {
            .stride = {2, 2}, .dilation = {1, 1}, .groups = 1, .math = (uf_math)(i % 4 % 3)};
        sizes of = {.n = 1, .c = 2, .k = 3, .small = {5, 5}};
        memcpy(of.kernel, layers[i / 12].kernel, sizeof of.kernel);
        memcpy(of.spare, layers[i / 12].spare, sizeof of.spare);
        const plan_layer made = layer_of(direction, dtype, &args, &of);
        uf_space_to_depth_plan plan;
        assert_true(space_to_depth_plan_of(direction, &made.args, &plan));
        assert_int_equal(plan.fixups,
                         direction == UF_CONV_FPROP && (i % 4 == 0 || layers[i / 12].filled));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_fixups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
