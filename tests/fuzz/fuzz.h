/* fuzz.h - what a fuzz target gives to the driver here, or to libFuzzer. */
#ifndef TEST_FUZZ_FUZZ_H
#define TEST_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* One input. Ends the process by abort() when the library breaks a promise. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Write valid file number `index` to `path`, for the driver to damage; 0 when there is no such
 * number. */
int fuzz_seed(int index, const char *path);

/* Path of a file with these bytes, always the same one in one process. */
const char *fuzz_file(const uint8_t *data, size_t size);

void fuzz_remove_file(void);

/* Lines that a writer of the library gives one by one; `text` is the caller's to free. */
typedef struct fuzz_page {
    char *text; /* ends with 0 */
    size_t size, capacity;
} fuzz_page;
void fuzz_append_line(void *page, const char *line);

/* Abort with a message unless `condition` holds. */
#define FUZZ_DEMAND(condition) fuzz_demand((condition), #condition)
void fuzz_demand(int condition, const char *text);

#endif
