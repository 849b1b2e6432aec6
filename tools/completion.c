/* completion.c - the completions of bash, zsh and fish, from the tables of the commands. A script
 * knows the words that a command line has at a place; file names are left to the shell. */
#include "print.h"

#include <string.h>

/* The names of commands and options are letters, digits and hyphens; help is any text. */

enum { EXTENSION_SIZE = 16 };

/* Does the operand's or the option's value name a file? All do but names of other things and
 * numbers. `extension` becomes "png" for "IN.png", "" where any file may be meant. */
static bool takes_file(const struct option *option, char extension[EXTENSION_SIZE]) {
    extension[0] = '\0';
    if (!options_is_operand(option) && option->kind != OPTION_TEXT && option->kind != OPTION_LIST) {
        return false;
    }
    const char *value = options_is_operand(option) ? option->name : option->value;
    const char *dot = strchr(value, '.');
    const char *const signs = "abcdefghijklmnopqrstuvwxyz0123456789";
    if (dot != NULL && strchr(dot + 1, '|') == NULL) {
        snprintf(extension, EXTENSION_SIZE, "%.*s", (int)strspn(dot + 1, signs), dot + 1);
    }
    return strcmp(value, "NAME") != 0 && strcmp(value, "N") != 0 && strcmp(value, "X") != 0;
}

static bool takes_value(const struct option *option) {
    return !options_is_operand(option) && option->kind != OPTION_FLAG;
}

/* The text between single quotes, as each of the three shells reads it; `escaped` are further signs
 * that get a backslash. */
static void put_quoted(const char *text, const char *escaped, const char *quote, FILE *stream) {
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs(quote, stream);
        } else if (*text == '\n') {
            fputc(' ', stream);
        } else {
            fprintf(stream, "%s%c", strchr(escaped, *text) != NULL ? "\\" : "", *text);
        }
    }
}

/* Words with blanks between them, ended by NULL. */
static void put_choices(const char *const *choices, FILE *stream) {
    for (size_t i = 0; choices[i] != NULL; i++) {
        fprintf(stream, "%s%s", i == 0 ? "" : " ", choices[i]);
    }
}

static void put_commands(const struct command_list *list, FILE *stream) {
    for (size_t i = 0; i < list->count; i++) {
        fprintf(stream, "%s%s", i == 0 ? "" : " ", list->rows[i]->name);
    }
}

/* -- bash ------------------------------------------------------------------------------------- */

/* The reply to an option's value, or to an operand, after a label of `case`. */
static void put_bash_reply(const struct option *option, FILE *stream) {
    char extension[EXTENSION_SIZE];
    if (option->kind == OPTION_CHOICE) {
        fputs("_unfurl_words '", stream);
        put_choices(option->choices, stream);
        fputs("' ;;\n", stream);
    } else if (takes_file(option, extension)) {
        fprintf(stream, "_unfurl_files '%s' ;;\n", extension);
    } else {
        fputs(";;\n", stream);
    }
}

static void put_bash_command(const struct command *command, FILE *stream) {
    fprintf(stream, "    %s)\n        options='", command->name);
    for (size_t i = 0; i < command->option_count; i++) {
        if (!options_is_operand(&command->options[i])) {
            fprintf(stream, "--%s ", command->options[i].name);
        }
    }
    fputs("--help'\n        valued='", stream);
    for (size_t i = 0; i < command->option_count; i++) {
        if (takes_value(&command->options[i])) {
            fprintf(stream, " --%s", command->options[i].name);
        }
    }
    fputs(" '\n        ;;\n", stream);
}

static void put_bash_replies(const struct command *command, FILE *stream) {
    int operand = 0;
    for (size_t i = 0; i < command->option_count; i++) {
        const struct option *option = &command->options[i];
        if (takes_value(option)) {
            fprintf(stream, "    '%s --%s') ", command->name, option->name);
            put_bash_reply(option, stream);
        } else if (options_is_operand(option)) {
            if (option->kind == OPTION_OPERANDS) {
                fprintf(stream, "    '%s '[0-9]*) ", command->name);
            } else {
                fprintf(stream, "    '%s %d') ", command->name, operand++);
            }
            put_bash_reply(option, stream);
        }
    }
}

