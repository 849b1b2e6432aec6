/* test_softmax.c - softmax and its gradient against the definition, on each device and in each
 * type: overwriting, adding, in place. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "support/random.h"

/* Lines of a thread, a warp and a block; neighbouring elements and neighbouring lines; pieces of
 * long rows. */
static const int64_t shapes[][3] = {
    {1, 1, 1}, {7, 3, 1},  {40, 9, 1},   {6, 600, 1},  {3, 5000, 1},   {1, 20000, 1},
    {2, 5, 4}, {3, 40, 7}, {1, 2000, 3}, {2, 17, 700}, {1, 12, 20000}, {5, 9, 4000},
};
static const uf_dtype dtypes[] = {UF_F64, UF_F32, UF_BF16};
static const double precision[] = {[UF_F32] = 0x1p-21, [UF_F64] = 0x1p-48, [UF_BF16] = 0x1p-8};

/* A tensor in the device's reach, and its numbers as they are after rounding to its type. */
typedef struct tensor {
    uf_view view;
    double *values;
    size_t bytes;
} tensor;

static tensor make_tensor(uf_dtype dtype, int64_t count) {
    tensor made;
    made.bytes = (size_t)count * uf_dtype_size(dtype);
    made.view = uf_view_nchw(test_shared_allocate(made.bytes), dtype, 1, 1, 1, count);
    made.values = test_allocate((size_t)count * sizeof *made.values);
    memset(made.view.data, 0xff, made.bytes);
    return made;
}

static void fill(tensor *one, test_random *random, double bound) {
    const int64_t count = uf_view_count(&one->view);
    test_random_fill(random, one->values, count, bound);
    uf_convert(one->view.data, one->view.dtype, one->values, UF_F64, count);
    uf_convert(one->values, UF_F64, one->view.data, one->view.dtype, count);
}

static void free_tensor(tensor *one) {
    test_shared_free(one->view.data, one->bytes);
    free(one->values);
}

static void check(const char *label, const tensor *one, const double *expected) {
    const int64_t count = uf_view_count(&one->view);
    double *got = test_allocate((size_t)count * sizeof *got);
    double size = 0.0;
    for (int64_t i = 0; i < count; ++i) {
        size = fmax(size, fabs(expected[i]));
    }
    uf_convert(got, UF_F64, one->view.data, one->view.dtype, count);
    for (int64_t i = 0; i < count; ++i) {
        const double allowed =
            precision[one->view.dtype] * (one->view.dtype == UF_BF16 ? fabs(expected[i]) : size) +
            precision[UF_F32] * (one->view.dtype == UF_BF16 ? size : 0.0);
        if (!(fabs(got[i] - expected[i]) <= allowed)) {
            fail_msg("%s: element %lld is %.17g, expected %.17g", label, (long long)i, got[i],
                     expected[i]);
        }
    }
    free(got);
}

/* The place in memory of element s of line `line`. */
static int64_t at(const int64_t *shape, int64_t line, int64_t s) {
    return (line / shape[2] * shape[1] + s) * shape[2] + line % shape[2];
}

static void check_forward(uf_context *context, const int64_t *shape, uf_dtype dtype,
                          test_random *random, bool in_place) {
    const int64_t count = shape[0] * shape[1] * shape[2];
    tensor input = make_tensor(dtype, count), output = make_tensor(dtype, count);
    double *expected = test_allocate((size_t)count * sizeof *expected);
    char label[160];
    fill(&input, random, 20.0);
    for (int64_t line = 0; line < shape[0] * shape[2]; ++line) {
        double most = (double)-INFINITY;
        long double sum = 0.0L; /* its rounding must not be seen */
        for (int64_t s = 0; s < shape[1]; ++s) {
            most = fmax(most, input.values[at(shape, line, s)]);
        }
        for (int64_t s = 0; s < shape[1]; ++s) {
            sum += (long double)exp(input.values[at(shape, line, s)] - most);
        }
        for (int64_t s = 0; s < shape[1]; ++s) {
            expected[at(shape, line, s)] =
                exp(input.values[at(shape, line, s)] - most) / (double)sum;
        }
    }
    uf_softmax_kernel_args args;
    memset(&args, 0, sizeof args);
    args.outer = shape[0];
    args.extent = shape[1];
    args.inner = shape[2];
    args.input = input.view;
    args.output = in_place ? input.view : output.view;
    assert_ok(context->kernels->softmax_forward(context, &args));
    assert_ok(uf_context_synchronize(context));
    (void)snprintf(label, sizeof label, "%lld by %lld by %lld, %s%s", (long long)shape[0],
                   (long long)shape[1], (long long)shape[2], uf_dtype_name(dtype),
                   in_place ? ", in place" : "");
    check(label, in_place ? &input : &output, expected);
    free(expected);
    free_tensor(&input);
    free_tensor(&output);
}

