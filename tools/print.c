#include "print.h"

#include <string.h>

#include "networks.h"

static const struct {
    const char *name;
    void (*print)(const struct command_list *list, FILE *stream);
} shells[] = {
    {"bash", completion_print_bash},
    {"zsh", completion_print_zsh},
    {"fish", completion_print_fish},
};

static int print_manual(const struct command_list *list, int count, char *const *words) {
    const struct command *one = NULL;
    for (size_t i = 0; count > 0 && i < list->count; i++) {
        one = strcmp(words[0], list->rows[i]->name) == 0 ? list->rows[i] : one;
    }
    if (count > 0 && one == NULL) {
        return fail_usage("--print man: there is no command '%s'; 'unfurl --help' lists them",
                          words[0]);
    }
    if (count > 1) {
        return fail_usage("--print man: unexpected argument '%s'", words[1]);
    }
    manual_print(list, one, stdout);
    return EXIT_DONE;
}

int print_page(const struct command_list *list, int count, char *const *words) {
    if (count == 0) {
        return fail_usage("--print needs a value: man, bash, zsh or fish");
    }
    if (strcmp(words[0], "man") == 0) {
        return print_manual(list, count - 1, words + 1);
    }
    if (strcmp(words[0], "networks") == 0 && count == 1) {
        networks_print(stdout);
        return EXIT_DONE;
    }
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        if (strcmp(words[0], shells[i].name) == 0) {
            if (count > 1) {
                return fail_usage("--print %s: unexpected argument '%s'", words[0], words[1]);
            }
            shells[i].print(list, stdout);
            return EXIT_DONE;
        }
    }
    return fail_usage("--print is '%s'; it takes man, bash, zsh or fish", words[0]);
}
