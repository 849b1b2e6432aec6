/* test_norm.c - instance, group and layer norm with an activation behind them, forward and
 * backward: against the reference in double, in place, and the same bits wherever tensors begin. */
#include "support/test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "reference/norm.h"
#include "reference/reference.h"
#include "support/compare.h"
#include "support/guard.h"

typedef enum sort { GROUPS, ROWS, CHANNELS } sort;

/* (n, c, pixels) in groups; ROWS: (n, c). Rows of every path: a warp's, a block's, those that are
 * cut into pieces, with and without whole vectors of 16 bytes. */
static const struct {
    sort sort;
    int64_t n, c, pixels, groups;
    bool affine;
    double offset; /* of all elements, in deviations */
} shapes[] = {{GROUPS, 1, 1, 2, 1, true, 0.0},       {GROUPS, 2, 3, 35, 3, true, 0.5},
              {GROUPS, 3, 2, 64, 2, true, 0.0},      {GROUPS, 2, 2, 4096, 2, false, 3.0},
              {GROUPS, 2, 1, 20000, 1, true, 100.0}, {GROUPS, 1, 3, 9151, 3, true, 0.0},
              {GROUPS, 2, 9, 35, 3, true, 0.0},      {GROUPS, 2, 8, 256, 2, true, 10.0},
              {GROUPS, 1, 6, 4096, 2, true, 0.0},    {GROUPS, 2, 3, 3333, 1, false, 0.0},
              {GROUPS, 2, 10, 12, 2, true, 0.5},     {GROUPS, 7, 10, 1, 2, true, 0.0},
              {ROWS, 5, 7, 1, 1, true, 0.0},         {ROWS, 300, 64, 1, 1, true, 0.5},
              {ROWS, 3, 2000, 1, 1, true, 3.0},      {ROWS, 2, 9008, 1, 1, true, 0.0},
              {ROWS, 700, 24, 1, 1, true, 0.0},      {ROWS, 9, 1, 1, 1, true, 0.0},
              {CHANNELS, 2, 7, 15, 1, true, 0.0},    {CHANNELS, 1, 300, 40, 1, true, 10.0},
              {CHANNELS, 3, 64, 33, 1, false, 0.5},  {CHANNELS, 2, 2, 5, 1, true, 0.0},
              {CHANNELS, 1, 17, 600, 1, true, 100.0}};

/* Of these every one takes any number; none makes a rounding error much larger. */
enum { KINDS = UF_ACTIVATION_SQUARE };

typedef struct problem {
    char label[160];
    uf_norm_layout layout;
    uf_activation activation;
    ref_norm norm;
    bool tracks; /* running statistics */
    double *x, *gy, *weight, *bias, *mean, *var;
    double *y, *gx, *gw, *gb, *new_mean, *new_var; /* the reference's */
    double y_term, gx_term, sum_term, mean_term, var_term;
} problem;

static const double momentum = 0.25;

static double *numbers(int64_t count) {
    return test_allocate((size_t)count * sizeof(double));
}

/* ---- what must come out ---- */

/* Mean and biased variance of each statistic. */
static void find_statistics(const problem *p, double *mean, double *var) {
    const double size = (double)p->layout.size;
    memset(mean, 0, (size_t)p->norm.statistics * sizeof *mean);
    memset(var, 0, (size_t)p->norm.statistics * sizeof *var);
    for (int64_t e = 0; e < p->norm.count; ++e) {
        mean[p->norm.statistic[e]] += p->x[e] / size;
    }
    for (int64_t e = 0; e < p->norm.count; ++e) {
        const double distance = p->x[e] - mean[p->norm.statistic[e]];
        var[p->norm.statistic[e]] += distance * distance / size;
    }
}

static double largest(const double *values, int64_t count, double absent) {
    double most = values == NULL ? absent : 0.0;
    for (int64_t i = 0; values != NULL && i < count; ++i) {
        most = fmax(most, fabs(values[i]));
    }
    return most;
}

