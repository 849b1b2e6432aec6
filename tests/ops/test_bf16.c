/* test_bf16.c - convolutions of bf16 tensors: every direction, bias gradient included, with every
 * variant, in every layout and both write modes. Sums are f32 of what was stored and rounded once;
 * gradients of parameters are also written as f32. Of other mixed types, the errors. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases/conv_case.h"
#include "ops/bf16_calls.h"
#include "support/compare.h"
#include "support/conv_variants.h"
#include "support/guard.h"

enum { RANDOM_GEOMETRIES = 60, MATHS = UF_MATH_BF16 + 1 };

static void round_all(case_tensor *tensor) {
    for (int64_t i = 0; i < tensor->count; ++i) {
        tensor->values[i] = to_bf16(tensor->values[i]);
    }
}

/* A geometry whose factors are bf16 numbers, with its exact results. */
typedef struct problem {
    bool transposed;
    layer_case one;
    case_tensor grad_output, bias; /* bias: its gradient */
    case_tensor results[DIRECTIONS];
    int64_t reduction[DIRECTIONS]; /* at most so many products make an element */
} problem;

static void problem_solve(problem *p, test_random *random) {
    const ref_conv *conv = &p->one.conv;
    const bool t = p->transposed;
    case_tensor *weight = &p->one.parameters[0];
    const case_tensor *bias = case_parameter(&p->one, "bias");
    assert_string_equal(weight->name, "weight");
    round_all(&p->one.input);
    for (int32_t i = 0; i < p->one.parameter_count; ++i) {
        round_all(&p->one.parameters[i]);
    }
    p->grad_output =
        case_tensor_nchw(conv->batch, conv->out_channels, conv->out_height, conv->out_width);
    test_random_fill(random, p->grad_output.values, p->grad_output.count, 1.0);
    round_all(&p->grad_output);

    (t ? ref_conv_transpose2d_forward
       : ref_conv2d_forward)(conv, p->one.input.values, weight->values,
                             bias != NULL ? bias->values : NULL, p->one.output.values);
    case_activate(&p->one);
    p->results[FORWARD] = p->one.output;
    p->results[BACKWARD_INPUT] = case_tensor_of("", 4, p->one.input.extent);
    (t ? ref_conv_transpose2d_backward_input : ref_conv2d_backward_input)(
        conv, weight->values, p->grad_output.values, p->results[BACKWARD_INPUT].values);
    p->results[BACKWARD_WEIGHT] = case_tensor_of("weight", 4, weight->extent);
    (t ? ref_conv_transpose2d_backward_weight : ref_conv2d_backward_weight)(
        conv, p->one.input.values, p->grad_output.values, p->results[BACKWARD_WEIGHT].values);
    const int64_t channels[4] = {1, conv->out_channels, 1, 1};
    p->bias = case_tensor_of("bias", 4, channels);
    ref_conv_backward_bias(conv, p->grad_output.values, p->bias.values);

    p->reduction[FORWARD] = p->one.reduction;
    p->reduction[BACKWARD_INPUT] =
        conv->out_channels / conv->groups * conv->kernel[0] * conv->kernel[1];
    p->reduction[BACKWARD_WEIGHT] =
        conv->batch * (t ? conv->height * conv->width : conv->out_height * conv->out_width);
}

static void problem_free(problem *p) {
    free(p->grad_output.values);
    free(p->bias.values);
    free(p->results[BACKWARD_INPUT].values);
    free(p->results[BACKWARD_WEIGHT].values);
    case_free(&p->one); /* with the result of FORWARD */
}

/* The rounds of a layer, each a test of its own: with NCHW alone, and with other layouts too. A
 * sanitizer, some hundred times slower, has time for the rows of the table, once each. */
static const char *const rounds[] = {"plain", "layouts", "few"};
enum { PLAIN, LAYOUTS, FEW };
static int round_number = FEW;

static bool plain_layouts = false;

static bool insists_on_layouts(const char *variant) {
    return variant != NULL && strcmp(variant, "wgmma_filter_stationary") == 0;
}

static guard_layout random_layout(test_random *random) {
    return plain_layouts || test_random_one_in(random, 2)
               ? GUARD_NCHW
               : (guard_layout)test_random_integer(random, 1, GUARD_LAYOUTS - 1);
}