static void check_backward(uf_context *context, const int64_t *shape, uf_dtype dtype,
                           test_random *random, uf_write_mode mode, bool in_place) {
    const int64_t count = shape[0] * shape[1] * shape[2];
    tensor output = make_tensor(dtype, count), upstream = make_tensor(dtype, count);
    tensor gradient = make_tensor(dtype, count);
    double *expected = test_allocate((size_t)count * sizeof *expected);
    char label[160];
    fill(&output, random, 1.0);
    fill(&upstream, random, 1.0);
    if (mode == UF_ACCUMULATE) {
        fill(&gradient, random, 1.0);
    }
    for (int64_t line = 0; line < shape[0] * shape[2]; ++line) {
        long double sum = 0.0L;
        for (int64_t s = 0; s < shape[1]; ++s) {
            sum += (long double)output.values[at(shape, line, s)] *
                   (long double)upstream.values[at(shape, line, s)];
        }
        for (int64_t s = 0; s < shape[1]; ++s) {
            const int64_t i = at(shape, line, s);
            expected[i] = output.values[i] * (upstream.values[i] - (double)sum) +
                          (mode == UF_ACCUMULATE ? gradient.values[i] : 0.0);
        }
    }
    uf_softmax_kernel_args args;
    memset(&args, 0, sizeof args);
    args.outer = shape[0];
    args.extent = shape[1];
    args.inner = shape[2];
    args.output = output.view;
    args.grad_output = upstream.view;
    args.grad_input = in_place ? upstream.view : gradient.view;
    args.mode = mode;
    assert_ok(context->kernels->softmax_backward(context, &args));
    assert_ok(uf_context_synchronize(context));
    (void)snprintf(label, sizeof label, "%lld by %lld by %lld, %s, gradient%s%s",
                   (long long)shape[0], (long long)shape[1], (long long)shape[2],
                   uf_dtype_name(dtype), mode == UF_ACCUMULATE ? ", added" : "",
                   in_place ? ", in place" : "");
    check(label, in_place ? &upstream : &gradient, expected);
    free(expected);
    free_tensor(&output);
    free_tensor(&upstream);
    free_tensor(&gradient);
}

static void test_kernels(void **state) {
    (void)state;
    uf_context *context = test_context(3);
    for (int64_t row = 0; row < COUNT_OF(shapes); ++row) {
        for (int64_t t = 0; t < COUNT_OF(dtypes); ++t) {
            test_random random = test_random_for("softmax", row);
            check_forward(context, shapes[row], dtypes[t], &random, false);
            check_forward(context, shapes[row], dtypes[t], &random, true);
            check_backward(context, shapes[row], dtypes[t], &random, UF_OVERWRITE, false);
            check_backward(context, shapes[row], dtypes[t], &random, UF_OVERWRITE, true);
            check_backward(context, shapes[row], dtypes[t], &random, UF_ACCUMULATE, false);
        }
    }
    uf_context_destroy(context);
}

/* A line with a NaN is NaN, and so is one of infinities; its neighbours are not. */
static void test_special_values(void **state) {
    (void)state;
    const float lines[3][4] = {{0.0f, NAN, 1.0f, 0.0f},
                               {1.0f, 1.0f, (float)-INFINITY, 1.0f},
                               {0.0f, 0.0f, (float)INFINITY, 0.0f}};
    uf_context *context = test_context(1);
    for (int columns = 0; columns < 2; ++columns) {
        tensor input = make_tensor(UF_F32, 12), output = make_tensor(UF_F32, 12);
        float *x = input.view.data;
        const float *y = output.view.data;
        for (int i = 0; i < 12; ++i) {
            x[columns ? i % 4 * 3 + i / 4 : i] = lines[i / 4][i % 4];
        }
        const uf_softmax_kernel_args args = {.outer = columns ? 1 : 3,
                                             .extent = 4,
                                             .inner = columns ? 3 : 1,
                                             .input = input.view,
                                             .output = output.view};
        assert_ok(context->kernels->softmax_forward(context, &args));
        assert_ok(uf_context_synchronize(context));
        for (int i = 0; i < 4; ++i) {
            const int step = columns ? 3 : 1, line = columns ? 1 : 4;
            assert_true(isnan(y[i * step]));
            assert_true(fabsf(y[line + i * step] - (i == 2 ? 0.0f : 1.0f / 3.0f)) < 1e-6f);
            assert_true(isnan(y[2 * line + i * step]) ||
                        (i != 2 && y[2 * line + i * step] == 0.0f));
        }
        free_tensor(&input);
        free_tensor(&output);
    }
    uf_context_destroy(context);
}

static void test_errors(void **state) {
    (void)state;
    float x[12] = {0.0f}, y[12];
    const uf_view input = uf_view_nchw(x, UF_F32, 1, 1, 1, 12);
    const uf_softmax_kernel_args good = {.outer = 2,
                                         .extent = 3,
                                         .inner = 2,
                                         .input = input,
                                         .output = uf_view_nchw(y, UF_F32, 1, 1, 1, 12)};
    assert_ok(uf_softmax_check(&good, false));
    uf_softmax_kernel_args bad = good;
    bad.extent = 4;
    assert_error(uf_softmax_check(&bad, false), UF_ERROR_INVALID_ARGUMENT, "softmax_forward",
                 "12 elements, not 16");
    bad.extent = 0;
    assert_error(uf_softmax_check(&bad, false), UF_ERROR_INVALID_ARGUMENT, "2 by 0 by 2");
    bad = good;
    bad.input.dtype = UF_F64;
    assert_error(uf_softmax_check(&bad, false), UF_ERROR_INVALID_ARGUMENT, "f64");
    assert_error(uf_softmax_check(&good, true), UF_ERROR_INVALID_ARGUMENT, "softmax_backward",
                 "grad_output is absent");
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_errors),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
