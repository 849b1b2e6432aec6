#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

static size_t smallest(size_t a, size_t b, size_t c) {
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Levenshtein's distance, one row at a time; words longer than any name we have are far from it. */
static size_t edit_distance(const char *a, const char *b) {
    enum { LONGEST = 48 };
    size_t row[LONGEST + 1];
    size_t length_a = strlen(a);
    size_t length_b = strlen(b);
    if (length_a > LONGEST || length_b > LONGEST) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= length_b; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= length_a; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length_b; j++) {
            size_t above = row[j];
            size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U);
            row[j] = smallest(above + 1, row[j - 1] + 1, substituted);
            diagonal = above;
        }
    }
    return row[length_b];
}

const char *options_nearest(const char *word, const char *const *candidates, size_t count) {
    const char *nearest = NULL;
    size_t nearest_distance = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(word, candidates[i]);
        if (distance < nearest_distance) {
            nearest = candidates[i];
            nearest_distance = distance;
        }
    }
    return nearest_distance <= 2 && nearest_distance < strlen(word) ? nearest : NULL;
}

/* "auto, cpu or cuda" */
static void list_choices(const struct option *option, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; option->choices[i] != NULL && used < size; i++) {
        bool last = option->choices[i + 1] == NULL;
        const char *separator = i == 0 ? "" : last ? " or " : ", ";
        int written = snprintf(text + used, size - used, "%s%s", separator, option->choices[i]);
        used += written > 0 ? (size_t)written : 0;
    }
}

/* "an integer from 1 to 100000": what the option takes, for messages. */
static void describe_value(const struct option *option, char *text, size_t size) {
    if (option->kind == OPTION_INTEGER) {
        snprintf(text, size, "an integer from %" PRId64 " to %" PRId64, option->minimum,
                 option->maximum);
    } else if (option->kind == OPTION_PAIR) {
        snprintf(text, size, "an integer from %" PRId64 " to %" PRId64 ", or two such as 3x5",
                 option->minimum, option->maximum);
    } else if (option->kind == OPTION_CHOICE) {
        list_choices(option, text, size);
    } else {
        snprintf(text, size, "%s", option->value);
    }
}

/* The integer at *text, in the option's range; *text goes behind it. strtoll alone takes "\n+3". */
static bool parse_integer(const struct option *option, const char **text, int64_t *value) {
    char *end = NULL;
    if (strchr("-0123456789", **text) == NULL) {
        return false;
    }
    errno = 0;
    const long long number = strtoll(*text, &end, 10);
    if (end == *text || errno == ERANGE || number < option->minimum || number > option->maximum) {
        return false;
    }
    *value = number;
    *text = end;
    return true;
}

/* "3" is one integer, or a pair of two that are the same; "3x5" is a pair only. */
static bool parse_integers(const struct option *option, const char *text, int64_t pair[2]) {
    if (!parse_integer(option, &text, &pair[0])) {
        return false;
    }
    pair[1] = pair[0];
    if (option->kind == OPTION_PAIR && *text == 'x') {
        text++;
        if (!parse_integer(option, &text, &pair[1])) {
            return false;
        }
    }
    return *text == '\0';
}

/* How many integers the option's member has. */
static size_t integer_count(const struct option *option) {
    return option->kind == OPTION_PAIR ? 2 : option->kind == OPTION_INTEGER ? 1 : 0;
}

static int append_text(const struct command *command, const struct option *option,
                       const char *value, struct option_list *list) {
    if (list->count == OPTION_LIST_SIZE) {
        return fail_usage("%s: %s%s may be given %d times", command->name,
                          options_is_operand(option) ? "" : "--", option->name, OPTION_LIST_SIZE);
    }
    list->texts[list->count++] = value;
    return EXIT_DONE;
}

