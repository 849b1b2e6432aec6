/* scan.h - the words of a model's text, one line at a time. */
#ifndef UF_MODEL_SCAN_H
#define UF_MODEL_SCAN_H

#include <locale.h>

#include "model/model.h"

typedef enum uf_word_kind {
    UF_WORD_END = 0, /* of the line */
    UF_WORD_PLAIN,   /* letters, digits, _ . - + */
    UF_WORD_QUOTED,
    UF_WORD_MARK /* one of = ( ) , */
} uf_word_kind;

typedef struct uf_word {
    uf_word_kind kind;
    char text[UF_NAME_SIZE]; /* of a quoted word without its quotes */
    int32_t column;          /* from 1 */
} uf_word;

typedef struct uf_scanner {
    const char *name; /* of the text, for messages */
    const char *at, *end, *line_start;
    int32_t line; /* from 1; 0 before the first */
    uf_word word, next;
} uf_scanner;

/* Numbers have a point, whatever the program's locale: the thread's between the two calls. `name`
 * is what is read, for messages. */
typedef struct uf_c_locale {
    locale_t c, before;
} uf_c_locale;

uf_status uf_c_locale_enter(const char *name, uf_c_locale *locale);
void uf_c_locale_leave(const uf_c_locale *locale);

void uf_scan_begin(uf_scanner *scanner, const char *name, const char *text, size_t size);

/* Go to the next line that has words, and to its first one. *more: there is one. */
uf_status uf_scan_line(uf_scanner *scanner, bool *more);

/* Go to the next word. */
uf_status uf_scan_word(uf_scanner *scanner);

/* FORMAT: the sentence with line and column of the word before it. */
uf_status uf_scan_fail(const uf_scanner *scanner, const char *format, ...) UF_PRINTF(2, 3);

/* Is the word this mark? */
bool uf_scan_is(const uf_scanner *scanner, char mark);

/* FORMAT unless the word is this mark; then go on. */
uf_status uf_scan_mark(uf_scanner *scanner, char mark);

/* The word as it is, for messages. */
const char *uf_scan_shown(const uf_scanner *scanner);

/* Numbers of the word, which goes on; `what` begins the message. */
uf_status uf_scan_integer(uf_scanner *scanner, const char *what, int64_t least, int64_t most,
                          int64_t *value);
uf_status uf_scan_number(uf_scanner *scanner, const char *what, double *value);

#endif
