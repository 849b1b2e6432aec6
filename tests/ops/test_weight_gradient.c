/* test_weight_gradient.c - backward_weight of both convolutions, every variant of the kernel, in
 * every layout and both write modes, against the plain loops; the same bits for any number of
 * threads. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases/conv_case.h"
#include "support/compare.h"
#include "support/conv_variants.h"
#include "support/guard.h"

enum { THREADS = 3, RANDOM_GEOMETRIES = 120 };

/* A kernel of the device under test. */
typedef struct forced_variant {
    const char *name; /* NULL: the device chooses */
    bool f64, everything;
    int64_t least, taken; /* geometries, at least, and of those that were tried */
} forced_variant;

static const forced_variant cpu_variants[] = {
    {NULL, true, true, 1, 0}, {"dot", true, true, 1, 0}, {"gemm", true, true, 1, 0}};

/* The GPU's variants take what they like, but at least one geometry, unless this says otherwise. */
static const struct {
    const char *name;
    bool everything;
    int64_t least;
} known[] = {{"naive", true, 1},
             {"mma_implicit_gemm", true, 1},
             {"wgmma_channel_blocked", false, 0}, /* BF16 alone */
             /* Not every layer's geometries have one for them. */
             {"simt_gemm", false, 0},
             {"mma_row_stream", false, 0},
             {"mma_stride2_k4", false, 0}};

/* Returns how many there are. */
static int64_t variants_of(uf_context *context, forced_variant made[CONV_VARIANTS]) {
    if (!test_on_gpu()) {
        memcpy(made, cpu_variants, sizeof cpu_variants);
        return COUNT_OF(cpu_variants);
    }
    const char *names[CONV_VARIANTS];
    const int64_t count = conv_variants(UF_CONV_WEIGHTS, UF_CONV_F32 | 1 << UF_F64, names);
    const int capability = conv_capability(context);
    for (int64_t v = 0; v < count; ++v) {
        const bool runs = conv_variant_runs(names[v], capability);
        made[v] = (forced_variant){.name = names[v],
                                   .f64 = conv_variant_has(names[v], UF_CONV_WEIGHTS, 1 << UF_F64),
                                   .everything = names[v] == NULL,
                                   .least = runs ? 1 : 0};
        for (int64_t i = 0; names[v] != NULL && runs && i < COUNT_OF(known); ++i) {
            if (strcmp(names[v], known[i].name) == 0) {
                made[v].everything = known[i].everything;
                made[v].least = known[i].least;
            }
        }
    }
    return count;
}

/* What random geometries seldom are: many pixels, many channels, one pixel per image. */
static const ref_conv table[] = {
    {.batch = 2,
     .in_channels = 3,
     .out_channels = 5,
     .groups = 1,
     .height = 50,
     .width = 60,
     .kernel = {3, 3},
     .stride = {1, 1},
     .padding = {1, 1},
     .dilation = {1, 1}},
    {.batch = 1,
     .in_channels = 600,
     .out_channels = 3,
     .groups = 1,
     .height = 6,
     .width = 8,
     .kernel = {2, 2},
     .stride = {2, 2},
     .dilation = {1, 1}},
    {.batch = 3,
     .in_channels = 16,
     .out_channels = 40,
     .groups = 4,
     .height = 20,
     .width = 12,
     .kernel = {4, 4},
     .stride = {2, 2},
     .padding = {1, 1},
     .dilation = {1, 1}},
    {.batch = 16,
     .in_channels = 30,
     .out_channels = 64,
     .groups = 1,
     .height = 4,
     .width = 4,
     .kernel = {4, 4},
     .stride = {1, 1},
     .dilation = {1, 1}},
    {.batch = 1,
     .in_channels = 7,
     .out_channels = 7,
     .groups = 7,
     .height = 33,
     .width = 65,
     .kernel = {3, 5},
     .stride = {1, 2},
     .padding = {1, 2},
     .dilation = {2, 1}},
    {.batch = 2,
     .in_channels = 16,
     .out_channels = 12,
     .groups = 1,
     .height = 20,
     .width = 66,
     .kernel = {3, 3},
     .stride = {1, 1},
     .dilation = {1, 1}},
    {.batch = 2,
     .in_channels = 32,
     .out_channels = 16,
     .groups = 2,
     .height = 21,
     .width = 190,
     .kernel = {3, 5},
     .stride = {2, 3},
     .padding = {1, 2},
     .dilation = {2, 1}},
    {.batch = 1,
     .in_channels = 8,
     .out_channels = 16,
     .groups = 1,
     .height = 9,
     .width = 144,
     .kernel = {3, 4},
     .stride = {1, 1},
     .padding = {0, 1},
     .dilation = {1, 1}},
    {.batch = 5,
     .in_channels = 64,
     .out_channels = 3,
     .groups = 1,
     .height = 16,
     .width = 32,
     .kernel = {4, 4},
     .stride = {2, 2},
     .padding = {1, 1},
     .dilation = {1, 1}},
    {.batch = 2,
     .in_channels = 37,
     .out_channels = 4,
     .groups = 1,
     .height = 11,
     .width = 72,
     .kernel = {3, 4},
     .stride = {2, 2},
     .padding = {0, 1},
     .dilation = {1, 1}},
    {.batch = 150,
     .in_channels = 3,
     .out_channels = 50,
     .groups = 1,
     .height = 8,
     .width = 16,
     .kernel = {4, 3},
     .stride = {2, 2},
     .padding = {1, 1},
     .dilation = {1, 1}},
};

