/* crc32c.c - CRC-32C, eight bytes at a time.
 *
 * Slicing by 8: table[k][b] is the checksum of byte b followed by k zero bytes, so that eight bytes
 * take eight independent lookups. Kounavis and Berry, "A Systematic Approach to Building High
 * Performance Software-based CRC Generators", ISCC 2005. */
#include "core/crc32c.h"

#include <stddef.h>

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

uint32_t uf_crc32c(const void *values, int64_t count, int64_t size) {
    const unsigned char *bytes = values;
    const size_t total = (size_t)(count * size);
    /* Byte i in little endian is byte i ^ flip in memory. */
    const size_t flip = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : (size_t)size - 1;
    uint32_t table[SLICES][256];
    uint32_t crc = 0xffffffffu;
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
    return ~crc;
}