static guarded stored(uf_dtype dtype, const case_tensor *tensor, const double *values,
                      test_random *random) {
    int64_t extent[4] = {1, 1, 1, 1};
    if (tensor->rank == 1) {
        extent[1] = tensor->extent[0];
    } else {
        memcpy(extent, tensor->extent, sizeof extent);
    }
    guarded made = guard_create(dtype, extent, random_layout(random), random);
    guard_store(&made, values);
    return made;
}

/* What is written twice, from the same beginning, and both times the same bits. */
typedef struct target {
    guarded memory;
    const case_tensor *exact;
    double *before, *expected, *first, *second;
} target;

static target target_create(uf_dtype dtype, const case_tensor *exact, uf_write_mode mode,
                            test_random *random) {
    const size_t bytes = (size_t)exact->count * sizeof(double);
    target made = {.exact = exact,
                   .before = test_allocate(bytes),
                   .expected = test_allocate(bytes),
                   .first = test_allocate(bytes),
                   .second = test_allocate(bytes)};
    test_random_fill(random, made.before, exact->count, 1.0);
    for (int64_t i = 0; i < exact->count; ++i) {
        made.before[i] = mode == UF_ACCUMULATE ? to_bf16(made.before[i]) : (double)NAN;
        made.expected[i] = exact->values[i] + (mode == UF_ACCUMULATE ? made.before[i] : 0.0);
    }
    made.memory = stored(dtype, exact, made.before, random);
    return made;
}

/* An f32 gradient of bf16 tensors: the sum, or, from some variants on a GPU, the sum rounded to
 * bf16. */
typedef enum rounding { THE_SUM, ROUNDED, EITHER } rounding;

static rounding f32_gradient_of(const char *variant, const ref_conv *conv) {
    static const char *const sums[] = {"wgmma_channel_blocked", "mma_small"};
    /* Where a filter is as large as its stride, and large, channel_blocked may copy tensors. */
    const bool copies = conv->kernel[0] == conv->stride[0] && conv->kernel[1] == conv->stride[1] &&
                        conv->kernel[0] * conv->kernel[1] >= 32;
    if (!test_on_gpu()) {
        return THE_SUM;
    }
    for (int i = 0; variant != NULL && i < (int)COUNT_OF(sums); ++i) {
        if (strcmp(variant, sums[i]) == 0) {
            return i == 0 && copies ? EITHER : THE_SUM;
        }
    }
    return variant == NULL ? EITHER : ROUNDED;
}

static void check_f32(const char *label, const target *one, double tolerance, rounding expected) {
    double size = 0.0;
    for (int64_t i = 0; i < one->exact->count; ++i) {
        size = fmax(size, fabs(one->expected[i]));
    }
    for (int64_t i = 0; i < one->exact->count; ++i) {
        const double exact = one->exact->values[i], off = tolerance * size;
        const double before = one->expected[i] - exact;
        const double found = one->first[i] - before;
        const bool sum = fabs(found - exact) <= 2.0 * off;
        const bool rounded =
            to_bf16(exact - off) - off <= found && found <= to_bf16(exact + off) + off;
        if (!(sum && expected != ROUNDED) && !(rounded && expected != THE_SUM)) {
            fail_msg("%s: element %lld is %.9g; it must be %.9g%s, give or take %.3g", label,
                     (long long)i, found, exact, expected == THE_SUM ? "" : " rounded to bf16",
                     2.0 * off);
        }
    }
}

static void target_check(const char *label, const target *one, int64_t reduction, double slack,
                         rounding f32) {
    const double tolerance = slack * 8.0 * 0x1p-24 * sqrt((double)reduction);
    assert_guard_intact(label, &one->memory);
    assert_same_bits(label, one->second, one->first, one->exact->count * (int64_t)sizeof(double));
    if (one->memory.view.dtype == UF_F32) {
        check_f32(label, one, tolerance, f32);
    } else {
        assert_rounded_once(label, one->first, one->expected, one->exact->count, tolerance);
    }
}

static void target_free(target *one) {
    guard_destroy(&one->memory);
    free(one->before);
    free(one->expected);
    free(one->first);
    free(one->second);
}

