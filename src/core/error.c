/* error.c - the calling thread's last message. */
#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/utf8.h"

/* The one piece of state outside a context: a failure of uf_context_create has no context to hold
 * it. */
static _Thread_local char last_error[UF_MESSAGE_SIZE];

static const char *const status_names[] = {
    [UF_OK] = "UF_OK",
    [UF_ERROR_INVALID_ARGUMENT] = "UF_ERROR_INVALID_ARGUMENT",
    [UF_ERROR_SHAPE] = "UF_ERROR_SHAPE",
    [UF_ERROR_NOT_FOUND] = "UF_ERROR_NOT_FOUND",
    [UF_ERROR_STATE] = "UF_ERROR_STATE",
    [UF_ERROR_OUT_OF_MEMORY] = "UF_ERROR_OUT_OF_MEMORY",
    [UF_ERROR_IO] = "UF_ERROR_IO",
    [UF_ERROR_FORMAT] = "UF_ERROR_FORMAT",
    [UF_ERROR_UNSUPPORTED] = "UF_ERROR_UNSUPPORTED",
    [UF_ERROR_DEVICE] = "UF_ERROR_DEVICE",
    [UF_ERROR_INTERNAL] = "UF_ERROR_INTERNAL",
};

const char *uf_status_name(uf_status status) {
    const size_t index = (size_t)status;
    if (index >= sizeof status_names / sizeof status_names[0]) {
        return "not a uf_status";
    }
    return status_names[index];
}

const char *uf_last_error(void) {
    return last_error;
}

void uf_format_line(char *line, size_t size, const char *format, va_list arguments) {
    static const char digits[] = "0123456789abcdef";
    char text[UF_MESSAGE_SIZE];
    const int length = vsnprintf(text, sizeof text, format, arguments);
    bool cut = length >= (int)sizeof text;
    size_t used = 0, mark = 0; /* `mark`: how much of the line leaves room for "..." */
    for (const char *at = text; *at != '\0' && length > 0;) {
        const uf_character character = uf_character_at(at);
        const size_t bytes = character.length;
        const bool harmless = character.shown;
        const size_t needed = harmless ? bytes : 4 * bytes;
        if (used + needed >= size) {
            cut = true;
            break;
        }
        for (size_t i = 0; i < bytes; ++i, ++at) {
            if (harmless) {
                line[used++] = *at;
            } else {
                const unsigned byte = (unsigned char)*at;
                const char escaped[] = {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
                memcpy(line + used, escaped, sizeof escaped);
                used += sizeof escaped;
            }
        }
        mark = used + sizeof "..." <= size ? used : mark;
    }
    if (cut) {
        memcpy(line + mark, "...", 3);
        used = mark + 3;
    }
    line[used] = '\0';
}

uf_status uf_fail_v(uf_status status, const char *format, va_list arguments) {
    /* Through a second buffer: an argument may be the previous message itself. */
    char text[UF_MESSAGE_SIZE];
    uf_format_line(text, sizeof text, format, arguments);
    memcpy(last_error, text, sizeof last_error);
    return status;
}

uf_status uf_fail(uf_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    uf_fail_v(status, format, arguments);
    va_end(arguments);
    return status;
}

void uf_error_prefix(const char *format, ...) {
    char prefix[UF_MESSAGE_SIZE / 2];
    va_list arguments;
    va_start(arguments, format);
    uf_format_line(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    uf_fail(UF_OK, "%s: %s", prefix, last_error);
}

/* Two words at least, the size and a field; sizes of structs are multiples of their alignment. */
static bool is_struct_size(size_t size) {
    return size >= 2 * sizeof size && size % sizeof size == 0;
}

uf_status uf_read_struct(const char *name, const void *given, void *known, size_t size) {
    return uf_read_zeroed_struct(name, given, known, size, 0);
}

uf_status uf_read_zeroed_struct(const char *name, const void *given, void *known, size_t size,
                                size_t zeroed) {
    size_t theirs;
    if (given == NULL) {
        return UF_OK;
    }
    memcpy(&theirs, given, sizeof theirs);
    theirs = theirs == 0 ? zeroed : theirs;
    UF_CHECK_ARG(is_struct_size(theirs) && theirs <= size + 65536,
                 "%s.struct_size is %zu, here it is %zu: start from %s_default()", name, theirs,
                 size, name);
    const unsigned char *bytes = given;
    for (size_t i = size; i < theirs; ++i) {
        UF_CHECK_ARG(bytes[i] == 0,
                     "%s is %zu bytes and sets fields that this library (%zu bytes) does not know",
                     name, theirs, size);
    }
    memcpy(known, given, theirs < size ? theirs : size);
    memcpy(known, &size, sizeof size);
    return UF_OK;
}

void uf_give_struct(const void *known, size_t size, void *given, size_t room) {
    memset(given, 0, room);
    memcpy(given, known, room < size ? room : size);
    if (room >= sizeof room) {
        memcpy(given, &room, sizeof room);
    }
}
