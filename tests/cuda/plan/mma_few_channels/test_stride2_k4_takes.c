/* test_stride2_k4_takes.c - which layers stride2_k4 has a plan for: the kernels can do all that is
 * taken, and each reason to refuse refuses alone. Needs no GPU. */
#include "cuda/plan/walk.h"

#include <string.h>

#include "cuda/plan/mma_few_channels/stride2_k4_layers.h"
#include "cuda/plan/helpers.h"

/* Bits of what takes some arguments. */
enum { FPROP = 1 << UF_CONV_FPROP, DGRAD = 1 << UF_CONV_DGRAD, WGRAD = 1 << UF_CONV_WGRAD };
enum { ALL = FPROP | DGRAD | WGRAD };

static bool planned(uf_conv_direction direction, const uf_conv_kernel_args *args,
                    uf_stride2_k4_plan *plan) {
    const uf_conv_problem problem = problem_of(direction, args);
    return uf_stride2_k4_plan_of(&problem, plan);
}

/* All of w comes in vectors, in which threads find k, c, r and s of each element by its number; or
 * there are none of these. */
static void check_vectors(const uf_conv_kernel_args *args, const uf_stride2_k4_plan *plan) {
    const uf_view *w = &args->w;
    const int64_t count = uf_view_count(w), elements = PIECE / (int64_t)uf_dtype_size(w->dtype);
    bool whole = (uintptr_t)w->data % PIECE == 0 && count % elements == 0;
    for (int64_t i = 0; whole && i < count; ++i) {
        const int64_t filter = divide(&plan->by_taps, i), tap = i - filter * plan->by_taps.divisor;
        const int64_t r = divide(&plan->by_filter_row, tap);
        const int64_t s = tap - r * plan->by_filter_row.divisor;
        const int64_t k = filter / w->extent[1], c = filter % w->extent[1];
        whole = k * w->stride[0] + c * w->stride[1] + r * w->stride[2] + s * w->stride[3] == i;
    }
    assert_int_equal(plan->weight_vectors, whole ? count / elements : 0);
}

static void check_copied(const uf_view *view) {
    const int64_t element = (int64_t)uf_dtype_size(view->dtype);
    assert_int_equal(view->stride[3], 1);
    for (int axis = 0; axis < 3; ++axis) {
        assert_true(view->extent[axis] == 1 || view->stride[axis] * element % PIECE == 0);
    }
}

/* Whatever is taken is something that the kernels can do. */
static void check_taken(const plan_layer *layer, const uf_stride2_k4_plan *plan) {
    const uf_conv_direction direction = layer->direction;
    const uf_conv_kernel_args *args = &layer->args;
    const bool dgrad = direction == UF_CONV_DGRAD, wgrad = direction == UF_CONV_WGRAD;
    const uf_view *x = &args->x, *y = &args->y, *w = &args->w;
    for (int axis = 0; axis < 2; ++axis) {
        assert_int_equal(args->stride[axis], STRIDE);
        assert_int_equal(args->dilation[axis], 1);
        assert_true(w->extent[2 + axis] >= FILTER - 1 && w->extent[2 + axis] <= FILTER);
        assert_int_equal(plan->conv.kernel[axis], w->extent[2 + axis]);
        assert_int_equal(plan->conv.padding[axis], args->padding[axis]);
        assert_int_equal(plan->conv.axis[axis].read, (dgrad ? y : x)->extent[2 + axis]);
        assert_int_equal(plan->conv.axis[axis].written, (dgrad ? x : y)->extent[2 + axis]);
    }
    assert_int_equal(args->groups, 1);
    assert_true(y->extent[1] <= UF_STRIDE2_K4_SMALL && x->extent[1] <= UF_STRIDE2_K4_LARGE);
    assert_int_equal(plan->channels, x->extent[1]);
    assert_int_equal(plan->conv.dgrad, dgrad);
    assert_true(wgrad || args->mode == UF_OVERWRITE);
    assert_true(x->dtype == UF_BF16 || args->math != UF_MATH_BF16);
    assert_int_equal(plan->scaled,
                     args->epilogue.scale.data != NULL || args->epilogue.shift.data != NULL);
    check_copied(y);
    check_copied(dgrad ? y : x);
    check_vectors(args, plan);
}

static void test_taken(void **state) {
    enum { CASES = 4000 };
    int64_t taken[3] = {0};
    (void)state;
    for (int64_t i = 0; i < CASES; ++i) {
        test_random random = test_random_for("stride2_k4_taken", i);
        plan_layer layer = {.direction = (uf_conv_direction)(i % 3)};
        uf_stride2_k4_plan plan;
        if (i % 4 == 0) {
            stride2_k4_draw_large(&random, &layer);
        } else {
            stride2_k4_draw(&random, &layer);
        }
        plan_at(&layer);
        memset(&plan, 0x55, sizeof plan); /* all of it is written */
        if (planned(layer.direction, &layer.args, &plan)) {
            check_taken(&layer, &plan);
            ++taken[layer.direction];
        }
    }
    plan_at(NULL);
    for (int i = 0; i < 3; ++i) { /* and some are refused */
        assert_true(taken[i] > CASES / 20 && taken[i] < CASES / 3 - CASES / 20);
    }
}