/* One geometry with its exact result. */
typedef struct gradient {
    bool transposed;
    layer_case one; /* its input and its geometry */
    case_tensor grad_output, grad_weight;
    double tolerance[2]; /* f32, f64 */
} gradient;

static gradient gradient_of(const layer_family *family, int64_t number, test_random *random) {
    gradient made;
    made.transposed = strcmp(family->name, "conv_transpose2d") == 0;
    case_begin(&made.one, family);
    made.one.plain = true;
    if (number < COUNT_OF(table)) {
        const uf_activation none = {UF_ACTIVATION_IDENTITY, 0.0};
        conv_case_fill(&made.one, made.transposed, &table[number], false, none, random);
    } else {
        family->random(random, &made.one);
    }
    const ref_conv *conv = &made.one.conv;
    /* Sums over the pixels of the smaller side; their size is about 1. */
    made.one.reduction = conv->batch * (made.transposed ? conv->height * conv->width
                                                        : conv->out_height * conv->out_width);
    made.grad_output =
        case_tensor_nchw(conv->batch, conv->out_channels, conv->out_height, conv->out_width);
    test_random_fill(random, made.grad_output.values, made.grad_output.count,
                     1.0 / sqrt((double)made.one.reduction));
    made.grad_weight = case_tensor_of("weight", 4, case_parameter(&made.one, "weight")->extent);
    (made.transposed ? ref_conv_transpose2d_backward_weight : ref_conv2d_backward_weight)(
        conv, made.one.input.values, made.grad_output.values, made.grad_weight.values);
    made.tolerance[0] = case_tolerance(&made.one, UF_F32);
    made.tolerance[1] = case_tolerance(&made.one, UF_F64);
    return made;
}

static void gradient_free(gradient *one) {
    free(one->grad_output.values);
    free(one->grad_weight.values);
    case_free(&one->one);
}

static guard_layout random_layout(test_random *random) {
    return test_random_one_in(random, 2)
               ? GUARD_NCHW
               : (guard_layout)test_random_integer(random, 1, GUARD_LAYOUTS - 1);
}

