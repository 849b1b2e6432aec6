/* checksum.c - the checksum of HDF5's metadata: Bob Jenkins's lookup3, hashlittle with an initial
 * value of 0. https://burtleburtle.net/bob/c/lookup3.c (public domain) */
#include "io/h5/internal.h"

static uint32_t rotate(uint32_t value, int bits) {
    return value << bits | value >> (32 - bits);
}

static void mix(uint32_t *a, uint32_t *b, uint32_t *c) {
    *a -= *c, *a ^= rotate(*c, 4), *c += *b;
    *b -= *a, *b ^= rotate(*a, 6), *a += *c;
    *c -= *b, *c ^= rotate(*b, 8), *b += *a;
    *a -= *c, *a ^= rotate(*c, 16), *c += *b;
    *b -= *a, *b ^= rotate(*a, 19), *a += *c;
    *c -= *b, *c ^= rotate(*b, 4), *b += *a;
}

static void finish(uint32_t *a, uint32_t *b, uint32_t *c) {
    *c ^= *b, *c -= rotate(*b, 14);
    *a ^= *c, *a -= rotate(*c, 11);
    *b ^= *a, *b -= rotate(*a, 25);
    *c ^= *b, *c -= rotate(*b, 16);
    *a ^= *c, *a -= rotate(*c, 4);
    *b ^= *a, *b -= rotate(*a, 14);
    *c ^= *b, *c -= rotate(*b, 24);
}

static uint32_t word(const unsigned char *bytes, uint64_t left) {
    return (uint32_t)uf_h5_number_at(bytes, left < 4 ? (unsigned)left : 4);
}

uint32_t uf_h5_checksum(const unsigned char *bytes, uint64_t size) {
    uint32_t a = 0xdeadbeef + (uint32_t)size, b = a, c = a;
    for (; size > 12; bytes += 12, size -= 12) {
        a += word(bytes, 4);
        b += word(bytes + 4, 4);
        c += word(bytes + 8, 4);
        mix(&a, &b, &c);
    }
    if (size == 0) {
        return c;
    }
    a += word(bytes, size);
    b += size > 4 ? word(bytes + 4, size - 4) : 0;
    c += size > 8 ? word(bytes + 8, size - 8) : 0;
    finish(&a, &b, &c);
    return c;
}
