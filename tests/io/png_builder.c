#include "io/png_builder.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "io/fixture.h"

void put32(unsigned char *to, uint32_t value) {
    for (int i = 0; i < 4; ++i) {
        to[i] = (unsigned char)(value >> (24 - 8 * i));
    }
}

static unsigned char *grow(builder *file, size_t size) {
    if (file->size + size > file->room) {
        file->room = 2 * (file->size + size);
        file->bytes = realloc(file->bytes, file->room);
        assert_non_null(file->bytes);
    }
    file->size += size;
    return file->bytes + file->size - size;
}

void begin(builder *file) {
    file->size = 0;
    memcpy(grow(file, 8), "\211PNG\r\n\032\n", 8);
}

void chunk(builder *file, const char *name, const void *data, size_t size) {
    unsigned char *at = grow(file, size + 12);
    put32(at, (uint32_t)size);
    memcpy(at + 4, name, 4);
    if (size > 0) {
        memcpy(at + 8, data, size);
    }
    put32(at + 8 + size, (uint32_t)crc32(0, at + 4, (uInt)(size + 4)));
}

void header(builder *file, uint32_t width, uint32_t height, int depth, int colour, int interlaced) {
    unsigned char data[13] = {0};
    put32(data, width);
    put32(data + 4, height);
    data[8] = (unsigned char)depth;
    data[9] = (unsigned char)colour;
    data[12] = (unsigned char)interlaced;
    begin(file);
    chunk(file, "IHDR", data, sizeof data);
}

void packed_zeros(builder *file, const char *name, const char *head, size_t head_size,
                  size_t size) {
    /* One piece is deflated so that it stands alone, and repeated. */
    enum { PIECE = 100000 };
    static const unsigned char zeros[PIECE];
    unsigned char piece[1024];
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)zeros,
                       .avail_in = PIECE,
                       .next_out = piece,
                       .avail_out = sizeof piece};
    assert_int_equal(size % PIECE, 0);
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FULL_FLUSH), Z_OK);
    const size_t length = stream.total_out;
    deflateEnd(&stream);
    unsigned char *data = test_allocate(head_size + 8 + size / PIECE * length);
    unsigned char *at = data;
    memcpy(at, head, head_size);
    memcpy(at += head_size, "\170\332", 2);
    at += 2;
    for (size_t i = 0; i < size / PIECE; ++i, at += length) {
        memcpy(at, piece, length);
    }
    memcpy(at, "\3\0", 2);                              /* the last block, empty */
    put32(at += 2, (uint32_t)(size % 65521 << 16 | 1)); /* Adler-32 of zeros */
    chunk(file, name, data, (size_t)(at + 4 - data));
    free(data);
}

void rows(builder *file, const void *data, size_t size) {
    unsigned char packed[4096];
    uLongf length = sizeof packed;
    assert_int_equal(compress(packed, &length, data, (uLong)size), Z_OK);
    chunk(file, "IDAT", packed, length);
    chunk(file, "IEND", NULL, 0);
}

void make_profile(unsigned char *profile, size_t size) {
    memset(profile, 0, size);
    put32(profile, (uint32_t)size);
    profile[8] = 2;
    memcpy(profile + 12, "mntrGRAYXYZ ", 12);
    memcpy(profile + 36, "acsp", 4);
    put32(profile + 68, 0xf6d6);
    put32(profile + 72, 0x10000);
    put32(profile + 76, 0xd32d);
    put32(profile + 128, 1);
    memcpy(profile + 132, "cprt", 4);
    put32(profile + 136, 144);
    put32(profile + 140, (uint32_t)size - 144);
    for (size_t i = 144; i < size; ++i) {
        profile[i] = (unsigned char)(i * i * 31 >> 3);
    }
}

void save(const builder *file, const char *path) {
    fixture_bytes(path, file->bytes, file->size);
}
