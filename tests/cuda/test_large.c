/* test_large.c - a transposed convolution with more than 2^31 output elements: 10^4 sampled
 * elements on both sides of the boundary, from the definition. Skipped where less than 24 GiB of
 * GPU memory is free. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "kernels/kernels.h"
#include "kernels/random_math.h"
#include "support/random.h"

/* (1, 2, 16500, 16500) -> (1, 2, 33000 + 1, 33000 + 1), kernel 3, stride 2: 2.2e9 elements, 8.7 GB.
 */
enum { CHANNELS = 2, IN = 16500, OUT = 33001, KERNEL = 3, SAMPLES = 10000 };

#define INPUT_COUNT ((int64_t)CHANNELS * IN * IN)
#define OUTPUT_COUNT ((int64_t)CHANNELS * OUT * OUT)
#define WEIGHT_COUNT ((int64_t)CHANNELS * CHANNELS * KERNEL * KERNEL)
#define BOUNDARY (INT64_C(1) << 31)

enum { INPUT_SEED = 11, WEIGHT_SEED, GRADIENT_SEED };

/* What random_fill(uniform, -1, 1, seed) puts into element `i`. */
static double element(uint64_t seed, int64_t i) {
    const uf_uniform4 drawn = uf_uniform_block(seed, (uint64_t)(i / 4));
    return (double)(float)fma(2.0, (double)drawn.u[i % 4], -1.0);
}

static void *filled(uf_context *context, int64_t count, uint64_t seed) {
    void *memory = NULL;
    uf_random_kernel_args args;
    assert_ok(
        uf_context_allocate(context, (size_t)count * sizeof(float), UF_MEMORY_DEVICE, &memory));
    memset(&args, 0, sizeof args);
    args.kind = UF_RANDOM_UNIFORM;
    args.seed = seed;
    args.a = -1.0;
    args.b = 1.0;
    args.output = uf_view_nchw(memory, UF_F32, 1, 1, 1, count);
    assert_ok(context->kernels->random_fill(context, &args));
    return memory;
}

static float read_one(uf_context *context, const void *memory, int64_t i) {
    float value;
    assert_ok(context->device->download(
        context, &value, (const char *)memory + (size_t)i * sizeof value, sizeof value));
    return value;
}

static double expected(int64_t i) {
    const int64_t co = i / ((int64_t)OUT * OUT);
    const int64_t oh = i / OUT % OUT;
    const int64_t ow = i % OUT;
    double sum = 0;
    for (int64_t ci = 0; ci < CHANNELS; ++ci) {
        for (int64_t r = 0; r < KERNEL; ++r) {
            for (int64_t s = 0; s < KERNEL; ++s) {
                const int64_t h = oh - r;
                const int64_t w = ow - s;
                if (h >= 0 && w >= 0 && h % 2 == 0 && w % 2 == 0 && h / 2 < IN && w / 2 < IN) {
                    sum += element(INPUT_SEED, (ci * IN + h / 2) * IN + w / 2) *
                           element(WEIGHT_SEED, ((ci * CHANNELS + co) * KERNEL + r) * KERNEL + s);
                }
            }
        }
    }
    return sum;
}

/* An index near the boundary, near either end, or anywhere. */
static int64_t sample_index(test_random *random, int64_t sample, int64_t count) {
    switch (sample % 4) {
    case 0:
        return BOUNDARY + test_random_integer(random, -2000, 2000);
    case 1:
        return test_random_integer(random, BOUNDARY, count - 1);
    case 2:
        return test_random_integer(random, 0, BOUNDARY - 1);
    default:
        return count - 1 - test_random_integer(random, 0, 2000);
    }
}

static uf_conv2d_args arguments(void *input, void *weight, void *output) {
    uf_conv2d_args args = uf_conv2d_args_default();
    args.params.stride[0] = args.params.stride[1] = 2;
    args.input = uf_view_nchw(input, UF_F32, 1, CHANNELS, IN, IN);
    args.weight = uf_view_nchw(weight, UF_F32, CHANNELS, CHANNELS, KERNEL, KERNEL);
    args.output = uf_view_nchw(output, UF_F32, 1, CHANNELS, OUT, OUT);
    return args;
}

static void *with_workspace(uf_context *context, uf_conv2d_args *args,
                            uf_status (*query)(uf_context *, const uf_conv2d_args *, size_t *)) {
    assert_ok(query(context, args, &args->workspace_size));
    assert_ok(
        uf_context_allocate(context, args->workspace_size, UF_MEMORY_DEVICE, &args->workspace));
    return args->workspace;
}