void completion_print_bash(const struct command_list *list, FILE *stream) {
    fprintf(stream, "# Completion for bash, printed by unfurl %s --print bash.\n", uf_version());
    fputs("\n_unfurl_words() {\n"
          "    COMPREPLY=($(compgen -W \"$1\" -- \"$current\"))\n"
          "}\n\n"
          "# Files that end in .$1 and folders; where there are none, or $1 is empty, all files.\n"
          "_unfurl_files() {\n"
          "    compopt -o filenames 2>/dev/null\n"
          "    if [[ -n $1 ]]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -d -- \"$current\"; "
          "compgen -f -X \"!*.$1\" -- \"$current\")\n"
          "    fi\n"
          "    if ((${#COMPREPLY[@]} == 0)); then\n"
          "        mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
          "    fi\n"
          "}\n\n"
          "_unfurl() {\n"
          "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "    local command=${COMP_WORDS[1]} options='' valued='' place=0 equals=0 i\n"
          "    COMPREPLY=()\n"
          "    # --name=value arrives as three words, and so does the value NAME=FILE.\n"
          "    if [[ $current == '=' ]]; then\n"
          "        current='' equals=$COMP_CWORD\n"
          "    elif [[ $before == '=' ]]; then\n"
          "        equals=$((COMP_CWORD - 1))\n"
          "    fi\n"
          "    for ((i = equals - 1; i > 1 && i >= equals - 3; i--)); do\n"
          "        before=${COMP_WORDS[i]}\n"
          "        [[ $before != -* ]] || break\n"
          "    done\n"
          "    if ((COMP_CWORD == 1)); then\n"
          "        _unfurl_words '",
          stream);
    put_commands(list, stream);
    fputs(" help --help --version'\n"
          "        return\n"
          "    fi\n"
          "    case $command in\n",
          stream);
    for (size_t i = 0; i < list->count; i++) {
        put_bash_command(list->rows[i], stream);
    }
    fputs("    help)\n"
          "        ((COMP_CWORD > 2)) || _unfurl_words '",
          stream);
    put_commands(list, stream);
    fputs("'\n"
          "        return\n"
          "        ;;\n"
          "    esac\n"
          "    if [[ $valued == *\" $before \"* ]]; then\n"
          "        place=$before\n"
          "    elif [[ $current == -* ]]; then\n"
          "        _unfurl_words \"$options\"\n"
          "        return\n"
          "    else\n"
          "        for ((i = 2; i < COMP_CWORD; i++)); do\n"
          "            if [[ ${COMP_WORDS[i]} == '=' || $valued == *\" ${COMP_WORDS[i]} \"* ]]; "
          "then\n"
          "                [[ ${COMP_WORDS[i + 1]} == '=' ]] || i=$((i + 1))\n"
          "            elif [[ ${COMP_WORDS[i]} != -* ]]; then\n"
          "                place=$((place + 1))\n"
          "            fi\n"
          "        done\n"
          "    fi\n"
          "    case \"$command $place\" in\n",
          stream);
    for (size_t i = 0; i < list->count; i++) {
        put_bash_replies(list->rows[i], stream);
    }
    fputs("    esac\n"
          "}\n\n"
          "complete -F _unfurl unfurl\n",
          stream);
}

/* -- zsh -------------------------------------------------------------------------------------- */

/* Text between quotes in which colons and brackets would end something. */
static void put_zsh(const char *text, FILE *stream) {
    put_quoted(text, ":[]\\", "'\\''", stream);
}

/* ":N:" and the words or files that a value may be */
static void put_zsh_value(const struct option *option, FILE *stream) {
    char extension[EXTENSION_SIZE];
    const char *value = options_is_operand(option)      ? option->name
                        : option->kind == OPTION_CHOICE ? option->name
                                                        : option->value;
    fputc(':', stream);
    put_zsh(value, stream);
    fputc(':', stream);
    if (option->kind == OPTION_CHOICE) {
        fputc('(', stream);
        put_choices(option->choices, stream);
        fputc(')', stream);
    } else if (takes_file(option, extension)) {
        if (extension[0] != '\0') {
            fprintf(stream, "_files -g \"*.%s\"", extension);
        } else {
            fputs("_files", stream);
        }
    }
}

static void put_zsh_command(const struct command *command, FILE *stream) {
    int operand = 0;
    fprintf(stream, "        %s)\n            _arguments", command->name);
    for (size_t i = 0; i < command->option_count; i++) {
        const struct option *option = &command->options[i];
        fputs(" \\\n                '", stream);
        if (options_is_operand(option)) {
            if (option->kind == OPTION_OPERANDS) {
                fputc('*', stream);
            } else {
                fprintf(stream, "%d", ++operand);
            }
        } else {
            fprintf(stream, "--%s%s[", option->name, takes_value(option) ? "=" : "");
            put_zsh(option->help, stream);
            fputc(']', stream);
        }
        if (option->kind != OPTION_FLAG) {
            put_zsh_value(option, stream);
        }
        fputc('\'', stream);
    }
    fputs(" \\\n                '(- *)--help[print all options]'\n            ;;\n", stream);
}

