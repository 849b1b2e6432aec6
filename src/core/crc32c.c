/* crc32c.c - CRC-32C, eight bytes at a time.
 *
 * By the processor's own instruction where it has one. Else slicing by 8: table[k][b] is the
 * checksum of byte b followed by k zero bytes, so that eight bytes take eight independent lookups.
 * Kounavis and Berry, "A Systematic Approach to Building High Performance Software-based CRC
 * Generators", ISCC 2005. */
#include "core/crc32c.h"

#include <stddef.h>
#include <string.h>

#if defined __x86_64__
#include <immintrin.h>
#endif

#define SLICES 8
#define REFLECTED 0x82f63b78u

/* Made anew in each call: some microseconds, and no table that is shared. */
static void make_tables(uint32_t table[SLICES][256]) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? REFLECTED : 0);
        }
        table[0][byte] = crc;
    }
    for (int slice = 1; slice < SLICES; ++slice) {
        for (uint32_t byte = 0; byte < 256; ++byte) {
            const uint32_t before = table[slice - 1][byte];
            table[slice][byte] = (before >> 8) ^ table[0][before & 0xff];
        }
    }
}

/* `crc` before its last inversion. Byte i in little endian is byte i ^ flip in memory. */
static uint32_t by_tables(uint32_t crc, const unsigned char *bytes, size_t total, size_t flip) {
    uint32_t table[SLICES][256];
    size_t at = 0;
    make_tables(table);
    for (; at + SLICES <= total; at += SLICES) {
        uint32_t next = 0;
        for (size_t i = 0; i < SLICES; ++i) {
            const uint32_t mixed = i < 4 ? (crc >> (8 * i)) & 0xff : 0;
            next ^= table[SLICES - 1 - i][bytes[(at + i) ^ flip] ^ mixed];
        }
        crc = next;
    }
    for (; at < total; ++at) {
        crc = (crc >> 8) ^ table[0][(crc ^ bytes[at ^ flip]) & 0xff];
    }
    return crc;
}

#if defined __x86_64__
__attribute__((target("sse4.2"))) static uint32_t
by_instruction(uint32_t crc, const unsigned char *bytes, size_t total) {
    uint64_t wide = crc;
    for (; total >= 8; total -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, sizeof word);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    for (; total > 0; --total, ++bytes) {
        crc = _mm_crc32_u8(crc, *bytes);
    }
    return crc;
}
#endif

uint32_t uf_crc32c_more(uint32_t crc, const void *values, int64_t count, int64_t size) {
    const size_t total = (size_t)(count * size);
    const size_t flip = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : (size_t)size - 1;
#if defined __x86_64__
    if (__builtin_cpu_supports("sse4.2")) {
        return ~by_instruction(~crc, values, total);
    }
#endif
    return ~by_tables(~crc, values, total, flip);
}

uint32_t uf_crc32c_by_tables(const void *values, int64_t count, int64_t size) {
    const size_t flip = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : (size_t)size - 1;
    return ~by_tables(0xffffffffu, values, (size_t)(count * size), flip);
}

uint32_t uf_crc32c(const void *values, int64_t count, int64_t size) {
    return uf_crc32c_more(0, values, count, size);
}
