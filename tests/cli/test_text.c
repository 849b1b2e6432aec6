/* test_text.c - names from anywhere on their way to a terminal; their natural order. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "text.h"

/* All that was written to `stream`; static storage. */
static const char *written(FILE *stream) {
    static char text[65536];
    rewind(stream);
    const size_t length = fread(text, 1, sizeof text - 1, stream);
    text[length] = '\0';
    fclose(stream);
    return text;
}

static const char *printed(const char *format, ...) UF_PRINTF(1, 2);

static const char *printed(const char *format, ...) {
    FILE *stream = tmpfile();
    assert_non_null(stream);
    va_list arguments;
    va_start(arguments, format);
    text_print(stream, "unfurl: ", format, arguments);
    va_end(arguments);
    return written(stream);
}

static const struct {
    const char *text, *terminal, *json;
} rows[] = {
    /* clang-format off: one row each */
    {"main.0.weight", "main.0.weight", "main.0.weight"},
    {"", "", ""},
    {"a\nunfurl: b", "a\\x0aunfurl: b", "a\\u000aunfurl: b"},
    {"\r\t\b\x1b[2J", "\\x0d\\x09\\x08\\x1b[2J", "\\u000d\\u0009\\u0008\\u001b[2J"},
    {"\x7f", "\\x7f", "\\u007f"},
    {"\xc2\x9b"
     "31m",
     "\\xc2\\x9b31m", "\\u009b31m"}, /* CSI as UTF-8 */
    {"\x9b"
     "31m",
     "\\x9b31m", "\\ufffd31m"}, /* CSI as the byte */
    {"\xc2\xa0\xc3\xa9", "\xc2\xa0\xc3\xa9", "\xc2\xa0\xc3\xa9"},
    {"\xe2\x80\xae"
     "gnp",
     "\\xe2\\x80\\xaegnp", "\\u202egnp"}, /* right to left from here */
    {"\xe2\x80\xa8\xe2\x81\xa7", "\\xe2\\x80\\xa8\\xe2\\x81\\xa7", "\\u2028\\u2067"},
    {"\xe5\xb1\x95\xe9\x96\x8b", "\xe5\xb1\x95\xe9\x96\x8b", "\xe5\xb1\x95\xe9\x96\x8b"},
    {"\xf0\x9f\x8c\xb1", "\xf0\x9f\x8c\xb1", "\xf0\x9f\x8c\xb1"},
    {"\xff\xfe", "\\xff\\xfe", "\\ufffd\\ufffd"},
    {"\xc0\x8a", "\\xc0\\x8a", "\\ufffd\\ufffd"}, /* overlong newline */
    {"\xe0\x80\x8a", "\\xe0\\x80\\x8a", "\\ufffd\\ufffd\\ufffd"},
    {"\xed\xa0\x80", "\\xed\\xa0\\x80", "\\ufffd\\ufffd\\ufffd"}, /* half of a surrogate pair */
    {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"},
    {"\xe5\xb1", "\\xe5\\xb1", "\\ufffd\\ufffd"}, /* cut */
    {"\xc3\n", "\\xc3\\x0a", "\\ufffd\\u000a"},
    {"say \"\\x41\"", "say \"\\x41\"", "say \\\"\\\\x41\\\""},
    /* clang-format on */
};

static void test_escapes(void **state) {
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(rows); i++) {
        char line[256];
        snprintf(line, sizeof line, "unfurl: %s\n", rows[i].terminal);
        assert_string_equal(printed("%s", rows[i].text), line);
        FILE *stream = tmpfile();
        assert_non_null(stream);
        struct json json = json_begin(stream);
        json_text(&json, NULL, rows[i].text);
        snprintf(line, sizeof line, "\"%s\"", rows[i].json);
        assert_string_equal(written(stream), line);
    }
}

/* No byte, and no two of them, bring a control character through; nothing is lost of the rest. */
static void test_every_pair(void **state) {
    (void)state;
    for (int first = 1; first < 256; first++) {
        for (int second = 1; second < 256; second += first < 0x80 ? 37 : 1) {
            const char text[] = {(char)first, (char)second, '\0'};
            const char *at = printed("%s", text);
            const size_t length = strlen(at);
            assert_int_equal(at[length - 1], '\n');
            for (size_t i = 0; i + 1 < length; i++) {
                const unsigned char byte = (unsigned char)at[i];
                const bool c1 = byte == 0xC2 && (unsigned char)at[i + 1] < 0xA0;
                assert_true(byte >= 0x20 && byte != 0x7F && !c1);
            }
        }
    }
}

static void test_long_text(void **state) {
    (void)state;
    enum { LONG = 100000 };
    char *text = malloc(LONG + 1);
    assert_non_null(text);
    memset(text, '\n', LONG);
    text[LONG] = '\0';
    const char *line = printed("%s", text);
    const size_t length = strlen(line);
    assert_true(length > 8192 && length < 65535);
    assert_null(memchr(line, '\n', length - 1));
    assert_string_equal(line + length - 4, "...\n");
    assert_true(text_columns(text) < 10 * LONG);
    free(text);
}

static void test_columns(void **state) {
    (void)state;
    assert_int_equal(text_columns("abc"), 3);
    assert_int_equal(text_columns("\xc3\xa9\xe2\x82\xac"), 2);
    assert_int_equal(text_columns("a\n\xff"), 1 + 4 + 4);
    assert_int_equal(text_padding("abc", 5), 2);
    assert_int_equal(text_padding("abc", 2), 0);
}

static void test_natural_order(void **state) {
    (void)state;
    static const char *const sorted[] = {
        "",
        "01",
        "1",
        "2",
        "10",
        "A",
        "a",
        "a/b",
        "layer",
        "layer.0.w",
        "layer.00.w2",
        "layer.1",
        "layer.2.b",
        "layer.2.w",
        "layer.10.a",
        "layer.11.b",
        "layer.18446744073709551615",
        "layer.18446744073709551616",
        "layers",
        "z10y2",
        "z10y10",
        "\xc3\xa9",
    };
    for (int64_t i = 0; i < COUNT_OF(sorted); i++) {
        for (int64_t j = 0; j < COUNT_OF(sorted); j++) {
            const int order = text_compare(sorted[i], sorted[j]);
            const int wanted = i < j ? -1 : i > j ? 1 : 0;
            if ((order > 0) - (order < 0) != wanted) {
                fail_msg("'%s' and '%s' compare as %d", sorted[i], sorted[j], order);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escapes),       cmocka_unit_test(test_every_pair),
        cmocka_unit_test(test_long_text),     cmocka_unit_test(test_columns),
        cmocka_unit_test(test_natural_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
