/* test_choice.c - the choice of a convolution kernel is a pure function: no GPU is needed to try it. */
#include "support/test.h"

#include <string.h>

#include "kernels/cuda/conv_choice.h"

static uf_conv_kernel_args arguments(uf_dtype dtype, int64_t channels, int64_t extent) {
    uf_conv_kernel_args args;
    memset(&args, 0, sizeof args);
    args.x = uf_view_nchw(NULL, dtype, 2, channels, extent, extent);
    args.y = uf_view_nchw(NULL, dtype, 2, channels, extent, extent);
    args.w = uf_view_nchw(NULL, dtype, channels, channels, 3, 3);
    for (int axis = 0; axis < 2; ++axis) {
        args.stride[axis] = args.padding[axis] = args.dilation[axis] = 1;
    }
    args.groups = 1;
    return args;
}

static const uf_conv_direction directions[] = {UF_CONV_FPROP, UF_CONV_DGRAD, UF_CONV_WGRAD};

/* What is chosen suits, for every direction, type and math. */
static void test_chosen_suits(void **state) {
    (void)state;
    for (int d = 0; d < 3; ++d) {
        for (int math = 0; math < 3; ++math) {
            for (int64_t channels = 1; channels < 600; channels = channels * 3 + 1) {
                for (int wide = 0; wide < 2; ++wide) {
                    uf_conv_kernel_args args = arguments(wide ? UF_F64 : UF_F32, channels, 9);
                    uf_cuda_conv_variant variant = UF_CUDA_CONV_VARIANTS;
                    args.math = (uf_math)math;
                    assert_ok(uf_cuda_conv_choose(directions[d], &args, &variant));
                    assert_true(uf_cuda_conv_suits(directions[d], &args, variant));
                }
            }
        }
    }
}

static void test_every_name_can_be_forced(void **state) {
    (void)state;
    for (int v = 0; v < UF_CUDA_CONV_VARIANTS; ++v) {
        for (int d = 0; d < 3; ++d) {
            uf_conv_kernel_args args = arguments(UF_F32, 64, 9);
            uf_cuda_conv_variant got = UF_CUDA_CONV_VARIANTS;
            args.variant = uf_cuda_conv_variant_name((uf_cuda_conv_variant)v);
            if (uf_cuda_conv_suits(directions[d], &args, (uf_cuda_conv_variant)v)) {
                assert_ok(uf_cuda_conv_choose(directions[d], &args, &got));
                assert_int_equal(got, v);
            } else {
                assert_error(uf_cuda_conv_choose(directions[d], &args, &got), UF_ERROR_UNSUPPORTED,
                             args.variant, "naive");
            }
        }
    }
}

/* The naive kernels take everything, so that something always does. */
static void test_naive_takes_everything(void **state) {
    (void)state;
    uf_conv_kernel_args args = arguments(UF_F64, 1, INT64_C(1) << 40);
    args.stride[0] = INT64_C(1) << 35;
    for (int d = 0; d < 3; ++d) {
        uf_cuda_conv_variant variant = UF_CUDA_CONV_VARIANTS;
        assert_ok(uf_cuda_conv_choose(directions[d], &args, &variant));
        assert_int_equal(variant, UF_CUDA_CONV_NAIVE);
    }
}

static void test_unknown_name(void **state) {
    (void)state;
    uf_conv_kernel_args args = arguments(UF_F32, 64, 9);
    uf_cuda_conv_variant variant;
    args.variant = "winograd";
    assert_error(uf_cuda_conv_choose(UF_CONV_DGRAD, &args, &variant), UF_ERROR_UNSUPPORTED, "winograd",
                 "conv_dgrad", "naive");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chosen_suits),
        cmocka_unit_test(test_every_name_can_be_forced),
        cmocka_unit_test(test_naive_takes_everything),
        cmocka_unit_test(test_unknown_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