static void test_forward(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    test_random random = test_random_for("large", 0);
    void *input = filled(context, INPUT_COUNT, INPUT_SEED);
    void *weight = filled(context, WEIGHT_COUNT, WEIGHT_SEED);
    void *output = NULL;
    assert_ok(uf_context_allocate(context, (size_t)OUTPUT_COUNT * sizeof(float), UF_MEMORY_DEVICE,
                                  &output));
    uf_fill_kernel_args fill;
    memset(&fill, 0, sizeof fill);
    fill.output = uf_view_nchw(output, UF_F32, 1, 1, 1, OUTPUT_COUNT);
    fill.value = (double)NAN;
    assert_ok(context->kernels->fill(context, &fill));
    uf_conv2d_args args = arguments(input, weight, output);
    void *workspace = with_workspace(context, &args, uf_conv_transpose2d_forward_workspace);
    assert_ok(uf_conv_transpose2d_forward(context, &args));
    for (int64_t i = 0; i < SAMPLES; ++i) {
        const int64_t at = sample_index(&random, i, OUTPUT_COUNT);
        const double got = (double)read_one(context, output, at);
        if (!(fabs(got - expected(at)) <= 1e-5)) {
            fail_msg("element %lld: %.9g, expected %.9g", (long long)at, got, expected(at));
        }
    }
    uf_context_release(context, workspace, args.workspace_size, UF_MEMORY_DEVICE);
    uf_context_release(context, output, (size_t)OUTPUT_COUNT * sizeof(float), UF_MEMORY_DEVICE);
    uf_context_release(context, weight, (size_t)WEIGHT_COUNT * sizeof(float), UF_MEMORY_DEVICE);
    uf_context_release(context, input, (size_t)INPUT_COUNT * sizeof(float), UF_MEMORY_DEVICE);
    uf_context_destroy(context);
}

/* grad_input reads on both sides of the boundary. */
static void test_backward_input(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    test_random random = test_random_for("large", 1);
    void *gradient = filled(context, OUTPUT_COUNT, GRADIENT_SEED);
    void *weight = filled(context, WEIGHT_COUNT, WEIGHT_SEED);
    void *grad_input = NULL;
    assert_ok(uf_context_allocate(context, (size_t)INPUT_COUNT * sizeof(float), UF_MEMORY_DEVICE,
                                  &grad_input));
    uf_conv2d_args args = arguments(NULL, weight, NULL);
    args.grad_output = args.output;
    args.grad_output.data = gradient;
    args.grad_input = args.input;
    args.grad_input.data = grad_input;
    void *workspace = with_workspace(context, &args, uf_conv_transpose2d_backward_input_workspace);
    assert_ok(uf_conv_transpose2d_backward_input(context, &args));
    for (int64_t i = 0; i < SAMPLES; ++i) {
        const int64_t at = test_random_integer(&random, 0, INPUT_COUNT - 1);
        const int64_t ci = at / ((int64_t)IN * IN);
        const int64_t h = at / IN % IN;
        const int64_t w = at % IN;
        double sum = 0;
        for (int64_t co = 0; co < CHANNELS; ++co) {
            for (int64_t r = 0; r < KERNEL; ++r) {
                for (int64_t s = 0; s < KERNEL; ++s) {
                    sum += element(GRADIENT_SEED, (co * OUT + 2 * h + r) * OUT + 2 * w + s) *
                           element(WEIGHT_SEED, ((ci * CHANNELS + co) * KERNEL + r) * KERNEL + s);
                }
            }
        }
        const double got = (double)read_one(context, grad_input, at);
        if (!(fabs(got - sum) <= 1e-5)) {
            fail_msg("element %lld: %.9g, expected %.9g", (long long)at, got, sum);
        }
    }
    uf_context_release(context, workspace, args.workspace_size, UF_MEMORY_DEVICE);
    uf_context_release(context, grad_input, (size_t)INPUT_COUNT * sizeof(float), UF_MEMORY_DEVICE);
    uf_context_release(context, weight, (size_t)WEIGHT_COUNT * sizeof(float), UF_MEMORY_DEVICE);
    uf_context_release(context, gradient, (size_t)OUTPUT_COUNT * sizeof(float), UF_MEMORY_DEVICE);
    uf_context_destroy(context);
}

/* grad_weight sums over both sides of the boundary. The input is 0 but for SAMPLES elements, so
 * that the host can do the same sum: they lie evenly, and those of the last rows meet the gradient
 * beyond the boundary. */
