/* test_batch_norm.c - batch norm with an activation behind it, forward and backward, in training
 * and with running statistics: against the reference in double, in place, and bit by bit against
 * the two kernels one after the other. */
#include "support/test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "kernels/kernels.h"
#include "reference/reference.h"
#include "support/compare.h"
#include "support/guard.h"

static const struct {
    int64_t extent[4];
    bool affine;
    double offset; /* of the mean of each channel, in deviations */
} shapes[] = {
    {{2, 1, 1, 1}, true, 0.0},     {{2, 70, 1, 1}, true, 0.5},    {{3, 5, 7, 9}, true, 0.0},
    {{1, 3, 1, 2}, false, 0.0},    {{9, 2, 2, 2}, true, 0.0},     {{1, 4, 33, 47}, true, 3.0},
    {{16, 33, 4, 4}, false, 0.0},  {{5, 6, 8, 8}, true, 0.5},     {{70, 3, 16, 12}, true, 100.0},
    {{2, 3, 128, 130}, true, 0.0}, {{130, 9, 3, 1}, false, 10.0}, {{2, 2, 1, 520}, true, 0.0},
    {{5, 3, 31, 31}, true, 1.0},
};

static const double slopes[] = {0.25, -0.5}; /* of LEAKY_RELU */

/* Of these every one takes any number; none makes a rounding error much larger. */
enum { TAME = UF_ACTIVATION_SQUARE, KINDS = TAME + 1 };

/* LEAKY_RELU comes twice: with a negative slope too, where the result's sign is not z's. */
static uf_activation activation_of(int kind) {
    return kind < TAME ? (uf_activation){(uf_activation_kind)kind, slopes[0]}
                       : (uf_activation){UF_ACTIVATION_LEAKY_RELU, slopes[1]};
}

typedef struct problem {
    char label[160];
    int64_t extent[4], count, channels;
    bool training;
    uf_activation activation;
    ref_batch_norm norm;
    double *x, *gy, *weight, *bias, *mean, *var;
    double *y, *gx, *gw, *gb, *new_mean, *new_var; /* the reference's */
    double y_term, gx_term, sum_term;
} problem;

static double *numbers(int64_t count) {
    return test_allocate((size_t)count * sizeof(double));
}

/* Results in which much cancels are measured by their terms, of which these are the largest. */
static void find_terms(problem *p) {
    const double m = (double)(p->norm.batch * p->norm.pixels);
    for (int64_t c = 0; c < p->channels; ++c) {
        double sum = 0.0, squares = 0.0, x = 0.0, g = 0.0;
        for (int pass = 0; pass < 2; ++pass) {
            for (int64_t i = 0; i < p->count; ++i) {
                if (i / p->norm.pixels % p->channels == c) {
                    sum += pass == 0 ? p->x[i] : 0.0;
                    squares += pass == 1 ? (p->x[i] - sum / m) * (p->x[i] - sum / m) : 0.0;
                    x = fmax(x, fabs(p->x[i]));
                    g = fmax(g, fabs(p->gy[i]));
                }
            }
        }
        const double mean = p->training ? sum / m : p->mean[c];
        const double invstd = 1.0 / sqrt((p->training ? squares / m : p->var[c]) + p->norm.eps);
        const double weight = p->weight != NULL ? fabs(p->weight[c]) : 1.0;
        const double x_hat = (x + fabs(mean)) * invstd;
        const double z = weight * x_hat + (p->bias != NULL ? fabs(p->bias[c]) : 0.0);
        const double derived = g * (1.0 + z); /* z's error goes on into TANH's derivative */
        const double means = (fabs(p->gb[c]) + x_hat * fabs(p->gw[c])) / m;
        p->y_term = fmax(p->y_term, z);
        p->gx_term = fmax(p->gx_term, weight * invstd * (derived + (p->training ? means : 0.0)));
        p->sum_term = fmax(p->sum_term, sqrt(m) * derived * fmax(x_hat, 1.0));
    }
}