static int store_value(const struct command *command, const struct option *option,
                       const char *value, void *arguments) {
    char *member = (char *)arguments + option->offset;
    char expected[128];
    describe_value(option, expected, sizeof expected);
    switch (option->kind) {
    case OPTION_INTEGER:
    case OPTION_PAIR: {
        int64_t pair[2];
        if (!parse_integers(option, value, pair)) {
            return fail_usage("%s: --%s is '%s'; it takes %s", command->name, option->name, value,
                              expected);
        }
        memcpy(member, pair, integer_count(option) * sizeof pair[0]);
        return EXIT_DONE;
    }
    case OPTION_CHOICE:
        for (int32_t i = 0; option->choices[i] != NULL; i++) {
            if (strcmp(value, option->choices[i]) == 0) {
                memcpy(member, &i, sizeof i);
                return EXIT_DONE;
            }
        }
        return fail_usage("%s: --%s is '%s'; it takes %s", command->name, option->name, value,
                          expected);
    case OPTION_LIST:
    case OPTION_OPERAND:
    case OPTION_OPERANDS:
    case OPTION_TEXT:
        if (value[0] == '\0') {
            return fail_usage("%s: %s%s is empty", command->name,
                              options_is_operand(option) ? "" : "--", option->name);
        }
        if (option->kind == OPTION_LIST || option->kind == OPTION_OPERANDS) {
            return append_text(command, option, value, (struct option_list *)(void *)member);
        }
        memcpy(member, &value, sizeof value);
        return EXIT_DONE;
    case OPTION_FLAG:
        break;
    }
    bool set = true;
    memcpy(member, &set, sizeof set);
    return EXIT_DONE;
}

bool options_is_operand(const struct option *option) {
    return option->kind == OPTION_OPERAND || option->kind == OPTION_OPERANDS;
}

static void store_fallbacks(const struct command *command, void *arguments) {
    for (size_t i = 0; i < command->option_count; i++) {
        const struct option *option = &command->options[i];
        const int64_t pair[2] = {option->fallback, option->fallback};
        /* Zeroed memory is the default of the other kinds. */
        memcpy((char *)arguments + option->offset, pair, integer_count(option) * sizeof pair[0]);
    }
}

static int unknown_option(const struct command *command, const char *name) {
    const char *names[64] = {"help"};
    size_t count = 1;
    for (size_t i = 0; i < command->option_count && count < 64; i++) {
        if (!options_is_operand(&command->options[i])) {
            names[count++] = command->options[i].name;
        }
    }
    const char *nearest = options_nearest(name, names, count);
    if (nearest != NULL) {
        return fail_usage("%s: unknown option --%s; did you mean --%s?", command->name, name,
                          nearest);
    }
    return fail_usage("%s: unknown option --%s; 'unfurl %s --help' lists them", command->name, name,
                      command->name);
}

/* Take the option at words[*index], with its value from the same word or the next one. */
static int parse_option(const struct command *command, int count, char *const *words, int *index,
                        void *arguments) {
    const char *word = words[*index] + 2;
    size_t length = strcspn(word, "=");
    const char *value = word[length] == '=' ? word + length + 1 : NULL;
    const struct option *option = NULL;
    for (size_t i = 0; i < command->option_count && option == NULL; i++) {
        const struct option *row = &command->options[i];
        if (!options_is_operand(row) && strlen(row->name) == length &&
            memcmp(row->name, word, length) == 0) {
            option = row;
        }
    }
    if (option == NULL) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(length < 60 ? length : 60), word);
        if (strcmp(name, "help") == 0) {
            return fail_usage("%s: --help takes no value", command->name);
        }
        return unknown_option(command, name);
    }
    if (option->kind == OPTION_FLAG) {
        if (value != NULL) {
            return fail_usage("%s: --%s takes no value", command->name, option->name);
        }
        return store_value(command, option, "", arguments);
    }
    if (value == NULL) {
        if (*index + 1 >= count || strncmp(words[*index + 1], "--", 2) == 0) {
            char expected[128];
            describe_value(option, expected, sizeof expected);
            return fail_usage("%s: --%s needs a value: %s", command->name, option->name, expected);
        }
        value = words[++*index];
    }
    return store_value(command, option, value, arguments);
}

static bool is_given(const struct option *option, const void *arguments) {
    const char *member = (const char *)arguments + option->offset;
    if (integer_count(option) > 0) {
        int64_t first;
        memcpy(&first, member, sizeof first);
        return first >= option->minimum && first <= option->maximum;
    }
    const char *text = NULL;
    memcpy(&text, member, sizeof text); /* the first one of a list */
    return text != NULL;
}

/* The first operand that has no value yet, else the one that takes more, or NULL. */
static const struct option *next_operand(const struct command *command, const void *arguments) {
    const struct option *more = NULL;
    for (size_t i = 0; i < command->option_count; i++) {
        const struct option *option = &command->options[i];
        if (options_is_operand(option) && !is_given(option, arguments)) {
            return option;
        }
        more = option->kind == OPTION_OPERANDS ? option : more;
    }
    return more;
}

static int check_required(const struct command *command, const void *arguments) {
    const struct option *operand = next_operand(command, arguments);
    if (operand != NULL && !operand->optional && !is_given(operand, arguments)) {
        return fail_usage("%s: %s is missing", command->name, operand->name);
    }
    for (size_t i = 0; i < command->option_count; i++) {
        const struct option *option = &command->options[i];
        if (option->required && !is_given(option, arguments)) {
            return fail_usage("%s: --%s %s is missing", command->name, option->name, option->value);
        }
    }
    return EXIT_DONE;
}

