/* sums.h - the checksums of a valid file, so that damage to the rest can be given the sums that a
 * reader demands: else most damaged files end at the first sum. */
#ifndef TEST_FUZZ_SUMS_H
#define TEST_FUZZ_SUMS_H

#include <stddef.h>
#include <stdint.h>

/* A sum of `size` bytes from `from` on, stored in four bytes at `at`. */
typedef struct fuzz_sum {
    size_t from, size, at;
    uint32_t (*of)(const uint8_t *bytes, size_t size);
    int big_endian;
} fuzz_sum;

#define FUZZ_SUMS 512 /* the most of one file */

/* Find the sums of a file that is whole: those of HDF5's metadata and of PNG's chunks. Returns
 * their number; 0 for other formats. The bytes are as they were afterwards. */
int fuzz_find_sums(uint8_t *bytes, size_t size, fuzz_sum sums[FUZZ_SUMS]);

/* Set each sum that lies within `size` bytes to what it is of. */
void fuzz_mend_sums(uint8_t *bytes, size_t size, const fuzz_sum *sums, int count);

#endif
