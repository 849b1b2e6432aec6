/* test_choice.c - the choice of a convolution kernel for a GPU, a pure function: needs no GPU. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "cuda/plan/random_conv.h"
#include "kernels/cuda/conv/select/choose.h"

static const struct {
    uf_conv_direction direction;
    const char *name;
} directions[] = {
    {UF_CONV_FPROP, "conv_fprop"},
    {UF_CONV_DGRAD, "conv_dgrad"},
    {UF_CONV_WGRAD, "conv_wgrad"},
};

/* A GPU like an H200 of this compute capability (90 is 9.0). */
static uf_gpu gpu_of(int capability) {
    uf_gpu gpu = uf_gpu_h200();
    gpu.capability = capability;
    return gpu;
}

static bool suits(uf_conv_direction direction, const uf_conv_kernel_args *args, int capability,
                  uf_cuda_conv_variant variant) {
    const uf_gpu gpu = gpu_of(capability);
    const uf_conv_problem problem = uf_conv_problem_of(direction, args, &gpu);
    uf_conv_plan plan[2];
    plan[0].inner = &plan[1];
    plan[1].inner = NULL;
    return uf_conv_plan_variant(&problem, variant, plan);
}

static uf_status choose(uf_conv_direction direction, const uf_conv_kernel_args *args,
                        int capability, uf_cuda_conv_variant *variant) {
    const uf_gpu gpu = gpu_of(capability);
    const uf_conv_problem problem = uf_conv_problem_of(direction, args, &gpu);
    uf_conv_plan plan[2];
    *variant = UF_CUDA_CONV_VARIANTS;
    UF_TRY(uf_conv_choose(&problem, plan));
    *variant = (uf_cuda_conv_variant)plan->variant;
    return UF_OK;
}

/* Arguments whose views point nowhere: the choice must not look. */
static uf_conv_kernel_args arguments(uf_dtype dtype, int64_t n, int64_t c, int64_t k,
                                     int64_t pixels, int64_t kernel, int64_t stride,
                                     int64_t groups) {
    const int64_t large = (pixels - 1) * stride + kernel;
    uf_conv_kernel_args args;
    memset(&args, 0, sizeof args);
    args.x = uf_view_nchw(NULL, dtype, n, c, large, large);
    args.w = uf_view_nchw(NULL, dtype, k, c / groups, kernel, kernel);
    args.y = uf_view_nchw(NULL, dtype, n, k, pixels, pixels);
    args.stride[0] = args.stride[1] = stride;
    args.dilation[0] = args.dilation[1] = 1;
    args.groups = groups;
    return args;
}

/* What networks have, and the far ends of what the ops take. */
static int64_t table(uf_conv_kernel_args *rows) {
    int64_t count = 0;
    static const uf_dtype types[] = {UF_F32, UF_F64, UF_BF16};
    for (int type = 0; type < COUNT_OF(types); ++type) {
        const uf_dtype dtype = types[type];
        rows[count++] = arguments(dtype, 64, 128, 256, 16, 4, 2, 1);
        rows[count++] = arguments(dtype, 64, 100, 512, 1, 4, 1, 1);
        rows[count++] = arguments(dtype, 2, 21, 21, 64, 16, 8, 1);
        rows[count++] = arguments(dtype, 1, 3, 64, 512, 4, 2, 1);
        rows[count++] = arguments(dtype, 2, 64, 64, 32, 3, 1, 1);
        rows[count++] = arguments(dtype, 2, 64, 64, 32, 1, 1, 1);
        rows[count++] = arguments(dtype, 4, 16, 16, 512, 3, 1, 1);
        rows[count] = arguments(dtype, 16, 3, 64, 32, 4, 2, 1);
        rows[count].x = uf_view_nchw(NULL, dtype, 16, 3, 64, 64);
        rows[count].padding[0] = rows[count].padding[1] = 1;
        ++count;
        rows[count++] = arguments(dtype, 3, 6, 9, 7, 3, 3, 3);
        rows[count++] = arguments(dtype, 16, 128, 128, 32, 3, 2, 4);
        rows[count++] = arguments(dtype, 1, 48, 64, 64, 5, 1, 2);
        rows[count++] = arguments(dtype, 1, 1, 1, 1, 1, 1, 1);
        rows[count++] = arguments(dtype, 0, 4, 4, 5, 3, 1, 1);
        rows[count++] = arguments(dtype, 1, 1, 4, 24000, 2, 2, 1);
        rows[count++] = arguments(dtype, 1, 1, 1, INT64_C(1) << 31, 1, 1, 1);
        rows[count] = arguments(dtype, 1, 2, 2, 4, 2, 1, 1);
        rows[count].padding[0] = rows[count].padding[1] = INT64_C(1) << 40;
        ++count;
        rows[count] = arguments(dtype, 1, 2, 2, 4, 2, 1, 1);
        rows[count++].dilation[1] = INT64_C(1) << 40;
    }
    return count;
}

