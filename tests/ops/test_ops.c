/* test_ops.c - every layer through ops.h: PyTorch's results, the shape tables in every layout, both
 * write modes and every kernel variant. Which of these runs is the first argument: pytorch, table,
 * variants. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/conv_variants.h"
#include "support/ops_door.h"

/* A convolution variant of the device under test, as it concerns one layer. */
typedef struct forced_variant {
    const char *name;
    int64_t types; /* of f32 and f64, how many it takes at all */
    int64_t least; /* rows of the table in 100 that it takes; 0: one row */
} forced_variant;

static const forced_variant cpu_variants[] = {
    {"gemm", 2, 100}, {"gather", 2, 100}, {"direct", 2, 100}};

/* Variants of a GPU that take most rows, or a part that has to stay. */
static const struct {
    const char *name;
    int64_t least;
} floors[] = {{"naive", 100},        {"mma_implicit_gemm", 100}, {"wgmma_implicit_gemm", 75},
              {"simt_direct", 75},   {"mma_im2col", 20},         {"mma_small", 75},
              {"space_to_depth", 20}};

static int64_t floor_of(const char *name) {
    for (int64_t i = 0; i < COUNT_OF(floors); ++i) {
        if (strcmp(floors[i].name, name) == 0) {
            return floors[i].least;
        }
    }
    return 0;
}

/* Returns how many there are. */
static int64_t variants_of(uf_context *context, const layer_family *family,
                           forced_variant made[CONV_VARIANTS]) {
    const bool transposed = strcmp(family->name, "conv_transpose2d") == 0;
    const unsigned direction = transposed ? UF_CONV_DATA : UF_CONV_FORWARD;
    if (!test_on_gpu()) {
        memcpy(made, cpu_variants, sizeof cpu_variants);
        made[1].types = transposed ? 2 : 0; /* gather */
        return COUNT_OF(cpu_variants);
    }
    const char *names[CONV_VARIANTS];
    const int64_t count = conv_variants(UF_CONV_CORRELATE, UF_CONV_F32 | 1 << UF_F64, names) - 1;
    const int capability = conv_capability(context);
    for (int64_t v = 0; v < count; ++v) {
        const char *name = names[v + 1];
        made[v] = (forced_variant){.name = name, .least = floor_of(name)};
        if (conv_variant_runs(name, capability)) {
            made[v].types = conv_variant_has(name, direction, UF_CONV_F32) +
                            conv_variant_has(name, direction, 1 << UF_F64);
        }
    }
    return count;
}

static const uf_dtype dtypes[] = {UF_F64, UF_F32};

static const layer_family *family_of(void **state) {
    return *state;
}

static void test_pytorch(void **state) {
    const layer_family *family = family_of(state);
    if (family->pytorch == NULL || family->ops == NULL) {
        skip();
    }
    uf_context *context = test_context(2);
    const h5_file file = h5_open(test_data_path("ops_open.h5"));
    const int64_t count = h5_count(file, family->pytorch);
    int64_t ran = 0;
    for (int64_t i = 0; i < count; ++i) {
        char path[256];
        h5_child(file, family->pytorch, i, path, (int64_t)sizeof path);
        layer_case one;
        case_begin(&one, family);
        if (family->load(file, path, &one)) {
            const ops_run f64 = {.dtype = UF_F64};
            const ops_run f32 = {.dtype = UF_F32};
            ops_door_check(context, &one, &f64, 1e-12, 0.0);
            ops_door_check(context, &one, &f32, 1e-5, 0.0);
            ++ran;
        }
        case_free(&one);
    }
    print_message("%s: %lld of %lld cases\n", family->pytorch, (long long)ran, (long long)count);
    assert_true(ran > 0);
    h5_close(file);
    uf_context_destroy(context);
}

static void check_layouts(uf_context *context, const layer_case *one, test_random *random) {
    for (int64_t t = 0; t < COUNT_OF(dtypes); ++t) {
        for (int layout = 0; layout < GUARD_LAYOUTS; ++layout) {
            ops_run run = {.dtype = dtypes[t],
                           .input = (guard_layout)layout,
                           .output = (guard_layout)((layout + 1) % GUARD_LAYOUTS),
                           .parameters = (guard_layout)layout,
                           .random = random};
            const double tolerance = case_tolerance(one, run.dtype);
            ops_door_check(context, one, &run, tolerance, one->size);
            run.output = (guard_layout)layout;
            ops_door_check(context, one, &run, tolerance, one->size);
            if (one->plain) {
                run.mode = UF_ACCUMULATE;
                /* One more rounding, of the sum with what is there. */
                ops_door_check(context, one, &run, 1.5 * tolerance, one->size);
            }
        }
    }
}

