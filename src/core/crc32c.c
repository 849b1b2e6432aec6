/* crc32c.c - CRC-32C, eight bytes at a time.
 *
 * By the processor's own instruction where it has one, which takes three steps to give its result
 * and can begin one in each: so three stretches go side by side, and their checksums are joined by
 * a product of polynomials. Else slicing by 8: table[k][b] is the checksum of byte b followed by k
 * zero bytes, so that eight bytes take eight independent lookups.
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
static uint64_t word_at(const unsigned char *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

__attribute__((target("sse4.2"))) static uint32_t
by_instruction(uint32_t crc, const unsigned char *bytes, size_t total) {
    uint64_t wide = crc;
    for (; total >= 8; total -= 8, bytes += 8) {
        wide = _mm_crc32_u64(wide, word_at(bytes));
    }
    crc = (uint32_t)wide;
    for (; total > 0; --total, ++bytes) {
        crc = _mm_crc32_u8(crc, *bytes);
    }
    return crc;
}

/* A stretch, and x^(8 n - 33) modulo the polynomial, reflected, for one and for two stretches of n
 * bytes: the product with it, taken by the instruction as one more word, is the checksum with so
 * many zero bytes behind. */
#define STRETCH 4096
#define BEHIND_ONE 0x82f89c77
#define BEHIND_TWO 0x54a86326

__attribute__((target("sse4.2,pclmul"))) static uint64_t product(uint64_t crc, int factor) {
    return (uint64_t)_mm_cvtsi128_si64(
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)crc), _mm_cvtsi32_si128(factor), 0));
}

/* As many times three stretches as there are; *taken are their bytes. */
__attribute__((target("sse4.2,pclmul"))) static uint32_t
by_three(uint32_t crc, const unsigned char *bytes, size_t total, size_t *taken) {
    *taken = 0;
    for (; total - *taken >= 3 * STRETCH; *taken += 3 * STRETCH) {
        const unsigned char *at = bytes + *taken;
        uint64_t first = crc, second = 0, third = 0;
        for (size_t i = 0; i < STRETCH; i += 8) {
            first = _mm_crc32_u64(first, word_at(at + i));
            second = _mm_crc32_u64(second, word_at(at + STRETCH + i));
            third = _mm_crc32_u64(third, word_at(at + 2 * STRETCH + i));
        }
        crc = (uint32_t)(_mm_crc32_u64(0, product(first, (int)BEHIND_TWO) ^
                                              product(second, (int)BEHIND_ONE)) ^
                         third);
    }
    return crc;
}
#endif

uint32_t uf_crc32c_more(uint32_t crc, const void *values, int64_t count, int64_t size) {
    const size_t total = (size_t)(count * size);
    const size_t flip = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : (size_t)size - 1;
#if defined __x86_64__
    if (__builtin_cpu_supports("sse4.2")) {
        size_t taken = 0;
        crc = ~crc;
        if (__builtin_cpu_supports("pclmul")) {
            crc = by_three(crc, values, total, &taken);
        }
        return ~by_instruction(crc, (const unsigned char *)values + taken, total - taken);
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
