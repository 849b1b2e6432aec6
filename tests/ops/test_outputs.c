/* test_outputs.c - the way out of every variant: an epilogue that overflows, and rows with
 * something else behind them. Layers of few channels and long rows, which most variants take. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>

#include "accuracy.h"

enum { N = 2, CHANNELS = 3, SMALL_CHANNELS = 64, ROWS = 9, COLUMNS = 16, LARGE = 2 };

typedef uf_status (*operation)(uf_context *, const uf_conv2d_args *);
typedef uf_status (*query)(uf_context *, const uf_conv2d_args *, size_t *);

static const operation operations[] = {uf_conv2d_forward, uf_conv_transpose2d_forward};
static const query queries[] = {uf_conv2d_forward_workspace, uf_conv_transpose2d_forward_workspace};

static uf_tensor *filled(uf_context *context, int64_t count, const float *values, float value) {
    uf_tensor *made;
    float *const host = test_allocate((size_t)count * sizeof *host);
    for (int64_t i = 0; i < count; ++i) {
        host[i] = values != NULL ? values[i] : value;
    }
    assert_ok(uf_tensor_create(context, UF_F32, uf_shape_from(&count, 1), &made));
    assert_ok(uf_tensor_upload(made, host));
    free(host);
    return made;
}

static uf_view view(uf_tensor *of, int64_t n, int64_t c, int64_t h, int64_t w) {
    return uf_view_nchw(uf_tensor_data(of), UF_F32, n, c, h, w);
}

/* 4 x 4 in steps of 2; UNSUPPORTED if the variant does not take it. */
static uf_status run(uf_context *context, bool transposed, uf_conv2d_args *args) {
    uf_tensor *scratch = NULL;
    for (int axis = 0; axis < 2; ++axis) {
        args->params.stride[axis] = LARGE;
        args->params.padding[axis] = 1;
    }
    uf_status status = queries[transposed](context, args, &args->workspace_size);
    if (status == UF_OK && args->workspace_size > 0) {
        scratch = filled(context, (int64_t)(args->workspace_size + 3) / 4, NULL, NAN);
        args->workspace = uf_tensor_data(scratch);
    }
    status = status == UF_OK ? operations[transposed](context, args) : status;
    assert_ok(uf_context_synchronize(context));
    uf_tensor_destroy(scratch);
    return status;
}

/* Sums are finite, what a bias makes of them is not: activations see it, and make of it what they
 * are defined to. */
static void test_infinite_bias(void **state) {
    (void)state;
    static const float bias[] = {-INFINITY, INFINITY, 1.0F};
    static const uf_activation activations[] = {
        {UF_ACTIVATION_RELU, 0.0}, {UF_ACTIVATION_LEAKY_RELU, 0.25}, {UF_ACTIVATION_TANH, 0.0}};
    static const float expected[][2] = {{0.0F, INFINITY}, {-INFINITY, INFINITY}, {-1.0F, 1.0F}};
    const char *variants[CONV_VARIANTS];
    const int64_t count = variants_there_are(variants);
    uf_context *context = test_context(2);
    int64_t taken = 0;
    for (int transposed = 0; transposed < 2; ++transposed) {
        const int64_t written = transposed ? CHANNELS : SMALL_CHANNELS;
        const int64_t small = (int64_t)N * SMALL_CHANNELS * ROWS * COLUMNS;
        const int64_t large = (int64_t)N * CHANNELS * ROWS * COLUMNS * LARGE * LARGE;
        const int64_t outputs = transposed ? large : small;
        float biases[SMALL_CHANNELS];
        for (int64_t c = 0; c < written; ++c) {
            biases[c] = bias[c % COUNT_OF(bias)];
        }
        uf_tensor *x = filled(context, large, NULL, 0.5F), *y = filled(context, small, NULL, 0.5F);
        uf_tensor *w = filled(context, (int64_t)SMALL_CHANNELS * CHANNELS * 16, NULL, 0.25F);
        uf_tensor *b = filled(context, written, biases, 0.0F);
        float *const result = test_allocate((size_t)outputs * sizeof *result);
        for (int64_t v = 0; v < count; ++v) {
            for (int64_t a = 0; a < COUNT_OF(activations); ++a) {
                uf_conv2d_args args = uf_conv2d_args_default();
                const uf_view large_view = view(x, N, CHANNELS, ROWS * LARGE, COLUMNS * LARGE);
                const uf_view small_view = view(y, N, SMALL_CHANNELS, ROWS, COLUMNS);
                args.input = transposed ? small_view : large_view;
                args.output = transposed ? large_view : small_view;
                args.weight = view(w, SMALL_CHANNELS, CHANNELS, 4, 4);
                args.bias = view(b, 1, written, 1, 1);
                args.activation = activations[a];
                args.variant = variants[v];
                if (run(context, transposed != 0, &args) != UF_OK) {
                    continue;
                }
                ++taken;
                assert_ok(uf_tensor_download(transposed ? x : y, result));
                for (int64_t i = 0; i < outputs; ++i) {
                    const int64_t c = i / (outputs / N / written) % written;
                    if (c % COUNT_OF(bias) < 2 && !(result[i] == expected[a][c % COUNT_OF(bias)])) {
                        fail_msg("%s, %s: element %lld of channel %lld is %g",
                                 transposed ? "conv_transpose2d" : "conv2d",
                                 variant_label(variants[v]), (long long)i, (long long)c,
                                 (double)result[i]);
                    }
                    assert_true(result[i] == result[i]); /* no NaN */
                }
                /* What was written is read next time. */
                uf_tensor_destroy(transposed ? x : y);
                *(transposed ? &x : &y) = filled(context, outputs, NULL, 0.5F);
            }
        }
        free(result);
        uf_tensor_destroy(x);
        uf_tensor_destroy(y);
        uf_tensor_destroy(w);
        uf_tensor_destroy(b);
    }
    print_message("%lld runs\n", (long long)taken);
    assert_true(taken >= 2 * COUNT_OF(activations));
    uf_context_destroy(context);
}

