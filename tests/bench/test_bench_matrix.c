/* test_bench_matrix.c - matrices of bench_ops: they are read as they were written, and refused
 * where they are damaged. With a FILE as its argument it says what that has. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "matrix.h"

static bench_matrix_head a_head(void) {
    bench_matrix_head head;
    memset(&head, 0, sizeof head);
    strcpy(head.gpu, "NVIDIA \"H200\" \\ of\ttwo");
    strcpy(head.driver, "580.1");
    strcpy(head.cuda, "13.0");
    strcpy(head.version, "0.2.0");
    strcpy(head.commit, "abc with changes");
    strcpy(head.date, "2026-11-23");
    head.capability = 90;
    head.copy_rate = 4.08e12;
    head.budget_ms = 5;
    return head;
}

static bench_matrix_row a_row(void) {
    bench_matrix_row row;
    memset(&row, 0, sizeof row);
    strcpy(row.shape.list, "shapes");
    strcpy(row.shape.name, "kb75");
    row.shape.n = 16;
    row.shape.c_in = 32;
    row.shape.c_out = 64;
    row.shape.h = 128;
    row.shape.w = 256;
    row.shape.groups = 4;
    for (int axis = 0; axis < 2; ++axis) {
        row.shape.kernel[axis] = 3 + 2 * axis;
        row.shape.stride[axis] = 2 + axis;
        row.shape.padding[axis] = 1 + axis;
        row.shape.output_padding[axis] = axis;
        row.shape.dilation[axis] = 2 - axis;
    }
    row.op = BENCH_GRAD_INPUT;
    row.dtype = UF_BF16;
    row.math = UF_MATH_BF16;
    strcpy(row.variant, "wgmma_implicit_gemm");
    strcpy(row.main_loop, "swap_ab");
    strcpy(row.plan, "tile 128x32, 2 windows of 1, 4 stages");
    row.ms = 0.1234567;
    row.spread = 0.015;
    row.estimate_us = 120.25;
    row.tile = 5;
    row.own_tile = false;
    row.chosen = true;
    return row;
}

/* A file of its own; the caller removes it. */
static FILE *a_file(char path[64]) {
    strcpy(path, "/tmp/unfurl-matrix-XXXXXX");
    const int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    FILE *const file = fdopen(descriptor, "w");
    assert_non_null(file);
    return file;
}

static void test_round_trip(void **state) {
    (void)state;
    char path[64], error[256];
    FILE *const file = a_file(path);
    const bench_matrix_head head = a_head();
    bench_matrix_row row = a_row();
    bench_matrix_write_head(file, &head);
    bench_matrix_write_row(file, &row);
    row.ms = (double)NAN;
    row.estimate_us = (double)INFINITY;
    row.chosen = false;
    row.op = BENCH_GRAD_WEIGHT;
    row.dtype = UF_F32;
    row.math = UF_MATH_TF32;
    strcpy(row.untimed, "skipped: \"naive\"");
    row.tile = -1; /* a row of a matrix from before tiles had numbers */
    bench_matrix_write_row(file, &row);
    assert_int_equal(fclose(file), 0);
    bench_matrix *const read = bench_matrix_read(path, error, sizeof error);
    if (read == NULL) {
        fail_msg("%s", error);
    }
    assert_string_equal(read->head.gpu, "NVIDIA 'H200' ' of'two");
    assert_string_equal(read->head.driver, head.driver);
    assert_string_equal(read->head.cuda, head.cuda);
    assert_string_equal(read->head.cudnn, "");
    assert_string_equal(read->head.version, head.version);
    assert_string_equal(read->head.commit, head.commit);
    assert_string_equal(read->head.date, head.date);
    assert_int_equal(read->head.capability, 90);
    assert_float_equal(read->head.copy_rate, head.copy_rate, 0);
    assert_float_equal(read->head.budget_ms, 5, 0);
    assert_int_equal(read->count, 2);
    const bench_matrix_row expected = a_row();
    const bench_matrix_row *const first = &read->rows[0], *const second = &read->rows[1];
    assert_memory_equal(first->shape.kernel, expected.shape.kernel, sizeof expected.shape.kernel);
    assert_memory_equal(first->shape.stride, expected.shape.stride, sizeof expected.shape.stride);
    assert_memory_equal(first->shape.padding, expected.shape.padding,
                        sizeof expected.shape.padding);
    assert_memory_equal(first->shape.output_padding, expected.shape.output_padding,
                        sizeof expected.shape.output_padding);
    assert_memory_equal(first->shape.dilation, expected.shape.dilation,
                        sizeof expected.shape.dilation);
    assert_int_equal(first->shape.n, 16);
    assert_int_equal(first->shape.c_in, 32);
    assert_int_equal(first->shape.c_out, 64);
    assert_int_equal(first->shape.h, 128);
    assert_int_equal(first->shape.w, 256);
    assert_int_equal(first->shape.groups, 4);
    /* (h - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1 */
    assert_int_equal(first->shape.out[0], 127 * 2 - 2 + 2 * 2 + 0 + 1);
    assert_int_equal(first->shape.out[1], 255 * 3 - 4 + 1 * 4 + 1 + 1);
    assert_string_equal(first->shape.list, "shapes");
    assert_string_equal(first->shape.name, "kb75");
    assert_int_equal(first->op, BENCH_GRAD_INPUT);
    assert_int_equal(first->dtype, UF_BF16);
    assert_int_equal(first->math, UF_MATH_BF16);
    assert_string_equal(first->variant, expected.variant);
    assert_int_equal(first->tile, 5);
    assert_false(first->own_tile);
    assert_int_equal(second->tile, -1);
    assert_true(second->own_tile);
    assert_string_equal(first->main_loop, expected.main_loop);
    assert_string_equal(first->plan, expected.plan);
    assert_string_equal(first->untimed, "");
    assert_float_equal(first->ms, expected.ms, 1e-9);
    assert_float_equal(first->spread, expected.spread, 1e-9);
    assert_float_equal(first->estimate_us, expected.estimate_us, 1e-6);
    assert_true(first->chosen && !second->chosen);
    assert_true(second->ms < 0 && second->spread < 0 && second->estimate_us < 0);
    assert_string_equal(second->untimed, "skipped: 'naive'");
    assert_int_equal(second->op, BENCH_GRAD_WEIGHT);
    assert_int_equal(second->dtype, UF_F32);
    assert_int_equal(second->math, UF_MATH_TF32);
    bench_matrix_destroy(read);
    assert_int_equal(remove(path), 0);
}