static bool is_aligned(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const uf_conv_problem problem = problem_of(direction, args);
    return uf_stride2_k4_is_aligned(&problem);
}

static int taken_by(const uf_conv_kernel_args *args) {
    int taken = 0;
    for (int direction = UF_CONV_FPROP; direction <= UF_CONV_WGRAD; ++direction) {
        uf_stride2_k4_plan plan;
        if (planned((uf_conv_direction)direction, args, &plan)) {
            taken |= 1 << direction;
            check_vectors(args, &plan);
        }
    }
    return taken;
}

/* A generator's last layer and a discriminator's first. Rows are further apart than they are long:
 * one column more is no other stride. */
static uf_conv_kernel_args base_of(uf_dtype dtype) {
    uf_conv_kernel_args args = {.stride = {STRIDE, STRIDE},
                                .padding = {1, 1},
                                .dilation = {1, 1},
                                .groups = 1,
                                .math = UF_MATH_TF32};
    args.x = view_of(dtype, 5, 3, 64, STRIDE * PIXELS, STRIDE * PIXELS + 32);
    args.w = uf_view_nchw((void *)4096, dtype, UF_STRIDE2_K4_SMALL, 3, FILTER, FILTER);
    args.y = view_of(dtype, 5, UF_STRIDE2_K4_SMALL, 32, PIXELS, PIXELS + 16);
    return args;
}

static void test_takes(void **state) {
    (void)state;
    for (int type = 0; type < 2; ++type) {
        const uf_dtype dtype = type == 0 ? UF_BF16 : UF_F32;
        for (int64_t filter = FILTER - 1; filter <= FILTER; ++filter) {
            for (int64_t c = 1; c <= UF_STRIDE2_K4_LARGE; ++c) {
                for (int math = UF_MATH_FP32; math <= UF_MATH_BF16; ++math) {
                    uf_conv_kernel_args args = base_of(dtype);
                    args.x = uf_view_nchw((void *)4096, dtype, 128, c, 64, 64);
                    args.w = uf_view_nchw((void *)4096, dtype, 64, c, filter, filter);
                    args.y = uf_view_nchw((void *)4096, dtype, 128, 64, 32, 32);
                    args.math = (uf_math)math;
                    const bool f32 = dtype == UF_F32;
                    const int expected = f32 && math == UF_MATH_BF16 ? 0 : ALL;
                    /* Both halves of all weights leave dgrad little room: it may refuse. */
                    const bool tight = f32 && math == UF_MATH_FP32 && c == UF_STRIDE2_K4_LARGE;
                    assert_int_equal(taken_by(&args) | (tight ? DGRAD : 0), expected);
                }
            }
        }
    }
}

/* Directions that take `base` with this change to `args`. */
#define TAKEN_WITH(change, by)                                                                     \
    do {                                                                                           \
        uf_conv_kernel_args args = *base;                                                          \
        change;                                                                                    \
        assert_int_equal(taken_by(&args), by);                                                     \
    } while (0)

/* Each of these changes has one reason to be refused, in some directions or in all, or none. */
static void check_geometry(const uf_conv_kernel_args *base) {
    const int64_t columns = STRIDE * PIXELS + 1; /* of x and the padding before it, at most */
    const int64_t images = (INT64_C(1) << 30) / base->y.extent[2];
    TAKEN_WITH((void)args, ALL);
    for (int axis = 0; axis < 2; ++axis) {
        TAKEN_WITH(args.stride[axis] = 1, 0);
        TAKEN_WITH(args.stride[axis] = 3, 0);
        TAKEN_WITH(args.dilation[axis] = 2, 0);
        TAKEN_WITH(args.w.extent[2 + axis] = FILTER - 2, 0);
        TAKEN_WITH(args.w.extent[2 + axis] = FILTER - 1, ALL);
        TAKEN_WITH(args.w.extent[2 + axis] = FILTER + 1, 0);
        TAKEN_WITH(args.padding[axis] = INT64_C(1) << 31, 0); /* positions beyond 32 bits */
        TAKEN_WITH(args.x.extent[2 + axis] = INT64_C(1) << 31, 0);
    }
    TAKEN_WITH(args.groups = 2, 0);
    TAKEN_WITH(args.y.extent[1] = UF_STRIDE2_K4_SMALL + 1, 0);
    TAKEN_WITH(args.x.extent[1] = UF_STRIDE2_K4_LARGE + 1, 0);
    /* dgrad: a row of y is one strip, whose pixels make pairs of columns from the padding's second
     * on. */
    TAKEN_WITH(args.y.extent[3] = PIXELS + PIECE, FPROP | WGRAD);
    /* Rows that end within 16 bytes. */
    TAKEN_WITH(args.y.extent[3] -= 1; args.x.extent[3] -= STRIDE, DGRAD | WGRAD);
    TAKEN_WITH(args.padding[1] = 0, FPROP | WGRAD);
    for (int64_t padding = 1; padding <= 3; ++padding) {
        TAKEN_WITH(args.padding[1] = padding; args.x.extent[3] = columns - padding, ALL);
        TAKEN_WITH(args.padding[1] = padding;
                   args.x.extent[3] = columns + 1 - padding, FPROP | WGRAD);
    }
    TAKEN_WITH(args.x.extent[2] += 5, ALL); /* rows that nothing reaches are zeros */
    /* Units are counted in 30 bits. */
    TAKEN_WITH(args.x.extent[0] = args.y.extent[0] = images, 0);
    TAKEN_WITH(args.x.extent[0] = args.y.extent[0] = images - 1; args.x.extent[2] -= 3, ALL);
}

