/* test_bf16_elementwise.c - activations, padding and losses of bf16 tensors, both directions, in
 * every layout and both write modes: what f64 makes of the same numbers, but for f32's error,
 * rounded once. And the conversion between f32 and bf16, of every bf16 number. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bf16.h"
#include "kernels/kernels.h"
#include "ops/bf16_calls.h"
#include "support/compare.h"
#include "support/guard.h"

/* One kernel on tensors that it reads (a, b) and one that it writes, of its own extents. */
typedef struct problem {
    char label[128];
    uf_status (*run)(uf_context *context, const struct problem *p, uf_view *views);
    int kind;
    int64_t extent[4], padded[4];
    double low, high;  /* of what it reads */
    bool writes_large; /* the written tensor has the padded extents */
    bool accumulates;
    uf_write_mode mode;
} problem;

enum { A = 0, B, WRITTEN, SCALAR, TENSORS };

static uf_status activation_forward(uf_context *context, const problem *p, uf_view *views) {
    const uf_activation_kernel_args args = {.activation = {(uf_activation_kind)p->kind, 0.2},
                                            .input = views[A],
                                            .output = views[WRITTEN],
                                            .maximum = 1.5};
    UF_TRY(uf_activation_check(&args, false));
    return context->kernels->activation_forward(context, &args);
}

static uf_status activation_backward(uf_context *context, const problem *p, uf_view *views) {
    const uf_activation_kernel_args args = {.activation = {(uf_activation_kind)p->kind, 0.2},
                                            .input = views[A],
                                            .output = views[A],
                                            .grad_output = views[B],
                                            .grad_input = views[WRITTEN],
                                            .mode = p->mode,
                                            .maximum = 1.5};
    UF_TRY(uf_activation_check(&args, true));
    return context->kernels->activation_backward(context, &args);
}

static const uf_pad_kernel_args padding = {.left = 2, .right = 3, .top = 1, .bottom = 2};

static uf_status pad_forward(uf_context *context, const problem *p, uf_view *views) {
    uf_pad_kernel_args args = padding;
    args.pad_mode = (uf_pad_mode)p->kind;
    args.input = views[A];
    args.output = views[WRITTEN];
    UF_TRY(uf_pad_check(&args, false));
    return context->kernels->pad_forward(context, &args);
}

static uf_status pad_backward(uf_context *context, const problem *p, uf_view *views) {
    uf_pad_kernel_args args = padding;
    args.pad_mode = (uf_pad_mode)p->kind;
    args.grad_output = views[A];
    args.grad_input = views[WRITTEN];
    args.mode = p->mode;
    UF_TRY(uf_pad_check(&args, true));
    return context->kernels->pad_backward(context, &args);
}

/* The scalar is the gradient that comes in: f32 for bf16. */
static uf_status loss_backward(uf_context *context, const problem *p, uf_view *views) {
    const uf_loss_kernel_args args = {.kind = (uf_loss_kind)p->kind,
                                      .input = views[A],
                                      .target = views[B],
                                      .grad_output = views[SCALAR],
                                      .grad_input = views[WRITTEN],
                                      .mode = p->mode};
    UF_TRY(uf_loss_check(&args, true));
    return context->kernels->loss_backward(context, &args);
}

static void multiply(const int64_t *extent, int64_t *count) {
    *count = extent[0] * extent[1] * extent[2] * extent[3];
}

/* Run it in one type; `result` gets what is written. */
static void run(uf_context *context, const problem *p, uf_dtype dtype, const guard_layout *layouts,
                double *const *values, double *result) {
    static const int64_t one[4] = {1, 1, 1, 1};
    test_random random = test_random_for(p->label, 1);
    guarded tensors[TENSORS];
    uf_view views[TENSORS];
    for (int i = 0; i < TENSORS; ++i) {
        const bool large = i == WRITTEN ? p->writes_large : !p->writes_large;
        const int64_t *extent = i == SCALAR ? one : large ? p->padded : p->extent;
        const uf_dtype type = i == SCALAR && dtype == UF_BF16 ? UF_F32 : dtype;
        tensors[i] = guard_create(type, extent, i == SCALAR ? GUARD_NCHW : layouts[i], &random);
        if (i != WRITTEN || p->mode == UF_ACCUMULATE) {
            guard_store(&tensors[i], values[i]);
        }
        views[i] = tensors[i].view;
    }
    assert_ok(p->run(context, p, views));
    assert_ok(uf_context_synchronize(context));
    guard_load(&tensors[WRITTEN], result);
    for (int i = 0; i < TENSORS; ++i) {
        assert_guard_intact(p->label, &tensors[i]);
        guard_destroy(&tensors[i]);
    }
}

