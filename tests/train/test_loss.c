/* test_loss.c - losses and their gradients against PyTorch's, NaN, saturation, threads, guards. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/context.h"
#include "kernels/kernels.h"
#include "support/compare.h"
#include "support/guard.h"
#include "support/h5.h"

static const char *const names[UF_LOSS_COUNT] = {"bce_with_logits", "bce", "mse", "l1"};

typedef struct loss_run {
    double loss;
    double *gradient;
} loss_run;

/* Both directions on guarded memory. The gradient is that of `upstream` * loss, added to `before`
 * if given. */
static loss_run run(uf_context *context, uf_loss_kind kind, uf_dtype dtype, const double *x,
                    const double *t, int64_t count, double upstream, const double *before) {
    const int64_t extent[4] = {1, count, 1, 1};
    const int64_t one[4] = {1, 1, 1, 1};
    guarded input = guard_create(dtype, extent, GUARD_NCHW, NULL);
    guarded target = guard_create(dtype, extent, GUARD_NCHW, NULL);
    guarded gradient = guard_create(dtype, extent, GUARD_NCHW, NULL);
    guarded output = guard_create(dtype, one, GUARD_NCHW, NULL);
    guarded grad_output = guard_create(dtype, one, GUARD_NCHW, NULL);
    guard_store(&input, x);
    guard_store(&target, t);
    guard_store(&grad_output, &upstream);
    if (before != NULL) {
        guard_store(&gradient, before);
    }
    uf_loss_kernel_args args = {
        .kind = kind,
        .input = input.view,
        .target = target.view,
        .output = output.view,
        .grad_output = grad_output.view,
        .grad_input = gradient.view,
        .mode = before != NULL ? UF_ACCUMULATE : UF_OVERWRITE,
    };
    guarded scratch = guard_scratch(context->kernels->loss_workspace(context, &args));
    args.workspace = scratch.view.data;
    args.workspace_size = (size_t)scratch.view.extent[3] * sizeof(float);
    assert_ok(uf_loss_check(&args, false));
    assert_ok(uf_loss_check(&args, true));
    assert_ok(context->kernels->loss_forward(context, &args));
    assert_ok(context->kernels->loss_backward(context, &args));
    assert_ok(uf_context_synchronize(context));
    loss_run result = {0.0, test_allocate((size_t)count * sizeof(double))};
    guard_load(&output, &result.loss);
    guard_load(&gradient, result.gradient);
    guarded *all[] = {&input, &target, &gradient, &output, &grad_output, &scratch};
    for (int64_t i = 0; i < COUNT_OF(all); ++i) {
        assert_guard_intact(names[kind], all[i]);
        guard_destroy(all[i]);
    }
    return result;
}

static void test_pytorch(void **state) {
    uf_context *context = *state;
    h5_file file = h5_open(test_data_path("ops_open.h5"));
    for (int kind = 0; kind < UF_LOSS_COUNT; ++kind) {
        char group[64];
        (void)snprintf(group, sizeof group, "loss/%s", names[kind]);
        h5_array input = h5_read(file, group, "input");
        h5_array target = h5_read(file, group, "target");
        h5_array loss = h5_read(file, group, "loss");
        h5_array grad_input = h5_read(file, group, "grad_input");
        /* PyTorch's case is bce(sigmoid(input)): its gradient carries the sigmoid's derivative. */
        double *x = test_allocate((size_t)input.count * sizeof *x);
        double *chain = test_allocate((size_t)input.count * sizeof *chain);
        for (int64_t i = 0; i < input.count; ++i) {
            const double s = 1.0 / (1.0 + exp(-input.values[i]));
            x[i] = kind == UF_LOSS_BCE ? s : input.values[i];
            chain[i] = kind == UF_LOSS_BCE ? s * (1.0 - s) : 1.0;
        }
        for (int type = 0; type < 2; ++type) {
            const double tolerance = type == 0 ? 2e-5 : 1e-12;
            loss_run got = run(context, (uf_loss_kind)kind, type == 0 ? UF_F32 : UF_F64, x,
                               target.values, input.count, 1.0, NULL);
            for (int64_t i = 0; i < input.count; ++i) {
                got.gradient[i] *= chain[i];
            }
            assert_close(names[kind], compare_values(&got.loss, loss.values, 1, 0.0), tolerance);
            assert_close(names[kind],
                         compare_values(got.gradient, grad_input.values, input.count, 0.0),
                         tolerance);
            free(got.gradient);
        }
        free(x);
        free(chain);
        h5_free(&input);
        h5_free(&target);
        h5_free(&loss);
        h5_free(&grad_input);
    }
    h5_close(file);
}