static void check_views(const uf_conv_kernel_args *base) {
    const int64_t element = (int64_t)uf_dtype_size(base->x.dtype);
    for (int axis = 0; axis < 4; ++axis) {
        /* Rows, channels and images at multiples of 16 bytes, columns neighbours. */
        TAKEN_WITH(args.y.stride[axis] += 1, 0);
        TAKEN_WITH(args.x.stride[axis] += 1, DGRAD);
        /* Tensor copies go neither backwards nor nowhere, nor that far. */
        const int64_t none[] = {-PIECE, 0, INT64_C(1) << 32};
        for (int i = 0; i < 3; ++i) {
            TAKEN_WITH(args.y.stride[axis] = none[i], 0);
            TAKEN_WITH(args.x.stride[axis] = none[i], DGRAD);
        }
        /* Strides beside an extent of 1 do not matter but for the columns'. */
        if (axis < 3) {
            TAKEN_WITH(args.y.extent[axis] = 1; args.y.stride[axis] = 1, ALL);
            TAKEN_WITH(args.x.extent[axis] = 1; args.x.stride[axis] = 1, ALL);
        }
        TAKEN_WITH(args.x.extent[axis] = 0, 0);
        TAKEN_WITH(args.y.extent[axis] = 0, 0);
        TAKEN_WITH(args.w.extent[axis] = 0, 0);
    }
    for (int64_t by = element; by < PIECE; by *= 2) {
        TAKEN_WITH(args.y.data = (char *)args.y.data + by, ALL);
        TAKEN_WITH(args.x.data = (char *)args.x.data + by, ALL);
        TAKEN_WITH(args.w.data = (char *)args.w.data + by, ALL);
        uf_conv_kernel_args moved = *base;
        moved.x.data = (char *)moved.x.data + by;
        assert_true(is_aligned(UF_CONV_DGRAD, &moved));
        assert_false(is_aligned(UF_CONV_FPROP, &moved));
        assert_false(is_aligned(UF_CONV_WGRAD, &moved));
        moved.y.data = (char *)moved.y.data + by;
        assert_false(is_aligned(UF_CONV_DGRAD, &moved));
        assert_true(is_aligned(UF_CONV_FPROP, base));
    }
    /* The end of a sum. */
    TAKEN_WITH(args.mode = UF_ACCUMULATE, WGRAD);
    TAKEN_WITH(args.epilogue.scale.data = args.epilogue.shift.data = args.w.data, ALL);
    TAKEN_WITH(args.epilogue.activation.kind = UF_ACTIVATION_TANH, ALL);
    TAKEN_WITH(args.math = UF_MATH_BF16, base->x.dtype == UF_BF16 ? ALL : 0);
}

/* One reason at a time why w does not come in vectors, or none: taken_by asks how many come. */
static void check_weights(const uf_conv_kernel_args *base) {
    for (int axis = 0; axis < 4; ++axis) {
        TAKEN_WITH(args.w.stride[axis] *= 2, ALL);
    }
    TAKEN_WITH(args.w.stride[2] = 1; args.w.stride[3] = FILTER, ALL);
    TAKEN_WITH(args.w.extent[0] = args.y.extent[1] = args.w.stride[0] = 1, ALL); /* alone */
    for (int64_t i = 0; i < TAPS; ++i) {
        const int64_t k = UF_STRIDE2_K4_SMALL - i / 4, r = FILTER - i / 2 % 2, s = FILTER - i % 2;
        TAKEN_WITH(args.w = uf_view_nchw(base->w.data, base->w.dtype, k, 3, r, s);
                   args.y.extent[1] = k, ALL);
    }
}

static void test_refuses(void **state) {
    (void)state;
    const uf_conv_kernel_args bases[] = {base_of(UF_BF16), base_of(UF_F32)};
    for (int64_t i = 0; i < COUNT_OF(bases); ++i) {
        check_geometry(&bases[i]);
        check_views(&bases[i]);
        check_weights(&bases[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_taken, plan_teardown),
        cmocka_unit_test(test_takes),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
