#include "stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "signals.h"

/* The rest of one stream behind another. */
static bool copy(FILE *from, FILE *to) {
    char bytes[65536];
    size_t count;
    while ((count = fread(bytes, 1, sizeof bytes, from)) > 0) {
        if (fwrite(bytes, 1, count, to) != count) {
            return false;
        }
    }
    return !ferror(from) && fflush(to) == 0;
}

/* A pipe gives its bytes once, and has no beginning to go back to. */
static bool is_pipe(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode));
}

int streams_input(struct streams *streams, const char **path) {
    const char *from = *path;
    if (strcmp(from, "-") == 0) {
        if (streams->has_input) {
            return fail_usage("%s: stdin (-) is one input", streams->command);
        }
        streams->has_input = true;
        *path = from = "/dev/stdin";
    }
    if (!is_pipe(from)) {
        return EXIT_DONE;
    }
    FILE *file = fopen(from, "rb");
    if (streams->input != NULL) {
        fclose(streams->input);
    }
    streams->input = file != NULL ? tmpfile() : NULL;
    const bool copied = streams->input != NULL && copy(file, streams->input);
    const int reason = errno;
    if (file != NULL) {
        fclose(file);
    }
    if (!copied) {
        return fail("cannot copy %s to a temporary file: %s", from, strerror(reason));
    }
    snprintf(streams->input_path, sizeof streams->input_path, "/dev/fd/%d", fileno(streams->input));
    *path = streams->input_path;
    return EXIT_DONE;
}

const char *streams_output_type(const char *word) {
    static const char *const types[] = {"png", "jpg", "jpeg", "npy", "h5", "wav"};
    if (strcmp(word, "-") == 0) {
        return types[0];
    }
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const size_t length = strlen(types[i]);
        if (strncmp(word, types[i], length) == 0 && strcmp(word + length, ":-") == 0) {
            return types[i];
        }
    }
    return NULL;
}

int streams_take_output(struct streams *streams) {
    if (isatty(STDOUT_FILENO)) {
        return fail_usage("%s: stdout (-) is a terminal, which shows no such file; send it to "
                          "one or to another command",
                          streams->command);
    }
    streams->output = dup(STDOUT_FILENO);
    if (streams->output < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        return fail("cannot set standard output apart: %s", strerror(errno));
    }
    return EXIT_DONE;
}

int streams_output(struct streams *streams, const char *extension, const char **path) {
    const char *folder = getenv("TMPDIR");
    char name[STREAM_PATH_SIZE - 64];
    const int length = snprintf(name, sizeof name, "%s/unfurl-XXXXXX",
                                folder != NULL && folder[0] != '\0' ? folder : "/tmp");
    signals_hold();
    if (length < 0 || (size_t)length >= sizeof name || mkdtemp(name) == NULL) {
        const int reason = (size_t)length >= sizeof name ? ENAMETOOLONG : errno;
        signals_release();
        return fail("cannot make a temporary folder: %s", strerror(reason));
    }
    snprintf(streams->output_path, sizeof streams->output_path, "%s/output.%s", name, extension);
    *path = streams->output_path;
    return EXIT_DONE;
}

int streams_send(struct streams *streams) {
    FILE *from = fopen(streams->output_path, "rb");
    FILE *to = fdopen(streams->output, "wb");
    bool sent = from != NULL && to != NULL && copy(from, to);
    const int reason = errno;
    if (from != NULL) {
        fclose(from);
    }
    if (to != NULL) {
        sent = fclose(to) == 0 && sent;
        streams->output = 0;
    }
    return sent ? EXIT_DONE : fail("cannot write to standard output: %s", strerror(reason));
}

void streams_free(struct streams *streams) {
    if (streams->input != NULL) {
        fclose(streams->input);
    }
    if (streams->output > 0) {
        close(streams->output);
    }
    if (streams->output_path[0] != '\0') {
        remove(streams->output_path);
        *strrchr(streams->output_path, '/') = '\0';
        rmdir(streams->output_path);
        signals_release();
    }
    *streams = (struct streams){0};
}
