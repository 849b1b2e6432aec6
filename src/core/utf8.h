/* utf8.h - the characters of a text that nobody has checked, for messages, terminals and JSON.
 *
 * A name can hold anything. A newline in it forges a second message, ESC or CSI (U+009B) moves the
 * cursor, a direction mark turns the rest of the line round, and a file's name need not be UTF-8.
 * Needs nothing of the library. */
#ifndef UF_CORE_UTF8_H
#define UF_CORE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct uf_character {
    size_t length; /* bytes; 1 where they are not UTF-8 */
    uint32_t code; /* the code point, or that one byte */
    bool valid;    /* UTF-8 */
    bool shown; /* a terminal only draws it: no control, no separator of lines, no mark of direction
                 */
} uf_character;

/* The first character of a text, which ends in a zero. */
static inline uf_character uf_character_at(const char *text) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* a shorter form exists below */
    const unsigned char *byte = (const unsigned char *)text;
    const uf_character invalid = {.length = 1, .code = byte[0]};
    const size_t length = byte[0] < 0x80   ? 1
                          : byte[0] < 0xc2 ? 0
                          : byte[0] < 0xe0 ? 2
                          : byte[0] < 0xf0 ? 3
                          : byte[0] < 0xf5 ? 4
                                           : 0;
    if (length == 0) {
        return invalid;
    }
    uint32_t code = length == 1 ? byte[0] : byte[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; ++i) {
        if ((byte[i] & 0xc0) != 0x80) {
            return invalid;
        }
        code = code << 6 | (byte[i] & 0x3fu);
    }
    if (code < least[length] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) {
        return invalid;
    }
    const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    const bool mark = code == 0x61c || code == 0x200e || code == 0x200f ||
                      (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    return (uf_character){
        .length = length, .code = code, .valid = true, .shown = !control && !mark};
}

#endif
