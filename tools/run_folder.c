/* run_folder.c - `unfurl run` on a folder: one picture after the other, with the model opened once.
 */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "folder.h"

/* The word behind NAME=, or NULL. */
static const char *word_of(const char *text) {
    const char *equals = strchr(text, '=');
    return equals != NULL && equals[1] != '\0' ? equals + 1 : NULL;
}

/* The number of the input that is a folder, or -1. */
static int64_t find_folder(const struct run_arguments *arguments) {
    for (int64_t i = 0; i < arguments->inputs.count; i++) {
        const char *word = word_of(arguments->inputs.texts[i]);
        if (word != NULL && folder_is(word)) {
            return i;
        }
    }
    return -1;
}

bool run_is_folder(const struct run_work *work) {
    return find_folder(work->arguments) >= 0;
}

/* One file of the folder: "NAME=FOLDER/FILE" in place of "NAME=FOLDER". */
static int run_picture(struct run_work *work, const struct run_arguments *whole, int64_t folder,
                       const char *file) {
    struct run_arguments arguments = *whole;
    char *input = folder_join(whole->inputs.texts[folder], file);
    char *output = folder_join(whole->outputs.texts[0], file);
    int status = EXIT_FAILED;
    if (input != NULL && output != NULL) {
        arguments.inputs.texts[folder] = input;
        arguments.outputs.texts[0] = output;
        work->arguments = &arguments;
        status = run_once(work);
        run_forget(work);
        work->arguments = whole;
    } else {
        status = fail("out of memory for the name of %s", file);
    }
    free(input);
    free(output);
    return status;
}

int run_folder(struct run_work *work) {
    const struct run_arguments *whole = work->arguments;
    const int64_t number = find_folder(whole);
    const char *from = word_of(whole->inputs.texts[number]);
    const char *to = whole->outputs.count == 1 ? word_of(whole->outputs.texts[0]) : NULL;
    if (to == NULL || !folder_is(to) || whole->check != NULL) {
        return fail_usage("run: --input is the folder %s; --output NAME=FOLDER names one that is "
                          "there, without --check",
                          from);
    }
    struct folder folder;
    int status = folder_pictures(from, &folder);
    for (size_t i = 0; i < folder.count && status == EXIT_DONE; i++) {
        status = run_picture(work, whole, number, folder_name_of(folder.paths[i]));
    }
    folder_free(&folder);
    return status;
}