static void check(uf_context *context, problem *p) {
    int64_t count, padded;
    multiply(p->extent, &count);
    multiply(p->padded, &padded);
    const int64_t most = count > padded ? count : padded;
    const int64_t written = p->writes_large ? padded : count;
    double *values[TENSORS], *results[2];
    test_random random = test_random_for(p->label, 0);
    for (int i = 0; i < TENSORS; ++i) {
        values[i] = test_allocate((size_t)most * sizeof(double));
        for (int64_t k = 0; k < most; ++k) {
            values[i][k] = to_bf16(test_random_real(&random, p->low, p->high));
        }
    }
    results[0] = test_allocate((size_t)most * sizeof(double));
    results[1] = test_allocate((size_t)most * sizeof(double));
    values[SCALAR][0] = -1.75;
    for (int layout = 0; layout < GUARD_LAYOUTS; ++layout) {
        for (int mode = 0; mode < (p->accumulates ? 2 : 1); ++mode) {
            const guard_layout plain[3] = {GUARD_NCHW, GUARD_NCHW, GUARD_NCHW};
            /* Losses take contiguous tensors. */
            const bool strided = p->run != loss_backward;
            /* Kernels may take rows where all tensors are contiguous images. */
            const bool mixed = layout != GUARD_IMAGES;
            const guard_layout other[3] = {
                strided ? (guard_layout)layout : GUARD_SHIFTED,
                strided ? (guard_layout)(mixed ? layout / 2 : layout) : GUARD_NCHW,
                strided ? (guard_layout)(mixed ? GUARD_IMAGES - 1 - layout : layout)
                        : GUARD_SHIFTED};
            p->mode = (uf_write_mode)mode;
            run(context, p, UF_F64, plain, values, results[0]);
            run(context, p, UF_BF16, other, values, results[1]);
            assert_rounded_once(p->label, results[1], results[0], written, 8.0 * 0x1p-24);
        }
    }
    for (int i = 0; i < TENSORS; ++i) {
        free(values[i]);
    }
    free(results[0]);
    free(results[1]);
}

static void test_results(void **state) {
    static const struct {
        const char *name;
        uf_status (*run)(uf_context *context, const problem *p, uf_view *views);
        int first_kind, kinds;
        double low, high;
        bool pads, writes_large, accumulates;
    } kernels[] = {
        {"activation_forward", activation_forward, 0, UF_ACTIVATION_LOG, -3, 3, false, false,
         false},
        {"activation_backward", activation_backward, 0, UF_ACTIVATION_LOG, -1, 1, false, false,
         true},
        {"activation_forward of positive numbers", activation_forward, UF_ACTIVATION_LOG,
         UF_ACTIVATION_COUNT - UF_ACTIVATION_LOG, 0.1, 3, false, false, false},
        {"activation_backward of positive numbers", activation_backward, UF_ACTIVATION_LOG,
         UF_ACTIVATION_COUNT - UF_ACTIVATION_LOG, 0.1, 3, false, false, true},
        {"pad_forward", pad_forward, 0, UF_PAD_REFLECT + 1, -3, 3, true, true, false},
        {"pad_backward", pad_backward, 0, UF_PAD_REFLECT + 1, -3, 3, true, false, true},
        {"loss_backward", loss_backward, 0, UF_LOSS_COUNT, 0.05, 0.95, false, false, true},
    };
    /* The last has rows of more than one piece. */
    static const int64_t shapes[][4] = {{2, 3, 5, 4}, {1, 2, 3, 7}, {2, 1, 4, 1100}};
    uf_context *context = test_context(2);
    (void)state;
    for (int64_t k = 0; k < COUNT_OF(kernels); ++k) {
        for (int64_t s = 0; s < COUNT_OF(shapes) * kernels[k].kinds; ++s) {
            const int64_t *extent = shapes[s / kernels[k].kinds];
            problem p = {.run = kernels[k].run,
                         .kind = kernels[k].first_kind + (int)(s % kernels[k].kinds),
                         .low = kernels[k].low,
                         .high = kernels[k].high,
                         .writes_large = kernels[k].writes_large,
                         .accumulates = kernels[k].accumulates};
            (void)snprintf(p.label, sizeof p.label, "%s of kind %d, shape %d", kernels[k].name,
                           p.kind, (int)(s / kernels[k].kinds));
            memcpy(p.extent, extent, sizeof p.extent);
            memcpy(p.padded, extent, sizeof p.padded);
            if (kernels[k].pads) {
                p.padded[2] += padding.top + padding.bottom;
                p.padded[3] += padding.left + padding.right;
            }
            check(context, &p);
        }
    }
    uf_context_destroy(context);
}