/* Results in which much cancels are measured by their terms, of which these are the largest. */
static void find_terms(problem *p, const double *mean, const double *var) {
    const double weight = largest(p->weight, p->norm.parameters, 1.0);
    const double bias = largest(p->bias, p->norm.parameters, 0.0);
    const double x = largest(p->x, p->norm.count, 0.0), g = largest(p->gy, p->norm.count, 0.0);
    const double shared = (double)(p->norm.count / p->norm.parameters);
    for (int64_t s = 0; s < p->norm.statistics; ++s) {
        const double invstd = 1.0 / sqrt(var[s] + p->norm.eps);
        /* Where statistics have few elements the kernels compute in f64. */
        const double x_hat = p->layout.size > 16 ? (x + fabs(mean[s])) * invstd : 4.0;
        const double z = weight * x_hat + bias;
        const double derived = g * (1.0 + z); /* z's error goes on into TANH's derivative */
        p->y_term = fmax(p->y_term, z);
        p->gx_term = fmax(p->gx_term, weight * invstd * derived * 2.0);
        p->sum_term = fmax(p->sum_term, sqrt(shared) * derived * fmax(x_hat, 1.0));
        p->mean_term = fmax(p->mean_term, x);
        p->var_term = fmax(p->var_term, 2.0 * var[s]);
    }
}

static void solve_running(problem *p, const double *mean, const double *var) {
    const int64_t groups = p->layout.groups, images = p->layout.outer / groups;
    const double unbias = (double)p->layout.size / (double)(p->layout.size - 1);
    for (int64_t c = 0; c < groups; ++c) {
        double sums[2] = {0.0, 0.0};
        for (int64_t o = c; o < p->layout.outer; o += groups) {
            sums[0] += mean[o] / (double)images;
            sums[1] += var[o] * unbias / (double)images;
        }
        p->new_mean[c] = (1.0 - momentum) * p->mean[c] + momentum * sums[0];
        p->new_var[c] = (1.0 - momentum) * p->var[c] + momentum * sums[1];
    }
}

static void solve(problem *p) {
    const ref_activation kind = (ref_activation)p->activation.kind;
    const double slope = p->activation.parameter;
    const int64_t count = p->norm.count;
    double *z = numbers(count), *g = numbers(count);
    double *mean = numbers(p->norm.statistics), *var = numbers(p->norm.statistics);
    ref_norm_forward(&p->norm, p->x, p->weight, p->bias, z);
    for (int64_t e = 0; e < count; ++e) { /* rounding may carry z over a kink */
        p->gy[e] = fabs(z[e]) < 1e-3 ? 0.0 : p->gy[e];
    }
    ref_activation_forward(kind, slope, count, z, p->y);
    ref_activation_backward(kind, slope, count, z, p->gy, g);
    ref_norm_backward(&p->norm, p->x, p->weight, g, p->gx, p->gw, p->gb);
    find_statistics(p, mean, var);
    find_terms(p, mean, var);
    if (p->tracks) {
        solve_running(p, mean, var);
    }
    free(z);
    free(g);
    free(mean);
    free(var);
}

/* ---- problems ---- */

static void lay_out(problem *p, int64_t row) {
    const int64_t n = shapes[row].n, c = shapes[row].c, pixels = shapes[row].pixels;
    const int64_t groups = shapes[row].groups;
    switch (shapes[row].sort) {
    case GROUPS:
        p->norm = ref_norm_groups(n, c, pixels, groups);
        p->layout = (uf_norm_layout){n * groups, c / groups * pixels, 1, groups, pixels};
        break;
    case ROWS:
        p->norm = ref_norm_rows(n, c);
        p->layout = (uf_norm_layout){n, c, 1, 1, 1};
        break;
    case CHANNELS:
        p->norm = ref_norm_channels(n, c, pixels);
        p->layout = (uf_norm_layout){n, c, pixels, 1, 1};
        break;
    }
    p->tracks = p->layout.inner == 1 && p->layout.size > 1;
}

