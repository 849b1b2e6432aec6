/* command.h - what a command of `unfurl` is. Each lives in a file of its own and is a line of
 * commands.def. */
#ifndef UF_TOOLS_COMMAND_H
#define UF_TOOLS_COMMAND_H

#include <unfurl/unfurl.h>

#include "options.h"

/* Exit statuses. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct command {
    const char *name;
    const char *summary; /* one line, for `unfurl --help` */
    const char *details; /* paragraphs for `unfurl NAME --help`; may be NULL */
    const char *example; /* command lines for the same, with newlines between them; may be NULL */
    const struct option *options;
    size_t option_count;
    size_t arguments_size; /* of the struct that the options are parsed into */
    int (*run)(const void *arguments);
};

#define COMMAND(name) extern const struct command command_##name;
#include "commands.def"
#undef COMMAND

/* Print one line to stdout. No name in it reaches the terminal with control characters (text.h). */
void say(const char *format, ...) UF_PRINTF(1, 2);

/* Functions of the tool return an exit status. Each of these prints one sentence to stderr, under
 * the same rule as `say`: */
int fail(const char *format, ...) UF_PRINTF(1, 2);       /* returns EXIT_FAILED */
int fail_usage(const char *format, ...) UF_PRINTF(1, 2); /* returns EXIT_USAGE */
int fail_library(void);                                  /* uf_last_error(); returns EXIT_FAILED */

/* Return from the enclosing function if a function of the tool or of the library failed. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        int try_status = (call);                                                                   \
        if (try_status != EXIT_DONE) {                                                             \
            return try_status;                                                                     \
        }                                                                                          \
    } while (0)
#define TRY_LIBRARY(call)                                                                          \
    do {                                                                                           \
        if ((call) != UF_OK) {                                                                     \
            return fail_library();                                                                 \
        }                                                                                          \
    } while (0)

#endif
