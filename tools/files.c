#include "files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "command.h"
#include "signals.h"

enum { PATH_SIZE = 4096 };

enum file_kind file_kind_of(const char *path) {
    const char *dot = strrchr(path, '.');
    if (dot == NULL || strchr(dot, '/') != NULL) {
        return FILE_OTHER;
    }
    if (strcasecmp(dot, ".png") == 0) {
        return FILE_PNG;
    }
    return strcasecmp(dot, ".h5") == 0 || strcasecmp(dot, ".hdf5") == 0 ? FILE_HDF5 : FILE_OTHER;
}

bool file_picture_format(const char *path, uf_picture_format *format) {
    const char *dot = strrchr(path, '.');
    const bool is_jpeg =
        dot != NULL && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0);
    *format = is_jpeg ? UF_PICTURE_JPEG : UF_PICTURE_PNG;
    return is_jpeg || file_kind_of(path) == FILE_PNG;
}

uf_picture_write_options file_picture_options(const char *path, int64_t threads, int64_t quality) {
    uf_picture_write_options options = uf_picture_write_options_default();
    (void)file_picture_format(path, &options.format);
    options.quality = (int32_t)quality;
    options.threads = threads < 1 ? 0 : (int32_t)threads;
    return options;
}

int file_write_picture(const char *path, const uf_picture *picture, int64_t threads,
                       int64_t quality) {
    const uf_picture_write_options options = file_picture_options(path, threads, quality);
    signals_hold();
    const uf_status status = uf_picture_write(path, picture, &options);
    signals_release();
    TRY_LIBRARY(status);
    return EXIT_DONE;
}

int file_write(const char *path, const char *name, uf_dtype dtype, uf_shape shape,
               const void *values, const uf_picture *picture, int64_t threads) {
    if (values == NULL) {
        return file_write_picture(path, picture, threads,
                                  uf_picture_write_options_default().quality);
    }
    signals_hold();
    const uf_status status = uf_hdf5_write(path, name, dtype, shape, values);
    signals_release();
    TRY_LIBRARY(status);
    return EXIT_DONE;
}

/* Make a file of these bytes, or say why not in errno. */
static bool make_file(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wbx");
    if (file == NULL) {
        return false;
    }
    bool written = fwrite(bytes, 1, size, file) == size;
    written = fflush(file) == 0 && fsync(fileno(file)) == 0 && written;
    return fclose(file) == 0 && written;
}

int file_write_bytes(const char *path, const void *bytes, size_t size) {
    char temporary[PATH_SIZE];
    const int length = snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof temporary) {
        return fail("the name %s is too long", path);
    }
    signals_hold();
    const bool written = make_file(temporary, bytes, size) && rename(temporary, path) == 0;
    const int reason = errno;
    if (!written && reason != EEXIST) {
        remove(temporary);
    }
    signals_release();
    return written ? EXIT_DONE : fail("cannot write %s: %s", path, strerror(reason));
}

/* The folder of this executable, without a slash at its end; false where the system does not say.
 */
static bool executable_folder(char *folder, size_t size) {
    ssize_t length = readlink("/proc/self/exe", folder, size - 1);
    if (length <= 0 || (size_t)length >= size - 1) {
        return false;
    }
    folder[length] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    return true;
}

/* Is `name` in the folder? */
static bool try_weights(const char *folder, const char *rest, const char *name, char *path,
                        size_t size) {
    int length = snprintf(path, size, "%s%s/%s", folder, rest, name);
    return length > 0 && (size_t)length < size && access(path, R_OK) == 0;
}

int file_find_weights(const char *name, char *path, size_t size) {
    const char *data = getenv("UNFURL_DATA_DIR");
    if (data != NULL && data[0] != '\0') {
        if (try_weights(data, "/weights", name, path, size)) {
            return EXIT_DONE;
        }
        return fail("%s is not in %s/weights, where UNFURL_DATA_DIR says to look", name, data);
    }
    char folder[PATH_SIZE];
    if (executable_folder(folder, sizeof folder) &&
        try_weights(folder, "/../share/unfurl/weights", name, path, size)) {
        return EXIT_DONE;
    }
    if (try_weights(UNFURL_WEIGHTS_DIR, "", name, path, size)) {
        return EXIT_DONE;
    }
    return fail("the weights %s are not installed (they belong in %s); name a file with --weights",
                name, UNFURL_WEIGHTS_DIR);
}

/* Where fetched networks are: $DATA/REST. */
static bool networks_folder(char *folder, size_t size) {
    static const struct {
        const char *variable, *rest;
    } places[] = {
        {"UNFURL_DATA_DIR", "/networks"},
        {"XDG_DATA_HOME", "/unfurl/networks"},
        {"HOME", "/.local/share/unfurl/networks"},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *value = getenv(places[i].variable);
        if (value != NULL && value[0] != '\0') {
            const int length = snprintf(folder, size, "%s%s", value, places[i].rest);
            return length > 0 && (size_t)length < size;
        }
    }
    return false;
}

int file_find_network(const char *model, const char *name, char *path, size_t size) {
    char folder[PATH_SIZE], script[PATH_SIZE];
    if (!networks_folder(folder, sizeof folder)) {
        return fail("HOME is not set, and so the network %s is nowhere", name);
    }
    if (try_weights(folder, "", name, path, size)) {
        return EXIT_DONE;
    }
    const bool beside =
        executable_folder(path, size) &&
        try_weights(path, "/../share/unfurl", "fetch-networks", script, sizeof script);
    return fail("the network %s is not in %s; '%s %s' fetches it", name, folder,
                beside ? script : UNFURL_SHARE_DIR "/fetch-networks", model);
}