/* Numbers of x and gy are exact in `dtype`. */
static problem problem_of(int64_t row, int kind, uf_dtype dtype) {
    problem p;
    memset(&p, 0, sizeof p);
    lay_out(&p, row);
    p.activation = (uf_activation){(uf_activation_kind)kind, row % 2 == 0 ? 0.25 : -0.5};
    test_random random = test_random_for("norm", row * 100 + kind);
    double **const of_tensor[] = {&p.x, &p.gy, &p.y, &p.gx};
    for (int64_t i = 0; i < COUNT_OF(of_tensor); ++i) {
        *of_tensor[i] = numbers(p.norm.count);
        test_random_fill(&random, *of_tensor[i], p.norm.count, 1.0);
    }
    for (int64_t e = 0; e < p.norm.count; ++e) {
        p.x[e] = (double)(float)(p.x[e] + shapes[row].offset);
        if (dtype == UF_BF16) {
            uint16_t rounded[2];
            uf_convert(&rounded[0], UF_BF16, &p.x[e], UF_F64, 1);
            uf_convert(&rounded[1], UF_BF16, &p.gy[e], UF_F64, 1);
            uf_convert(&p.x[e], UF_F64, &rounded[0], UF_BF16, 1);
            uf_convert(&p.gy[e], UF_F64, &rounded[1], UF_BF16, 1);
        }
    }
    double **const of_parameter[] = {&p.gw, &p.gb, &p.weight, &p.bias};
    for (int i = 0; i < (shapes[row].affine ? 4 : 2); ++i) {
        *of_parameter[i] = numbers(p.norm.parameters);
        test_random_fill(&random, *of_parameter[i], p.norm.parameters, 1.0);
    }
    double **const of_group[] = {&p.mean, &p.var, &p.new_mean, &p.new_var};
    for (int64_t i = 0; i < COUNT_OF(of_group); ++i) {
        *of_group[i] = numbers(p.layout.groups);
        test_random_fill(&random, *of_group[i], p.layout.groups, 1.0);
    }
    (void)snprintf(p.label, sizeof p.label,
                   "(%" PRId64 ", %" PRId64 ", %" PRId64 "), %" PRId64 " groups, runs of %" PRId64
                   "%s, %s, activation %d",
                   p.layout.outer, p.layout.size, p.layout.inner, p.layout.groups, p.layout.run,
                   shapes[row].affine ? ", affine" : "", uf_dtype_name(dtype), kind);
    solve(&p);
    return p;
}

static void problem_free(problem *p) {
    double *const all[] = {p->x, p->gy, p->weight, p->bias, p->mean,     p->var,
                           p->y, p->gx, p->gw,     p->gb,   p->new_mean, p->new_var};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
        free(all[i]);
    }
    ref_norm_free(&p->norm);
}

/* ---- the same in guarded memory ---- */

enum { X, GY, Y, GX, WEIGHT, BIAS, GW, GB, MEAN, VAR, SAVE_MEAN, SAVE_INVSTD, TENSORS };

typedef struct call {
    guarded tensors[TENSORS];
    uf_norm_kernel_args args;
} call;

static int64_t count_of(const problem *p, int tensor) {
    return tensor < WEIGHT ? p->norm.count
           : tensor < MEAN ? p->norm.parameters
                           : (tensor < SAVE_MEAN ? p->layout.groups : p->norm.statistics);
}

/* Parameters and running statistics of bf16 tensors are f32, saved statistics are f64. */
static uf_dtype type_of(int tensor, uf_dtype dtype) {
    return tensor >= SAVE_MEAN ? UF_F64 : tensor >= WEIGHT && dtype == UF_BF16 ? UF_F32 : dtype;
}

static const double before = 0.5; /* in the gradients, of a call that accumulates */

/* Bit t of `shifted`: tensor t begins one element past a multiple of 256 bytes. */
static call call_open(const problem *p, uf_dtype dtype, unsigned shifted, bool accumulates) {
    call made;
    memset(&made, 0, sizeof made);
    const double *const values[TENSORS] = {[X] = p->x,       [GY] = p->gy,     [WEIGHT] = p->weight,
                                           [BIAS] = p->bias, [MEAN] = p->mean, [VAR] = p->var};
    for (int t = 0; t < TENSORS; ++t) {
        const int64_t extent[4] = {1, count_of(p, t), 1, 1};
        made.tensors[t] = guard_create(type_of(t, dtype), extent,
                                       (shifted >> t & 1) != 0 ? GUARD_SHIFTED : GUARD_NCHW, NULL);
        if (values[t] != NULL) {
            guard_store(&made.tensors[t], values[t]);
        } else if (accumulates && (t == GX || t == GW || t == GB)) {
            double *filled = numbers(extent[1]);
            for (int64_t i = 0; i < extent[1]; ++i) {
                filled[i] = before;
            }
            guard_store(&made.tensors[t], filled);
            free(filled);
        }
    }
    uf_norm_kernel_args *args = &made.args;
    args->layout = p->layout;
    args->input = made.tensors[X].view;
    args->save_mean = made.tensors[SAVE_MEAN].view;
    args->save_invstd = made.tensors[SAVE_INVSTD].view;
    if (p->weight != NULL) {
        args->weight = made.tensors[WEIGHT].view;
        args->bias = made.tensors[BIAS].view;
    }
    args->eps = p->norm.eps;
    args->momentum = momentum;
    args->activation = p->activation;
    args->grad_input_mode = args->grad_weight_mode = args->grad_bias_mode =
        accumulates ? UF_ACCUMULATE : UF_OVERWRITE;
    return made;
}

