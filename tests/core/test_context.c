/* test_context.c - contexts, errors, shapes, types and tensors. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"

static void test_options(void **state) {
    (void)state;
    uf_context *context = (uf_context *)state;
    uf_context_options options = uf_context_options_default();
    assert_true(options.threads >= 1);
    assert_int_equal(options.device, UF_DEVICE_AUTO);
    options.threads = 0;
    assert_error(uf_context_create(&options, &context), UF_ERROR_INVALID_ARGUMENT, "threads is 0",
                 "1 to 1024");
    assert_null(context);
    options.threads = 1025;
    assert_error(uf_context_create(&options, &context), UF_ERROR_INVALID_ARGUMENT,
                 "threads is 1025");
    options = uf_context_options_default();
    options.device = (uf_device)9;
    assert_error(uf_context_create(&options, &context), UF_ERROR_INVALID_ARGUMENT, "device is 9");
    options = uf_context_options_default();
    options.device_index = -1;
    assert_error(uf_context_create(&options, &context), UF_ERROR_INVALID_ARGUMENT,
                 "device_index is -1");
    options = uf_context_options_default();
    options.struct_size = 4;
    assert_error(uf_context_create(&options, &context), UF_ERROR_INVALID_ARGUMENT,
                 "uf_context_options.struct_size is 4");
    assert_error(uf_context_create(NULL, NULL), UF_ERROR_INVALID_ARGUMENT, "NULL");
    assert_ok(uf_context_create(NULL, &context));
    assert_true(strlen(uf_context_description(context)) > 0);
    assert_true(uf_context_device(context) != UF_DEVICE_AUTO);
    assert_ok(uf_context_synchronize(context));
    uf_context_destroy(context);
    uf_context_destroy(NULL);
    assert_error(uf_context_synchronize(NULL), UF_ERROR_INVALID_ARGUMENT, "NULL");
}

static void test_absent_cuda(void **state) {
    (void)state;
    const char *reason = NULL;
    assert_int_equal(uf_device_count(UF_DEVICE_CPU, NULL), 1);
    if (uf_device_count(UF_DEVICE_CUDA, &reason) > 0) {
        skip();
    }
    assert_non_null(reason);
    assert_true(strlen(reason) > 10);
    uf_context *context = NULL;
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CUDA;
    assert_error(uf_context_create(&options, &context), UF_ERROR_UNSUPPORTED, "CUDA", reason);
    options.device = UF_DEVICE_AUTO;
    assert_ok(uf_context_create(&options, &context));
    assert_int_equal(uf_context_device(context), UF_DEVICE_CPU);
    uf_context_destroy(context);
}

static void test_status(void **state) {
    (void)state;
    assert_string_equal(uf_status_name(UF_OK), "UF_OK");
    assert_string_equal(uf_status_name(UF_ERROR_SHAPE), "UF_ERROR_SHAPE");
    assert_string_equal(uf_status_name(UF_ERROR_INTERNAL), "UF_ERROR_INTERNAL");
    assert_non_null(uf_status_name((uf_status)999));
    assert_non_null(uf_status_name((uf_status)-1));
    assert_string_equal(uf_version(), UF_VERSION_STRING);
    /* A success leaves the last message alone. */
    assert_error(uf_context_synchronize(NULL), UF_ERROR_INVALID_ARGUMENT, "uf_context_synchronize");
    uf_context *context = test_context(1);
    assert_non_null(strstr(uf_last_error(), "uf_context_synchronize"));
    uf_context_destroy(context);
}

/* Names reach messages from files. They must neither steer a terminal nor forge a line of their
 * own. */
static void test_messages_are_one_harmless_line(void **state) {
    (void)state;
    static const struct {
        const char *name, *shown;
    } cases[] = {
        {"plain \xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xa6",
         "plain \xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xa6"},
        {"a\nunfurl: all is well", "a\\x0aunfurl: all is well"},
        {"\x1b[2Ka\r\t\x7f", "\\x1b[2Ka\\x0d\\x09\\x7f"},
        {"\xc2\x9b"
         "2K\xe2\x80\xa8\xe2\x80\xae",
         "\\xc2\\x9b2K\\xe2\\x80\\xa8\\xe2\\x80\\xae"},
        {"\xe2\x81\xa6", "\\xe2\\x81\\xa6"},
        /* no UTF-8: stray, overlong, a surrogate, beyond U+10FFFF, cut short */
        {"\x80"
         "a\xff",
         "\\x80a\\xff"},
        {"\xc0\x8a\xe0\x80\x8a", "\\xc0\\x8a\\xe0\\x80\\x8a"},
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
        {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
        {"\xe2\x82", "\\xe2\\x82"},
        {"backslash \\x0a", "backslash \\x0a"},
    };
    char expected[256];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        uf_fail(UF_ERROR_FORMAT, "%s is odd", cases[i].name);
        snprintf(expected, sizeof expected, "%s is odd", cases[i].shown);
        assert_string_equal(uf_last_error(), expected);
        uf_error_prefix("in %s", cases[i].name);
        snprintf(expected, sizeof expected, "in %s: %s is odd", cases[i].shown, cases[i].shown);
        assert_string_equal(uf_last_error(), expected);
    }
}