/* The mean of a loss of bf16 tensors is f32. */
static void test_loss_forward(void **state) {
    enum { COUNT = 5003 };
    static const int64_t extent[4] = {1, COUNT, 1, 1}, one[4] = {1, 1, 1, 1};
    double x[COUNT], t[COUNT];
    uf_context *context = test_context(2);
    test_random random = test_random_for("bf16 loss", 0);
    (void)state;
    for (int i = 0; i < COUNT; ++i) {
        x[i] = to_bf16(test_random_real(&random, 0.05, 0.95));
        t[i] = to_bf16(test_random_real(&random, 0.0, 1.0));
    }
    for (int kind = 0; kind < UF_LOSS_COUNT; ++kind) {
        double means[2];
        for (int narrow = 0; narrow < 2; ++narrow) {
            const uf_dtype dtype = narrow == 1 ? UF_BF16 : UF_F64;
            guarded input = guard_create(dtype, extent, GUARD_SHIFTED, NULL);
            guarded target = guard_create(dtype, extent, GUARD_NCHW, NULL);
            guarded output = guard_create(narrow == 1 ? UF_F32 : UF_F64, one, GUARD_NCHW, NULL);
            guard_store(&input, x);
            guard_store(&target, t);
            uf_loss_kernel_args args = {.kind = (uf_loss_kind)kind,
                                        .input = input.view,
                                        .target = target.view,
                                        .output = output.view};
            guarded scratch = guard_scratch(context->kernels->loss_workspace(context, &args));
            args.workspace = scratch.view.data;
            args.workspace_size = (size_t)scratch.view.extent[3] * sizeof(float);
            assert_ok(uf_loss_check(&args, false));
            assert_ok(context->kernels->loss_forward(context, &args));
            assert_ok(uf_context_synchronize(context));
            guard_load(&output, &means[narrow]);
            guarded *all[] = {&input, &target, &output, &scratch};
            for (int64_t i = 0; i < COUNT_OF(all); ++i) {
                assert_guard_intact("loss", all[i]);
                guard_destroy(all[i]);
            }
            args.output.dtype = UF_BF16;
            assert_error(uf_loss_check(&args, false), UF_ERROR_INVALID_ARGUMENT, "output is bf16");
        }
        assert_close("loss", compare_values(&means[1], &means[0], 1, 0.0), 1e-5);
    }
    uf_context_destroy(context);
}

/* Every bf16 number comes back from f32, and what lies between two of them goes to the nearer, in
 * the middle to the even one; beyond the largest it is infinite; NaN is a quiet NaN. */
static void test_conversion(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
        const float value = uf_bf16_to_f32((uint16_t)bits);
        const uint16_t back = uf_bf16_from_f32(value);
        double wide;
        uint16_t converted;
        uf_convert(&wide, UF_F64, &(uint16_t){(uint16_t)bits}, UF_BF16, 1);
        if (value != value) {
            assert_true(isnan(wide) && (back & 0x7fc0) == 0x7fc0);
            continue;
        }
        float same;
        uf_convert(&same, UF_F32, &(uint16_t){(uint16_t)bits}, UF_BF16, 1);
        assert_true((double)value == wide && same == value && back == bits);
        /* An f32 whose lower half is next to or in the middle. */
        for (uint32_t below = 0x7fff; below <= 0x8001 && !isinf(value); ++below) {
            const uint32_t between = bits << 16 | below;
            float f32;
            memcpy(&f32, &between, sizeof f32);
            wide = (double)f32;
            uf_convert(&converted, UF_BF16, &wide, UF_F64, 1);
            const bool up = below == 0x8001 || (below == 0x8000 && (bits & 1) == 1);
            assert_int_equal(uf_bf16_from_f32(f32), bits + (up ? 1 : 0));
            assert_int_equal(uf_bf16_from_f32(f32), converted);
            uf_convert(&converted, UF_BF16, &f32, UF_F32, 1);
            assert_int_equal(uf_bf16_from_f32(f32), converted);
        }
    }
    assert_int_equal(uf_bf16_from_f32(3.4e38f), 0x7f80);
    assert_int_equal(uf_bf16_from_f32(-INFINITY), 0xff80);
    assert_int_equal(uf_bf16_from_f32(-0.0f), 0x8000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_results),
                                       cmocka_unit_test(test_loss_forward),
                                       cmocka_unit_test(test_conversion)};
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