static void call_close(call *of, const char *label) {
    for (int t = 0; t < TENSORS; ++t) {
        assert_guard_intact(label, &of->tensors[t]);
        guard_destroy(&of->tensors[t]);
    }
}

static void forward(uf_context *context, const problem *p, call *of, int output) {
    uf_norm_kernel_args args = of->args;
    args.output = of->tensors[output].view;
    if (p->tracks) {
        args.running_mean = of->tensors[MEAN].view;
        args.running_var = of->tensors[VAR].view;
    }
    args.workspace_size = context->kernels->norm_forward_workspace(context, &args);
    guarded scratch = guard_scratch(args.workspace_size);
    args.workspace = scratch.view.data;
    assert_ok(uf_norm_check(&args, false));
    assert_ok(context->kernels->norm_forward(context, &args));
    assert_ok(uf_context_synchronize(context));
    assert_guard_intact("forward's workspace", &scratch);
    guard_destroy(&scratch);
}

static void backward(uf_context *context, call *of, int grad_input) {
    uf_norm_kernel_args args = of->args;
    args.grad_output = of->tensors[GY].view;
    args.grad_input = of->tensors[grad_input].view;
    args.grad_weight = of->tensors[GW].view;
    args.grad_bias = of->tensors[GB].view;
    args.workspace_size = context->kernels->norm_backward_workspace(context, &args);
    guarded scratch = guard_scratch(args.workspace_size);
    args.workspace = scratch.view.data;
    assert_ok(uf_norm_check(&args, true));
    assert_ok(context->kernels->norm_backward(context, &args));
    assert_ok(uf_context_synchronize(context));
    assert_guard_intact("backward's workspace", &scratch);
    guard_destroy(&scratch);
}

static double *loaded(const call *of, int tensor, const problem *p) {
    double *values = numbers(count_of(p, tensor));
    guard_load(&of->tensors[tensor], values);
    return values;
}

/* An element may be off by the tolerance of the floor, or of the largest; bf16 by its rounding too.
 */