/* The reference's numbers for everything that the kernels make. */
static void solve(problem *p) {
    const ref_activation kind = (ref_activation)p->activation.kind;
    const double slope = p->activation.parameter;
    const int64_t pixels = p->norm.pixels;
    double *z = numbers(p->count), *g = numbers(p->count);
    memcpy(p->new_mean, p->mean, (size_t)p->channels * sizeof(double));
    memcpy(p->new_var, p->var, (size_t)p->channels * sizeof(double));
    if (p->training) {
        ref_batch_norm_train_forward(&p->norm, p->x, p->weight, p->bias, p->new_mean, p->new_var,
                                     z);
    } else {
        ref_batch_norm_eval_forward(&p->norm, p->x, p->weight, p->bias, p->mean, p->var, z);
    }
    /* Rounding may carry z over a kink, which is at 0, 3, -3 or 6. Such elements have no gradient
     * here; z = 0 of a channel whose weight and bias are 0 is exact. */
    for (int64_t i = 0; i < p->count; ++i) {
        const int64_t c = i / pixels % p->channels;
        const bool flat = p->weight != NULL && p->weight[c] == 0.0;
        const bool kink =
            fabs(z[i]) < 1e-4 || fabs(fabs(z[i]) - 3.0) < 1e-4 || fabs(z[i] - 6.0) < 1e-4;
        p->gy[i] = kink && !flat ? 0.0 : p->gy[i];
    }
    ref_activation_forward(kind, slope, p->count, z, p->y);
    ref_activation_backward(kind, slope, p->count, z, p->gy, g);
    if (p->training) {
        ref_batch_norm_train_backward(&p->norm, p->x, p->weight, g, p->gx, p->gw, p->gb);
    } else {
        ref_batch_norm_eval_backward(&p->norm, p->x, p->weight, p->mean, p->var, g, p->gx, p->gw,
                                     p->gb);
    }
    find_terms(p);
    free(z);
    free(g);
}

/* Numbers of x and gy are exact in `dtype`. */
static problem problem_of(int64_t row, bool training, int kind, uf_dtype dtype) {
    problem p;
    memset(&p, 0, sizeof p);
    const int64_t *e = shapes[row].extent;
    test_random random = test_random_for("batch_norm", row * 100 + kind * 2 + training);
    memcpy(p.extent, e, sizeof p.extent);
    p.count = e[0] * e[1] * e[2] * e[3];
    p.channels = e[1];
    p.training = training;
    p.activation = activation_of(kind);
    p.norm = (ref_batch_norm){e[0], e[1], e[2] * e[3], 1e-5, 0.1};
    double **const values[] = {&p.x, &p.gy, &p.y, &p.gx};
    for (int i = 0; i < 4; ++i) {
        *values[i] = numbers(p.count);
        test_random_fill(&random, *values[i], p.count, 1.0);
    }
    for (int64_t i = 0; i < p.count; ++i) {
        const int64_t c = i / p.norm.pixels % p.channels;
        p.x[i] = (double)(float)(p.x[i] + (c % 3 == 1 ? -1.0 : 1.0) * shapes[row].offset);
        if (dtype == UF_BF16) {
            uint16_t rounded[2];
            uf_convert(&rounded[0], UF_BF16, &p.x[i], UF_F64, 1);
            uf_convert(&rounded[1], UF_BF16, &p.gy[i], UF_F64, 1);
            uf_convert(&p.x[i], UF_F64, &rounded[0], UF_BF16, 1);
            uf_convert(&p.gy[i], UF_F64, &rounded[1], UF_BF16, 1);
        }
    }
    double **const of_channel[] = {&p.mean,     &p.var,     &p.gw,     &p.gb,
                                   &p.new_mean, &p.new_var, &p.weight, &p.bias};
    for (int i = 0; i < (shapes[row].affine ? 8 : 6); ++i) {
        *of_channel[i] = numbers(p.channels);
        test_random_fill(&random, *of_channel[i], p.channels, 1.0);
    }
    for (int64_t c = 0; c < p.channels; ++c) {
        p.var[c] = (double)(float)(p.var[c] * p.var[c] + 0.25);
    }
    if (shapes[row].affine && p.channels > 2) {
        p.weight[p.channels / 2] = p.bias[p.channels / 2] = 0.0; /* at the kink */
    }
    (void)snprintf(p.label, sizeof p.label,
                   "(%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ")%s %s activation %d %g",
                   e[0], e[1], e[2], e[3], shapes[row].affine ? " affine" : "",
                   training ? "training" : "running", (int)p.activation.kind,
                   p.activation.parameter);
    solve(&p);
    return p;
}

static void problem_free(problem *p) {
    double *const all[] = {p->x, p->gy, p->weight, p->bias, p->mean,     p->var,
                           p->y, p->gx, p->gw,     p->gb,   p->new_mean, p->new_var};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
        free(all[i]);
    }
}

/* ---- the same in guarded memory ---- */

