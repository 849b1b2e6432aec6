/* test_regret.c - what the choice of variants loses against the best of all, by the committed
 * matrices of measurements, and that the rates are what the fitter makes of them: needs no GPU.
 * Arguments: gpu_h200.def, the matrices. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "fit.h"
#include "kernels/cuda/conv/select/choose.h"

enum { MATRICES = 2 }; /* single layers; the layers of whole models */
static bench_matrix *matrices[MATRICES];
static bench_rates rates; /* of the build */
static bench_costs *costs;
static const char *def_path;

/* Bounds are a little above the values at the commit of the rates: a change of a plan, a cost or a
 * rate that chooses worse is seen without a GPU. */
static const struct {
    const char *name;
    int matrix, arithmetic;
    double mean, worst; /* at most, in per cent */
    int64_t cells;
} kinds[] = {
    {"single layers, f32 in FP32", 0, UF_CONV_RATE_FP32, 0.5, 23.0, 228},
    {"single layers, f32 in TF32", 0, UF_CONV_RATE_TF32, 0.6, 30.0, 228},
    {"single layers, bf16", 0, UF_CONV_RATE_BF16, 0.3, 20.0, 228},
    {"models, f32 in TF32", 1, UF_CONV_RATE_TF32, 2.6, 70.0, 204},
    {"models, bf16", 1, UF_CONV_RATE_BF16, 3.1, 96.0, 204},
};

enum { MOST_UNKNOWN = 20 }; /* one in so many choices may be a plan that nobody timed */

static void test_regret(void **state) {
    (void)state;
    print_message("%lld rows of plans that there are no longer, %lld plans that were not timed\n",
                  (long long)costs->gone, (long long)costs->changed);
    for (int64_t k = 0; k < COUNT_OF(kinds); ++k) {
        const bench_regret all =
            bench_regret_of(costs, kinds[k].arithmetic, kinds[k].matrix, NULL, &rates);
        assert_non_null(all.worst_row);
        print_message("%-26s %lld cells: regret %.2f %%, worst %.1f %% (%s, %s)\n", kinds[k].name,
                      (long long)all.cells, 100.0 * all.mean, 100.0 * all.worst,
                      all.worst_row->shape.name, bench_op_names[all.worst_row->op]);
        assert_int_equal(all.cells + all.unknown, kinds[k].cells);
        assert_true(all.unknown <= kinds[k].cells / MOST_UNKNOWN);
        assert_true(100.0 * all.mean <= kinds[k].mean);
        assert_true(100.0 * all.worst <= kinds[k].worst);
    }
}

/* A layer does not pay for the mean: against the choice of the matrix' day no cell loses more than
 * 3 %. */
static void test_no_cell_is_worse(void **state) {
    (void)state;
    for (int64_t i = 0; i < costs->choice_count; ++i) {
        const bench_choice *const choice = &costs->choices[i];
        bool known;
        const bench_candidate *const chosen = bench_costs_chosen(costs, choice, &rates, &known);
        assert_non_null(chosen);
        assert_true(choice->was > 0.0);
        if (known && !(chosen->us <= 1.03 * choice->was)) {
            fail_msg("%s, %s: %s takes %.1f us, the choice before %.1f us", chosen->row->shape.name,
                     bench_op_names[chosen->row->op], chosen->row->variant, chosen->us,
                     choice->was);
        }
    }
}

/* The fitter's estimates are the library's: both choose the same. */
static void test_choice_is_the_librarys(void **state) {
    static const uf_conv_direction direction_of[] = {UF_CONV_DGRAD, UF_CONV_FPROP, UF_CONV_WGRAD};
    (void)state;
    const uf_gpu gpu = uf_gpu_h200();
    for (int64_t i = 0; i < costs->choice_count; ++i) {
        bool known;
        const bench_candidate *const chosen =
            bench_costs_chosen(costs, &costs->choices[i], &rates, &known);
        const bench_matrix_row *const row = chosen->row;
        uf_conv_kernel_args args;
        bench_kernel_args(&row->shape, row->dtype, row->math, &args);
        const uf_conv_problem problem = uf_conv_problem_of(direction_of[row->op], &args, &gpu);
        uf_conv_plan plan[2];
        assert_int_equal(uf_conv_choose(&problem, plan), UF_OK);
        assert_string_equal(uf_cuda_conv_variant_name((uf_cuda_conv_variant)plan->variant),
                            row->variant);
    }
}

/* A choice by costs that mean nothing must show: else the test could not fail. */
static void test_bad_rates(void **state) {
    (void)state;
    bench_rates bad = rates;
    for (int i = 0; i < bad.count; ++i) {
        for (int a = 0; a < UF_CONV_RATES; ++a) {
            bad.of[i].of[a] = (uf_conv_rate){.call = 1.0};
        }
    }
    for (int64_t k = 0; k < COUNT_OF(kinds); ++k) {
        const bench_regret all =
            bench_regret_of(costs, kinds[k].arithmetic, kinds[k].matrix, NULL, &bad);
        assert_true(all.cells == 0 || 100.0 * all.mean > 10.0 * kinds[k].mean);
        assert_int_equal(all.cells + all.unknown, kinds[k].cells);
    }
}

/* No row of the file is by hand: the fitter, run here, writes the same bytes. */
static void test_rates_are_the_fitters(void **state) {
    (void)state;
    static bench_fit fit;
    FILE *const made = tmpfile(), *const committed = fopen(def_path, "r");
    char line[2][256];
    int64_t number = 0;
    assert_non_null(made);
    assert_non_null(committed);
    assert_true(bench_fit_squares(costs, NULL, &fit));
    assert_true(bench_fit_search(costs, NULL, &fit));
    bench_fit_write(made, (const bench_matrix *const *)matrices, MATRICES, costs, &fit);
    rewind(made);
    for (bool more = true; more; ++number) {
        const char *const a = fgets(line[0], sizeof line[0], made);
        const char *const b = fgets(line[1], sizeof line[1], committed);
        more = a != NULL && b != NULL;
        if ((a == NULL) != (b == NULL) || (more && strcmp(a, b) != 0)) {
            fail_msg("line %lld of %s is not what fit_costs writes, which is \"%s\": run fit_costs",
                     (long long)number + 1, def_path, a != NULL ? a : "nothing");
        }
    }
    assert_true(number > rates.count);
    (void)fclose(made);
    (void)fclose(committed);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regret),
        cmocka_unit_test(test_no_cell_is_worse),
        cmocka_unit_test(test_choice_is_the_librarys),
        cmocka_unit_test(test_bad_rates),
        cmocka_unit_test(test_rates_are_the_fitters),
    };
    char error[256] = "";
    for (int i = 0; i < MATRICES && argc == 2 + MATRICES; ++i) {
        matrices[i] = bench_matrix_read(argv[2 + i], error, sizeof error);
    }
    if (matrices[0] == NULL || matrices[1] == NULL) {
        fprintf(stderr, "usage: test_regret GPU.def MATRIX MATRIX%s%s\n",
                error[0] != '\0' ? ": " : "", error);
        return 2;
    }
    def_path = argv[1];
    bench_rates_built_in(&rates);
    costs = bench_costs_create((const bench_matrix *const *)matrices, MATRICES, &rates);
    if (costs == NULL) {
        fprintf(stderr, "test_regret: out of memory\n");
        return 2;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    bench_costs_destroy(costs);
    for (int i = 0; i < MATRICES; ++i) {
        bench_matrix_destroy(matrices[i]);
    }
    return failed;
}
