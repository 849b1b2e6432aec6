/* json_text.c - strings and counts of JSON (RFC 8259), decoded where they stand. */
#include "io/json_text.h"

#include <string.h>

#include "core/utf8.h"

void uf_json_skip_space(uf_json_text *json) {
    while (json->at < json->end &&
           (*json->at == ' ' || *json->at == '\t' || *json->at == '\r' || *json->at == '\n')) {
        ++json->at;
    }
}

bool uf_json_take(uf_json_text *json, char c) {
    uf_json_skip_space(json);
    if (json->at == json->end || *json->at != c) {
        return false;
    }
    ++json->at;
    return true;
}

/* Four hexadecimal digits; false where they are not there. */
static bool take_hex(uf_json_text *json, uint32_t *value) {
    *value = 0;
    for (int i = 0; i < 4; ++i, ++json->at) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *digit =
            json->at < json->end ? memchr(digits, *json->at, sizeof digits - 1) : NULL;
        if (digit == NULL) {
            return false;
        }
        *value = *value << 4 | (uint32_t)((digit - digits) % 16);
    }
    return true;
}

/* The code point behind "\u", which two escapes may share; 0, which no text holds, for none. */
static uint32_t take_code(uf_json_text *json) {
    uint32_t code, low;
    if (!take_hex(json, &code) || (code >= 0xdc00 && code < 0xe000)) {
        return 0;
    }
    if (code < 0xd800 || code >= 0xe000) {
        return code;
    }
    if (json->end - json->at < 2 || json->at[0] != '\\' || json->at[1] != 'u') {
        return 0;
    }
    json->at += 2;
    if (!take_hex(json, &low) || low < 0xdc00 || low >= 0xe000) {
        return 0;
    }
    return 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
}

/* UTF-8, which is shorter than the escape was. Returns the byte behind it. */
static char *put_code(char *to, uint32_t code) {
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3; /* bytes after the first */
    static const uint32_t first[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (char)(unsigned char)(first[more] | code >> (6 * more));
    for (int i = more - 1; i >= 0; --i) {
        *to++ = (char)(unsigned char)(0x80 | (code >> (6 * i) & 0x3f));
    }
    return to;
}

/* The character that an escape stands for, from behind its backslash. */
static bool take_escape(uf_json_text *json, char **to) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (json->at == json->end) {
        return false;
    }
    const char c = *json->at++;
    if (c == 'u') {
        const uint32_t code = take_code(json);
        *to = put_code(*to, code);
        return code != 0;
    }
    const char *name = memchr(names, c, sizeof names - 1);
    if (name == NULL) {
        return false;
    }
    *(*to)++ = values[name - names];
    return true;
}

static bool is_utf8(const char *text) {
    while (*text != '\0') {
        const uf_character c = uf_character_at(text);
        if (!c.valid) {
            return false;
        }
        text += c.length;
    }
    return true;
}

const char *uf_json_string(uf_json_text *json, char **string) {
    if (!uf_json_take(json, '"')) {
        return "does not begin a text";
    }
    char *to = *string = json->at;
    while (json->at < json->end && *json->at != '"') {
        const char c = *json->at++;
        if (c == '\\') {
            if (!take_escape(json, &to)) {
                return "ends an escape that is none";
            }
        } else if ((unsigned char)c < 0x20) {
            --json->at;
            return "is a control character in a text";
        } else {
            *to++ = c;
        }
    }
    if (json->at == json->end) {
        return "should have the end of a text behind it";
    }
    ++json->at;
    *to = '\0'; /* on the closing quotes, or before them */
    return is_utf8(*string) ? NULL : "ends a text that is no UTF-8";
}

static bool is_digit(const uf_json_text *json) {
    return json->at < json->end && *json->at >= '0' && *json->at <= '9';
}

const char *uf_json_count(uf_json_text *json, int64_t *count) {
    uf_json_skip_space(json);
    if (!is_digit(json)) {
        return "does not begin a count";
    }
    const bool is_zero = *json->at == '0';
    for (*count = 0; is_digit(json); ++json->at) {
        if (__builtin_mul_overflow(*count, 10, count) ||
            __builtin_add_overflow(*count, *json->at - '0', count)) {
            return "is in a number beyond 64 bits";
        }
        if (is_zero && *count > 0) {
            return "follows a zero that begins a number";
        }
    }
    if (json->at < json->end && memchr(".eE", *json->at, 3) != NULL) {
        return "makes a fraction of a count";
    }
    return NULL;
}
