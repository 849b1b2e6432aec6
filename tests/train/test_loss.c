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

static const char *const names[UF_LOSS_COUNT] = {"bce_with_logits",
                                                 "bce",
                                                 "mse",
                                                 "l1",
                                                 "smooth_l1",
                                                 "hinge_real",
                                                 "hinge_fake",
                                                 "hinge_generator",
                                                 "least_squares_real",
                                                 "least_squares_fake",
                                                 "kl_normal"};

static const double beta = 0.3; /* of smooth_l1 */

enum { PYTORCH = UF_LOSS_L1 + 1 }; /* so many have a group of this name in ops_open.h5 */

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
        .beta = beta,
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
    for (int kind = 0; kind < PYTORCH; ++kind) {
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
            const double sign = d > 0.0 ? 1.0 : d < 0.0 ? -1.0 : 0.0;
            const bool near = fabs(d) < beta;
            const double values[UF_LOSS_COUNT] = {
                -t[i] * log(s) - (1.0 - t[i]) * log(1.0 - s),
                -t[i] * log(x[i]) - (1.0 - t[i]) * log(1.0 - x[i]),
                d * d,
                fabs(d),
                near ? 0.5 * d * d / beta : fabs(d) - 0.5 * beta,
                fmax(0.0, 1.0 - x[i]),
                fmax(0.0, 1.0 + x[i]),
                -x[i],
                (x[i] - 1.0) * (x[i] - 1.0),
                x[i] * x[i],
                -0.5 * (1.0 + t[i] - x[i] * x[i] - exp(t[i])),
            };
            const double slopes[UF_LOSS_COUNT] = {s - t[i],
                                                  d / (x[i] * (1.0 - x[i])),
                                                  2.0 * d,
                                                  sign,
                                                  near ? d / beta : sign,
                                                  -1.0,
                                                  1.0,
                                                  -1.0,
                                                  2.0 * (x[i] - 1.0),
                                                  2.0 * x[i],
                                                  x[i]};
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
    check_one(context, UF_LOSS_SMOOTH_L1, 0.5, 0.5, 0.0, 0.0);
    check_one(context, UF_LOSS_SMOOTH_L1, -2.0, 0.5, 2.35, -1.0);
    check_one(context, UF_LOSS_HINGE_REAL, 1.0, 0.0, 0.0, 0.0);
    check_one(context, UF_LOSS_HINGE_REAL, 3.0, 0.0, 0.0, 0.0);
    check_one(context, UF_LOSS_HINGE_REAL, -3.0, 0.0, 4.0, -1.0);
    check_one(context, UF_LOSS_HINGE_FAKE, -1.0, 0.0, 0.0, 0.0);
    check_one(context, UF_LOSS_HINGE_FAKE, -3.0, 0.0, 0.0, 0.0);
    check_one(context, UF_LOSS_HINGE_FAKE, 3.0, 0.0, 4.0, 1.0);
    check_one(context, UF_LOSS_HINGE_REAL, (double)INFINITY, 0.0, 0.0, 0.0);
    check_one(context, UF_LOSS_KL_NORMAL, 0.0, 0.0, 0.0, 0.0);
    check_one(context, UF_LOSS_KL_NORMAL, 0.0, 1e-4, 0.5 * (expm1(1e-4) - 1e-4), 0.0);
    for (int kind = 0; kind < UF_LOSS_COUNT; ++kind) {
        for (int type = 0; type < 2; ++type) {
            const bool alone = uf_loss_second((uf_loss_kind)kind) != UF_LOSS_TARGET;
            for (int where = 0; where < (alone ? 1 : 2); ++where) {
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

/* A graph of one loss in f64, over inputs "x" and, where the kind has one, "t". The seed is
 * `upstream`; gradients are wanted of both where both have one. */
typedef struct one_loss {
    uf_graph *graph;
    uf_program *program;
    uf_value x, t;
} one_loss;

static one_loss make_loss(uf_context *context, uf_loss_kind kind, uf_reduction reduction,
                          uf_shape shape, const double *x, const double *t,
                          const double *upstream) {
    one_loss made;
    uf_loss_options options = uf_loss_options_default();
    options.reduction = reduction;
    options.beta = beta;
    assert_ok(uf_graph_create(context, &made.graph));
    const bool alone = uf_loss_second(kind) == UF_LOSS_ALONE;
    const bool pair = uf_loss_second(kind) == UF_LOSS_PAIR;
    made.x = uf_input(made.graph, "x", shape);
    made.t = alone ? (uf_value){0} : uf_input(made.graph, "t", shape);
    const uf_value loss = uf_loss(made.graph, kind, made.x, made.t, &options);
    uf_output(made.graph, "loss", loss);
    const uf_value wanted[2] = {made.x, made.t};
    uf_pass pass = uf_pass_default();
    pass.losses = &loss;
    pass.loss_count = 1;
    pass.inputs = wanted;
    pass.input_count = pair ? 2 : 1;
    pass.external_seeds = true;
    uf_program_options program = uf_program_options_default();
    program.dtype = UF_F64;
    program.passes = &pass;
    program.pass_count = 1;
    assert_ok(uf_program_compile(made.graph, &program, &made.program));
    assert_ok(uf_tensor_upload(uf_program_input(made.program, "x"), x));
    if (!alone) {
        assert_ok(uf_tensor_upload(uf_program_input(made.program, "t"), t));
    }
    assert_ok(uf_tensor_upload(uf_program_seed(made.program, 0, 0), upstream));
    assert_ok(uf_program_run(made.program));
    return made;
}

/* Elements and their sum agree with the mean, in both directions and for both operands. */
static void test_reductions(void **state) {
    uf_context *context = *state;
    enum { N = 3, C = 4, D = 5, COUNT = N * C * D };
    double x[COUNT], t[COUNT], ones[COUNT], elements[COUNT], by_element[2][COUNT];
    test_random random = test_random_for("reductions", 0);
    for (int64_t i = 0; i < COUNT; ++i) {
        x[i] = test_random_real(&random, 0.05, 0.95);
        t[i] = test_random_real(&random, 0.05, 0.95);
        ones[i] = 1.0;
    }
    for (int kind = 0; kind < UF_LOSS_COUNT; ++kind) {
        const int operands = uf_loss_second((uf_loss_kind)kind) == UF_LOSS_PAIR ? 2 : 1;
        const double divisors[] = {kind == UF_LOSS_KL_NORMAL ? N * D : COUNT, 1.0, 1.0};
        double total = 0.0;
        for (int reduction = UF_REDUCTION_NONE; reduction >= UF_REDUCTION_MEAN; --reduction) {
            one_loss made = make_loss(context, (uf_loss_kind)kind, (uf_reduction)reduction,
                                      UF_SHAPE(N, C, D), x, t, ones);
            uf_tensor *loss = uf_program_output(made.program, "loss");
            const bool none = reduction == UF_REDUCTION_NONE;
            assert_int_equal(uf_tensor_count(loss), none ? COUNT : 1);
            if (none) {
                assert_ok(uf_tensor_download(loss, elements));
                for (int64_t i = 0; i < COUNT; ++i) {
                    total += elements[i];
                }
                assert_true(fabs(total) > 1.0);
            } else {
                double value;
                const double expected = total / divisors[reduction];
                assert_ok(uf_tensor_download(loss, &value));
                assert_close(names[kind], compare_values(&value, &expected, 1, 0.0), 1e-13);
            }
            for (int operand = 0; operand < operands; ++operand) {
                double gradient[COUNT];
                uf_tensor *of =
                    uf_program_gradient(made.program, 0, operand == 0 ? made.x : made.t);
                assert_ok(uf_tensor_download(of, none ? by_element[operand] : gradient));
                for (int64_t i = 0; i < COUNT && !none; ++i) {
                    gradient[i] *= divisors[reduction];
                }
                if (!none) {
                    assert_close(names[kind],
                                 compare_values(gradient, by_element[operand], COUNT, 0.0), 1e-13);
                }
            }
            uf_program_destroy(made.program);
            uf_graph_destroy(made.graph);
        }
        /* The seed of each element is its own. */
        double seeds[COUNT], expected[COUNT], gradient[COUNT];
        for (int64_t i = 0; i < COUNT; ++i) {
            seeds[i] = 0.5 + (double)i;
            expected[i] = by_element[0][i] * seeds[i];
        }
        one_loss made = make_loss(context, (uf_loss_kind)kind, UF_REDUCTION_NONE, UF_SHAPE(N, C, D),
                                  x, t, seeds);
        assert_ok(uf_tensor_download(uf_program_gradient(made.program, 0, made.x), gradient));
        assert_close(names[kind], compare_values(gradient, expected, COUNT, 0.0), 1e-13);
        uf_program_destroy(made.program);
        uf_graph_destroy(made.graph);
    }
}

/* The gradient by the log-variance; that by the mean is in test_long. */
static void test_kl_second_gradient(void **state) {
    uf_context *context = *state;
    const double x[4] = {0.5, -1.0, 2.0, 0.0}, t[4] = {0.0, 1.0, -2.0, 0.25};
    const double upstream = 3.0;
    one_loss made =
        make_loss(context, UF_LOSS_KL_NORMAL, UF_REDUCTION_MEAN, UF_SHAPE(2, 2), x, t, &upstream);
    double loss, by_x[4], by_t[4], expected = 0.0, expected_x[4], expected_t[4];
    for (int i = 0; i < 4; ++i) {
        expected += -0.5 * (1.0 + t[i] - x[i] * x[i] - exp(t[i])) / 2.0; /* two images */
        expected_x[i] = upstream * x[i] / 2.0;
        expected_t[i] = upstream * 0.5 * (exp(t[i]) - 1.0) / 2.0;
    }
    assert_ok(uf_tensor_download(uf_program_output(made.program, "loss"), &loss));
    assert_ok(uf_tensor_download(uf_program_gradient(made.program, 0, made.x), by_x));
    assert_ok(uf_tensor_download(uf_program_gradient(made.program, 0, made.t), by_t));
    assert_close("kl", compare_values(&loss, &expected, 1, 0.0), 1e-14);
    assert_close("kl by mean", compare_values(by_x, expected_x, 4, 0.0), 1e-14);
    assert_close("kl by log-variance", compare_values(by_t, expected_t, 4, 0.0), 1e-14);
    uf_program_destroy(made.program);
    uf_graph_destroy(made.graph);
}

static void expect_refusal(uf_context *context, uf_loss_kind kind, const uf_loss_options *options,
                           uf_shape x, uf_shape t, uf_status status, const char *word) {
    uf_graph *graph;
    assert_ok(uf_graph_create(context, &graph));
    uf_loss(graph, kind, uf_input(graph, "x", x), uf_input(graph, "t", t), options);
    assert_error(uf_graph_status(graph), status, word);
    uf_graph_destroy(graph);
}

static void test_graph_refusals(void **state) {
    uf_context *context = *state;
    uf_loss_options options = uf_loss_options_default();
    const uf_shape s = UF_SHAPE(2, 3);
    expect_refusal(context, UF_LOSS_COUNT, NULL, s, s, UF_ERROR_INVALID_ARGUMENT, "uf_loss_kind");
    expect_refusal(context, UF_LOSS_SMOOTH_L1, NULL, s, UF_SHAPE(3, 2), UF_ERROR_SHAPE,
                   "smooth_l1_loss: the input is (2, 3) and the target is (3, 2)");
    expect_refusal(context, UF_LOSS_KL_NORMAL, NULL, UF_SHAPE(3), UF_SHAPE(3), UF_ERROR_SHAPE,
                   "kl_normal_loss: the input is (3,)");
    options.beta = -1.0;
    expect_refusal(context, UF_LOSS_SMOOTH_L1, &options, s, s, UF_ERROR_INVALID_ARGUMENT,
                   "beta is -1");
    options = uf_loss_options_default();
    options.reduction = (uf_reduction)3;
    expect_refusal(context, UF_LOSS_L1, &options, s, s, UF_ERROR_INVALID_ARGUMENT,
                   "3 is no uf_reduction");
    options = uf_loss_options_default();
    options.struct_size = 3;
    expect_refusal(context, UF_LOSS_L1, &options, s, s, UF_ERROR_INVALID_ARGUMENT,
                   "uf_loss_options.struct_size is 3");
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
        cmocka_unit_test(test_pytorch),        cmocka_unit_test(test_long),
        cmocka_unit_test(test_edges),          cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_reductions),     cmocka_unit_test(test_kl_second_gradient),
        cmocka_unit_test(test_graph_refusals),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped
                        : cmocka_run_group_tests_name("loss", tests, make_context, destroy_context);
}