enum { X, GY, Y, Z, G, GX, WEIGHT, BIAS, MEAN, VAR, SAVE_MEAN, SAVE_INVSTD, GW, GB, TENSORS };

typedef struct call {
    guarded tensors[TENSORS];
    uf_batch_norm_kernel_args args;
} call;

/* Parameters and running statistics of bf16 tensors are f32, saved statistics are f64. */
static uf_dtype type_of(int tensor, uf_dtype dtype) {
    const bool saved = tensor == SAVE_MEAN || tensor == SAVE_INVSTD;
    return saved ? UF_F64 : tensor >= WEIGHT && dtype == UF_BF16 ? UF_F32 : dtype;
}

static const double before = 0.5; /* in the gradients, of a call that accumulates */

static call call_open(const problem *p, uf_dtype dtype, guard_layout layout, test_random *random) {
    call made;
    memset(&made, 0, sizeof made);
    const int64_t one_each[4] = {1, p->channels, 1, 1};
    const double *const values[TENSORS] = {[X] = p->x,       [GY] = p->gy,     [WEIGHT] = p->weight,
                                           [BIAS] = p->bias, [MEAN] = p->mean, [VAR] = p->var};
    for (int t = 0; t < TENSORS; ++t) {
        made.tensors[t] =
            guard_create(type_of(t, dtype), t < WEIGHT ? p->extent : one_each,
                         (guard_layout)((layout + (t == GY)) % GUARD_LAYOUTS), random);
        if (values[t] != NULL) {
            guard_store(&made.tensors[t], values[t]);
        }
    }
    uf_batch_norm_kernel_args *args = &made.args;
    args->input = made.tensors[X].view;
    args->running_mean = made.tensors[MEAN].view;
    args->running_var = made.tensors[VAR].view;
    if (p->weight != NULL) {
        args->weight = made.tensors[WEIGHT].view;
        args->bias = made.tensors[BIAS].view;
    }
    if (p->training) {
        args->save_mean = made.tensors[SAVE_MEAN].view;
        args->save_invstd = made.tensors[SAVE_INVSTD].view;
    }
    args->eps = p->norm.eps;
    args->momentum = p->norm.momentum;
    args->training = p->training;
    args->activation = p->activation;
    return made;
}

static void accumulate(call *of, const problem *p) {
    double *values = numbers(p->count);
    for (int64_t i = 0; i < p->count; ++i) {
        values[i] = before;
    }
    guard_store(&of->tensors[GX], values);
    guard_store(&of->tensors[GW], values);
    guard_store(&of->tensors[GB], values);
    free(values);
    of->args.grad_input_mode = of->args.grad_param_mode = UF_ACCUMULATE;
}

static void call_close(call *of, const char *label) {
    for (int t = 0; t < TENSORS; ++t) {
        assert_guard_intact(label, &of->tensors[t]);
        guard_destroy(&of->tensors[t]);
    }
}

static void forward(uf_context *context, uf_batch_norm_kernel_args args, const uf_view *output) {
    args.output = *output;
    args.workspace_size = context->kernels->batch_norm_forward_workspace(context, &args);
    guarded scratch = guard_scratch(args.workspace_size);
    args.workspace = scratch.view.data;
    assert_ok(uf_batch_norm_check(&args, false));
    assert_ok(context->kernels->batch_norm_forward(context, &args));
    assert_ok(uf_context_synchronize(context));
    assert_guard_intact("forward's workspace", &scratch);
    guard_destroy(&scratch);
}

static void backward(uf_context *context, uf_batch_norm_kernel_args args, const call *of,
                     const uf_view *grad_output, const uf_view *grad_input, bool has_workspace) {
    args.grad_output = *grad_output;
    args.grad_input = *grad_input;
    args.grad_weight = of->tensors[GW].view;
    args.grad_bias = of->tensors[GB].view;
    args.workspace_size =
        has_workspace ? context->kernels->batch_norm_backward_workspace(context, &args) : 0;
    guarded scratch = guard_scratch(args.workspace_size);
    args.workspace = scratch.view.data;
    assert_ok(uf_batch_norm_check(&args, true));
    assert_ok(context->kernels->batch_norm_backward(context, &args));
    assert_ok(uf_context_synchronize(context));
    assert_guard_intact("backward's workspace", &scratch);
    guard_destroy(&scratch);
}

static double *loaded(const call *of, int tensor, const problem *p) {
    double *values = numbers(tensor < WEIGHT ? p->count : p->channels);
    guard_load(&of->tensors[tensor], values);
    return values;
}