static void test_backward_weight(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    test_random random = test_random_for("large", 3);
    void *gradient = filled(context, OUTPUT_COUNT, GRADIENT_SEED);
    void *input = NULL;
    void *grad_weight = filled(context, WEIGHT_COUNT, WEIGHT_SEED);
    assert_ok(uf_context_allocate(context, (size_t)INPUT_COUNT * sizeof(float), UF_MEMORY_DEVICE,
                                  &input));
    assert_ok(context->device->zero(context, input, (size_t)INPUT_COUNT * sizeof(float)));
    double sums[CHANNELS][CHANNELS][KERNEL][KERNEL];
    int64_t beyond = 0;
    memset(sums, 0, sizeof sums);
    for (int64_t i = 0; i < SAMPLES; ++i) {
        const int64_t spacing = INPUT_COUNT / SAMPLES;
        const int64_t at = i * spacing + test_random_integer(&random, 0, spacing - 1);
        const float value = (float)test_random_real(&random, -1.0, 1.0);
        const int64_t ci = at / ((int64_t)IN * IN);
        const int64_t h = at / IN % IN;
        const int64_t w = at % IN;
        assert_ok(context->device->upload(context, (char *)input + (size_t)at * sizeof value,
                                          &value, sizeof value));
        for (int64_t co = 0; co < CHANNELS; ++co) {
            for (int64_t r = 0; r < KERNEL; ++r) {
                for (int64_t s = 0; s < KERNEL; ++s) {
                    const int64_t from = (co * OUT + 2 * h + r) * OUT + 2 * w + s;
                    sums[ci][co][r][s] += (double)value * element(GRADIENT_SEED, from);
                    beyond += from >= BOUNDARY ? 1 : 0;
                }
            }
        }
    }
    assert_true(beyond > 100);
    uf_conv2d_args args = arguments(input, NULL, NULL);
    args.grad_output = args.output;
    args.grad_output.data = gradient;
    args.grad_weight = args.weight;
    args.grad_weight.data = grad_weight;
    void *workspace = with_workspace(context, &args, uf_conv_transpose2d_backward_weight_workspace);
    assert_ok(uf_conv_transpose2d_backward_weight(context, &args));
    for (int64_t i = 0; i < WEIGHT_COUNT; ++i) {
        const double got = (double)read_one(context, grad_weight, i);
        const double wanted = ((const double *)sums)[i];
        /* The tolerance of the other two, grown with the root of the number of products. */
        if (!(fabs(got - wanted) <= 1e-5 * sqrt((double)SAMPLES))) {
            fail_msg("element %lld: %.9g, expected %.9g", (long long)i, got, wanted);
        }
    }
    uf_context_release(context, workspace, args.workspace_size, UF_MEMORY_DEVICE);
    uf_context_release(context, input, (size_t)INPUT_COUNT * sizeof(float), UF_MEMORY_DEVICE);
    uf_context_release(context, grad_weight, (size_t)WEIGHT_COUNT * sizeof(float),
                       UF_MEMORY_DEVICE);
    uf_context_release(context, gradient, (size_t)OUTPUT_COUNT * sizeof(float), UF_MEMORY_DEVICE);
    uf_context_destroy(context);
}

/* Elementwise past the boundary. */
static void test_activation(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    test_random random = test_random_for("large", 2);
    void *data = filled(context, OUTPUT_COUNT, GRADIENT_SEED);
    uf_activation_args args = uf_activation_args_default();
    args.activation.kind = UF_ACTIVATION_LEAKY_RELU;
    args.activation.parameter = 0.5;
    args.input = args.output = uf_view_nchw(data, UF_F32, 1, CHANNELS, OUT, OUT);
    assert_ok(uf_activation_forward(context, &args));
    for (int64_t i = 0; i < SAMPLES; ++i) {
        const int64_t at = sample_index(&random, i, OUTPUT_COUNT);
        const double x = element(GRADIENT_SEED, at);
        assert_true((double)read_one(context, data, at) == (x >= 0 ? x : 0.5 * x));
    }
    uf_context_release(context, data, (size_t)OUTPUT_COUNT * sizeof(float), UF_MEMORY_DEVICE);
    uf_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_backward_input),
        cmocka_unit_test(test_backward_weight),
        cmocka_unit_test(test_activation),
    };
    const int skipped = test_device_or_skip();
    size_t free_bytes, total;
    if (skipped != 0) {
        return skipped;
    }
    if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess || free_bytes < (size_t)24 << 30) {
        fprintf(stderr, "skipped: less than 24 GiB of GPU memory is free\n");
        return TEST_SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
