/* error.h - how the library's own code reports failures. */
#ifndef UF_CORE_ERROR_H
#define UF_CORE_ERROR_H

#include <stdarg.h>
#include <stddef.h>

#include <unfurl/status.h>

UF_BEGIN_DECLS

/* Long enough for a sentence with two shapes and two names in it; longer text ends in "...". */
#define UF_MESSAGE_SIZE 1024

/* Store the calling thread's message and return `status`. The message is set once, where the cause is
 * known. */
uf_status uf_fail(uf_status status, const char *format, ...) UF_PRINTF(2, 3);
uf_status uf_fail_v(uf_status status, const char *format, va_list arguments) UF_PRINTF(2, 0);

/* Put "prefix: " before the stored message: for callers that know the name of what failed. */
void uf_error_prefix(const char *format, ...) UF_PRINTF(1, 2);

#define UF_FAIL(status, ...) return uf_fail(status, __VA_ARGS__)

/* Return INVALID_ARGUMENT with a message unless `condition` holds. */
#define UF_CHECK_ARG(condition, ...)                                 \
    do {                                                             \
        if (!(condition)) {                                          \
            return uf_fail(UF_ERROR_INVALID_ARGUMENT, __VA_ARGS__);  \
        }                                                            \
    } while (0)

/* Run `call`; on failure keep its status in `status` (a local) and go to `label`. */
#define UF_TRY_GOTO(call, label)    \
    do {                            \
        status = (call);            \
        if (status != UF_OK) {      \
            goto label;             \
        }                           \
    } while (0)

/* An options struct of a caller built against another version: refuse what this one cannot know. `known`
 * is sizeof of the struct here. A larger struct is fine while its unknown tail is zero. */
uf_status uf_check_struct(const char *name, const void *options, size_t known);

UF_END_DECLS

#endif