static bool check(uf_context *context, const problem *p, direction which, const char *variant,
                  test_random *random) {
    char label[512];
    const bool plain = which != FORWARD || p->one.plain;
    const uf_write_mode mode =
        plain && test_random_one_in(random, 2) ? UF_ACCUMULATE : UF_OVERWRITE;
    const case_tensor *bias = case_parameter(&p->one, "bias");
    const uf_dtype gradient =
        which == BACKWARD_WEIGHT && test_random_one_in(random, 2) ? UF_F32 : UF_BF16;
    guarded input = stored(UF_BF16, &p->one.input, p->one.input.values, random);
    guarded weight = stored(UF_BF16, &p->one.parameters[0], p->one.parameters[0].values, random);
    guarded grad_output = stored(UF_BF16, &p->grad_output, p->grad_output.values, random);
    guarded shift;
    memset(&shift, 0, sizeof shift);
    target written = target_create(gradient, &p->results[which], mode, random);
    target grad_bias = target_create(gradient, &p->bias, mode, random);
    uf_conv2d_args args = uf_conv2d_args_default();
    args.params = conv_case_params(&p->one.conv);
    args.mode = mode;
    args.math = (uf_math)test_random_integer(random, 0, MATHS - 1); /* all the same for bf16 */
    args.variant = variant;
    if (which == FORWARD) {
        args.input = input.view;
        args.weight = weight.view;
        args.output = written.memory.view;
        args.activation = p->one.activation;
        if (bias != NULL) {
            shift = stored(UF_BF16, bias, bias->values, random);
            args.bias = shift.view;
        }
    } else if (which == BACKWARD_INPUT) {
        args.weight = weight.view;
        args.grad_output = grad_output.view;
        args.grad_input = written.memory.view;
    } else {
        args.input = input.view;
        args.grad_output = grad_output.view;
        args.grad_weight = written.memory.view;
        args.grad_bias = grad_bias.memory.view;
    }
    (void)snprintf(label, sizeof label, "%s [%s, bf16 into %s, math %d, %s, variant %s]",
                   p->one.label, direction_names[which], uf_dtype_name(gradient), (int)args.math,
                   mode == UF_ACCUMULATE ? "accumulate" : "overwrite",
                   variant != NULL ? variant : "-");
    const bool taken = call(context, label, p->transposed, which, &args);
    if (taken) {
        guard_load(&written.memory, written.first);
        guard_load(&grad_bias.memory, grad_bias.first);
        guard_store(&written.memory, written.before);
        guard_store(&grad_bias.memory, grad_bias.before);
        assert_true(call(context, label, p->transposed, which, &args));
        guard_load(&written.memory, written.second);
        guard_load(&grad_bias.memory, grad_bias.second);
        const double slack = mode == UF_ACCUMULATE ? 1.5 : 1.0;
        target_check(label, &written, p->reduction[which], slack,
                     f32_gradient_of(variant, &p->one.conv));
        if (which == BACKWARD_WEIGHT) {
            target_check(label, &grad_bias, 1, slack, THE_SUM); /* in f64 */
        }
    }
    assert_guard_intact(label, &input);
    assert_guard_intact(label, &weight);
    assert_guard_intact(label, &grad_output);
    target_free(&written);
    target_free(&grad_bias);
    guard_destroy(&input);
    guard_destroy(&weight);
    guard_destroy(&grad_output);
    guard_destroy(&shift);
    return taken;
}

/* The CPU has few variants and the table's other types: it tries every third problem. */
static bool left_out(int64_t number) {
    return !test_on_gpu() && number % 3 != 0;
}