/* An element may be off by `tolerance` of the floor, or of the largest; bf16 by its rounding too.
 */
static void expect(const call *of, int tensor, const problem *p, const double *exact, double floor,
                   double tolerance) {
    const int64_t count = tensor < WEIGHT ? p->count : p->channels;
    const bool adds =
        of->args.grad_input_mode == UF_ACCUMULATE && (tensor == GX || tensor == GW || tensor == GB);
    double *got = loaded(of, tensor, p);
    double *right = numbers(count);
    for (int64_t i = 0; i < count; ++i) {
        right[i] = exact[i] + (adds ? before : 0.0);
        if (of->tensors[tensor].view.dtype == UF_BF16 && isfinite(got[i])) {
            const double off = got[i] - right[i];
            int exponent;
            (void)frexp(right[i], &exponent);
            const double half_ulp = ldexp(1.0, exponent - 9);
            got[i] = right[i] + copysign(fmax(0.0, fabs(off) - half_ulp), off);
        }
    }
    char label[200];
    (void)snprintf(label, sizeof label, "%s, tensor %d", p->label, tensor);
    assert_close(label, compare_values(got, right, count, floor), tolerance);
    free(right);
    free(got);
}

static double tolerance_of(const problem *p, uf_dtype dtype) {
    const double unit = dtype == UF_F64 ? 0x1p-53 : 0x1p-24;
    return 8.0 * unit * sqrt((double)(p->count / p->channels));
}

/* Forward, then backward; everything against the reference. */
static void check_values(uf_context *context, const problem *p, int64_t row, uf_dtype dtype,
                         guard_layout layout) {
    test_random random = test_random_for("batch_norm gaps", row);
    call of = call_open(p, dtype, layout, &random);
    const double tolerance = tolerance_of(p, dtype);
    forward(context, of.args, &of.tensors[Y].view);
    expect(&of, Y, p, p->y, p->y_term, tolerance);
    if (p->training) {
        expect(&of, MEAN, p, p->new_mean, 1.0 + shapes[row].offset, tolerance);
        expect(&of, VAR, p, p->new_var, 1.0, tolerance);
    }
    if (row % 2 == 1) {
        accumulate(&of, p);
    }
    backward(context, of.args, &of, &of.tensors[GY].view, &of.tensors[GX].view, true);
    expect(&of, GX, p, p->gx, p->gx_term, tolerance);
    expect(&of, GB, p, p->gb, p->sum_term, tolerance);
    expect(&of, GW, p, p->gw, p->sum_term, tolerance);
    call_close(&of, p->label);
}

static void expect_same(const call *a, const call *b, int tensor, const problem *p) {
    double *first = loaded(a, tensor, p), *second = loaded(b, tensor, p);
    char label[200];
    (void)snprintf(label, sizeof label, "%s, tensor %d, fused or not", p->label, tensor);
    assert_same_bits(label, first, second,
                     (tensor < WEIGHT ? p->count : p->channels) * (int64_t)sizeof(double));
    free(first);
    free(second);
}

/* Batch norm and activation as two kernels each way, from and into the same layouts. */
static void check_bits(uf_context *context, const problem *p, int64_t row, uf_dtype dtype,
                       guard_layout layout) {
    test_random random = test_random_for("batch_norm gaps", row);
    call fused = call_open(p, dtype, layout, &random);
    call apart = call_open(p, dtype, layout, &random);
    if (row % 2 == 1) {
        accumulate(&fused, p);
        accumulate(&apart, p);
    }
    forward(context, fused.args, &fused.tensors[Y].view);
    backward(context, fused.args, &fused, &fused.tensors[GY].view, &fused.tensors[GX].view, true);
    apart.args.activation.kind = UF_ACTIVATION_IDENTITY;
    forward(context, apart.args, &apart.tensors[Z].view);
    uf_activation_kernel_args act;
    memset(&act, 0, sizeof act);
    act.activation = p->activation;
    act.input = apart.tensors[Z].view;
    act.output = apart.tensors[Y].view;
    assert_ok(context->kernels->activation_forward(context, &act));
    act.grad_output = apart.tensors[GY].view;
    act.grad_input = apart.tensors[G].view;
    assert_ok(context->kernels->activation_backward(context, &act));
    backward(context, apart.args, &apart, &apart.tensors[G].view, &apart.tensors[GX].view, true);
    static const int compared[] = {Y, GX, GW, GB, MEAN, VAR};
    for (int64_t i = 0; i < COUNT_OF(compared); ++i) {
        expect_same(&fused, &apart, compared[i], p);
    }
    /* Without workspace, and with other alignments, the same bits. */
    call bare = call_open(p, dtype, (guard_layout)((layout + 3) % GUARD_LAYOUTS), &random);
    if (row % 2 == 1) {
        accumulate(&bare, p);
    }
    forward(context, bare.args, &bare.tensors[Y].view);
    backward(context, bare.args, &bare, &bare.tensors[GY].view, &bare.tensors[GX].view, false);
    for (int64_t i = 0; i < COUNT_OF(compared); ++i) {
        expect_same(&fused, &bare, compared[i], p);
    }
    call_close(&bare, p->label);
    call_close(&fused, p->label);
    call_close(&apart, p->label);
}

