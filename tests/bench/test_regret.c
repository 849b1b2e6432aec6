/* test_regret.c - what the choice of variants loses against the best of all, by the committed
 * matrix of measurements: needs no GPU. Arguments: the matrix. */
#include "support/test.h"

#include "costs.h"

static bench_matrix *matrix;

/* Bounds are a little above the values at the commit of the matrix: a change of a plan, a cost or a
 * rate that chooses worse is seen without a GPU. */
static const struct {
    const char *name;
    uf_dtype dtype;
    uf_math math;
    double mean, worst; /* at most, in per cent */
    int64_t cells;      /* at least */
} kinds[] = {
    {"f32 in FP32", UF_F32, UF_MATH_FP32, 1.5, 45.0, 200},
    {"f32 in TF32", UF_F32, UF_MATH_TF32, 1.5, 45.0, 200},
    {"bf16", UF_BF16, UF_MATH_BF16, 0.5, 25.0, 200},
};

static void test_regret(void **state) {
    (void)state;
    for (int64_t k = 0; k < COUNT_OF(kinds); ++k) {
        const bench_regret all =
            bench_regret_of(matrix, kinds[k].dtype, kinds[k].math, -1, NULL, NULL);
        const bench_matrix_row *const worst = &matrix->rows[all.worst_row < 0 ? 0 : all.worst_row];
        print_message("%-12s %lld cells: regret %.2f %%, worst %.1f %% (%s, %s)\n", kinds[k].name,
                      (long long)all.cells, 100.0 * all.mean, 100.0 * all.worst, worst->shape.name,
                      bench_op_names[worst->op]);
        assert_true(all.cells >= kinds[k].cells);
        assert_true(100.0 * all.mean <= kinds[k].mean);
        assert_true(100.0 * all.worst <= kinds[k].worst);
    }
}

/* A choice by costs that mean nothing must show: else the test could not fail. */
static const uf_conv_rates *same_for_all(const uf_conv_loop *loop, void *user) {
    static const uf_conv_rates rates = {
        {{0, 1, 0, 0}, {0, 1, 0, 0}, {0, 1, 0, 0}, {0, 1, 0, 0}}, 0.0, true};
    (void)loop;
    (void)user;
    return &rates;
}

static void test_bad_rates(void **state) {
    (void)state;
    for (int64_t k = 0; k < COUNT_OF(kinds); ++k) {
        const bench_regret all =
            bench_regret_of(matrix, kinds[k].dtype, kinds[k].math, -1, same_for_all, NULL);
        assert_true(100.0 * all.mean > 10.0 * kinds[k].mean);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regret),
        cmocka_unit_test(test_bad_rates),
    };
    char error[256];
    if (argc != 2 || (matrix = bench_matrix_read(argv[1], error, sizeof error)) == NULL) {
        fprintf(stderr, "usage: test_regret MATRIX%s%s\n", argc == 2 ? ": " : "",
                argc == 2 ? error : "");
        return 2;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    bench_matrix_destroy(matrix);
    return failed;
}