/* A reduction of several blocks, an upstream gradient, accumulation, and threads. */
static void test_long(void **state) {
    uf_context *context = *state;
    enum { COUNT = 50003 };
    double *x = test_allocate(COUNT * sizeof *x);
    double *t = test_allocate(COUNT * sizeof *t);
    double *before = test_allocate(COUNT * sizeof *before);
    double *expected = test_allocate(COUNT * sizeof *expected);
    test_random random = test_random_for("loss", 0);
    for (int64_t i = 0; i < COUNT; ++i) {
        x[i] = (double)(float)test_random_real(&random, 0.01, 0.99);
        t[i] = (double)(float)test_random_real(&random, 0.0, 1.0);
    }
    test_random_fill(&random, before, COUNT, 1e-4);
    for (int kind = 0; kind < UF_LOSS_COUNT; ++kind) {
        double sum = 0.0;
        for (int64_t i = 0; i < COUNT; ++i) {
            const double s = 1.0 / (1.0 + exp(-x[i]));
            const double d = x[i] - t[i];
            const double values[] = {-t[i] * log(s) - (1.0 - t[i]) * log(1.0 - s),
                                     -t[i] * log(x[i]) - (1.0 - t[i]) * log(1.0 - x[i]), d * d,
                                     fabs(d)};
            const double slopes[] = {s - t[i], d / (x[i] * (1.0 - x[i])), 2.0 * d,
                                     d > 0.0   ? 1.0
                                     : d < 0.0 ? -1.0
                                               : 0.0};
            sum += values[kind];
            expected[i] = before[i] + -1.75 * slopes[kind] / COUNT;
        }
        const double mean = sum / COUNT;
        for (int type = 0; type < 2; ++type) {
            const double tolerance = type == 0 ? 1e-5 : 1e-12;
            const uf_dtype dtype = type == 0 ? UF_F32 : UF_F64;
            loss_run got = run(context, (uf_loss_kind)kind, dtype, x, t, COUNT, -1.75, before);
            assert_close(names[kind], compare_values(&got.loss, &mean, 1, 0.0), tolerance);
            assert_close(names[kind], compare_values(got.gradient, expected, COUNT, 0.0),
                         tolerance);
            for (int32_t threads = 1; threads <= 3; ++threads) {
                uf_context *other_context = test_context(threads);
                loss_run other =
                    run(other_context, (uf_loss_kind)kind, dtype, x, t, COUNT, -1.75, before);
                assert_same_bits(names[kind], &other.loss, &got.loss, sizeof got.loss);
                assert_same_bits(names[kind], other.gradient, got.gradient, COUNT * 8);
                free(other.gradient);
                uf_context_destroy(other_context);
            }
            free(got.gradient);
        }
    }
    free(x);
    free(t);
    free(before);
    free(expected);
}