static void test_table(void **state) {
    const layer_family *family = family_of(state);
    if (family->ops == NULL) {
        skip(); /* a layer that only a graph has */
    }
    uf_context *context = test_context(2);
    assert_true(family->table_count > 0);
    for (int64_t row = 0; row < family->table_count; ++row) {
        test_random random = test_random_for(family->name, row);
        layer_case one;
        case_begin(&one, family);
        family->table(row, &random, &one);
        check_layouts(context, &one, &random);
        if (family->accumulates) {
            /* The same row again without bias and activation, and with accumulation. */
            layer_case plain;
            case_begin(&plain, family);
            plain.plain = true;
            family->table(row, &random, &plain);
            check_layouts(context, &plain, &random);
            case_free(&plain);
        }
        case_free(&one);
    }
    uf_context_destroy(context);
}

static void test_variants(void **state) {
    static const struct {
        guard_layout input, output;
    } layouts[] = {
        {GUARD_NCHW, GUARD_NCHW}, {GUARD_SHIFTED, GUARD_SHIFTED}, {GUARD_NHWC, GUARD_TRANSPOSED}};
    const layer_family *family = family_of(state);
    if (!family->variants) {
        skip();
    }
    uf_context *context = test_context(2);
    forced_variant variants[CONV_VARIANTS];
    const int64_t variant_count = variants_of(context, family, variants);
    int64_t wanted = 0;
    for (int64_t v = 0; v < variant_count; ++v) {
        int64_t taken = 0;
        if (!test_variant_wanted(variants[v].name)) {
            continue;
        }
        ++wanted;
        for (int64_t row = 0; row < family->table_count; ++row) {
            if (!test_row_wanted(row)) {
                continue;
            }
            test_random random = test_random_for(family->name, row);
            layer_case one;
            case_begin(&one, family);
            family->table(row, &random, &one);
            double *result = test_allocate((size_t)one.output.count * sizeof *result);
            for (int64_t t = 0; t < COUNT_OF(dtypes); ++t) {
                ops_run run = {.dtype = dtypes[t], .variant = variants[v].name, .random = &random};
                const uf_status status = ops_door_try(context, &one, &run, result, result);
                if (status == UF_ERROR_UNSUPPORTED) {
                    assert_non_null(strstr(uf_last_error(), variants[v].name));
                    continue;
                }
                /* Wide copies have others to fall back on where a tensor begins anywhere, and
                 * kernels that want dense rows leave others to those that do not. */
                for (int64_t l = 0; l < COUNT_OF(layouts); ++l) {
                    run.input = run.parameters = layouts[l].input;
                    run.output = layouts[l].output;
                    if (l == 0 || ops_door_try(context, &one, &run, result, result) == UF_OK) {
                        ops_door_check(context, &one, &run, case_tolerance(&one, run.dtype),
                                       one.size);
                    }
                }
                ++taken;
            }
            free(result);
            case_free(&one);
        }
        print_message("%s: variant %s took %lld of %lld rows in two types\n", family->name,
                      variants[v].name, (long long)taken, (long long)family->table_count);
        const int64_t most = variants[v].types * family->table_count;
        assert_true(taken <= most);
        assert_true(test_rows_shared() || most == 0 ||
                    (taken > 0 && 100 * taken >= variants[v].least * most));
    }
    assert_true(wanted > 0);
    uf_context_destroy(context);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*test)(void **state);
    } modes[] = {{"pytorch", test_pytorch}, {"table", test_table}, {"variants", test_variants}};
    const int skipped = test_device_or_skip();
    if (skipped != 0) {
        return skipped;
    }
    for (int64_t m = 0; argc == 2 && m < COUNT_OF(modes); ++m) {
        if (strcmp(argv[1], modes[m].name) == 0) {
            return test_run_families(modes[m].name, modes[m].test);
        }
    }
    fprintf(stderr, "usage: test_ops pytorch|table|variants\n");
    return 2;
}
