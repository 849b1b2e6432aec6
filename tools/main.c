/* main.c - the `unfurl` command: the table of its commands, and what is common to them. */
#include "command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "signals.h"

static const struct command *const commands[] = {
    &command_upscale,
    &command_generate,
    &command_inspect,
    &command_gradcheck,
    &command_parity,
    &command_tune,
    &command_devices,
};
enum { COMMAND_COUNT = (int)(sizeof commands / sizeof commands[0]) };

static void print_sentence(const char *format, va_list arguments) UF_PRINTF(1, 0);

static void print_sentence(const char *format, va_list arguments) {
    fputs("unfurl: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

int fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_sentence(format, arguments);
    va_end(arguments);
    return EXIT_FAILED;
}

int fail_usage(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_sentence(format, arguments);
    va_end(arguments);
    return EXIT_USAGE;
}

int fail_library(void) {
    return fail("%s", uf_last_error());
}

static void print_help(FILE *stream) {
    fputs("Usage: unfurl COMMAND [options]\n\nNetworks that grow images.\n\nCommands:\n", stream);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        fprintf(stream, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    }
    fputs("\n  unfurl COMMAND --help   the options of a command\n"
          "  unfurl --version        the version of the library\n",
          stream);
}

static int unknown_command(const char *name) {
    const char *names[COMMAND_COUNT];
    for (int i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i]->name;
    }
    const char *nearest = options_nearest(name, names, COMMAND_COUNT);
    if (nearest != NULL) {
        return fail_usage("there is no command '%s'; did you mean '%s'?", name, nearest);
    }
    return fail_usage("there is no command '%s'; 'unfurl --help' lists them", name);
}

static int run_command(const struct command *command, int count, char *const *words) {
    void *arguments = calloc(1, command->arguments_size);
    if (arguments == NULL) {
        return fail("out of memory");
    }
    int status = options_parse(command, count, words, arguments);
    if (status == EXIT_DONE) {
        status = command->run(arguments);
    } else if (status < 0) {
        options_print_help(command, stdout);
        status = EXIT_DONE;
    }
    free(arguments);
    return status;
}

static int dispatch(int count, char *const *words) {
    if (count < 2) {
        return fail_usage("no command given; 'unfurl --help' lists them");
    }
    const char *name = words[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_help(stdout);
        return EXIT_DONE;
    }
    if (strcmp(name, "--version") == 0) {
        printf("unfurl %s\n", uf_version());
        return EXIT_DONE;
    }
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(name, commands[i]->name) == 0) {
            return run_command(commands[i], count - 2, words + 2);
        }
    }
    return name[0] == '-'
               ? fail_usage("unknown option %s; 'unfurl --help' lists the commands", name)
               : unknown_command(name);
}

int main(int count, char **words) {
    signals_begin();
    int status = dispatch(count, words);
    /* A full disk or a closed pipe shows only when the last of the output is written. */
    if (fflush(stdout) != 0 && status == EXIT_DONE) {
        status = fail("cannot write to standard output: %s", strerror(errno));
    }
    return status;
}
