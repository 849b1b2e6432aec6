/* test_mma_math.c - the arithmetic that main loops use for what a caller may ask: needs no GPU. */
#include <string.h>

#include "kernels/cuda/arch/mma_math.h"
#include "support/test.h"

static void test_arithmetic(void **state) {
    static const struct {
        uf_dtype dtype;
        uf_math asked;
        uf_mma_math used;
    } rows[] = {
        {UF_F32, UF_MATH_FP32, UF_MMA_TF32X3},
        {UF_F32, UF_MATH_TF32, UF_MMA_TF32},
        {UF_F32, UF_MATH_BF16, UF_MMA_BF16},
        /* bf16 is bf16 in every mode. */
        {UF_BF16, UF_MATH_FP32, UF_MMA_BF16},
        {UF_BF16, UF_MATH_TF32, UF_MMA_BF16},
        {UF_BF16, UF_MATH_BF16, UF_MMA_BF16},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        uf_conv_kernel_args args;
        memset(&args, 0, sizeof args);
        args.x.dtype = args.w.dtype = args.y.dtype = rows[i].dtype;
        args.math = rows[i].asked;
        assert_int_equal(uf_mma_math_of(&args), rows[i].used);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_arithmetic)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