/* Longer text ends in "...", between two characters. */
static void test_long_messages_are_cut(void **state) {
    (void)state;
    char name[2 * UF_MESSAGE_SIZE];
    for (size_t length = UF_MESSAGE_SIZE - 12; length < UF_MESSAGE_SIZE + 4; ++length) {
        memset(name, 'n', length);
        name[length] = '\0';
        uf_fail(UF_ERROR_FORMAT, "%s", name);
        const bool fits = length < UF_MESSAGE_SIZE;
        assert_int_equal(strlen(uf_last_error()), fits ? length : UF_MESSAGE_SIZE - 1);
        assert_true(fits == (strstr(uf_last_error(), "...") == NULL));
        memcpy(name + length, "\xe2\x82\xac\n\n\n\n", 8);
        uf_fail(UF_ERROR_FORMAT, "%s", name);
        const char *message = uf_last_error();
        const size_t got = strlen(message);
        assert_true(got < UF_MESSAGE_SIZE && got > UF_MESSAGE_SIZE - 8);
        assert_string_equal(message + got - 3, "...");
        const char *other = strpbrk(message, "\\\xe2\x82\xac\n");
        assert_true(other == NULL || strncmp(other, "\xe2\x82\xac", 3) == 0);
        assert_null(strstr(message, "\\xe2"));
    }
}

static void keep_line(void *user, uf_log_level level, const char *line) {
    (void)level;
    snprintf(user, UF_MESSAGE_SIZE, "%s", line);
}

static void test_the_log_gets_one_harmless_line(void **state) {
    (void)state;
    char line[UF_MESSAGE_SIZE];
    uf_context_options options = uf_context_options_default();
    options.device = UF_DEVICE_CPU;
    options.log = keep_line;
    options.log_user = line;
    uf_context *context = NULL;
    assert_ok(uf_context_create(&options, &context));
    uf_context_log(context, UF_LOG_WARNING, "%s", "a\nb\x1b[0m");
    assert_string_equal(line, "a\\x0ab\\x1b[0m");
    uf_context_destroy(context);
}

static void test_shapes(void **state) {
    (void)state;
    char text[128];
    const uf_shape a = UF_SHAPE(64, 100, 1, 1);
    assert_string_equal(uf_shape_format(&a, text, sizeof text), "(64, 100, 1, 1)");
    const uf_shape one = UF_SHAPE(7);
    assert_string_equal(uf_shape_format(&one, text, sizeof text), "(7,)");
    const uf_shape scalar = UF_SCALAR;
    assert_int_equal(uf_shape_count(&scalar), 1);
    assert_string_equal(uf_shape_format(&scalar, text, sizeof text), "()");
    (void)uf_shape_format(&a, text, 5);
    assert_true(strlen(text) < 5);
    const uf_shape empty = UF_SHAPE(3, 0, 5);
    assert_int_equal(uf_shape_count(&empty), 0);
    const uf_shape negative = UF_SHAPE(3, -1);
    assert_true(uf_shape_count(&negative) == -1);
    const uf_shape huge = UF_SHAPE(INT64_C(1) << 31, INT64_C(1) << 32);
    assert_true(uf_shape_count(&huge) == -1);
    const uf_shape wraps = UF_SHAPE(INT64_C(1) << 33, INT64_C(1) << 33);
    assert_true(uf_shape_count(&wraps) == -1);
    const uf_shape large = UF_SHAPE(INT64_C(1) << 31, INT64_C(1) << 31);
    assert_true(uf_shape_count(&large) == INT64_C(1) << 62);
    const int64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    assert_int_equal(uf_shape_from(nine, 9).rank, -1);
    assert_int_equal(uf_shape_from(nine, -1).rank, -1);
    /* A rank that a caller wrote by hand: nothing past the extents is read. */
    const int32_t impossible[] = {UF_MAX_RANK + 1, INT32_MAX, -1, INT32_MIN};
    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; ++i) {
        uf_shape *odd =
            test_allocate(sizeof *odd); /* a heap's edge, which AddressSanitizer guards */
        memset(odd, 1, sizeof *odd);
        odd->rank = impossible[i];
        assert_true(uf_shape_count(odd) == -1);
        assert_false(uf_shape_equal(odd, odd));
        assert_string_equal(uf_shape_format(odd, text, sizeof text), "(no shape)");
        free(odd);
    }
    const uf_shape b = UF_SHAPE(64, 100, 1);
    assert_false(uf_shape_equal(&a, &b));
    assert_false(uf_shape_equal(&a, NULL));
    assert_false(uf_shape_equal(NULL, NULL));
    assert_true(uf_shape_equal(&a, &a));
    assert_int_equal(uf_dtype_size(UF_F32), 4);
    assert_int_equal(uf_dtype_size(UF_F64), 8);
    assert_int_equal(uf_dtype_size(UF_BF16), 2);
    assert_int_equal(uf_dtype_size(UF_F16), 2);
    assert_int_equal(uf_dtype_size(UF_I64), 8);
    assert_int_equal(uf_dtype_size((uf_dtype)77), 0);
}

