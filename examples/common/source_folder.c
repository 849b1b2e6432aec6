/* source_folder.c - a folder of PNG and JPEG pictures, or of folders of such, one a class. A
 * picture is read when it is wanted, and kept where there is room for it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/common.h"
#include "common/source.h"

typedef enum format { FORMAT_NONE, FORMAT_PNG, FORMAT_JPEG, FORMAT_COUNT } format;

typedef struct entry {
    char *path; /* owned */
    format format;
    int label;
} entry;

typedef struct folder {
    entry *entries;
    int64_t count, room;
    int64_t formats[FORMAT_COUNT]; /* files of each */
    pthread_mutex_t lock;          /* of what follows */
    loaded *cache;      /* [count], zeroed where the picture is not kept; NULL without a cache */
    int64_t cache_left; /* bytes */
} folder;

/* ---- the list of files ---- */

static char *join(const char *path, const char *name) {
    const size_t size = strlen(path) + strlen(name) + 2;
    char *joined = allocate((int64_t)size, 1);
    snprintf(joined, size, "%s/%s", path, name);
    return joined;
}

/* By the first bytes. */
static format format_of(const char *path) {
    unsigned char first[8] = {0};
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = file < 0 ? -1 : read(file, first, sizeof first);
    if (got < 0) fail("cannot read %s: %s", path, strerror(errno));
    close(file);
    if (memcmp(first, "\x89PNG\r\n\x1a\n", 8) == 0) return FORMAT_PNG;
    return memcmp(first, "\xff\xd8\xff", 3) == 0 ? FORMAT_JPEG : FORMAT_NONE;
}

static bool claims_to_be_a_picture(const char *path) {
    const char *ending = strrchr(path, '.');
    return ending != NULL && (strcasecmp(ending, ".png") == 0 || strcasecmp(ending, ".jpg") == 0 ||
                              strcasecmp(ending, ".jpeg") == 0);
}

