/* text.h - text from files, arguments and the library on its way to a terminal or a report.
 * src/core/utf8.h says what may be wrong with it. */
#ifndef UF_TOOLS_TEXT_H
#define UF_TOOLS_TEXT_H

#include <stdarg.h>
#include <stdio.h>

#include <unfurl/export.h>

/* Write one line: `prefix`, the formatted text and a newline. In the text, a character that is not
 * shown and a byte that is not UTF-8 are written as "\x1b", as uf_last_error() does. Beyond 8 KiB
 * it is cut. */
void text_print(FILE *stream, const char *prefix, const char *format, va_list arguments)
    UF_PRINTF(3, 0);

/* How many spaces fill `text` up to `columns` as text_print writes it; 0 where it is wider. A
 * character counts as one column. */
int text_padding(const char *text, int columns);
int text_columns(const char *text);

/* Names in natural order: numbers in them by value, so that layer.2 comes before layer.11. */
int text_compare(const char *a, const char *b);

#endif