enum { MOST_ROWS = 54, CAPABILITY = 90 /* runs every variant */ };

static void test_names(void **state) {
    (void)state;
    for (int v = 0; v < UF_CUDA_CONV_VARIANTS; ++v) {
        const char *name = uf_cuda_conv_variant_name((uf_cuda_conv_variant)v);
        assert_non_null(name);
        assert_true(strlen(name) > 0);
        assert_string_not_equal(name, uf_cuda_conv_variant_name(UF_CUDA_CONV_VARIANTS));
        for (int other = 0; other < v; ++other) {
            assert_string_not_equal(name, uf_cuda_conv_variant_name((uf_cuda_conv_variant)other));
        }
    }
    assert_non_null(uf_cuda_conv_variant_name((uf_cuda_conv_variant)-1));
}

/* The message names the direction and, quoted, every variant that would do. */
static void assert_lists_what_there_is(uf_conv_direction direction, const char *direction_name,
                                       const uf_conv_kernel_args *args) {
    assert_non_null(strstr(uf_last_error(), direction_name));
    assert_non_null(strstr(uf_last_error(), args->variant));
    const char *list = strstr(uf_last_error(), "these do");
    assert_non_null(list);
    for (int v = 0; v < UF_CUDA_CONV_VARIANTS; ++v) {
        char quoted[64];
        (void)snprintf(quoted, sizeof quoted, "\"%s\"",
                       uf_cuda_conv_variant_name((uf_cuda_conv_variant)v));
        const bool suited = suits(direction, args, CAPABILITY, (uf_cuda_conv_variant)v);
        if ((strstr(list, quoted) != NULL) != suited) {
            fail_msg("%s %s be listed: %s", quoted, suited ? "should" : "should not",
                     uf_last_error());
        }
    }
}

static void test_forced(void **state) {
    (void)state;
    uf_conv_kernel_args rows[MOST_ROWS];
    const int64_t count = table(rows);
    int64_t refused = 0, reached[UF_CUDA_CONV_VARIANTS] = {0};
    assert_true(count <= MOST_ROWS);
    for (int64_t d = 0; d < COUNT_OF(directions); ++d) {
        for (int64_t row = 0; row < count; ++row) {
            for (int v = 0; v < UF_CUDA_CONV_VARIANTS; ++v) {
                uf_conv_kernel_args args = rows[row];
                uf_cuda_conv_variant chosen = UF_CUDA_CONV_VARIANTS;
                args.variant = uf_cuda_conv_variant_name((uf_cuda_conv_variant)v);
                const uf_status status =
                    choose(directions[d].direction, &args, CAPABILITY, &chosen);
                if (suits(directions[d].direction, &args, CAPABILITY, (uf_cuda_conv_variant)v)) {
                    assert_int_equal(status, UF_OK);
                    assert_int_equal(chosen, v);
                    ++reached[v];
                } else {
                    assert_int_equal(status, UF_ERROR_UNSUPPORTED);
                    assert_lists_what_there_is(directions[d].direction, directions[d].name, &args);
                    ++refused;
                }
            }
            static const char *const unknown[] = {"nonsense", "", "NAIVE", "naive ", "nai"};
            for (int64_t u = 0; u < COUNT_OF(unknown); ++u) {
                uf_conv_kernel_args args = rows[row];
                uf_cuda_conv_variant chosen;
                args.variant = unknown[u];
                assert_int_equal(choose(directions[d].direction, &args, CAPABILITY, &chosen),
                                 UF_ERROR_UNSUPPORTED);
                assert_lists_what_there_is(directions[d].direction, directions[d].name, &args);
            }
        }
    }
    for (int v = 0; v < UF_CUDA_CONV_VARIANTS; ++v) {
        if (reached[v] == 0) {
            fail_msg("no arguments of the table reach the variant \"%s\"",
                     uf_cuda_conv_variant_name((uf_cuda_conv_variant)v));
        }
    }
    assert_true(refused > 0 || UF_CUDA_CONV_VARIANTS == 1);
}

