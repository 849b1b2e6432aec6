/* upscale_files.c - the pictures that `unfurl upscale` goes through. */
#include "upscale.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"
#include "files.h"

void upscale_files_free(struct upscale_files *files) {
    for (int64_t i = 0; i < files->count; i++) {
        free(files->list[i].input);
        free(files->list[i].output);
    }
    free(files->list);
    *files = (struct upscale_files){0};
}

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* FOLDER/NAME in memory of its own, or a copy of NAME where the folder is NULL; NULL: no memory. */
static char *joined(const char *folder, const char *name) {
    const size_t size = (folder != NULL ? strlen(folder) + 1 : 0) + strlen(name) + 1;
    char *path = malloc(size);
    if (path != NULL && folder != NULL) {
        const bool ends = folder[strlen(folder) - 1] == '/';
        snprintf(path, size, "%s%s%s", folder, ends ? "" : "/", name);
    } else if (path != NULL) {
        memcpy(path, name, size);
    }
    return path;
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
    files->list[files->count++] = (struct upscale_file){input, output};
    return input != NULL && output != NULL ? EXIT_DONE
                                           : fail("out of memory for the names of files");
}

/* ---- folders ---- */

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int compare_outputs(const void *a, const void *b) {
    return strcmp((*(const struct upscale_file *const *)a)->output,
                  (*(const struct upscale_file *const *)b)->output);
}

struct names {
    char **list;
    size_t count, capacity;
};

/* The names of the pictures in an open folder, in no order; false: no memory. */
static bool list_pictures(DIR *folder, struct names *names) {
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        uf_picture_format format;
        if (entry->d_name[0] == '.' || !file_picture_format(entry->d_name, &format)) {
            continue;
        }
        if (names->count == names->capacity) {
            names->capacity = names->capacity > 0 ? 2 * names->capacity : 16;
            char **list = realloc(names->list, names->capacity * sizeof *list);
            if (list == NULL) {
                return false;
            }
            names->list = list;
        }
        names->list[names->count] = joined(NULL, entry->d_name);
        if (names->list[names->count] == NULL) {
            return false;
        }
        names->count++;
    }
    return true;
}

static int add_names(const char *from, const char *to, const struct names *names,
                     struct upscale_files *files) {
    const int64_t before = files->count;
    for (size_t i = 0; i < names->count; i++) {
        char *input = joined(from, names->list[i]);
        if (input != NULL && is_folder(input)) {
            free(input);
            continue;
        }
        TRY(add(files, input, joined(to, names->list[i])));
    }
    return files->count > before ? EXIT_DONE
                                 : fail("%s has no pictures: .png, .jpg or .jpeg", from);
}

/* Each picture of a folder, in the order of their names. */
static int add_folder(const char *from, const char *to, struct upscale_files *files) {
    DIR *folder = opendir(from);
    if (folder == NULL) {
        return fail("cannot open the folder %s: %s", from, strerror(errno));
    }
    struct names names = {0};
    const bool listed = list_pictures(folder, &names);
    closedir(folder);
    int status = EXIT_DONE;
    if (listed) {
        if (names.count > 0) {
            qsort(names.list, names.count, sizeof *names.list, compare_names);
        }
        status = add_names(from, to, &names, files);
    } else {
        status = fail("out of memory for the names in %s", from);
    }
    for (size_t i = 0; i < names.count; i++) {
        free(names.list[i]);
    }
    free(names.list);
    return status;
}

static int add_operand(const char *path, const char *to, struct upscale_files *files) {
    if (is_folder(path)) {
        return add_folder(path, to, files);
    }
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    uf_picture_format format;
    if (!file_picture_format(name, &format)) {
        return fail_usage("upscale: a result keeps its picture's name, and that of %s does not "
                          "end in .png, .jpg or .jpeg",
                          path);
    }
    return add(files, joined(NULL, path), joined(to, name));
}

/* ---- what would be lost ---- */

static bool is_same_file(const char *a, const char *b) {
    struct stat first, second;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
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
    if (is_folder(path) || mkdir(path, 0777) == 0) {
        return EXIT_DONE;
    }
    return fail("cannot make the folder %s: %s", path, strerror(errno));
}

int upscale_files_find(const struct upscale_arguments *arguments, struct upscale_files *files) {
    const struct option_list *others = &arguments->others;
    const int64_t last = others->count - 1;
    const char *output = others->texts[last];
    uf_picture_format format;
    const bool is_file = file_kind_of(output) == FILE_HDF5 || file_picture_format(output, &format);
    const bool many = last > 0 || is_folder(arguments->input);
    if (is_file && many) {
        return fail_usage("upscale: several pictures go to a folder, and %s is a file's name",
                          output);
    }
    if (!is_file && !many && output[strlen(output) - 1] != '/' && !is_folder(output)) {
        return fail_usage("upscale: the output is '%s'; its name must end in .png, .jpg or .h5, or "
                          "be that of a folder",
                          output);
    }
    if (is_file) {
        return add(files, joined(NULL, arguments->input), joined(NULL, output));
    }
    TRY(add_operand(arguments->input, output, files));
    for (int64_t i = 0; i < last; i++) {
        TRY(add_operand(others->texts[i], output, files));
    }
    TRY(check_lost(files));
    return make_folder(output);
}