/* Run on every context, with the workspace that it asks for and no more. */
static void check(uf_context *const *contexts, int count, const gradient *g, uf_dtype dtype,
                  forced_variant *forced, test_random *random) {
    const char *variant = forced->name;
    const uf_write_mode mode = test_random_one_in(random, 2) ? UF_ACCUMULATE : UF_OVERWRITE;
    const size_t bytes = (size_t)g->grad_weight.count * sizeof(double);
    double *before = test_allocate(bytes);
    double *expected = test_allocate(bytes);
    double *first = test_allocate(bytes);
    double *result = test_allocate(bytes);
    char label[512];
    bool refused = false;
    test_random_fill(random, before, g->grad_weight.count, 1.0);
    for (int64_t i = 0; i < g->grad_weight.count; ++i) {
        expected[i] = g->grad_weight.values[i] + (mode == UF_ACCUMULATE ? before[i] : 0.0);
    }
    guarded input = guard_create(dtype, g->one.input.extent, random_layout(random), random);
    guarded output = guard_create(dtype, g->grad_output.extent, random_layout(random), random);
    guarded weight = guard_create(dtype, g->grad_weight.extent, random_layout(random), random);
    guard_store(&input, g->one.input.values);
    guard_store(&output, g->grad_output.values);
    (void)snprintf(label, sizeof label, "%s [weight gradient, %s, %s, variant %s]", g->one.label,
                   uf_dtype_name(dtype), mode == UF_ACCUMULATE ? "accumulate" : "overwrite",
                   variant != NULL ? variant : "-");
    for (int i = 0; i < count; ++i) {
        uf_conv2d_args args = uf_conv2d_args_default();
        args.params = conv_case_params(&g->one.conv);
        args.input = input.view;
        args.grad_output = output.view;
        args.grad_weight = weight.view;
        args.mode = mode;
        args.variant = variant;
        guard_store(&weight, before);
        assert_ok((g->transposed ? uf_conv_transpose2d_backward_weight_workspace
                                 : uf_conv2d_backward_weight_workspace)(contexts[i], &args,
                                                                        &args.workspace_size));
        guarded scratch = guard_scratch(args.workspace_size);
        args.workspace = scratch.view.data;
        const uf_status status = (g->transposed ? uf_conv_transpose2d_backward_weight
                                                : uf_conv2d_backward_weight)(contexts[i], &args);
        refused = status == UF_ERROR_UNSUPPORTED && !forced->everything;
        if (refused) {
            guard_destroy(&scratch);
            break;
        }
        assert_ok(status);
        assert_ok(uf_context_synchronize(contexts[i]));
        assert_guard_intact(label, &scratch);
        assert_guard_intact(label, &weight);
        guard_destroy(&scratch);
        guard_load(&weight, i == 0 ? first : result);
        if (i > 0) {
            assert_same_bits(label, result, first, (int64_t)bytes);
        }
    }
    const double slack = mode == UF_ACCUMULATE ? 1.5 : 1.0; /* one more rounding */
    if (!refused) {
        ++forced->taken;
        assert_close(label, compare_values(first, expected, g->grad_weight.count, 1.0),
                     slack * g->tolerance[dtype == UF_F64]);
    }
    guard_destroy(&input);
    guard_destroy(&output);
    guard_destroy(&weight);
    free(before);
    free(expected);
    free(first);
    free(result);
}

static void test_layer(void **state) {
    const layer_family *family = *state;
    if (strcmp(family->name, "conv_transpose2d") != 0 && strcmp(family->name, "conv2d") != 0) {
        skip();
    }
    const int count = test_on_gpu() ? 1 : THREADS;
    uf_context *contexts[THREADS];
    for (int i = 0; i < count; ++i) {
        contexts[i] = test_context(i + 1);
    }
    forced_variant variants[CONV_VARIANTS];
    const int64_t variant_count = variants_of(contexts[0], variants);
    for (int64_t number = 0; number < COUNT_OF(table) + RANDOM_GEOMETRIES; ++number) {
        if (!test_row_wanted(number)) {
            continue;
        }
        test_random random = test_random_for("weight_gradient", number);
        gradient g = gradient_of(family, number, &random);
        for (int64_t v = 0; v < variant_count; ++v) {
            if (!test_variant_wanted(variants[v].name)) {
                continue;
            }
            check(contexts, count, &g, UF_F32, &variants[v], &random);
            if (variants[v].f64) {
                check(contexts, count, &g, UF_F64, &variants[v], &random);
            }
        }
        gradient_free(&g);
    }
    for (int64_t v = 0; v < variant_count; ++v) {
        print_message("%s: variant %s took %lld\n", family->name,
                      variants[v].name != NULL ? variants[v].name : "-",
                      (long long)variants[v].taken);
        assert_true(test_rows_shared() || !test_variant_wanted(variants[v].name) ||
                    variants[v].taken >= variants[v].least);
    }
    for (int i = 0; i < count; ++i) {
        uf_context_destroy(contexts[i]);
    }
}

int main(void) {
    const int skipped = test_device_or_skip();
    return skipped != 0 ? skipped : test_run_families("weight_gradient", test_layer);
}
