/* test_bf16_special.c - bf16 convolutions at the ends of the type: ties, what is too
 * large, infinities and NaN; and of tensors that begin between two words. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "cases/conv_case.h"
#include "ops/bf16_calls.h"
#include "support/conv_variants.h"
#include "support/guard.h"

/* One pixel, one channel to a group, a kernel of one tap, a weight of 1: each element is what was
 * there plus one number, exact in f32. Ties go to even, what is too large becomes infinite, NaN
 * stays. */
static void test_ends(void **state) {
    enum { COUNT = 8 };
    static const double added[COUNT] = {1.0, 1.0,        -1.0,        3.0,
                                        0.5, 0x1.feP127, (double)NAN, -0x1.feP127};
    static const double before[COUNT] = {256.0, 258.0,      -258.0, 256.0,
                                         129.0, 0x1.feP127, 1.0,    -0x1.P120};
    static const int64_t extent[4] = {1, COUNT, 1, 1}, weight_extent[4] = {COUNT, 1, 1, 1};
    static const double ones[COUNT] = {1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0};
    (void)state;
    uf_context *context = test_context(1);
    for (int task = 0; task < 2 * 2 * DIRECTIONS; ++task) {
        const direction which = (direction)(task / 4);
        guarded input = guard_create(UF_BF16, extent, GUARD_NCHW, NULL);
        guarded weight = guard_create(UF_BF16, weight_extent, GUARD_NCHW, NULL);
        guarded output = guard_create(UF_BF16, extent, GUARD_NCHW, NULL);
        guarded bias = guard_create(UF_BF16, extent, GUARD_NCHW, NULL);
        guarded *const written[DIRECTIONS] = {&output, &input, &weight};
        uf_conv2d_args args = uf_conv2d_args_default();
        const bool transposed = task % 2 == 1;
        args.params.groups = COUNT;
        args.mode = UF_ACCUMULATE;
        args.variant = task / 2 % 2 == 1 && test_on_gpu() ? "naive" : NULL;
        guard_store(&input, which == FORWARD ? added : ones);
        guard_store(&output, added);
        guard_store(&weight, ones);
        guard_store(&bias, before);
        guard_store(written[which], before);
        args.input = args.grad_input = input.view;
        args.output = args.grad_output = output.view;
        args.weight = args.grad_weight = weight.view;
        if (which == BACKWARD_WEIGHT) {
            args.grad_bias = bias.view;
        }
        assert_true(call(context, direction_names[which], transposed, which, &args));
        for (int gradient = 0; gradient < (which == BACKWARD_WEIGHT ? 2 : 1); ++gradient) {
            double got[COUNT];
            guard_load(gradient == 1 ? &bias : written[which], got);
            for (int i = 0; i < COUNT; ++i) {
                const double expected = to_bf16(before[i] + added[i]);
                if (!(isnan(expected) ? isnan(got[i]) : got[i] == expected)) {
                    fail_msg("%s, %s: %g + %g rounds to %g, not %g", direction_names[which],
                             gradient == 1 ? "bias" : "result", before[i], added[i], expected,
                             got[i]);
                }
            }
        }
        guard_destroy(&input);
        guard_destroy(&weight);
        guard_destroy(&output);
        guard_destroy(&bias);
    }
    uf_context_destroy(context);
}

/* Forward by every variant; an element is the expected NaN, the infinity, or near the number. */
static void check_special(uf_context *context, bool transposed, const ref_conv *conv,
                          const double *x, const double *w, const double *b,
                          uf_activation activation) {
    const int64_t in = conv->in_channels, out = conv->out_channels, k = conv->kernel[0];
    const int64_t extents[4][4] = {{conv->batch, in, conv->height, conv->width},
                                   {transposed ? in : out, transposed ? out : in, k, k},
                                   {1, out, 1, 1},
                                   {conv->batch, out, conv->out_height, conv->out_width}};
    const double *const values[3] = {x, w, b};
    const int64_t count = conv->batch * out * conv->out_height * conv->out_width;
    double *const expected = test_allocate((size_t)count * sizeof *expected);
    double *const got = test_allocate((size_t)count * sizeof *got);
    (transposed ? ref_conv_transpose2d_forward : ref_conv2d_forward)(conv, x, w, b, expected);
    ref_activation_forward(case_ref_activation(activation), activation.parameter, count, expected,
                           expected);
    const char *variants[CONV_VARIANTS];
    const int64_t variant_count = bf16_variants(UF_CONV_CORRELATE, variants);
    for (int64_t v = 0; v < variant_count; ++v) {
        guarded tensors[4];
        for (int i = 0; i < 4; ++i) {
            tensors[i] = guard_create(UF_BF16, extents[i], GUARD_NCHW, NULL);
            if (i < 3) {
                guard_store(&tensors[i], values[i]);
            }
        }
        uf_conv2d_args args = uf_conv2d_args_default();
        args.params = conv_case_params(conv);
        args.activation = activation;
        args.variant = variants[v];
        args.input = tensors[0].view;
        args.weight = tensors[1].view;
        args.bias = tensors[2].view;
        args.output = tensors[3].view;
        const bool taken = call(context, "special values", transposed, FORWARD, &args);
        guard_load(&tensors[3], got);
        for (int64_t i = 0; taken && i < count; ++i) {
            const double wanted = expected[i], off = fabs(got[i] - wanted);
            if (!(isnan(wanted)   ? isnan(got[i])
                  : isinf(wanted) ? got[i] == wanted
                                  : off <= 0x1p-7 * (1.0 + fabs(wanted)))) {
                fail_msg("%s, %lld x %lld, activation %d, variant %s: element %lld is %g, not %g",
                         transposed ? "conv_transpose2d" : "conv2d", (long long)k, (long long)k,
                         (int)activation.kind, variants[v] != NULL ? variants[v] : "-",
                         (long long)i, got[i], wanted);
            }
        }
        for (int i = 0; i < 4; ++i) {
            assert_guard_intact("special values", &tensors[i]);
            guard_destroy(&tensors[i]);
        }
    }
    free(expected);
    free(got);
}

