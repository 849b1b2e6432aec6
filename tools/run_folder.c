/* run_folder.c - `unfurl run` on a folder: one picture after the other, with the model opened once.
 */
#define _GNU_SOURCE /* scandir, alphasort */

#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"
#include "files.h"

enum { FOLDER_PATH_SIZE = 4096 + UF_NAME_SIZE };

static bool is_folder(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* The word behind NAME=, or NULL. */
static const char *word_of(const char *text) {
    const char *equals = strchr(text, '=');
    return equals != NULL && equals[1] != '\0' ? equals + 1 : NULL;
}

/* The number of the input that is a folder, or -1. */
static int64_t find_folder(const struct run_arguments *arguments) {
    for (int64_t i = 0; i < arguments->inputs.count; i++) {
        const char *word = word_of(arguments->inputs.texts[i]);
        if (word != NULL && is_folder(word)) {
            return i;
        }
    }
    return -1;
}

bool run_is_folder(const struct run_work *work) {
    return find_folder(work->arguments) >= 0;
}

static int is_picture(const struct dirent *entry) {
    uf_picture_format format;
    return entry->d_name[0] != '.' && file_picture_format(entry->d_name, &format);
}

/* "NAME=FOLDER/FILE" of "NAME=FOLDER". */
static int join(const char *text, const char *file, char joined[FOLDER_PATH_SIZE]) {
    const int length = snprintf(joined, FOLDER_PATH_SIZE, "%s/%s", text, file);
    return length > 0 && length < FOLDER_PATH_SIZE ? EXIT_DONE
                                                   : fail("the name %s/%s is too long", text, file);
}

static int run_picture(struct run_work *work, const struct run_arguments *whole, int64_t folder,
                       const char *file) {
    char input[FOLDER_PATH_SIZE], output[FOLDER_PATH_SIZE];
    struct run_arguments arguments = *whole;
    TRY(join(whole->inputs.texts[folder], file, input));
    TRY(join(whole->outputs.texts[0], file, output));
    arguments.inputs.texts[folder] = input;
    arguments.outputs.texts[0] = output;
    work->arguments = &arguments;
    const int status = run_once(work);
    run_forget(work);
    work->arguments = whole;
    return status;
}

int run_folder(struct run_work *work) {
    const struct run_arguments *whole = work->arguments;
    const int64_t folder = find_folder(whole);
    const char *from = word_of(whole->inputs.texts[folder]);
    const char *to = whole->outputs.count == 1 ? word_of(whole->outputs.texts[0]) : NULL;
    if (to == NULL || !is_folder(to) || whole->check != NULL) {
        return fail_usage("run: --input is the folder %s; --output NAME=FOLDER names one that is "
                          "there, without --check",
                          from);
    }
    struct dirent **entries = NULL;
    const int count = scandir(from, &entries, is_picture, alphasort);
    if (count < 0) {
        return fail("cannot read the folder %s: %s", from, strerror(errno));
    }
    int status = count > 0 ? EXIT_DONE : fail("%s holds no .png and no .jpg", from);
    for (int i = 0; i < count; i++) {
        if (status == EXIT_DONE) {
            status = run_picture(work, whole, folder, entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}