static void check_one(uf_context *context, uf_loss_kind kind, double x, double t, double loss,
                      double gradient) {
    for (int type = 0; type < 2; ++type) {
        loss_run got = run(context, kind, type == 0 ? UF_F32 : UF_F64, &x, &t, 1, 1.0, NULL);
        const double tolerance = type == 0 ? 1e-6 : 1e-14;
        if (!(fabs(got.loss - loss) <= tolerance * fmax(fabs(loss), 1.0)) ||
            !(fabs(got.gradient[0] - gradient) <= tolerance * fmax(fabs(gradient), 1.0))) {
            fail_msg("%s of %g, %g: %.17g with gradient %.17g, expected %.17g and %.17g",
                     names[kind], x, t, got.loss, got.gradient[0], loss, gradient);
        }
        free(got.gradient);
    }
}

/* Values that torch.nn.functional gives there. */
static void test_edges(void **state) {
    uf_context *context = *state;
    check_one(context, UF_LOSS_BCE, 0.0, 1.0, 100.0, -1e12);
    check_one(context, UF_LOSS_BCE, 1.0, 0.0, 100.0, 1e12);
    check_one(context, UF_LOSS_BCE, 1e-300, 1.0, 100.0, -1e12); /* log(x) is -690 */
    check_one(context, UF_LOSS_BCE, 0.0, 0.0, 0.0, 0.0);
    check_one(context, UF_LOSS_BCE, 1.0, 1.0, 0.0, 0.0);
    check_one(context, UF_LOSS_BCE_WITH_LOGITS, 1000.0, 0.0, 1000.0, 1.0);
    check_one(context, UF_LOSS_BCE_WITH_LOGITS, -1000.0, 1.0, 1000.0, -1.0);
    check_one(context, UF_LOSS_BCE_WITH_LOGITS, -1000.0, 0.0, 0.0, 0.0);
    check_one(context, UF_LOSS_L1, 0.5, 0.5, 0.0, 0.0);
    for (int kind = 0; kind < UF_LOSS_COUNT; ++kind) {
        for (int type = 0; type < 2; ++type) {
            for (int where = 0; where < 2; ++where) {
                const double x[3] = {0.25, where == 0 ? (double)NAN : 0.5, 0.75};
                const double t[3] = {0.0, where == 1 ? (double)NAN : 0.5, 1.0};
                loss_run got = run(context, (uf_loss_kind)kind, type == 0 ? UF_F32 : UF_F64, x, t,
                                   3, 1.0, NULL);
                assert_true(isnan(got.loss));
                assert_true(isnan(got.gradient[1]));
                assert_true(isfinite(got.gradient[0]) && isfinite(got.gradient[2]));
                free(got.gradient);
            }
        }
    }
}

static void test_refusals(void **state) {
    (void)state;
    double x[4] = {0}, y[4] = {0}, one = 0;
    uf_loss_kernel_args args = {
        .kind = UF_LOSS_MSE,
        .input = uf_view_nchw(x, UF_F64, 1, 4, 1, 1),
        .target = uf_view_nchw(y, UF_F64, 1, 4, 1, 1),
        .output = uf_view_nchw(&one, UF_F64, 1, 1, 1, 1),
    };
    assert_ok(uf_loss_check(&args, false));
    args.target.extent[1] = 3;
    assert_error(uf_loss_check(&args, false), UF_ERROR_SHAPE, "target", "(1, 3, 1, 1)",
                 "(1, 4, 1, 1)");
    args.target = uf_view_nchw(y, UF_F32, 1, 4, 1, 1);
    assert_error(uf_loss_check(&args, false), UF_ERROR_INVALID_ARGUMENT, "target is f32");
    args.target = uf_view_nchw(y, UF_F64, 1, 4, 1, 1);
    args.kind = UF_LOSS_COUNT;
    assert_error(uf_loss_check(&args, false), UF_ERROR_INVALID_ARGUMENT, "uf_loss_kind");
}

static int make_context(void **state) {
    *state = test_context(2);
    return 0;
}

static int destroy_context(void **state) {
    uf_context_destroy(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pytorch),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_refusals),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped
                        : cmocka_run_group_tests_name("loss", tests, make_context, destroy_context);
}
