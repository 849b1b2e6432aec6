/* print.h - `unfurl --print`: the manual pages and the completions of shells, from the same tables
 * that the command lines are parsed by. */
#ifndef UF_TOOLS_PRINT_H
#define UF_TOOLS_PRINT_H

#include <stdio.h>

#include "command.h"

struct command_list {
    const struct command *const *rows;
    size_t count;
};

/* Words after --print: man, man COMMAND, bash, zsh or fish, and networks, which is for
 * scripts/fetch-networks alone. Returns an exit status. */
int print_page(const struct command_list *list, int count, char *const *words);

/* manual.c: a page for man(1), of one command or of unfurl itself where that is NULL. */
void manual_print(const struct command_list *list, const struct command *one, FILE *stream);

/* completion.c */
void completion_print_bash(const struct command_list *list, FILE *stream);
void completion_print_zsh(const struct command_list *list, FILE *stream);
void completion_print_fish(const struct command_list *list, FILE *stream);

#endif
