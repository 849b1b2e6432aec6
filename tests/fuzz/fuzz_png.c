/* fuzz_png.c - any bytes: a picture, or a sentence and a zeroed struct. */
#include <stdio.h>
#include <zlib.h>

#include <unfurl/unfurl.h>

#include "fuzz/picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uf_picture picture;
    const uf_status status = uf_png_read(fuzz_file(data, size), &picture);
    fuzz_check_picture(status, false, &picture);
    return 0;
}

static void put(FILE *file, uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) {
        fputc((int)(value >> shift & 255), file);
    }
}

static void chunk(FILE *file, const char *name, const void *data, size_t size) {
    const uLong named = crc32(0, (const Bytef *)name, 4);
    put(file, (uint32_t)size);
    fputs(name, file);
    fwrite(data, 1, size, file);
    put(file, (uint32_t)crc32(named, data, (uInt)size));
}

/* Kinds that the library does not write: interlaced samples of 4 bits with a palette and its
 * transparency, and samples of one bit. */
static int build(int index, const char *path) {
    static const unsigned char palette[3 * 16] = {255, 0, 0, 0, 255, 0, 9, 9, 9};
    static const unsigned char clear[] = {0, 128, 255};
    static const unsigned char rows[48] = {0, 0x10, 0, 0x20, 0, 0x12};
    static const unsigned char bits[5 * 3] = {0, 0xaa, 0x50, 1, 0xaa, 0x50, 2, 0xff, 0xf8};
    static const unsigned char heads[2][13] = {{0, 0, 0, 8, 0, 0, 0, 8, 4, 3, 0, 0, 1},
                                               {0, 0, 0, 13, 0, 0, 0, 5, 1, 0, 0, 0, 0}};
    unsigned char packed[128];
    uLongf size = sizeof packed;
    const int failed = index == 0 ? compress(packed, &size, rows, sizeof rows)
                                  : compress(packed, &size, bits, sizeof bits);
    FILE *file = fopen(path, "wb");
    if (file == NULL || failed) {
        return 0;
    }
    fputs("\x89PNG\r\n\x1a\n", file);
    chunk(file, "IHDR", heads[index], sizeof heads[index]);
    chunk(file, "gAMA", "\0\0\xb1\x8f", 4);
    if (index == 0) {
        chunk(file, "PLTE", palette, sizeof palette);
        chunk(file, "tRNS", clear, sizeof clear);
    }
    chunk(file, "IDAT", packed, size);
    chunk(file, "IEND", "", 0);
    uf_picture picture;
    const int written = fclose(file) == 0;
    FUZZ_DEMAND(uf_png_read(path, &picture) == UF_OK);
    uf_picture_free(&picture);
    return written;
}

int fuzz_seed(int index, const char *path) {
    if (index >= 8) {
        return index < 10 && build(index - 8, path);
    }
    uf_picture picture;
    if (uf_picture_create(19, 11, index % 4 + 1, index < 4 ? 8 : 16, &picture) != UF_OK) {
        return 0;
    }
    const size_t bytes = (size_t)(19 * 11 * picture.channels * picture.depth / 8);
    for (size_t i = 0; i < bytes; ++i) {
        ((uint8_t *)picture.samples)[i] = (uint8_t)(i * 7);
    }
    picture.gamma = index % 2 ? 0.45455 : 0.0;
    picture.srgb_intent = index % 3 - 1;
    const int written = uf_png_write(path, &picture) == UF_OK;
    uf_picture_free(&picture);
    return written;
}
