/* test_bench_options.c - what bench_ops takes on its command line, and what it refuses. */
#include "support/test.h"

#include <string.h>

#include "options.h"

enum { MOST_WORDS = 24 };

/* Parses the words of a line. */
static bool parse(const char *line, bench_options *o, char error[256]) {
    static char copy[512];
    char *words[MOST_WORDS] = {"bench_ops"};
    char *save = NULL;
    int count = 1;
    assert_true(strlen(line) < sizeof copy);
    strcpy(copy, line);
    for (char *word = strtok_r(copy, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        assert_true(count < MOST_WORDS);
        words[count++] = word;
    }
    error[0] = '\0';
    return bench_options_parse(count, words, o, error, 256);
}

static void test_defaults(void **state) {
    (void)state;
    bench_options o;
    char error[256];
    assert_true(parse("", &o, error));
    assert_int_equal(o.lists, 0);
    assert_int_equal(o.op, -1);
    assert_int_equal(o.math, UF_MATH_FP32);
    assert_int_equal(o.device, UF_DEVICE_AUTO);
    assert_true(o.rival && !o.json && !o.help && !o.every_variant);
    assert_float_equal(o.budget_ms, 200.0, 0);
    assert_true(parse("--every-variant", &o, error));
    assert_int_equal(o.math, -1);
    assert_float_equal(o.budget_ms, 5.0, 0);
    assert_int_equal(o.capability, 0);
}

static void test_everything(void **state) {
    (void)state;
    bench_options o;
    char error[256];
    assert_true(
        parse("--shapes a.json --device cuda --math bf16 --op grad_weight --dtype f32 --only unet1 "
              "--variant naive --budget-ms 2.5 --no-cudnn --json --shapes b.json",
              &o, error));
    assert_int_equal(o.lists, 2);
    assert_string_equal(o.shapes[0], "a.json");
    assert_string_equal(o.shapes[1], "b.json");
    assert_int_equal(o.device, UF_DEVICE_CUDA);
    assert_int_equal(o.math, UF_MATH_BF16);
    assert_int_equal(o.op, BENCH_GRAD_WEIGHT);
    assert_int_equal(o.dtype, 0);
    assert_string_equal(o.only, "unet1");
    assert_string_equal(o.variant, "naive");
    assert_float_equal(o.budget_ms, 2.5, 0);
    assert_true(o.json && !o.rival);
    assert_true(parse(
        "--every-variant --matrix m.jsonl --capability 80 --commit v1 --math all --op all --help",
        &o, error));
    assert_true(o.every_variant && o.help);
    assert_string_equal(o.matrix, "m.jsonl");
    assert_string_equal(o.commit, "v1");
    assert_int_equal(o.capability, 80);
    assert_int_equal(o.math, -1);
    assert_int_equal(o.op, -1);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *line, *said;
    } cases[] = {
        {"--nonsense", "--nonsense"},
        {"nonsense", "nonsense"},
        {"--shapes", "--shapes"},
        {"--math f16", "\"f16\""},
        {"--op sideways", "\"sideways\""},
        {"--dtype bf16", "\"bf16\""},
        {"--device all", "\"all\""},
        {"--device gpu", "\"gpu\""},
        {"--budget-ms 0", "\"0\""},
        {"--budget-ms -1", "\"-1\""},
        {"--budget-ms nan", "\"nan\""},
        {"--budget-ms inf", "\"inf\""},
        {"--budget-ms 5s", "\"5s\""},
        {"--every-variant --capability 9.0", "\"9.0\""},
        {"--every-variant --capability 0", "\"0\""},
        {"--matrix m", "--every-variant"},
        {"--capability 90", "--every-variant"},
        {"--commit x", "--every-variant"},
        {"--every-variant --variant naive", "--variant"},
        {"--every-variant --json", "--json"},
        {"--shapes 1 --shapes 2 --shapes 3 --shapes 4 --shapes 5 --shapes 6 --shapes 7 --shapes 8 "
         "--shapes 9",
         "\"9\""},
    };
    for (int64_t i = 0; i < COUNT_OF(cases); ++i) {
        bench_options o;
        char error[256];
        if (parse(cases[i].line, &o, error) || strstr(error, cases[i].said) == NULL) {
            fail_msg("\"%s\" was taken, or its error \"%s\" lacks %s", cases[i].line, error,
                     cases[i].said);
        }
    }
}

static void test_cells(void **state) {
    (void)state;
    bench_options o;
    bench_shape shape;
    char error[256];
    uf_dtype dtype;
    memset(&shape, 0, sizeof shape);
    strcpy(shape.name, "kb57");
    assert_true(parse("--math all --only kb57 --op forward", &o, error));
    assert_true(bench_wanted(&o, &shape, BENCH_FORWARD));
    assert_false(bench_wanted(&o, &shape, BENCH_GRAD_INPUT));
    strcpy(shape.name, "kb5");
    assert_false(bench_wanted(&o, &shape, BENCH_FORWARD));
    assert_true(bench_dtype_of(&o, UF_MATH_BF16, true, &dtype));
    assert_int_equal(dtype, UF_BF16);
    assert_true(bench_dtype_of(&o, UF_MATH_BF16, false, &dtype));
    assert_int_equal(dtype, UF_F32);
    assert_true(parse("--math all --dtype f64", &o, error));
    assert_true(bench_dtype_of(&o, UF_MATH_FP32, true, &dtype));
    assert_int_equal(dtype, UF_F64);
    assert_false(bench_dtype_of(&o, UF_MATH_TF32, true, &dtype));
    assert_true(parse("--math tf32", &o, error));
    assert_false(bench_dtype_of(&o, UF_MATH_FP32, true, &dtype));
    assert_true(bench_dtype_of(&o, UF_MATH_TF32, true, &dtype));
    assert_int_equal(dtype, UF_F32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
