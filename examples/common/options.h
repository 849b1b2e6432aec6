/* options.h - the options of an example by tables: parsed, explained by --help, and compared when a
 * training is resumed. */
#ifndef EXAMPLES_COMMON_OPTIONS_H
#define EXAMPLES_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum option_kind {
    OPTION_END = 0, /* closes a table */
    OPTION_INTEGER, /* int64_t */
    OPTION_NUMBER,  /* double */
    OPTION_TEXT,    /* const char *, not empty */
    OPTION_CHOICE,  /* int, the index of one of the words of `value`, which '|' separates */
    OPTION_FLAG     /* bool; takes no value */
} option_kind;

typedef struct option {
    option_kind kind;
    const char *name;  /* "--steps" */
    void *place;       /* holds the default, gets the value */
    double low, high;  /* of INTEGER and NUMBER, both legal */
    const char *value; /* its name in the help: "N", "FILE"; the words of a CHOICE */
    const char *help;
    bool fixed; /* a part of the training: a resumed one must have the same */
    bool given; /* set by options_parse */
} option;

/* Parse the words behind the program's name by `count` tables. --help prints `purpose` and all
 * options with their defaults, and exits with 0. A word that does not fit ends the program
 * (fail_usage). */
void options_parse(const char *purpose, option *const *tables, int count, int argc,
                   char *const *argv);

/* Write the fixed options as lines "--name value" into `text`, or fail where they need more than
 * `size` characters. */
void options_record(option *const *tables, int count, char *text, size_t size);

#endif