/* Whatever is chosen suits; the general kernel suits everything; and neither scratch nor addresses
 * change the choice, so that it cannot follow from how much memory happened to be free. */
static void test_free_memory(void **state) {
    (void)state;
    static const size_t workspaces[] = {0, 1, (size_t)1 << 20, SIZE_MAX};
    static double somewhere[2];
    uf_conv_kernel_args rows[MOST_ROWS];
    const int64_t count = table(rows);
    int64_t chosen_by_itself[UF_CUDA_CONV_VARIANTS] = {0};
    for (int64_t d = 0; d < COUNT_OF(directions); ++d) {
        for (int64_t row = 0; row < count; ++row) {
            uf_cuda_conv_variant expected;
            assert_ok(choose(directions[d].direction, &rows[row], CAPABILITY, &expected));
            assert_true(suits(directions[d].direction, &rows[row], CAPABILITY, expected));
            assert_true(suits(directions[d].direction, &rows[row], CAPABILITY, UF_CUDA_CONV_NAIVE));
            ++chosen_by_itself[expected];
            for (int64_t w = 0; w < COUNT_OF(workspaces); ++w) {
                uf_conv_kernel_args args = rows[row];
                uf_cuda_conv_variant chosen;
                args.workspace_size = workspaces[w];
                args.workspace = w % 2 == 0 ? NULL : somewhere;
                args.x.data = args.w.data = args.y.data = w < 2 ? NULL : somewhere;
                assert_ok(choose(directions[d].direction, &args, CAPABILITY, &chosen));
                assert_int_equal(chosen, expected);
            }
        }
    }
    for (int v = 0; v < UF_CUDA_CONV_VARIANTS; ++v) {
        if (chosen_by_itself[v] == 0) {
            fail_msg("no arguments of the table choose the variant \"%s\" by themselves",
                     uf_cuda_conv_variant_name((uf_cuda_conv_variant)v));
        }
    }
}

/* A workspace query with this variant (-1: the choice), or false where it takes no such problem. */
static bool queried(uf_conv_direction direction, const uf_conv_kernel_args *args, int variant,
                    size_t *bytes) {
    const uf_gpu gpu = uf_gpu_h200();
    const uf_conv_problem problem = uf_conv_problem_of(direction, args, &gpu);
    uf_conv_plan plan[2];
    plan[0].inner = &plan[1];
    plan[1].inner = NULL;
    if (variant < 0) {
        assert_ok(uf_conv_choose(&problem, plan));
    } else if (!uf_conv_plan_variant(&problem, (uf_cuda_conv_variant)variant, plan)) {
        return false;
    }
    *bytes = plan->workspace;
    return true;
}

