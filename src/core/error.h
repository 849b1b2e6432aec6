/* error.h - how the library's own code reports failures. */
#ifndef UF_CORE_ERROR_H
#define UF_CORE_ERROR_H

#include <stdarg.h>
#include <stddef.h>

#include <unfurl/status.h>

UF_BEGIN_DECLS

/* Long enough for a sentence with two shapes and two names in it; longer text ends in "...". */
#define UF_MESSAGE_SIZE 1024

/* Format `line`, of 4 bytes or more, as one line of harmless UTF-8. Bytes of control characters, of
 * marks that turn the direction of writing and of what is no UTF-8 become "\x1b": names come from
 * files, and must neither steer a terminal nor forge a second line. It is done here, after
 * formatting: no argument can be forgotten. */
void uf_format_line(char *line, size_t size, const char *format, va_list arguments) UF_PRINTF(3, 0);

/* Store the calling thread's message and return `status`. The message is set once, where the cause
 * is known. */
uf_status uf_fail(uf_status status, const char *format, ...) UF_PRINTF(2, 3);
uf_status uf_fail_v(uf_status status, const char *format, va_list arguments) UF_PRINTF(2, 0);

/* Put "prefix: " before the stored message: for callers that know the name of what failed. */
void uf_error_prefix(const char *format, ...) UF_PRINTF(1, 2);

#define UF_FAIL(status, ...) return uf_fail(status, __VA_ARGS__)

/* Return INVALID_ARGUMENT with a message unless `condition` holds. */
#define UF_CHECK_ARG(condition, ...)                                                               \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return uf_fail(UF_ERROR_INVALID_ARGUMENT, __VA_ARGS__);                                \
        }                                                                                          \
    } while (0)

/* Run `call`; on failure keep its status in `status` (a local) and go to `label`. */
#define UF_TRY_GOTO(call, label)                                                                   \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != UF_OK) {                                                                     \
            goto label;                                                                            \
        }                                                                                          \
    } while (0)

/* Read a struct that begins with its own size, of a caller who may be compiled against another
 * version of the headers. `known` holds the defaults and gets the fields that the caller has: a
 * shorter struct is an older one and leaves the rest as it is, a longer one is refused unless its
 * unknown tail is zero, NULL changes nothing. known's struct_size stays `size`, what the struct has
 * here. */
uf_status uf_read_struct(const char *name, const void *given, void *known, size_t size);

/* The same for a struct that may be zeroed in place of begun by its _default(): a struct_size of 0
 * is then `zeroed`, the size that the caller compiled with and handed in by another way. */
uf_status uf_read_zeroed_struct(const char *name, const void *given, void *known, size_t size,
                                size_t zeroed);

/* Give a struct that this library has filled to a caller who reserved `room` bytes for it: the
 * fields that fit, their struct_size first, the rest of a longer one zero. */
void uf_give_struct(const void *known, size_t size, void *given, size_t room);

UF_END_DECLS

#endif
