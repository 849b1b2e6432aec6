/* options.h - one table-driven parser of command lines, shared by all commands.
 *
 * A command describes its operands and options in a table; the parser fills a struct of the
 * command's through the offsets in the table, and the same table makes the command's --help, its
 * manual page (manual.c) and its completions (completion.c). */
#ifndef UF_TOOLS_OPTIONS_H
#define UF_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_kind {
    OPTION_OPERAND,  /* a required argument without dashes, in the table's order; const char * */
    OPTION_OPERANDS, /* the same, one or more of them, the last in the table; struct option_list */
    OPTION_FLAG,     /* --name; bool */
    OPTION_INTEGER,  /* --name N; int64_t */
    OPTION_PAIR,     /* --name N or --name HxW; int64_t[2], N twice for one number */
    OPTION_TEXT,     /* --name TEXT; const char *, NULL when it is not given */
    OPTION_LIST,     /* --name TEXT, as often as wanted; struct option_list */
    OPTION_CHOICE    /* --name one|of|these; int32_t, the index of the word */
};

enum { OPTION_LIST_SIZE = 256 };

/* The texts of an OPTION_LIST or OPTION_OPERANDS, in their order. */
struct option_list {
    const char *texts[OPTION_LIST_SIZE];
    int64_t count;
};

struct option {
    enum option_kind kind;
    const char *name;  /* without its dashes; for an operand what help calls it */
    const char *value; /* its name in the help: "N"; NULL for operands, flags and choices */
    const char *help;
    size_t offset; /* of the member in the command's struct */
    bool required;
    bool optional; /* an operand that may be missing: the last in the table */
    /* OPTION_INTEGER, OPTION_PAIR. A fallback outside the range says "not given" and is not shown
     * in the help. */
    int64_t minimum, maximum, fallback;
    /* OPTION_CHOICE: the words, ended by NULL; the first is the default. */
    const char *const *choices;
};

struct command;

/* Fill `arguments` (zeroed memory of command->arguments_size bytes) from the words after the
 * command's name. Returns 0; 2 after one sentence on stderr; -1 when --help is among the words. */
int options_parse(const struct command *command, int count, char *const *words, void *arguments);

/* Is it an operand, or several, and no option with dashes? */
bool options_is_operand(const struct option *option);

void options_print_help(const struct command *command, FILE *stream);

/* Sizes for the texts that the functions below make; a longer one is cut. */
enum { OPTION_TEXT_SIZE = 160, OPTION_USAGE_SIZE = 1024 };

/* "--tile N", "--device auto|cpu|cuda"; for an operand its name. */
void options_format(const struct option *option, char *text, size_t size);

/* The value of an option that is not given: "128"; empty where help shows none. */
void options_format_default(const struct option *option, char *text, size_t size);

/* "unfurl upscale IN.png OUT.png [options]" */
void options_format_usage(const struct command *command, char *text, size_t size);

/* The candidate nearest to `word` if it is near enough to be a slip of the fingers, else NULL. */
const char *options_nearest(const char *word, const char *const *candidates, size_t count);

#endif
