/* error.c - the calling thread's last message. */
#include "core/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The one piece of state outside a context: a failure of uf_context_create has no context to hold it. */
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

/* Say in the text itself that it was cut. */
static void mark_truncation(int length) {
    if (length >= (int)sizeof last_error) {
        memcpy(last_error + sizeof last_error - 4, "...", 4);
    }
}

uf_status uf_fail_v(uf_status status, const char *format, va_list arguments) {
    /* Through a second buffer: an argument may be the previous message itself. */
    char text[UF_MESSAGE_SIZE];
    const int length = vsnprintf(text, sizeof text, format, arguments);
    memcpy(last_error, text, sizeof last_error);
    mark_truncation(length);
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
    char text[UF_MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    memcpy(text, last_error, sizeof text);
    mark_truncation(snprintf(last_error, sizeof last_error, "%s: %s", prefix, text));
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
                 "%s.struct_size is %zu, here it is %zu: start from %s_default()", name, theirs, size,
                 name);
    const unsigned char *bytes = given;
    for (size_t i = size; i < theirs; ++i) {
        UF_CHECK_ARG(bytes[i] == 0,
                     "%s is %zu bytes and sets fields that this library (%zu bytes) does not know", name,
                     theirs, size);
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
