/* test_pool.c - where the gradient of a maximum goes when several elements are equal or NaN,
 * against the definition in its scatter form; on each device, in each type, with gaps between
 * images. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "support/random.h"

static const struct {
    int64_t shape[4];
    uf_pool_axis axis[2]; /* in, out, kernel, stride, padding, dilation */
} rows[] = {
    {{1, 1, 4, 6}, {{4, 2, 2, 2, 0, 1}, {6, 3, 2, 2, 0, 1}}},
    {{2, 3, 5, 6}, {{5, 3, 3, 2, 1, 1}, {6, 6, 3, 1, 1, 1}}},
    {{2, 2, 7, 9}, {{7, 6, 2, 1, 1, 3}, {9, 3, 3, 2, 2, 4}}},
    {{3, 2, 5, 5},
     {{5, 2, 2, 4, 0, 1}, {5, 2, 2, 3, 0, 1}}}, /* windows that end behind the image */
    {{2, 4, 9, 300}, {{9, 9, 5, 1, 2, 1}, {300, 300, 5, 1, 2, 1}}},
};

/* A tensor in the device's reach with room between its images. */
typedef struct tensor {
    uf_view view;
    size_t bytes;
} tensor;

static tensor make_tensor(uf_dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w) {
    const int64_t image = c * h * w + 3;
    tensor made;
    made.bytes = (size_t)(n * image) * uf_dtype_size(dtype);
    made.view = uf_view_nchw(test_shared_allocate(made.bytes), dtype, n, c, h, w);
    made.view.stride[0] = image;
    memset(made.view.data, 0xff, made.bytes);
    return made;
}

static void *element(const tensor *one, int64_t n, int64_t c, int64_t h, int64_t w) {
    const int64_t offset = n * one->view.stride[0] + c * one->view.stride[1] +
                           h * one->view.stride[2] + w * one->view.stride[3];
    return (char *)one->view.data + (size_t)offset * uf_dtype_size(one->view.dtype);
}

static double get(const tensor *one, int64_t n, int64_t c, int64_t h, int64_t w) {
    double value;
    uf_convert(&value, UF_F64, element(one, n, c, h, w), one->view.dtype, 1);
    return value;
}

static void set(const tensor *one, int64_t n, int64_t c, int64_t h, int64_t w, double value) {
    uf_convert(element(one, n, c, h, w), one->view.dtype, &value, UF_F64, 1);
}

/* Whole numbers from a few, now and then a NaN or minus infinity: sums are exact in every type. */
static double number_of(test_random *random, bool special) {
    if (special && test_random_one_in(random, 12)) {
        return test_random_one_in(random, 2) ? (double)NAN : (double)-INFINITY;
    }
    return (double)test_random_integer(random, -2, 2);
}

static void fill(const tensor *one, test_random *random, bool special) {
    const int64_t *e = one->view.extent;
    for (int64_t i = 0; i < e[0] * e[1] * e[2] * e[3]; ++i) {
        set(one, i / (e[1] * e[2] * e[3]), i / (e[2] * e[3]) % e[1], i / e[3] % e[2], i % e[3],
            number_of(random, special));
    }
}

/* The place of a window's maximum, as PyTorch looks for it; false for a window without elements. */
static bool place_of(const tensor *x, const uf_pool_axis *axis, int64_t n, int64_t c, int64_t o,
                     int64_t p, int64_t place[2]) {
    double most = (double)-INFINITY;
    bool found = false;
    for (int64_t r = 0; r < axis[0].kernel; ++r) {
        for (int64_t s = 0; s < axis[1].kernel; ++s) {
            const int64_t h = o * axis[0].stride - axis[0].padding + r * axis[0].dilation;
            const int64_t w = p * axis[1].stride - axis[1].padding + s * axis[1].dilation;
            if (h < 0 || h >= axis[0].in || w < 0 || w >= axis[1].in) {
                continue;
            }
            const double value = get(x, n, c, h, w);
            if (!found || value > most || isnan(value)) {
                most = value;
                place[0] = h;
                place[1] = w;
            }
            found = true;
        }
    }
    return found;
}

