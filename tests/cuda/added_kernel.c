/* added_kernel.c - the registry and the choice with `pointwise`, which docs/adding-a-kernel.md
 * adds; all other main loops have no plan here. tests/scripts/adding_a_kernel.sh applies the page
 * and builds this: it needs neither GPU nor toolkit. "list DIRECTION TYPE": the names that tests
 * force. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "core/tensor.h"
#include "kernels/cuda/conv/pointwise/plan.h"
#include "kernels/cuda/conv/select/choose.h"
#include "support/conv_variants.h"

/* Weak: a main loop that is linked counts instead. */
#define UF_CONV_LOOP(id, name, directions, types)                                                  \
    __attribute__((weak)) bool uf_conv_plan_##id(const uf_conv_problem *problem,                   \
                                                 uf_conv_plan *plan) {                             \
        (void)problem;                                                                             \
        (void)plan;                                                                                \
        return false;                                                                              \
    }                                                                                              \
    __attribute__((weak)) uf_status uf_conv_launch_##id(                                           \
        uf_context *context, const uf_conv_problem *problem, const uf_conv_plan *plan) {           \
        (void)context;                                                                             \
        (void)problem;                                                                             \
        (void)plan;                                                                                \
        return UF_ERROR_UNSUPPORTED;                                                               \
    }
#define UF_CONV_VARIANT(enumerator, name, least, most, loops) loops
#include "kernels/cuda/conv/registry.def"
#undef UF_CONV_VARIANT
#undef UF_CONV_LOOP

static const struct {
    const char *name;
    uf_conv_direction direction;
    unsigned bit;
} directions[] = {{"fprop", UF_CONV_FPROP, UF_CONV_FORWARD},
                  {"dgrad", UF_CONV_DGRAD, UF_CONV_DATA},
                  {"wgrad", UF_CONV_WGRAD, UF_CONV_WEIGHTS}};
static const struct {
    const char *name;
    uf_dtype dtype;
} types[] = {{"f32", UF_F32}, {"f64", UF_F64}, {"bf16", UF_BF16}};

/* Forced; a plan has two elements. */
static uf_status choose(uf_conv_direction direction, uf_conv_kernel_args *args,
                        uf_conv_plan *plan) {
    const uf_gpu gpu = uf_gpu_h200();
    const uf_conv_problem problem = uf_conv_problem_of(direction, args, &gpu);
    args->variant = "pointwise";
    return uf_conv_choose(&problem, plan);
}

static uf_conv_kernel_args arguments(uf_dtype dtype, int64_t kernel, int64_t stride,
                                     int64_t padding, int64_t groups) {
    const int64_t small = 9, large = (small - 1) * stride + kernel - 2 * padding;
    uf_conv_kernel_args args;
    memset(&args, 0, sizeof args);
    args.x = uf_view_nchw(NULL, dtype, 3, 34, large, large);
    args.w = uf_view_nchw(NULL, dtype, 40, 34 / groups, kernel, kernel);
    args.y = uf_view_nchw(NULL, dtype, 3, 40, small, small);
    for (int axis = 0; axis < 2; ++axis) {
        args.stride[axis] = stride;
        args.padding[axis] = padding;
        args.dilation[axis] = 1;
    }
    args.groups = groups;
    return args;
}

/* Its grid has each written element once. */
static void test_takes(void **state) {
    (void)state;
    for (int64_t d = 0; d < 2; ++d) {
        for (int64_t t = 0; t < COUNT_OF(types); ++t) {
            uf_conv_kernel_args args = arguments(types[t].dtype, 1, 1, 0, 1);
            uf_conv_plan plan[2];
            assert_ok(choose(directions[d].direction, &args, plan));
            const uf_pointwise_plan *own = UF_CONV_CONST_PLAN_OF(uf_pointwise_plan, plan);
            const int64_t extents[2] = {3 * 9 * 9,
                                        directions[d].direction == UF_CONV_FPROP ? 40 : 34};
            assert_int_equal(own->pixels, extents[0]);
            assert_int_equal(own->written, extents[1]);
            assert_int_equal(own->read, 74 - extents[1]);
            for (int i = 0; i < 2; ++i) {
                assert_true(own->tiles[i] * UF_POINTWISE_TILE >= extents[i]);
                assert_true((own->tiles[i] - 1) * UF_POINTWISE_TILE < extents[i]);
            }
            /* It has no row of rates. */
            assert_true(plan->cost > 0.0);
            assert_true(plan->microseconds > 10.0 + plan->cost / 1755.0);
        }
    }
}

static void test_refuses(void **state) {
    (void)state;
    static const struct {
        int64_t kernel, stride, padding, groups;
    } rows[] = {{3, 1, 0, 1}, {1, 2, 0, 1}, {1, 1, 1, 1}, {1, 1, 0, 2}};
    for (int64_t d = 0; d < COUNT_OF(directions); ++d) {
        for (int64_t i = 0; i < COUNT_OF(rows); ++i) {
            uf_conv_kernel_args args =
                arguments(UF_F32, rows[i].kernel, rows[i].stride, rows[i].padding, rows[i].groups);
            uf_conv_plan plan[2];
            assert_error(choose(directions[d].direction, &args, plan), UF_ERROR_UNSUPPORTED,
                         "pointwise");
        }
    }
    uf_conv_kernel_args args = arguments(UF_F32, 1, 1, 0, 1);
    uf_conv_plan plan[2];
    assert_error(choose(UF_CONV_WGRAD, &args, plan), UF_ERROR_UNSUPPORTED, "pointwise");
}

static int list(const char *direction, const char *type) {
    for (int64_t d = 0; d < COUNT_OF(directions); ++d) {
        for (int64_t t = 0; t < COUNT_OF(types); ++t) {
            if (strcmp(directions[d].name, direction) == 0 && strcmp(types[t].name, type) == 0) {
                const char *names[CONV_VARIANTS];
                const int64_t count = conv_variants(directions[d].bit, 1U << types[t].dtype, names);
                for (int64_t i = 1; i < count; ++i) {
                    (void)printf("%s\n", names[i]);
                }
                return 0;
            }
        }
    }
    return 2;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_takes),
                                       cmocka_unit_test(test_refuses)};
    return argc == 4 && strcmp(argv[1], "list") == 0 ? list(argv[2], argv[3])
                                                     : cmocka_run_group_tests(tests, NULL, NULL);
}