/* Rows of 9 elements, 12 apart: whoever writes by 16 bytes must leave the last three alone. */
static void test_rows_with_gaps(void **state) {
    (void)state;
    enum { WIDTH = 9, PITCH = 12 };
    const char *variants[CONV_VARIANTS];
    const int64_t count = variants_there_are(variants);
    uf_context *context = test_context(2);
    const int64_t small = (int64_t)N * SMALL_CHANNELS * ROWS * PITCH;
    const int64_t large = (int64_t)N * CHANNELS * ROWS * LARGE * 20;
    float *const first = test_allocate((size_t)small * sizeof *first);
    float *const result = test_allocate((size_t)small * sizeof *result);
    uf_tensor *x = filled(context, large, NULL, 0.5F);
    uf_tensor *w = filled(context, (int64_t)SMALL_CHANNELS * CHANNELS * 16, NULL, 0.25F);
    int64_t taken = 0, wrong = 0;
    for (int64_t v = 0; v < count; ++v) {
        uf_tensor *y = filled(context, small, NULL, 7.0F);
        uf_conv2d_args args = uf_conv2d_args_default();
        args.input = view(x, N, CHANNELS, ROWS * LARGE, 20);
        args.input.extent[3] = WIDTH * LARGE;
        args.output = view(y, N, SMALL_CHANNELS, ROWS, PITCH);
        args.output.extent[3] = WIDTH;
        args.weight = view(w, SMALL_CHANNELS, CHANNELS, 4, 4);
        args.variant = variants[v];
        if (run(context, false, &args) == UF_OK) {
            assert_ok(uf_tensor_download(y, result));
            for (int64_t i = 0; i < small; ++i) {
                if (taken == 0 && i % PITCH < WIDTH) {
                    first[i] = result[i];
                }
                /* All sums are exact. */
                const float expected = i % PITCH < WIDTH ? first[i] : 7.0F;
                if (!(result[i] == expected)) {
                    print_message("%s: element %lld of a row is %g, not %g\n",
                                  variant_label(variants[v]), (long long)(i % PITCH),
                                  (double)result[i], (double)expected);
                    ++wrong;
                    break;
                }
            }
            ++taken;
        }
        uf_tensor_destroy(y);
    }
    print_message("%lld variants\n", (long long)taken);
    assert_int_equal(wrong, 0);
    assert_true(taken >= 1);
    free(first);
    free(result);
    uf_tensor_destroy(x);
    uf_tensor_destroy(w);
    uf_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_infinite_bias),
        cmocka_unit_test(test_rows_with_gaps),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