static void test_results(void **state) {
    const layer_family *family = *state;
    const bool transposed = strcmp(family->name, "conv_transpose2d") == 0;
    const char *variants[CONV_VARIANTS];
    const int64_t variant_count = bf16_variants(CONV_ANY_DIRECTION, variants);
    int64_t taken[CONV_VARIANTS] = {0};
    int64_t wanted = 0;
    uf_context *context = test_context(1);
    const int capability = test_on_gpu() ? conv_capability(context) : 0;
    const bool few = round_number == FEW;
    const int64_t count = family->table_count + (few ? 0 : RANDOM_GEOMETRIES);
    const int64_t first = round_number == LAYOUTS ? count : 0;
    for (int64_t number = first; number < first + count; ++number) {
        if (left_out(number)) {
            continue;
        }
        test_random random = test_random_for("bf16", number);
        problem p;
        memset(&p, 0, sizeof p);
        p.transposed = transposed;
        case_begin(&p.one, family);
        p.one.plain = first > 0; /* in one of the rounds, so that forward accumulates too */
        if (number % count < family->table_count) {
            family->table(number % count, &random, &p.one);
        } else {
            family->random(&random, &p.one);
        }
        problem_solve(&p, &random);
        for (int64_t v = 0; v < variant_count; ++v) {
            for (int which = 0; which < DIRECTIONS && test_variant_wanted(variants[v]); ++which) {
                plain_layouts = round_number == PLAIN || insists_on_layouts(variants[v]) ||
                                (few && number % 2 == 0);
                taken[v] += check(context, &p, (direction)which, variants[v], &random) ? 1 : 0;
            }
        }
        problem_free(&p);
    }
    for (int64_t v = 0; v < variant_count; ++v) {
        print_message("%s: variant %s took %lld of %lld\n", family->name,
                      variants[v] != NULL ? variants[v] : "-", (long long)taken[v],
                      (long long)(count * DIRECTIONS));
        const bool want = test_variant_wanted(variants[v]);
        wanted += want ? 1 : 0;
        const bool runs = !test_on_gpu() || conv_variant_runs(variants[v], capability);
        const bool gathers = variants[v] != NULL && strcmp(variants[v], "gather") == 0;
        /* Dense rows are what some variants take alone. */
        assert_true(round_number != PLAIN || !want || taken[v] > 0 || !runs ||
                    (gathers && !transposed));
    }
    assert_true(wanted > 0);
    uf_context_destroy(context);
}

/* A small convolution, 1x1 of two channels: every tensor (1, 2, 3, 3) but the weight. */
static uf_conv2d_args small(uf_dtype dtype, uf_dtype weight_dtype) {
    static double memory[4][32];
    uf_conv2d_args args = uf_conv2d_args_default();
    args.input = args.grad_input = uf_view_nchw(memory[0], dtype, 1, 2, 3, 3);
    args.output = args.grad_output = uf_view_nchw(memory[1], dtype, 1, 2, 3, 3);
    args.weight = uf_view_nchw(memory[2], weight_dtype, 2, 2, 1, 1);
    args.grad_weight = uf_view_nchw(memory[3], weight_dtype, 2, 2, 1, 1);
    return args;
}

static void test_errors(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    for (int transposed = 0; transposed < 2; ++transposed) {
        const char *name = transposed ? "conv_transpose2d" : "conv2d";
        for (int which = 0; which < DIRECTIONS; ++which) {
            /* The gradient of a weight may be wider than its factors, nothing else. */
            const uf_dtype tensors = which == BACKWARD_WEIGHT ? UF_F32 : UF_BF16;
            uf_conv2d_args args = small(tensors, tensors == UF_BF16 ? UF_F32 : UF_BF16);
            size_t size;
            assert_error(run_functions[transposed][which](context, &args),
                         UF_ERROR_INVALID_ARGUMENT, name, "bf16", "f32");
            args = small(UF_F16, UF_F16);
            assert_error(query_functions[transposed][which](context, &args, &size),
                         UF_ERROR_UNSUPPORTED, name, "f16", "bf16");
        }
        uf_conv2d_args args = small(UF_BF16, UF_F32);
        args.grad_bias = uf_view_nchw(args.grad_output.data, UF_F64, 1, 2, 1, 1);
        assert_error(run_functions[transposed][BACKWARD_WEIGHT](context, &args),
                     UF_ERROR_INVALID_ARGUMENT, name, "grad_bias", "f64");
    }
    uf_context_destroy(context);
}

int main(int argc, char **argv) {
    const int skipped = test_device_or_skip();
    if (skipped != 0) {
        return skipped;
    }
    const char *layer = NULL;
    if (argc == 3) {
        for (int i = 0; i < (int)COUNT_OF(rounds); ++i) {
            if (strcmp(argv[2], rounds[i]) == 0) {
                layer = argv[1];
                round_number = i;
            }
        }
    }
    for (int64_t i = 0; layer != NULL && layer_families[i] != NULL; ++i) {
        if (strcmp(layer_families[i]->name, layer) == 0) {
            struct CMUnitTest one = {.name = layer, .test_func = test_results};
            /* cmocka carries the state as void *; the test casts it back to const. */
            memcpy(&one.initial_state, &layer_families[i], sizeof(void *));
            const struct CMUnitTest tests[] = {one, cmocka_unit_test(test_errors)};
            return cmocka_run_group_tests(tests, NULL, NULL);
        }
    }
    fprintf(stderr, "usage: test_bf16 conv2d|conv_transpose2d plain|layouts|few\n");
    return 2;
}