int options_parse(const struct command *command, int count, char *const *words, void *arguments) {
    store_fallbacks(command, arguments);
    /* Help answers whatever else is wrong with the line. */
    for (int i = 0; i < count && strcmp(words[i], "--") != 0; i++) {
        if (strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0) {
            return -1;
        }
    }
    bool options_end = false;
    for (int i = 0; i < count; i++) {
        const char *word = words[i];
        if (!options_end && strcmp(word, "--") == 0) {
            options_end = true;
        } else if (!options_end && strncmp(word, "--", 2) == 0) {
            TRY(parse_option(command, count, words, &i, arguments));
        } else if (!options_end && word[0] == '-' && word[1] != '\0') {
            return fail_usage("%s: unknown option %s; options begin with two dashes", command->name,
                              word);
        } else {
            const struct option *operand = next_operand(command, arguments);
            if (operand == NULL) {
                return fail_usage("%s: unexpected argument '%s'", command->name, word);
            }
            TRY(store_value(command, operand, word, arguments));
        }
    }
    return check_required(command, arguments);
}

void options_format(const struct option *option, char *text, size_t size) {
    if (options_is_operand(option)) {
        const char *more = option->kind == OPTION_OPERANDS ? "[...] " : "";
        snprintf(text, size, "%s%s", more, option->name);
        return;
    }
    int used = snprintf(text, size, "--%s", option->name);
    if (option->kind == OPTION_CHOICE) {
        for (size_t i = 0; option->choices[i] != NULL && used > 0 && (size_t)used < size; i++) {
            used += snprintf(text + used, size - (size_t)used, "%c%s", i == 0 ? ' ' : '|',
                             option->choices[i]);
        }
    } else if (option->kind != OPTION_FLAG && used > 0 && (size_t)used < size) {
        snprintf(text + used, size - (size_t)used, " %s", option->value);
    }
}

void options_format_default(const struct option *option, char *text, size_t size) {
    text[0] = '\0';
    if (option->kind == OPTION_CHOICE) {
        snprintf(text, size, "%s", option->choices[0]);
    } else if (integer_count(option) > 0 && option->fallback >= option->minimum &&
               option->fallback <= option->maximum) {
        snprintf(text, size, "%" PRId64, option->fallback);
    }
}

void options_format_usage(const struct command *command, char *text, size_t size) {
    int used = snprintf(text, size, "unfurl %s", command->name);
    for (size_t i = 0; i < command->option_count; i++) {
        const struct option *option = &command->options[i];
        char word[OPTION_TEXT_SIZE];
        options_format(option, word, sizeof word);
        if ((options_is_operand(option) || option->required) && used > 0 && (size_t)used < size) {
            used += snprintf(text + used, size - (size_t)used, option->optional ? " [%s]" : " %s",
                             word);
        }
    }
    if (used > 0 && (size_t)used < size) {
        snprintf(text + used, size - (size_t)used, " [options]");
    }
}

static void print_row(const struct option *option, FILE *stream) {
    char left[OPTION_TEXT_SIZE];
    char usual[OPTION_TEXT_SIZE];
    options_format(option, left, sizeof left);
    options_format_default(option, usual, sizeof usual);
    fprintf(stream, "  %-26s %s", left, option->help);
    if (usual[0] != '\0') {
        fprintf(stream, " (%s)", usual);
    }
    fputc('\n', stream);
}

/* Each line of the command's example, after two spaces. */
static void print_example(const char *example, FILE *stream) {
    fputs("\nExample:\n", stream);
    while (*example != '\0') {
        const int length = (int)strcspn(example, "\n");
        fprintf(stream, "  %.*s\n", length, example);
        example += length + (example[length] == '\n' ? 1 : 0);
    }
}

void options_print_help(const struct command *command, FILE *stream) {
    char usage[OPTION_USAGE_SIZE];
    options_format_usage(command, usage, sizeof usage);
    fprintf(stream, "Usage: %s\n\n%s\n", usage, command->summary);
    if (command->details != NULL) {
        fprintf(stream, "\n%s\n", command->details);
    }
    fputc('\n', stream);
    for (size_t i = 0; i < command->option_count; i++) {
        print_row(&command->options[i], stream);
    }
    fprintf(stream, "  %-26s %s\n", "--help", "print this text");
    if (command->example != NULL) {
        print_example(command->example, stream);
    }
}