static void expect(const call *of, int tensor, const problem *p, const double *exact, double floor,
                   uf_dtype dtype) {
    const double unit = dtype == UF_F64 ? 0x1p-53 : 0x1p-24;
    const double tolerance = 8.0 * unit * sqrt((double)p->layout.size);
    const int64_t count = count_of(p, tensor);
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

static void check_values(uf_context *const *contexts, const problem *p, int64_t row, int kind,
                         uf_dtype dtype) {
    call of = call_open(p, dtype, kind % 2 == 0 ? 0 : 0x5a5, (row + kind) % 3 == 0);
    forward(contexts[0], p, &of, Y);
    expect(&of, Y, p, p->y, p->y_term, dtype);
    if (p->tracks) {
        expect(&of, MEAN, p, p->new_mean, p->mean_term, dtype);
        expect(&of, VAR, p, p->new_var, p->var_term, dtype);
    }
    backward(contexts[0], &of, GX);
    expect(&of, GX, p, p->gx, p->gx_term, dtype);
    expect(&of, GB, p, p->gb, p->sum_term, dtype);
    expect(&of, GW, p, p->gw, p->sum_term, dtype);
    call_close(&of, p->label);
}

static void expect_same(const call *a, int in_a, const call *b, int in_b, const problem *p) {
    double *first = loaded(a, in_a, p), *second = loaded(b, in_b, p);
    char label[200];
    (void)snprintf(label, sizeof label, "%s, tensors %d and %d", p->label, in_a, in_b);
    assert_same_bits(label, first, second, count_of(p, in_a) * (int64_t)sizeof(double));
    free(first);
    free(second);
}

/* The output over the input, grad_input over grad_output, with another number of threads. */
static void check_in_place(uf_context *const *contexts, const problem *p, int64_t row, int kind,
                           uf_dtype dtype) {
    call apart = call_open(p, dtype, kind % 2 == 0 ? 0 : 0xfff, false);
    call inside = call_open(p, dtype, kind % 2 == 0 ? 0 : 0xfff, false);
    (void)row;
    forward(contexts[0], p, &apart, Y);
    backward(contexts[0], &apart, GX);
    inside.args.save_mean = apart.args.save_mean;
    inside.args.save_invstd = apart.args.save_invstd;
    backward(contexts[1], &inside, GY); /* first, since forward overwrites the input */
    inside.args.save_mean = inside.tensors[SAVE_MEAN].view;
    inside.args.save_invstd = inside.tensors[SAVE_INVSTD].view;
    forward(contexts[1], p, &inside, X);
    static const int compared[][2] = {{X, Y},
                                      {GY, GX},
                                      {GW, GW},
                                      {GB, GB},
                                      {MEAN, MEAN},
                                      {VAR, VAR},
                                      {SAVE_MEAN, SAVE_MEAN},
                                      {SAVE_INVSTD, SAVE_INVSTD}};
    for (int64_t i = 0; i < COUNT_OF(compared); ++i) {
        expect_same(&inside, compared[i][0], &apart, compared[i][1], p);
    }
    call_close(&apart, p->label);
    call_close(&inside, p->label);
}

static void each_problem(void (*check)(uf_context *const *, const problem *, int64_t, int,
                                       uf_dtype)) {
    static const uf_dtype dtypes[] = {UF_F32, UF_F64, UF_BF16};
    uf_context *const contexts[2] = {test_context(2), test_context(5)};
    for (int64_t row = 0; row < COUNT_OF(shapes); ++row) {
        for (int kind = 0; kind < KINDS; ++kind) {
            for (int64_t t = 0; t < COUNT_OF(dtypes); ++t) {
                problem p = problem_of(row, kind, dtypes[t]);
                check(contexts, &p, row, kind, dtypes[t]);
                problem_free(&p);
            }
        }
    }
    uf_context_destroy(contexts[0]);
    uf_context_destroy(contexts[1]);
}

static void test_values(void **state) {
    (void)state;
    each_problem(check_values);
}

static void test_in_place(void **state) {
    (void)state;
    each_problem(check_in_place);
}

/* ---- tensors without elements, and what is refused ---- */

/* No image: gradients of parameters are 0, or stay. */
static void test_empty(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    for (int64_t row = 0; row < COUNT_OF(shapes); ++row) {
        problem p = problem_of(row, 0, UF_F32);
        call of = call_open(&p, UF_F32, 0, row % 2 == 1);
        p.layout.outer = of.args.layout.outer = 0;
        p.tracks = false;
        const int empty[] = {X, GY, Y, GX, SAVE_MEAN, SAVE_INVSTD};
        for (int64_t i = 0; i < COUNT_OF(empty); ++i) {
            of.tensors[empty[i]].view.extent[1] = 0;
        }
        of.args.input = of.tensors[X].view;
        of.args.save_mean = of.tensors[SAVE_MEAN].view;
        of.args.save_invstd = of.tensors[SAVE_INVSTD].view;
        forward(context, &p, &of, Y);
        backward(context, &of, GX);
        for (int t = GW; t <= GB; ++t) {
            double *got = loaded(&of, t, &p);
            for (int64_t i = 0; i < p.norm.parameters; ++i) {
                assert_true(got[i] == (row % 2 == 1 ? before : 0.0));
            }
            free(got);
        }
        for (int t = 0; t < TENSORS; ++t) {
            guard_destroy(&of.tensors[t]);
        }
        problem_free(&p);
    }
    uf_context_destroy(context);
}

static void test_refused(void **state) {
    (void)state;
    problem p = problem_of(6, 1, UF_F32);
    call of = call_open(&p, UF_F32, 0, false);
    const uf_norm_kernel_args good = of.args;
    uf_norm_kernel_args args = good;
    assert_error(uf_norm_check(&args, false), UF_ERROR_INVALID_ARGUMENT, "norm_forward", "output",
                 "missing");
    args.output = of.tensors[Y].view;
    args.layout.groups = 4;
    assert_error(uf_norm_check(&args, false), UF_ERROR_INVALID_ARGUMENT, "4 groups", "outer 6");
    args = good;
    args.layout.inner = 5;
    assert_error(uf_norm_check(&args, false), UF_ERROR_INVALID_ARGUMENT, "inner 5", "35");
    args = good;
    args.grad_output = of.tensors[GY].view;
    args.activation.kind = UF_ACTIVATION_COUNT;
    assert_error(uf_norm_check(&args, true), UF_ERROR_INVALID_ARGUMENT, "norm_backward",
                 "uf_activation_kind");
    args.activation.kind = UF_ACTIVATION_RELU;
    args.weight.dtype = UF_BF16;
    assert_error(uf_norm_check(&args, true), UF_ERROR_INVALID_ARGUMENT, "norm_backward",
                 "weight is bf16", "f32");
    args = good;
    args.grad_output = of.tensors[GY].view;
    args.running_mean = of.tensors[MEAN].view;
    assert_error(uf_norm_check(&args, true), UF_ERROR_INVALID_ARGUMENT, "running_var");
    call_close(&of, p.label);
    problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_refused),
    };
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