/* Takes `path`. */
static void add_file(folder *f, char *path, int label) {
    const format kind = format_of(path);
    ++f->formats[kind];
    if (kind == FORMAT_NONE) {
        if (claims_to_be_a_picture(path)) fail("%s is neither a PNG nor a JPEG picture", path);
        free(path);
        return;
    }
    if (kind == FORMAT_JPEG && !uf_picture_has_format(UF_PICTURE_JPEG)) {
        fail("%s is a JPEG picture; this build reads none, for it has no libjpeg-turbo", path);
    }
    if (f->count == f->room) {
        f->room = f->room == 0 ? 1024 : 2 * f->room;
        entry *entries = realloc(f->entries, (size_t)f->room * sizeof *entries);
        if (entries == NULL) fail("no memory for the names of %" PRId64 " pictures", f->room);
        f->entries = entries;
    }
    f->entries[f->count++] = (entry){path, kind, label};
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a folder in the order of their bytes; names that begin with a dot are left out. */
static char **list_names(const char *path, int64_t *count) {
    DIR *directory = opendir(path);
    if (directory == NULL) fail("cannot open %s: %s", path, strerror(errno));
    char **names = NULL;
    int64_t room = 0;
    *count = 0;
    for (struct dirent *item; errno = 0, (item = readdir(directory)) != NULL;) {
        if (item->d_name[0] == '.') continue;
        if (*count == room) {
            room = room == 0 ? 1024 : 2 * room;
            char **grown = realloc(names, (size_t)room * sizeof *names);
            if (grown == NULL) fail("no memory for the names in %s", path);
            names = grown;
        }
        names[*count] = strcpy(allocate((int64_t)strlen(item->d_name) + 1, 1), item->d_name);
        ++*count;
    }
    if (errno != 0) fail("cannot read the folder %s: %s", path, strerror(errno));
    closedir(directory);
    if (*count > 0) qsort(names, (size_t)*count, sizeof *names, compare_names);
    return names;
}

/* Add the files of one folder; the names of the folders in it stay in names[], the rest becomes
 * NULL. */
static void add_files(folder *f, const char *path, char **names, int64_t count, int label) {
    for (int64_t i = 0; i < count; ++i) {
        char *inner = join(path, names[i]);
        struct stat about;
        if (stat(inner, &about) != 0) fail("cannot open %s: %s", inner, strerror(errno));
        if (S_ISDIR(about.st_mode)) {
            free(inner);
            continue;
        }
        free(names[i]);
        names[i] = NULL;
        if (S_ISREG(about.st_mode)) {
            add_file(f, inner, label);
        } else {
            free(inner);
        }
    }
}

/* The pictures of a folder within the folder are one class; without any, it is none. */
static void add_class(folder *f, source *to, const char *path, char *name) {
    char *inner = join(path, name);
    int64_t count;
    char **names = list_names(inner, &count);
    const int64_t before = f->count;
    add_files(f, inner, names, count, to->classes);
    for (int64_t i = 0; i < count; ++i) free(names[i]);
    free(names);
    free(inner);
    if (f->count > before) {
        to->class_names[to->classes++] = name;
    } else {
        free(name);
    }
}

static void list_pictures(folder *f, source *to, const char *path) {
    int64_t count;
    char **names = list_names(path, &count);
    add_files(f, path, names, count, 0);
    const int64_t without_class = f->count;
    to->class_names = allocate(count, sizeof *to->class_names);
    for (int64_t i = 0; i < count; ++i) {
        if (names[i] != NULL) add_class(f, to, path, names[i]);
    }
    free(names);
    if (f->count == 0) {
        fail("%s holds no pictures: it has neither Fashion-MNIST's files nor PNG or JPEG pictures, "
             "nor folders with such",
             path);
    }
    if (without_class > 0 && to->classes > 0) {
        fail("%s holds %" PRId64 " pictures beside %d folders of pictures: they have no class",
             path, without_class, to->classes);
    }
}

/* ---- one picture ---- */

static bool load_file(const entry *file, loaded *picture, source_error *error) {
    if (uf_picture_read(file->path, NULL, &picture->file) != UF_OK) {
        snprintf(error->text, sizeof error->text, "%s", uf_last_error());
        return false;
    }
    const uf_picture *read = &picture->file;
    picture->samples = (samples){
        .values = read->samples,
        .type = read->depth == 16 ? SAMPLE_U16 : SAMPLE_U8,
        .width = read->width,
        .height = read->height,
        .channels = read->channels,
        .pixel_stride = read->channels,
        .channel_stride = 1,
    };
    return true;
}

/* A picture that is kept is lent. */
static bool lend(folder *f, int64_t index, loaded *picture) {
    if (f->cache == NULL) return false;
    pthread_mutex_lock(&f->lock);
    *picture = (loaded){.samples = f->cache[index].samples};
    pthread_mutex_unlock(&f->lock);
    return picture->samples.values != NULL;
}

/* Keep a picture where there is room, and lend it. */
static void keep(folder *f, int64_t index, loaded *picture) {
    if (f->cache == NULL) return;
    const samples *s = &picture->samples;
    const int64_t bytes = s->width * s->height * s->channels * (s->type == SAMPLE_U16 ? 2 : 1);
    pthread_mutex_lock(&f->lock);
    /* Another thread may have been faster. */
    if (bytes <= f->cache_left && f->cache[index].samples.values == NULL) {
        f->cache_left -= bytes;
        f->cache[index] = *picture;
        *picture = (loaded){.samples = f->cache[index].samples};
    }
    pthread_mutex_unlock(&f->lock);
}

static bool load(void *self, int64_t index, loaded *picture, source_error *error) {
    folder *f = self;
    if (lend(f, index, picture)) return true;
    if (!load_file(&f->entries[index], picture, error)) return false;
    keep(f, index, picture);
    return true;
}

static void close_folder(void *self) {
    folder *f = self;
    for (int64_t i = 0; i < f->count; ++i) {
        free(f->entries[i].path);
        if (f->cache != NULL) loaded_free(&f->cache[i]);
    }
    free(f->cache);
    free(f->entries);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

void source_open_folder(source *to, const data_options *options) {
    folder *f = allocate(1, sizeof *f);
    list_pictures(f, to, options->path);
    if (pthread_mutex_init(&f->lock, NULL) != 0) fail("cannot make a lock for threads");
    if (options->cache_bytes > 0) {
        f->cache = allocate(f->count, sizeof *f->cache);
        f->cache_left = options->cache_bytes;
    }
    to->count = f->count;
    to->self = f;
    to->load = load;
    to->close = close_folder;
    if (to->classes > 0) {
        to->labels = allocate(f->count, sizeof *to->labels);
        for (int64_t i = 0; i < f->count; ++i) to->labels[i] = f->entries[i].label;
    }
    source_describe(to, "%s: %" PRId64 " PNG and %" PRId64 " JPEG pictures", options->path,
                    f->formats[FORMAT_PNG], f->formats[FORMAT_JPEG]);
}