/* The scratch that a query without addresses asks for is enough wherever the tensors begin. */
static void check_addresses(uf_conv_direction direction, const uf_conv_kernel_args *given,
                            test_random *random, int64_t layer) {
    uf_conv_kernel_args args = *given;
    uf_view *const views[] = {&args.x, &args.w, &args.y};
    const int64_t size = (int64_t)uf_dtype_size(args.x.dtype);
    for (int v = -1; v < UF_CUDA_CONV_VARIANTS; ++v) {
        const char *const name =
            v < 0 ? "the choice" : uf_cuda_conv_variant_name((uf_cuda_conv_variant)v);
        size_t asked = 0, needed = 0;
        args.x.data = args.w.data = args.y.data = NULL;
        const bool takes = queried(direction, &args, v, &asked);
        for (int i = 0; i < 2; ++i) {
            for (int view = 0; view < 3; ++view) {
                const int64_t elements = i == 0 ? 1 : test_random_integer(random, 0, 7);
                views[view]->data = (void *)(uintptr_t)(4096 + elements * size);
            }
            if (takes && !queried(direction, &args, v, &needed)) {
                fail_msg("layer %d, %s: %s takes no unaligned tensors, a query without addresses "
                         "said %zu bytes",
                         (int)layer, directions[direction].name, name, asked);
            }
            if (takes && needed > asked) {
                fail_msg("layer %d, %s: %s wants %zu bytes, a query without addresses said %zu",
                         (int)layer, directions[direction].name, name, needed, asked);
            }
        }
    }
}

static void test_addresses(void **state) {
    (void)state;
    static const conv_limits limits = {.stride = 3,
                                       .large_stride = 5,
                                       .padding = 3,
                                       .dilation = 2,
                                       .kernel = 7,
                                       .extent = {4, 16, 33, 70},
                                       .batch = 4,
                                       .large_batch = 20,
                                       .small_channels = 8,
                                       .channels = 200,
                                       .groups = true,
                                       .bf16 = true};
    /* simt_direct's weight gradient has twice the splits where this y is not aligned. */
    uf_conv_kernel_args flat = arguments(UF_F32, 2, 2, 64, 32, 4, 2, 1);
    test_random random = test_random_for("addresses", -1);
    flat.x = uf_view_nchw(NULL, UF_F32, 2, 2, 4, 64);
    flat.y = uf_view_nchw(NULL, UF_F32, 2, 64, 2, 32);
    flat.padding[0] = flat.padding[1] = 1;
    check_addresses(UF_CONV_WGRAD, &flat, &random, -1);
    /* The windows of mma_im2col fit shared memory with copies of 16 bytes alone. */
    uf_conv_kernel_args wide = arguments(UF_F32, 24, 38, 17, 8, 8, 8, 1);
    wide.x = uf_view_nchw(NULL, UF_F32, 24, 38, 62, 64);
    wide.w = uf_view_nchw(NULL, UF_F32, 17, 38, 2, 8);
    wide.y = uf_view_nchw(NULL, UF_F32, 24, 17, 31, 8);
    wide.stride[0] = 2;
    wide.math = UF_MATH_TF32;
    check_addresses(UF_CONV_FPROP, &wide, &random, -2);
    for (int64_t i = 0; i < 500; ++i) {
        random = test_random_for("addresses", i);
        const uf_conv_kernel_args args = random_conv(&random, &limits);
        for (int64_t d = 0; d < COUNT_OF(directions); ++d) {
            check_addresses(directions[d].direction, &args, &random, i);
        }
    }
}

/* What is large for one kernel must not fall to another's regime: a plane of 2^20 pixels is beyond
 * direct's offsets, but 64 channels are no reason for thin. */
static void test_large_planes(void **state) {
    (void)state;
    for (int64_t pixels = 256; pixels <= 1024; pixels *= 2) {
        for (int math = 0; math < 2; ++math) {
            uf_conv_kernel_args args = arguments(UF_F32, 8, 64, 64, pixels, 3, 1, 1);
            uf_cuda_conv_variant chosen;
            args.math = (uf_math)math;
            for (int d = 0; d < COUNT_OF(directions); ++d) {
                assert_ok(choose(directions[d].direction, &args, CAPABILITY, &chosen));
                assert_true(chosen == UF_CUDA_CONV_WGMMA_IMPLICIT_GEMM ||
                            chosen == UF_CUDA_CONV_WGMMA_SPLIT_F16);
            }
        }
    }
}