/* What is not finite stays with its pixel, and a bias that is not with its channel, whatever else a
 * kernel multiplies, and activations see it. Each written element is one sum over channels here. */
static void test_special_values(void **state) {
    enum { IMAGES = 2, CHANNELS = 40, H = 3, W = 8, PIXELS = H * W, WRITTEN = 24 };
    static const int64_t kernels[] = {1, 1, 2};
    static const double biases[] = {0.5, INFINITY, -INFINITY, -3.0};
    static const uf_activation activations[] = {{UF_ACTIVATION_IDENTITY, 0.0},
                                                {UF_ACTIVATION_RELU, 0.0},
                                                {UF_ACTIVATION_LEAKY_RELU, 0.25},
                                                {UF_ACTIVATION_TANH, 0.0}};
    (void)state;
    uf_context *context = test_context(1);
    for (int64_t task = 0; task < COUNT_OF(kernels) * COUNT_OF(activations); ++task) {
        const int64_t k = kernels[task % COUNT_OF(kernels)], out = WRITTEN / (k * k);
        test_random random = test_random_for("special values", task);
        double x[IMAGES * CHANNELS * PIXELS], w[WRITTEN * CHANNELS], b[WRITTEN];
        const bool transposed = task % COUNT_OF(kernels) > 0;
        const ref_conv conv = {IMAGES, CHANNELS, out,    1,      H,      W,     k * H,
                               k * W,  {k, k},   {k, k}, {0, 0}, {0, 0}, {1, 1}};
        test_random_fill(&random, x, COUNT_OF(x), 1.0);
        test_random_fill(&random, w, COUNT_OF(w), 1.0);
        x[3 * PIXELS + 5] = (double)NAN;
        x[7 * PIXELS + 9] = INFINITY;
        x[9 * PIXELS + 10] = -INFINITY;
        x[(CHANNELS + CHANNELS - 1) * PIXELS + PIXELS - 1] = INFINITY;
        for (int64_t i = 0; i < COUNT_OF(x); ++i) {
            x[i] = to_bf16(x[i]);
        }
        for (int64_t i = 0; i < COUNT_OF(w); ++i) {
            w[i] = to_bf16(w[i]);
        }
        for (int64_t c = 0; c < out; ++c) {
            b[c] = biases[c % COUNT_OF(biases)];
        }
        check_special(context, transposed, &conv, x, w, b, activations[task / COUNT_OF(kernels)]);
    }
    uf_context_destroy(context);
}

/* Where a tensor begins may change how it is read, never how much scratch that takes: `shuffle` is
 * told about a layer's scratch before it knows where its input is, and of this one the kernel that
 * is the fastest for rows at 16 bytes needs none, and the one for any other some. */
static void test_shifted(void **state) {
    enum { IN = 20, OUT = 5, H = 21, W = 46, K = 16, S = 15 };
    static const guard_layout layouts[] = {GUARD_NCHW, GUARD_SHIFTED};
    static const int64_t extents[3][4] = {
        {1, IN, H, W}, {IN, OUT, K, K}, {1, OUT, (H - 1) * S + K, (W - 1) * S + K}};
    (void)state;
    if (!test_on_gpu()) {
        skip();
    }
    const int64_t count = extents[2][1] * extents[2][2] * extents[2][3];
    double *const results[2] = {test_allocate((size_t)count * sizeof(double)),
                                test_allocate((size_t)count * sizeof(double))};
    uf_context *context = test_context(1);
    bool taken = false;
    for (int64_t l = 0; l < COUNT_OF(layouts); ++l) {
        test_random random = test_random_for("shifted", 0);
        guarded tensors[3];
        for (int i = 0; i < 3; ++i) {
            const int64_t size = extents[i][0] * extents[i][1] * extents[i][2] * extents[i][3];
            double *values = test_allocate((size_t)size * sizeof *values);
            tensors[i] = guard_create(UF_BF16, extents[i], i == 0 ? layouts[l] : GUARD_NCHW, NULL);
            test_random_fill(&random, values, size, 1.0);
            guard_store(&tensors[i], values);
            free(values);
        }
        uf_conv2d_args args = uf_conv2d_args_default();
        args.params.stride[0] = args.params.stride[1] = S;
        args.variant = "space_to_depth";
        args.input = tensors[0].view;
        args.weight = tensors[1].view;
        args.output = tensors[2].view;
        taken = call(context, "shifted", true, FORWARD, &args);
        guard_load(&tensors[2], results[l]);
        for (int i = 0; i < 3; ++i) {
            assert_guard_intact("shifted", &tensors[i]);
            guard_destroy(&tensors[i]);
        }
    }
    for (int64_t i = 0; taken && i < count; ++i) {
        assert_true(fabs(results[0][i] - results[1][i]) <= 0x1p-7 * (1.0 + fabs(results[0][i])));
    }
    free(results[0]);
    free(results[1]);
    uf_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ends),
                                       cmocka_unit_test(test_special_values),
                                       cmocka_unit_test(test_shifted)};
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