/* The output over the input, grad_input over grad_output. */
static void check_in_place(uf_context *context, const problem *p, int64_t row, uf_dtype dtype,
                           guard_layout layout) {
    test_random random = test_random_for("batch_norm gaps", row);
    call apart = call_open(p, dtype, layout, &random);
    call inside = call_open(p, dtype, layout, &random);
    forward(context, apart.args, &apart.tensors[Y].view);
    backward(context, apart.args, &apart, &apart.tensors[GY].view, &apart.tensors[GX].view, true);
    /* From apart's input, since forward overwrites this one. */
    backward(context, apart.args, &inside, &inside.tensors[GY].view, &inside.tensors[GY].view,
             true);
    forward(context, inside.args, &inside.tensors[X].view);
    static const int compared[][2] = {{X, Y}, {GY, GX}, {GW, GW}, {GB, GB}};
    for (int64_t i = 0; i < COUNT_OF(compared); ++i) {
        const int64_t count = compared[i][0] < WEIGHT ? p->count : p->channels;
        double *got = loaded(&inside, compared[i][0], p);
        double *right = loaded(&apart, compared[i][1], p);
        assert_same_bits(p->label, got, right, count * (int64_t)sizeof(double));
        free(got);
        free(right);
    }
    call_close(&apart, p->label);
    call_close(&inside, p->label);
}

static const uf_dtype dtypes[] = {UF_F32, UF_F64, UF_BF16};

static void each_problem(int64_t types, void (*check)(uf_context *, const problem *, int64_t,
                                                      uf_dtype, guard_layout)) {
    uf_context *context = test_context(2);
    for (int64_t row = 0; row < COUNT_OF(shapes); ++row) {
        for (int kind = 0; kind < KINDS; ++kind) {
            for (int training = 0; training < 2; ++training) {
                for (int64_t t = 0; t < types; ++t) {
                    problem p = problem_of(row, training == 1, kind, dtypes[t]);
                    const int layout = (int)(row + kind + t + training) % GUARD_LAYOUTS;
                    check(context, &p, row, dtypes[t], (guard_layout)layout);
                    check(context, &p, row, dtypes[t], GUARD_NCHW);
                    problem_free(&p);
                }
            }
        }
    }
    uf_context_destroy(context);
}

static void test_values(void **state) {
    (void)state;
    each_problem(COUNT_OF(dtypes), check_values);
}

/* Not in bf16: fused, no gradient between the two kernels is rounded. */
static void test_bits(void **state) {
    (void)state;
    each_problem(2, check_bits);
}

static void test_in_place(void **state) {
    (void)state;
    each_problem(COUNT_OF(dtypes), check_in_place);
}

/* An activation's kind is checked for backward too. */
static void test_refused(void **state) {
    (void)state;
    problem p = problem_of(2, true, 1, UF_F32);
    test_random random = test_random_for("batch_norm gaps", 0);
    call of = call_open(&p, UF_F32, GUARD_NCHW, &random);
    of.args.grad_output = of.tensors[GY].view;
    of.args.activation.kind = UF_ACTIVATION_COUNT;
    assert_error(uf_batch_norm_check(&of.args, true), UF_ERROR_INVALID_ARGUMENT,
                 "batch_norm_backward", "uf_activation_kind");
    of.args.activation.kind = UF_ACTIVATION_RELU;
    of.args.weight.dtype = UF_BF16;
    assert_error(uf_batch_norm_check(&of.args, true), UF_ERROR_INVALID_ARGUMENT,
                 "batch_norm_backward", "weight is bf16", "f32");
    call_close(&of, p.label);
    problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_refused),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