static void check(uf_context *context, int64_t row, uf_dtype dtype, uf_write_mode mode) {
    const int64_t *s = rows[row].shape;
    const uf_pool_axis *axis = rows[row].axis;
    test_random random = test_random_for("pool", row);
    tensor x = make_tensor(dtype, s[0], s[1], s[2], s[3]);
    tensor y = make_tensor(dtype, s[0], s[1], axis[0].out, axis[1].out);
    tensor dy = make_tensor(dtype, s[0], s[1], axis[0].out, axis[1].out);
    tensor dx = make_tensor(dtype, s[0], s[1], s[2], s[3]);
    tensor expected = make_tensor(UF_F64, s[0], s[1], s[2], s[3]);
    char label[160];
    fill(&x, &random, true);
    fill(&dy, &random, false);
    fill(&dx, &random, false);
    for (int64_t i = 0; i < s[0] * s[1] * s[2] * s[3]; ++i) {
        const int64_t n = i / (s[1] * s[2] * s[3]), c = i / (s[2] * s[3]) % s[1];
        const int64_t h = i / s[3] % s[2], w = i % s[3];
        set(&expected, n, c, h, w, mode == UF_ACCUMULATE ? get(&dx, n, c, h, w) : 0.0);
    }
    uf_pool_kernel_args args;
    memset(&args, 0, sizeof args);
    args.kind = UF_POOL_MAX;
    memcpy(args.axis, axis, sizeof args.axis);
    args.input = x.view;
    args.output = y.view;
    assert_ok(context->kernels->pool_forward(context, &args));
    args.grad_output = dy.view;
    args.grad_input = dx.view;
    args.mode = mode;
    assert_ok(context->kernels->pool_backward(context, &args));
    assert_ok(uf_context_synchronize(context));
    (void)snprintf(label, sizeof label, "row %d, %s%s", (int)row, uf_dtype_name(dtype),
                   mode == UF_ACCUMULATE ? ", added" : "");
    for (int64_t i = 0; i < s[0] * s[1] * axis[0].out * axis[1].out; ++i) {
        const int64_t c = i / (axis[0].out * axis[1].out) % s[1];
        const int64_t n = i / (axis[0].out * axis[1].out) / s[1];
        const int64_t o = i / axis[1].out % axis[0].out, p = i % axis[1].out;
        int64_t place[2];
        const bool found = place_of(&x, axis, n, c, o, p, place);
        const double most = found ? get(&x, n, c, place[0], place[1]) : (double)-INFINITY;
        const double got = get(&y, n, c, o, p);
        if (!(got == most || (isnan(got) && isnan(most)))) {
            fail_msg("%s: output %lld is %g, expected %g", label, (long long)i, got, most);
        }
        if (found) {
            set(&expected, n, c, place[0], place[1],
                get(&expected, n, c, place[0], place[1]) + get(&dy, n, c, o, p));
        }
    }
    for (int64_t i = 0; i < s[0] * s[1] * s[2] * s[3]; ++i) {
        const int64_t n = i / (s[1] * s[2] * s[3]), c = i / (s[2] * s[3]) % s[1];
        const int64_t h = i / s[3] % s[2], w = i % s[3];
        const double got = get(&dx, n, c, h, w), want = get(&expected, n, c, h, w);
        if (!(got == want)) {
            fail_msg("%s: gradient of (%lld, %lld, %lld, %lld) is %g, expected %g", label,
                     (long long)n, (long long)c, (long long)h, (long long)w, got, want);
        }
    }
    tensor *const all[] = {&x, &y, &dy, &dx, &expected};
    for (int64_t i = 0; i < COUNT_OF(all); ++i) {
        test_shared_free(all[i]->view.data, all[i]->bytes);
    }
}

static void test_places(void **state) {
    (void)state;
    static const uf_dtype dtypes[] = {UF_F64, UF_F32, UF_BF16};
    uf_context *context = test_context(3);
    for (int64_t row = 0; row < COUNT_OF(rows); ++row) {
        for (int64_t t = 0; t < COUNT_OF(dtypes); ++t) {
            check(context, row, dtypes[t], UF_OVERWRITE);
            check(context, row, dtypes[t], UF_ACCUMULATE);
        }
    }
    uf_context_destroy(context);
}

static void test_errors(void **state) {
    (void)state;
    float x[24], y[6];
    uf_pool_kernel_args good = {.kind = UF_POOL_MAX};
    memcpy(good.axis, rows[0].axis, sizeof good.axis);
    good.input = uf_view_nchw(x, UF_F32, 1, 1, 4, 6);
    good.output = uf_view_nchw(y, UF_F32, 1, 1, 2, 3);
    assert_ok(uf_pool_check(&good, false));
    uf_pool_kernel_args bad = good;
    bad.axis[1].out = 4;
    assert_error(uf_pool_check(&bad, false), UF_ERROR_INVALID_ARGUMENT, "pool_forward",
                 "axis 3 is of 6 and 4");
    bad = good;
    bad.output.extent[1] = 2;
    assert_error(uf_pool_check(&bad, false), UF_ERROR_SHAPE, "images and channels");
    bad = good;
    bad.axis[0].stride = 0;
    assert_error(uf_pool_check(&bad, false), UF_ERROR_INVALID_ARGUMENT, "stride 0");
    bad = good;
    bad.kind = UF_POOL_AVERAGE;
    bad.axis[0].dilation = 2;
    assert_error(uf_pool_check(&bad, false), UF_ERROR_INVALID_ARGUMENT, "dilation 2");
    bad = good;
    bad.grad_input = good.input;
    bad.grad_output = good.output;
    assert_ok(uf_pool_check(&bad, true));
    bad.output.extent[3] = 2;
    assert_error(uf_pool_check(&bad, true), UF_ERROR_SHAPE, "pool_backward", "output");
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_errors),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
