#define _GNU_SOURCE /* scandir, alphasort */

#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"
#include "files.h"

bool folder_is(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

char *folder_join(const char *folder, const char *name) {
    const size_t length = strlen(folder), size = length + strlen(name) + 2;
    char *path = malloc(size);
    if (path != NULL) {
        snprintf(path, size, "%s%s%s", folder, folder[length - 1] == '/' ? "" : "/", name);
    }
    return path;
}

const char *folder_name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static int is_picture(const struct dirent *entry) {
    uf_picture_format format;
    return entry->d_name[0] != '.' && file_picture_format(entry->d_name, &format);
}

static int take(const char *path, struct dirent **entries, int count, struct folder *folder) {
    folder->paths = calloc((size_t)count + 1, sizeof *folder->paths);
    if (folder->paths == NULL) {
        return fail("out of memory for the names in %s", path);
    }
    for (int i = 0; i < count; i++) {
        char *one = folder_join(path, entries[i]->d_name);
        if (one == NULL) {
            return fail("out of memory for the names in %s", path);
        }
        if (folder_is(one)) {
            free(one);
        } else {
            folder->paths[folder->count++] = one;
        }
    }
    return folder->count > 0 ? EXIT_DONE : fail("%s has no pictures: .png, .jpg or .jpeg", path);
}

int folder_pictures(const char *path, struct folder *folder) {
    struct dirent **entries = NULL;
    *folder = (struct folder){0};
    const int count = scandir(path, &entries, is_picture, alphasort);
    if (count < 0) {
        return fail("cannot read the folder %s: %s", path, strerror(errno));
    }
    const int status = take(path, entries, count, folder);
    for (int i = 0; i < count; i++) {
        free(entries[i]);
    }
    free(entries);
    return status;
}

void folder_free(struct folder *folder) {
    for (size_t i = 0; i < folder->count; i++) {
        free(folder->paths[i]);
    }
    free(folder->paths);
    *folder = (struct folder){0};
}
