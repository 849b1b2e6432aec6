/* main.c - the `unfurl` command: the table of its commands, and what is common to them. */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "print.h"
#include "signals.h"
#include "text.h"

#define COMMAND(name) &command_##name,
static const struct command *const commands[] = {
#include "commands.def"
};
#undef COMMAND
enum { COMMAND_COUNT = (int)(sizeof commands / sizeof commands[0]) };

void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    text_print(stdout, "", format, arguments);
    va_end(arguments);
}

static void print_sentence(const char *format, va_list arguments) UF_PRINTF(1, 0);

static void print_sentence(const char *format, va_list arguments) {
    fflush(stdout); /* earlier output stands first where both go to one file */
    text_print(stderr, "unfurl: ", format, arguments);
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
    fputs("\n  unfurl help COMMAND, unfurl COMMAND --help   the options of a command\n"
          "  unfurl -V, unfurl --version                  the version of the library\n"
          "  unfurl --print man|bash|zsh|fish             a manual page, completions of a shell\n",
          stream);
}

static int unknown_command(const char *name) {
    const char *names[COMMAND_COUNT + 1] = {"help"};
    for (int i = 0; i < COMMAND_COUNT; i++) {
        names[i + 1] = commands[i]->name;
    }
    const char *nearest = options_nearest(name, names, COMMAND_COUNT + 1);
    if (nearest != NULL) {
        return fail_usage("there is no command '%s'; did you mean '%s'?", name, nearest);
    }
    return fail_usage("there is no command '%s'; 'unfurl --help' lists them", name);
}

static bool is_one_of(const char *word, const char *a, const char *b) {
    return strcmp(word, a) == 0 || strcmp(word, b) == 0;
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

/* NULL where there is no such command. */
static const struct command *find_command(const char *name) {
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(name, commands[i]->name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

/* unfurl help [COMMAND] */
static int help(int count, char *const *words) {
    if (count > 1) {
        return fail_usage("help: unexpected argument '%s'", words[1]);
    }
    if (count == 0 || is_one_of(words[0], "--help", "-h") || strcmp(words[0], "help") == 0) {
        print_help(stdout);
        return EXIT_DONE;
    }
    const struct command *command = find_command(words[0]);
    if (command == NULL) {
        return unknown_command(words[0]);
    }
    options_print_help(command, stdout);
    return EXIT_DONE;
}

static int dispatch(int count, char *const *words) {
    if (count < 2) {
        return fail_usage("no command given; 'unfurl --help' lists them");
    }
    const char *name = words[1];
    if (strcmp(name, "help") == 0) {
        return help(count - 2, words + 2);
    }
    if (is_one_of(name, "--help", "-h")) {
        print_help(stdout);
        return EXIT_DONE;
    }
    if (is_one_of(name, "--version", "-V")) {
        if (count > 2) {
            return fail_usage("%s: unexpected argument '%s'", name, words[2]);
        }
        say("unfurl %s", uf_version());
        return EXIT_DONE;
    }
    if (strcmp(name, "--print") == 0) {
        const struct command_list list = {commands, COMMAND_COUNT};
        return print_page(&list, count - 2, words + 2);
    }
    const struct command *command = find_command(name);
    if (command != NULL) {
        return run_command(command, count - 2, words + 2);
    }
    return name[0] == '-'
               ? fail_usage("unknown option %s; 'unfurl --help' lists the commands", name)
               : unknown_command(name);
}

/* A file that is opened while stdout or stderr is closed would get its number, and the report or a
 * message would be written into it. Here such a number is taken by what cannot be written to. */
static void keep_standard_streams(void) {
    for (int number = STDIN_FILENO; number <= STDERR_FILENO; number++) {
        if (fcntl(number, F_GETFD) < 0) {
            (void)open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        }
    }
}

/* A full disk or a closed pipe shows only when the last of the output is written. */
static int flush_output(void) {
    if (fflush(stdout) != 0) {
        return fail("cannot write to standard output: %s", strerror(errno));
    }
    return ferror(stdout) == 0 ? EXIT_DONE : fail("cannot write all to standard output");
}

int main(int count, char **words) {
    keep_standard_streams();
    signals_begin();
    const int status = dispatch(count, words);
    return status == EXIT_DONE ? flush_output() : status;
}
