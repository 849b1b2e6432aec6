/* scan.c - the words of a model's text. Nothing is believed: bytes, lengths and numbers have
 * limits, and each refusal says where. */
#include "model/scan.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uf_status uf_c_locale_enter(const char *name, uf_c_locale *locale) {
    locale->c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (locale->c == (locale_t)0) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory reading %s", name);
    }
    locale->before = uselocale(locale->c);
    return UF_OK;
}

void uf_c_locale_leave(const uf_c_locale *locale) {
    uselocale(locale->before);
    freelocale(locale->c);
}

void uf_scan_begin(uf_scanner *scanner, const char *name, const char *text, size_t size) {
    memset(scanner, 0, sizeof *scanner);
    scanner->name = name;
    scanner->at = scanner->line_start = text;
    scanner->end = text + size;
}

uf_status uf_scan_fail(const uf_scanner *scanner, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const uf_status status = uf_fail_v(UF_ERROR_FORMAT, format, arguments);
    va_end(arguments);
    uf_error_prefix("%s: line %" PRId32 ", column %" PRId32, scanner->name, scanner->line,
                    scanner->word.column);
    return status;
}

static bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-' || c == '+';
}

static bool at_end(const uf_scanner *scanner) {
    return scanner->at == scanner->end || *scanner->at == '\n' || *scanner->at == '#';
}

static uf_status append(uf_scanner *scanner, size_t *length, char c) {
    if (*length + 1 >= sizeof scanner->next.text) {
        scanner->word = scanner->next;
        return uf_scan_fail(scanner, "a word has more than %d bytes", UF_NAME_SIZE - 1);
    }
    scanner->next.text[(*length)++] = c;
    scanner->next.text[*length] = '\0';
    return UF_OK;
}

/* Behind the opening quote. */
static uf_status read_quoted(uf_scanner *scanner) {
    size_t length = 0;
    while (scanner->at < scanner->end && *scanner->at != '\n' && *scanner->at != '"') {
        if (*scanner->at == '\\' && scanner->end - scanner->at > 1 && scanner->at[1] != '\n') {
            ++scanner->at;
        }
        if ((unsigned char)*scanner->at < 0x20) {
            scanner->word = scanner->next;
            return uf_scan_fail(scanner, "byte 0x%02x is in a name",
                                (unsigned)(unsigned char)*scanner->at);
        }
        UF_TRY(append(scanner, &length, *scanner->at++));
    }
    if (scanner->at == scanner->end || *scanner->at != '"') {
        scanner->word = scanner->next;
        return uf_scan_fail(scanner, "a quoted name does not end");
    }
    ++scanner->at;
    return UF_OK;
}

/* Read the word behind `next` into `next`. */
static uf_status read_next(uf_scanner *scanner) {
    uf_word *word = &scanner->next;
    size_t length = 0;
    while (scanner->at < scanner->end &&
           (*scanner->at == ' ' || *scanner->at == '\t' || *scanner->at == '\r')) {
        ++scanner->at;
    }
    memset(word, 0, sizeof *word);
    word->column = (int32_t)(scanner->at - scanner->line_start) + 1;
    if (at_end(scanner)) {
        return UF_OK;
    }
    if (*scanner->at == '"') {
        word->kind = UF_WORD_QUOTED;
        ++scanner->at;
        return read_quoted(scanner);
    }
    if (strchr("=(),", *scanner->at) != NULL && *scanner->at != '\0') {
        word->kind = UF_WORD_MARK;
        return append(scanner, &length, *scanner->at++);
    }
    if (!is_plain(*scanner->at)) {
        scanner->word = *word;
        return uf_scan_fail(scanner, "byte 0x%02x begins no word",
                            (unsigned)(unsigned char)*scanner->at);
    }
    word->kind = UF_WORD_PLAIN;
    while (scanner->at < scanner->end && is_plain(*scanner->at)) {
        UF_TRY(append(scanner, &length, *scanner->at++));
    }
    return UF_OK;
}

uf_status uf_scan_word(uf_scanner *scanner) {
    scanner->word = scanner->next;
    return scanner->word.kind == UF_WORD_END ? UF_OK : read_next(scanner);
}

uf_status uf_scan_line(uf_scanner *scanner, bool *more) {
    do {
        while (scanner->line > 0 && scanner->at < scanner->end && *scanner->at != '\n') {
            ++scanner->at; /* a comment */
        }
        if (scanner->line > 0 && scanner->at < scanner->end) {
            ++scanner->at;
        }
        scanner->line_start = scanner->at;
        *more = scanner->at < scanner->end;
        scanner->word.column = 1;
        if (++scanner->line > UF_MODEL_MAX_LINES) {
            return uf_scan_fail(scanner, "the text has more than %d lines", UF_MODEL_MAX_LINES);
        }
        UF_TRY(read_next(scanner));
    } while (*more && scanner->next.kind == UF_WORD_END);
    return uf_scan_word(scanner);
}

bool uf_scan_is(const uf_scanner *scanner, char mark) {
    return scanner->word.kind == UF_WORD_MARK && scanner->word.text[0] == mark;
}

const char *uf_scan_shown(const uf_scanner *scanner) {
    return scanner->word.kind == UF_WORD_END ? "the end of the line" : scanner->word.text;
}

uf_status uf_scan_mark(uf_scanner *scanner, char mark) {
    if (!uf_scan_is(scanner, mark)) {
        return uf_scan_fail(scanner, "'%c' is needed here, not %s", mark, uf_scan_shown(scanner));
    }
    return uf_scan_word(scanner);
}

uf_status uf_scan_integer(uf_scanner *scanner, const char *what, int64_t least, int64_t most,
                          int64_t *value) {
    const char *text = scanner->word.text;
    const bool negative = *text == '-';
    bool good = scanner->word.kind == UF_WORD_PLAIN && text[negative ? 1 : 0] != '\0';
    int64_t number = 0;
    for (const char *c = text + (negative ? 1 : 0); good && *c != '\0'; ++c) {
        good =
            *c >= '0' && *c <= '9' && !__builtin_mul_overflow(number, 10, &number) &&
            !__builtin_sub_overflow(number, *c - '0', &number); /* below 0, where there is more */
    }
    good = good && (negative || number != INT64_MIN);
    number = negative || !good ? number : -number;
    if (!good || number < least || number > most) {
        return uf_scan_fail(scanner, "%s is %s; it must be an integer from %" PRId64 " to %" PRId64,
                            what, uf_scan_shown(scanner), least, most);
    }
    *value = number;
    return uf_scan_word(scanner);
}

uf_status uf_scan_number(uf_scanner *scanner, const char *what, double *value) {
    const char *text = scanner->word.text;
    char *end = NULL;
    const bool plain = scanner->word.kind == UF_WORD_PLAIN &&
                       (text[strspn(text, "+-0123456789.eE")] == '\0' || strcmp(text, "inf") == 0 ||
                        strcmp(text, "-inf") == 0);
    const double number = plain ? strtod(text, &end) : 0.0;
    if (!plain || end == text || *end != '\0') {
        return uf_scan_fail(scanner, "%s is %s; it must be a number", what, uf_scan_shown(scanner));
    }
    *value = number;
    return uf_scan_word(scanner);
}
