/* upscale_files.c - the pictures that `unfurl upscale` goes through. */
#include "upscale.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"
#include "files.h"
#include "folder.h"

void upscale_files_free(struct upscale_files *files) {
    for (int64_t i = 0; i < files->count; i++) {
        free(files->list[i].input);
        free(files->list[i].output);
    }
    free(files->list);
    streams_free(&files->streams);
    *files = (struct upscale_files){0};
}

/* Both paths become the list's; NULL stands for memory that was not to be had. */
static int add(struct upscale_files *files, char *input, char *output) {
    if (files->count == files->capacity) {
        const int64_t capacity = files->capacity > 0 ? 2 * files->capacity : 16;
        struct upscale_file *list = realloc(files->list, (size_t)capacity * sizeof *list);
        if (list == NULL) {
            free(input);
            free(output);
            return fail("out of memory for the names of files");
        }
        files->list = list;
        files->capacity = capacity;
    }
    files->list[files->count++] = (struct upscale_file){.input = input, .output = output};
    return input != NULL && output != NULL ? EXIT_DONE
                                           : fail("out of memory for the names of files");
}

/* Each picture of a folder. */
static int add_folder(const char *from, const char *to, struct upscale_files *files) {
    struct folder folder;
    int status = folder_pictures(from, &folder);
    for (size_t i = 0; i < folder.count && status == EXIT_DONE; i++) {
        const char *path = folder.paths[i];
        status = add(files, strdup(path), folder_join(to, folder_name_of(path)));
    }
    folder_free(&folder);
    return status;
}

static int add_operand(const char *path, const char *to, struct upscale_files *files) {
    if (folder_is(path)) {
        return add_folder(path, to, files);
    }
    const char *name = folder_name_of(path);
    uf_picture_format format;
    if (!file_picture_format(name, &format)) {
        return fail_usage("upscale: a result keeps its picture's name, and that of %s does not "
                          "end in .png, .jpg or .jpeg",
                          path);
    }
    return add(files, strdup(path), folder_join(to, name));
}

/* ---- what would be lost ---- */

static bool is_same_file(const char *a, const char *b) {
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

static int compare_outputs(const void *a, const void *b) {
    return strcmp((*(const struct upscale_file *const *)a)->output,
                  (*(const struct upscale_file *const *)b)->output);
}

static int check_twice(const struct upscale_files *files) {
    const struct upscale_file **sorted = malloc((size_t)files->count * sizeof *sorted);
    if (sorted == NULL) {
        return fail("out of memory for the names of files");
    }
    for (int64_t i = 0; i < files->count; i++) {
        sorted[i] = &files->list[i];
    }
    qsort(sorted, (size_t)files->count, sizeof *sorted, compare_outputs);
    int status = EXIT_DONE;
    for (int64_t i = 1; i < files->count && status == EXIT_DONE; i++) {
        if (strcmp(sorted[i - 1]->output, sorted[i]->output) == 0) {
            status = fail_usage("upscale: both %s and %s would become %s", sorted[i - 1]->input,
                                sorted[i]->input, sorted[i]->output);
        }
    }
    free(sorted);
    return status;
}

static int check_lost(const struct upscale_files *files) {
    for (int64_t i = 0; i < files->count; i++) {
        if (is_same_file(files->list[i].input, files->list[i].output)) {
            return fail_usage("upscale: %s would be replaced by its own result; name another "
                              "folder",
                              files->list[i].input);
        }
    }
    return check_twice(files);
}

/* ---- operands ---- */

static int make_folder(const char *path) {
    if (folder_is(path) || mkdir(path, 0777) == 0) {
        return EXIT_DONE;
    }
    return fail("cannot make the folder %s: %s", path, strerror(errno));
}

/* The one picture, from `input` to stdout. */
static int add_stdout(const char *input, const char *output, const char *type,
                      struct upscale_files *files) {
    char path[64];
    uf_picture_format format;
    snprintf(path, sizeof path, "output.%s", type);
    if (file_kind_of(path) != FILE_HDF5 && !file_picture_format(path, &format)) {
        return fail_usage("upscale: the output is '%s'; stdout gets a picture or HDF5: -, png:-, "
                          "jpg:- or h5:-",
                          output);
    }
    TRY(add(files, strdup(input), strdup(output)));
    files->list[0].stdout_type = type;
    return streams_take_output(&files->streams);
}

int upscale_files_find(const struct upscale_arguments *arguments, struct upscale_files *files) {
    const struct option_list *others = &arguments->others;
    const int64_t last = others->count - 1;
    const char *output = others->texts[last];
    uf_picture_format format;
    const char *type = streams_output_type(output);
    const bool is_file =
        type != NULL || file_kind_of(output) == FILE_HDF5 || file_picture_format(output, &format);
    const bool many = last > 0 || folder_is(arguments->input);
    if (is_file && many) {
        return fail_usage("upscale: several pictures go to a folder, and %s is %s", output,
                          type != NULL ? "stdout" : "a file's name");
    }
    if (!is_file && !many && output[strlen(output) - 1] != '/' && !folder_is(output)) {
        return fail_usage("upscale: the output is '%s'; its name must end in .png, .jpg or .h5, or "
                          "be that of a folder",
                          output);
    }
    if (type != NULL) {
        return add_stdout(arguments->input, output, type, files);
    }
    if (is_file) {
        return add(files, strdup(arguments->input), strdup(output));
    }
    TRY(add_operand(arguments->input, output, files));
    for (int64_t i = 0; i < last; i++) {
        TRY(add_operand(others->texts[i], output, files));
    }
    TRY(check_lost(files));
    return make_folder(output);
}
