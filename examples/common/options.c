#include "common/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/common.h"

/* Find `word` among the words of "a|b|c": its number, or -1. */
static int choice_index(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (int index = 0;; ++index) {
        const size_t have = strcspn(words, "|");
        if (have == length && strncmp(words, word, length) == 0) {
            return index;
        }
        if (words[have] == '\0') {
            return -1;
        }
        words += have + 1;
    }
}

/* The value of an option as its user writes it. */
static void format_value(const option *o, char *text, size_t size) {
    const char *word = o->value;
    switch (o->kind) {
    case OPTION_INTEGER:
        snprintf(text, size, "%" PRId64, *(const int64_t *)o->place);
        break;
    case OPTION_NUMBER:
        snprintf(text, size, "%.15g", *(const double *)o->place);
        break;
    case OPTION_TEXT:
        word = *(const char *const *)o->place;
        snprintf(text, size, "%s", word != NULL ? word : "");
        break;
    case OPTION_CHOICE:
        for (int i = *(const int *)o->place; i > 0; --i) {
            word += strcspn(word, "|") + 1;
        }
        snprintf(text, size, "%.*s", (int)strcspn(word, "|"), word);
        break;
    case OPTION_FLAG:
        snprintf(text, size, "%s", *(const bool *)o->place ? "on" : "off");
        break;
    case OPTION_END:
        text[0] = '\0';
        break;
    }
}

static void print_help(const char *purpose, option *const *tables, int count) {
    printf("usage: %s [options]\n\n%s\n\n", example_name, purpose);
    for (int t = 0; t < count; ++t) {
        for (const option *o = tables[t]; o->kind != OPTION_END; ++o) {
            char name[128], value[512];
            snprintf(name, sizeof name, "%s%s%s", o->name, o->kind == OPTION_FLAG ? "" : " ",
                     o->kind == OPTION_FLAG ? "" : o->value);
            format_value(o, value, sizeof value);
            printf(strlen(name) > 25 ? "  %s\n%28s%s" : "  %-25s %s%s", name, "", o->help);
            if (o->kind != OPTION_FLAG && value[0] != '\0') {
                printf(" (%s)", value);
            }
            putchar('\n');
        }
    }
    printf("  %-25s %s\n", "--help", "this text; defaults are in brackets");
}

static void parse_integer(const option *o, const char *text) {
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0' || errno != 0 || (double)value < o->low ||
        (double)value > o->high) {
        fail_usage("%s takes a whole number from %.0f to %.0f, not '%s'", o->name, o->low, o->high,
                   text);
    }
    *(int64_t *)o->place = value;
}

static void parse_number(const option *o, const char *text) {
    char *end;
    const double value = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !(value >= o->low && value <= o->high)) {
        fail_usage("%s takes a number from %g to %g, not '%s'", o->name, o->low, o->high, text);
    }
    *(double *)o->place = value;
}

static void parse_value(const option *o, const char *text) {
    switch (o->kind) {
    case OPTION_INTEGER:
        parse_integer(o, text);
        break;
    case OPTION_NUMBER:
        parse_number(o, text);
        break;
    case OPTION_TEXT:
        if (*text == '\0') {
            fail_usage("%s takes a text that is not empty", o->name);
        }
        *(const char **)o->place = text;
        break;
    case OPTION_CHOICE: {
        const int index = choice_index(o->value, text);
        if (index < 0) {
            fail_usage("%s takes one of %s, not '%s'", o->name, o->value, text);
        }
        *(int *)o->place = index;
        break;
    }
    case OPTION_FLAG:
        *(bool *)o->place = true;
        break;
    case OPTION_END:
        break;
    }
}

static option *find(option *const *tables, int count, const char *name) {
    for (int t = 0; t < count; ++t) {
        for (option *o = tables[t]; o->kind != OPTION_END; ++o) {
            if (strcmp(o->name, name) == 0) {
                return o;
            }
        }
    }
    return NULL;
}

void options_parse(const char *purpose, option *const *tables, int count, int argc,
                   char *const *argv) {
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--help") == 0) {
            print_help(purpose, tables, count);
            exit(0);
        }
        option *o = find(tables, count, argv[i]);
        if (o == NULL) {
            fail_usage("'%s' is no option; --help names them all", argv[i]);
        }
        const bool valued = o->kind != OPTION_FLAG;
        if (valued && i + 1 == argc) {
            fail_usage("%s takes a value, %s", o->name, o->value);
        }
        parse_value(o, valued ? argv[++i] : "");
        o->given = true;
    }
}

void options_record(option *const *tables, int count, char *text, size_t size) {
    size_t length = 0;
    text[0] = '\0';
    for (int t = 0; t < count; ++t) {
        for (const option *o = tables[t]; o->kind != OPTION_END; ++o) {
            if (!o->fixed) {
                continue;
            }
            char value[512];
            format_value(o, value, sizeof value);
            const int added = snprintf(text + length, size - length, "%s %s\n", o->name, value);
            if (added < 0 || (size_t)added >= size - length) {
                fail("the options need more than %zu characters in a checkpoint", size);
            }
            length += (size_t)added;
        }
    }
}