/* Few long sums, as of a discriminator's head or a U-Net's innermost layers, are not the general
 * kernel's, whose threads add one product after the other: that took a millisecond. */
static void test_long_sums(void **state) {
    (void)state;
    for (int math = 0; math < 3; ++math) {
        for (int type = 0; type < 2; ++type) {
            uf_conv_kernel_args layers[] = {
                arguments(type == 0 ? UF_F32 : UF_BF16, 128, 512, 1, 1, 4, 1, 1),
                arguments(type == 0 ? UF_F32 : UF_BF16, 1, 512, 512, 1, 4, 2, 1),
                arguments(type == 0 ? UF_F32 : UF_BF16, 1, 4096, 64, 1, 1, 1, 1),
            };
            layers[1].padding[0] = layers[1].padding[1] = 1;
            layers[1].x = uf_view_nchw(NULL, layers[1].x.dtype, 1, 512, 2, 2);
            for (int64_t i = 0; i < COUNT_OF(layers); ++i) {
                layers[i].math = (uf_math)math;
                for (int64_t d = 0; d < COUNT_OF(directions); ++d) {
                    uf_cuda_conv_variant chosen;
                    assert_ok(choose(directions[d].direction, &layers[i], CAPABILITY, &chosen));
                    assert_int_not_equal(chosen, UF_CUDA_CONV_NAIVE);
                }
            }
        }
    }
}

/* Filters of more than 32 taps are warpgroup products' too, as long as what 32 pixels read of a
 * channel fits its table. */
static void test_large_filters(void **state) {
    (void)state;
    static const struct {
        int64_t kernel, stride;
        bool fits;
    } filters[] = {{6, 2, true}, {7, 1, true},   {8, 4, true},
                   {9, 3, true}, {16, 8, false}, {64, 32, false}};
    for (int64_t i = 0; i < COUNT_OF(filters); ++i) {
        const uf_conv_kernel_args args =
            arguments(UF_F32, 8, 32, 64, 32, filters[i].kernel, filters[i].stride, 1);
        assert_int_equal(suits(UF_CONV_WGRAD, &args, CAPABILITY, UF_CUDA_CONV_WGMMA_IMPLICIT_GEMM),
                         filters[i].fits);
    }
}

/* An older GPU gets the best variant that it runs, and a newer one than Hopper nothing that is
 * Hopper's alone. */
static void test_capabilities(void **state) {
    (void)state;
    static const struct {
        int capability;
        bool mma, wgmma;
    } models[] = {{75, false, false},
                  {80, true, false},
                  {89, true, false},
                  {90, true, true},
                  {100, true, false}};
    uf_conv_kernel_args rows[MOST_ROWS];
    const int64_t count = table(rows);
    for (int64_t m = 0; m < COUNT_OF(models); ++m) {
        int64_t chosen[UF_CUDA_CONV_VARIANTS] = {0};
        for (int64_t d = 0; d < COUNT_OF(directions); ++d) {
            for (int64_t row = 0; row < count; ++row) {
                uf_cuda_conv_variant variant;
                assert_ok(
                    choose(directions[d].direction, &rows[row], models[m].capability, &variant));
                assert_true(
                    suits(directions[d].direction, &rows[row], models[m].capability, variant));
                ++chosen[variant];
            }
        }
        assert_true(chosen[UF_CUDA_CONV_NAIVE] > 0);
        assert_int_equal(chosen[UF_CUDA_CONV_MMA_IMPLICIT_GEMM] > 0, models[m].mma);
        assert_int_equal(chosen[UF_CUDA_CONV_WGMMA_IMPLICIT_GEMM] > 0, models[m].wgmma);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_planes),  cmocka_unit_test(test_long_sums),
        cmocka_unit_test(test_capabilities),  cmocka_unit_test(test_names),
        cmocka_unit_test(test_forced),        cmocka_unit_test(test_free_memory),
        cmocka_unit_test(test_large_filters), cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
