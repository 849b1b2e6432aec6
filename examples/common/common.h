/* common.h - what every example needs: an end with one sentence, memory, and random bits that are a
 * function of their place. */
#ifndef EXAMPLES_COMMON_COMMON_H
#define EXAMPLES_COMMON_COMMON_H

#include <unfurl/unfurl.h>

#include <stddef.h>
#include <stdint.h>

/* Each program defines its name, the subject of its sentences. */
extern const char *const example_name;

/* Print "NAME: sentence" to stderr and end the program: with status 1, or with 2 for a wrong
 * option. Control characters are written as "\x1b". Only the main thread calls these. */
_Noreturn void fail(const char *format, ...) UF_PRINTF(1, 2);
_Noreturn void fail_usage(const char *format, ...) UF_PRINTF(1, 2);

/* End the program with the library's own sentence unless `status` is UF_OK. */
void must(uf_status status);

/* Zeroed memory for `count` elements of `size` bytes, freed by free(); never NULL. */
void *allocate(int64_t count, size_t size);

/* 64 random bits for one place, the same on every machine: splitmix64's mixing over three words. */
uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index);

#endif
