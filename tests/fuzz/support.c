/* support.c - for the targets, whoever drives them. */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

/* A named file: HDF5 wants the real path of what it opens. Children of a process share its file. */
const char *fuzz_file(const uint8_t *data, size_t size) {
    static int descriptor = -1;
    if (descriptor < 0) {
        snprintf(path, sizeof path,
                 "/dev/shm/unfurl-fuzz-XXXXXX"); /* no disk: ten times the inputs */
        descriptor = mkstemp(path);
        if (descriptor < 0) {
            snprintf(path, sizeof path, "/tmp/unfurl-fuzz-XXXXXX");
            descriptor = mkstemp(path);
        }
        fuzz_demand(descriptor >= 0, "a temporary file");
    }
    fuzz_demand(ftruncate(descriptor, 0) == 0, "ftruncate");
    fuzz_demand(pwrite(descriptor, data, size, 0) == (ssize_t)size, "write");
    return path;
}

void fuzz_remove_file(void) {
    if (path[0] != '\0') {
        remove(path);
    }
}

void fuzz_demand(int condition, const char *text) {
    if (!condition) {
        fprintf(stderr, "fuzz: broken promise: %s\n", text);
        abort();
    }
}

void fuzz_append_line(void *page, const char *line) {
    fuzz_page *to = page;
    const size_t length = strlen(line);
    if (to->size + length + 2 > to->capacity) {
        to->capacity = 2 * (to->size + length + 2);
        to->text = realloc(to->text, to->capacity);
        FUZZ_DEMAND(to->text != NULL);
    }
    memcpy(to->text + to->size, line, length);
    to->size += length;
    to->text[to->size++] = '\n';
    to->text[to->size] = '\0';
}