static void test_tensors(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_tensor *tensor = (uf_tensor *)context;
    assert_error(uf_tensor_create(context, UF_F32, UF_SHAPE(2, -1), &tensor),
                 UF_ERROR_INVALID_ARGUMENT, "(2, -1)");
    assert_null(tensor);
    assert_error(
        uf_tensor_create(context, UF_F64, UF_SHAPE(INT64_C(1) << 31, INT64_C(1) << 30), &tensor),
        UF_ERROR_INVALID_ARGUMENT, "2147483648", "overflow");
    assert_error(uf_tensor_create(context, (uf_dtype)50, UF_SHAPE(2), &tensor),
                 UF_ERROR_INVALID_ARGUMENT, "50");
    assert_error(uf_tensor_create(context, UF_F32, UF_SHAPE(INT64_C(1) << 50), &tensor),
                 UF_ERROR_OUT_OF_MEMORY, "memory", "4503599627370496");
    assert_error(uf_tensor_create(NULL, UF_F32, UF_SHAPE(2), &tensor), UF_ERROR_INVALID_ARGUMENT,
                 "NULL");
    assert_ok(uf_tensor_create(context, UF_BF16, UF_SHAPE(2, 3), &tensor));
    assert_int_equal(uf_tensor_count(tensor), 6);
    assert_int_equal(uf_tensor_dtype(tensor), UF_BF16);
    /* bf16 has 8 bits of fraction: ties go to the even neighbour. */
    const double in[6] = {1.0, 1.00390625, 1.01171875, -0.0, (double)INFINITY, 1e-3};
    const double expected[6] = {1.0, 1.0, 1.015625, -0.0, (double)INFINITY, 0.00099945068359375};
    double out[6];
    assert_ok(uf_tensor_upload_as(tensor, UF_F64, in, 6));
    assert_ok(uf_tensor_download_as(tensor, UF_F64, out, 6));
    assert_memory_equal(out, expected, sizeof out);
    assert_error(uf_tensor_upload_as(tensor, UF_F64, in, 5), UF_ERROR_SHAPE, "5", "(2, 3)", "6");
    assert_error(uf_tensor_upload(tensor, NULL), UF_ERROR_INVALID_ARGUMENT, "NULL");
    assert_error(uf_tensor_download(tensor, NULL), UF_ERROR_INVALID_ARGUMENT, "NULL");
    uf_tensor_destroy(tensor);
    uf_tensor_destroy(NULL);
    uf_context_destroy(context);
}

/* Every f16 value to double and back. */
static void test_half(void **state) {
    (void)state;
    uf_context *context = test_context(1);
    uf_tensor *tensor = NULL;
    uint16_t *halves = test_allocate(65536 * sizeof *halves);
    double *wide = test_allocate(65536 * sizeof *wide);
    for (int i = 0; i < 65536; ++i) {
        halves[i] = (uint16_t)i;
    }
    assert_ok(uf_tensor_create(context, UF_F64, UF_SHAPE(65536), &tensor));
    assert_ok(uf_tensor_upload_as(tensor, UF_F16, halves, 65536));
    assert_ok(uf_tensor_download(tensor, wide));
    for (int i = 0; i < 65536; ++i) {
        const int exponent = i >> 10 & 31;
        const int fraction = i & 1023;
        double expected = exponent == 31  ? (fraction == 0 ? (double)INFINITY : (double)NAN)
                          : exponent == 0 ? ldexp((double)fraction, -24)
                                          : ldexp(1024.0 + fraction, exponent - 25);
        expected = i >> 15 ? -expected : expected;
        assert_true(isnan(expected) ? isnan(wide[i]) != 0 : wide[i] == expected);
    }
    memset(halves, 0, 65536 * sizeof *halves);
    assert_ok(uf_tensor_download_as(tensor, UF_F16, halves, 65536));
    for (int i = 0; i < 65536; ++i) {
        assert_true(halves[i] == i || isnan(wide[i]));
    }
    uf_tensor_destroy(tensor);
    uf_context_destroy(context);
    free(halves);
    free(wide);
}

int main(void) {
    const int skipped = test_device_or_skip();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_absent_cuda),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_messages_are_one_harmless_line),
        cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_the_log_gets_one_harmless_line),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_half),
    };
    return skipped != 0 ? skipped : cmocka_run_group_tests(tests, NULL, NULL);
}