/* One line replaced by another: which sentence does the reader say? */
static void assert_refused(const char *head, const char *row, const char *said) {
    char path[64], error[256] = "";
    FILE *const file = a_file(path);
    (void)fprintf(file, "%s\n%s\n", head, row);
    assert_int_equal(fclose(file), 0);
    bench_matrix *const read = bench_matrix_read(path, error, sizeof error);
    if (read != NULL || strstr(error, said) == NULL) {
        fail_msg("%s: taken, or the error \"%s\" lacks \"%s\"", row, error, said);
    }
    assert_int_equal(remove(path), 0);
}

static void test_refused(void **state) {
    (void)state;
    static const char head[] = "{\"matrix\": 1, \"gpu\": \"x\"}";
    static const struct {
        const char *row, *said;
    } rows[] = {
        {"{\"name\": \"a\", \"variant\": \"v\", \"ms\": 1", "line 3: '}'"},
        {"{\"name\": \"a\", \"variant\": \"v\", \"ms\": x}", "line 2: a finite number"},
        {"{\"name\": \"a\", \"variant\": \"v\", \"ms\": nan}", "a finite number"},
        {"{\"name\": \"a\", \"variant\": \"v\", \"ms\": 1e999}", "a finite number"},
        {"{\"name\": \"a\", \"variant\": \"v\", \"chosen\": maybe}", "'f' was expected"},
        {"{\"name\": \"a\", \"variant\": \"v\", \"chosen\": tru}", "true or false"},
        {"{\"name\": \"a\", \"variant\": \"v\", \"op\": \"sideways\"}", "\"sideways\""},
        {"{\"name\": \"a\", \"variant\": \"v\", \"colour\": 1}", "\"colour\""},
        {"{\"name\": \"a\", \"variant\": \"v\"}", "n and channels"},
        {"{\"name\": \"a\", \"n\": 1, \"c_in\": 1, \"c_out\": 1, \"h\": 1, \"w\": 1, \"kernel\": "
         "[1, 1]}",
         "no variant"},
        {"[]", "'{' was expected"},
    };
    for (int64_t i = 0; i < COUNT_OF(rows); ++i) {
        assert_refused(head, rows[i].row, rows[i].said);
    }
    assert_refused("{\"matrix\": 2}", "", "version 1");
    assert_refused("{\"gpu\": \"x\"}", "", "version 1");
    assert_refused("{\"matrix\": 1, \"colour\": 2}", "", "\"colour\"");
    char error[256] = "";
    assert_null(bench_matrix_read("/nowhere/at/all", error, sizeof error));
    assert_string_equal(error, "cannot be read");
}

static int say(const char *path) {
    char error[256];
    bench_matrix *const matrix = bench_matrix_read(path, error, sizeof error);
    if (matrix == NULL) {
        (void)fprintf(stderr, "%s: %s\n", path, error);
        return 1;
    }
    int64_t chosen = 0, timed = 0;
    for (int64_t i = 0; i < matrix->count; ++i) {
        chosen += matrix->rows[i].chosen;
        timed += matrix->rows[i].ms >= 0;
    }
    (void)printf("%lld rows, %lld chosen, %lld timed\n", (long long)matrix->count,
                 (long long)chosen, (long long)timed);
    bench_matrix_destroy(matrix);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_refused),
    };
    return argc == 2 ? say(argv[1]) : cmocka_run_group_tests(tests, NULL, NULL);
}
