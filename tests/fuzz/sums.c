/* sums.c - the checksums of HDF5's metadata and of PNG's chunks. */
#include "fuzz/sums.h"

#include <string.h>
#include <zlib.h>

#include "io/h5/internal.h"

static uint32_t lookup3(const uint8_t *bytes, size_t size) {
    return uf_h5_checksum(bytes, size);
}

static uint32_t crc(const uint8_t *bytes, size_t size) {
    return (uint32_t)crc32(0, bytes, (uInt)size);
}

static uint32_t stored(const uint8_t *at, int big_endian) {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
        value = value << 8 | at[big_endian ? i : 3 - i];
    }
    return value;
}

static void store(uint8_t *at, uint32_t value, int big_endian) {
    for (int i = 0; i < 4; ++i) {
        at[big_endian ? 3 - i : i] = (uint8_t)(value >> (8 * i));
    }
}

static int add(fuzz_sum *sums, int count, fuzz_sum one) {
    if (count < FUZZ_SUMS) {
        sums[count++] = one;
    }
    return count;
}

/* ---- HDF5 ---- */

/* A sum that follows what it is of: the first length that has its own sum behind it. */
static int find_behind(const uint8_t *bytes, size_t size, size_t from, fuzz_sum *one) {
    for (size_t length = 8; from + length + 4 <= size; ++length) {
        if (lookup3(bytes + from, length) == stored(bytes + from + length, 0)) {
            *one = (fuzz_sum){from, length, from + length, lookup3, 0};
            return 1;
        }
    }
    return 0;
}

/* A direct block of a heap: its sum stands behind two addresses of 2 to 8 bytes each, and counts as
 * 0 in what it is of. Its size is a power of 2. */
static int find_within(uint8_t *bytes, size_t size, size_t from, fuzz_sum *one) {
    for (size_t prefix = 5 + 3; prefix <= 5 + 16; ++prefix) {
        uint8_t *at = bytes + from + prefix;
        for (size_t length = 64; from + length <= size; length *= 2) {
            const uint32_t sum = stored(at, 0);
            store(at, 0, 0);
            const int found = lookup3(bytes + from, length) == sum;
            store(at, sum, 0);
            if (found) {
                *one = (fuzz_sum){from, length, from + prefix, lookup3, 0};
                return 1;
            }
        }
    }
    return 0;
}

static int find_hdf5(uint8_t *bytes, size_t size, fuzz_sum *sums) {
    static const char signatures[][5] = {"OHDR", "OCHK", "FRHP", "FHIB", "BTHD", "BTLF", "BTIN",
                                         "FAHD", "FADB", "EAHD", "EAIB", "EASB", "EADB"};
    int count = 0;
    fuzz_sum one;
    for (size_t at = 0; at + 24 < size; ++at) {
        int found = 0;
        if (memcmp(bytes + at, "\x89HDF\r\n\x1a\n", 8) == 0) {
            found = bytes[at + 8] >= 2 && find_behind(bytes, size, at, &one);
        } else if (memcmp(bytes + at, "FHDB", 4) == 0) {
            found = find_within(bytes, size, at, &one);
        } else {
            for (size_t i = 0; i < sizeof signatures / sizeof signatures[0] && !found; ++i) {
                found =
                    memcmp(bytes + at, signatures[i], 4) == 0 && find_behind(bytes, size, at, &one);
            }
        }
        count = found ? add(sums, count, one) : count;
    }
    return count;
}

/* ---- PNG ---- */

static int find_png(const uint8_t *bytes, size_t size, fuzz_sum *sums) {
    int count = 0;
    for (size_t at = 8; at + 12 <= size;) {
        const size_t length = stored(bytes + at, 1);
        if (length > size - at - 12) {
            break;
        }
        count = add(sums, count, (fuzz_sum){at + 4, length + 4, at + 8 + length, crc, 1});
        at += length + 12;
    }
    return count;
}

int fuzz_find_sums(uint8_t *bytes, size_t size, fuzz_sum sums[FUZZ_SUMS]) {
    if (size >= 8 && memcmp(bytes, "\x89PNG", 4) == 0) {
        return find_png(bytes, size, sums);
    }
    /* Behind a user's block the superblock stands at 512, 1024, ... */
    for (size_t at = 0; at + 8 <= size; at = at == 0 ? 512 : at * 2) {
        if (memcmp(bytes + at, "\x89HDF\r\n\x1a\n", 8) == 0) {
            return find_hdf5(bytes, size, sums);
        }
    }
    return 0;
}

void fuzz_mend_sums(uint8_t *bytes, size_t size, const fuzz_sum *sums, int count) {
    for (int i = 0; i < count; ++i) {
        const fuzz_sum *one = &sums[i];
        if (one->from + one->size > size || one->at + 4 > size) {
            continue;
        }
        const int within = one->at < one->from + one->size;
        if (within) {
            store(bytes + one->at, 0, 0);
        }
        store(bytes + one->at, one->of(bytes + one->from, one->size), one->big_endian);
    }
}