void completion_print_zsh(const struct command_list *list, FILE *stream) {
    fprintf(stream, "#compdef unfurl\n# Completion for zsh, printed by unfurl %s --print zsh.\n",
            uf_version());
    fputs("\n_unfurl() {\n"
          "    local context curcontext=$curcontext state line\n"
          "    typeset -A opt_args\n"
          "    local -a commands=(\n",
          stream);
    for (size_t i = 0; i < list->count; i++) {
        fprintf(stream, "        '%s:", list->rows[i]->name);
        put_zsh(list->rows[i]->summary, stream);
        fputs("'\n", stream);
    }
    fputs("        'help:List the commands, or the options of one.'\n"
          "    )\n"
          "    _arguments -C \\\n"
          "        '(- *)'{-h,--help}'[list the commands]' \\\n"
          "        '(- *)'{-V,--version}'[print the version of the library]' \\\n"
          "        '1:command:->command' \\\n"
          "        '*::argument:->argument'\n"
          "    case $state in\n"
          "    command) _describe command commands ;;\n"
          "    argument)\n"
          "        case $words[1] in\n"
          "        help) _arguments '1:command:(",
          stream);
    put_commands(list, stream);
    fputs(")' ;;\n", stream);
    for (size_t i = 0; i < list->count; i++) {
        put_zsh_command(list->rows[i], stream);
    }
    fputs("        esac\n"
          "        ;;\n"
          "    esac\n"
          "}\n\n"
          "_unfurl \"$@\"\n",
          stream);
}

/* -- fish ------------------------------------------------------------------------------------- */

static void put_fish_option(const struct command *command, const struct option *option,
                            FILE *stream) {
    char extension[EXTENSION_SIZE];
    fprintf(stream, "complete -c unfurl -n '__fish_seen_subcommand_from %s' -l %s", command->name,
            option->name);
    if (option->kind == OPTION_CHOICE) {
        fputs(" -x -a '", stream);
        put_choices(option->choices, stream);
        fputc('\'', stream);
    } else if (takes_file(option, extension)) {
        fputs(" -r -F", stream);
    } else if (takes_value(option)) {
        fputs(" -x", stream);
    }
    fputs(" -d '", stream);
    put_quoted(option->help, "\\", "\\'", stream);
    fputs("'\n", stream);
}

static void put_fish_command(const struct command *command, FILE *stream) {
    bool files = false;
    fprintf(stream, "complete -c unfurl -n __fish_use_subcommand -a %s -d '", command->name);
    put_quoted(command->summary, "\\", "\\'", stream);
    fputs("'\n", stream);
    for (size_t i = 0; i < command->option_count; i++) {
        char extension[EXTENSION_SIZE];
        const struct option *option = &command->options[i];
        if (!options_is_operand(option)) {
            put_fish_option(command, option, stream);
        } else if (!files && takes_file(option, extension)) {
            fprintf(stream, "complete -c unfurl -n '__fish_seen_subcommand_from %s' -F\n",
                    command->name);
            files = true;
        }
    }
    fprintf(stream,
            "complete -c unfurl -n '__fish_seen_subcommand_from %s' -l help"
            " -d 'Print all options'\n",
            command->name);
}

void completion_print_fish(const struct command_list *list, FILE *stream) {
    fprintf(stream, "# Completion for fish, printed by unfurl %s --print fish.\n", uf_version());
    fputs("complete -c unfurl -f\n"
          "complete -c unfurl -n __fish_use_subcommand -s h -l help -d 'List the commands'\n"
          "complete -c unfurl -n __fish_use_subcommand -s V -l version"
          " -d 'Print the version of the library'\n"
          "complete -c unfurl -n __fish_use_subcommand -a help -d 'The options of a command'\n"
          "complete -c unfurl -n '__fish_seen_subcommand_from help' -a '",
          stream);
    put_commands(list, stream);
    fputs("'\n", stream);
    for (size_t i = 0; i < list->count; i++) {
        put_fish_command(list->rows[i], stream);
    }
}
