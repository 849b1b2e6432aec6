#include "text.h"

#include <string.h>

#include "../src/core/utf8.h"

enum { LINE_SIZE = 8192, SHOWN_SIZE = 4 * 4 + 1 /* four bytes as "\xff" each */ };

/* The first character as a terminal may get it. Returns its bytes in `text`, and how many columns
 * it takes. */
static size_t show(const char *text, char shown[SHOWN_SIZE], int *columns) {
    const uf_character c = uf_character_at(text);
    if (c.shown) {
        memcpy(shown, text, c.length);
        shown[c.length] = '\0';
        *columns = 1;
        return c.length;
    }
    for (size_t i = 0; i < c.length; i++) {
        snprintf(shown + 4 * i, 5, "\\x%02x", (unsigned)(unsigned char)text[i]);
    }
    *columns = 4 * (int)c.length;
    return c.length;
}

void text_print(FILE *stream, const char *prefix, const char *format, va_list arguments) {
    char text[LINE_SIZE];
    char line[4 * LINE_SIZE + 1]; /* no byte becomes more than four */
    size_t used = 0;
    const int length = snprintf(text, sizeof text, "%s", prefix);
    if (vsnprintf(text + length, sizeof text - (size_t)length, format, arguments) >=
        (int)sizeof text - length) {
        memcpy(text + sizeof text - 4, "...", 4);
    }
    for (const char *at = text; *at != '\0';) {
        char shown[SHOWN_SIZE];
        int columns;
        at += show(at, shown, &columns);
        memcpy(line + used, shown, strlen(shown));
        used += strlen(shown);
    }
    line[used++] = '\n';
    /* In one piece: stderr has no buffer, and the lines of two processes would be mixed. */
    fwrite(line, 1, used, stream);
}

int text_columns(const char *text) {
    int total = 0;
    while (*text != '\0' && total < LINE_SIZE) {
        char shown[SHOWN_SIZE];
        int columns;
        text += show(text, shown, &columns);
        total += columns;
    }
    return total;
}

int text_padding(const char *text, int columns) {
    const int used = text_columns(text);
    return used < columns ? columns - used : 0;
}

/* The digits at *text without leading zeros; *text goes behind them. */
static size_t take_number(const char **text, const char **digits) {
    *text += strspn(*text, "0");
    *digits = *text;
    *text += strspn(*text, "0123456789");
    return (size_t)(*text - *digits);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

int text_compare(const char *a, const char *b) {
    const char *left = a, *right = b;
    while (*left != '\0' && *right != '\0') {
        if (is_digit(*left) && is_digit(*right)) {
            const char *number[2];
            const size_t length[2] = {take_number(&left, &number[0]),
                                      take_number(&right, &number[1])};
            const int order = length[0] != length[1] ? (length[0] < length[1] ? -1 : 1)
                                                     : memcmp(number[0], number[1], length[0]);
            if (order != 0) {
                return order;
            }
        } else if (*left != *right) {
            break;
        } else {
            left++;
            right++;
        }
    }
    const int order = (unsigned char)*left - (unsigned char)*right;
    return order != 0 ? order : strcmp(a, b); /* 01 and 1 */
}
