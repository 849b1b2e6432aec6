/* png_builder.h - PNG files from nothing but zlib: what is tested is not made by what is tested. */
#ifndef TEST_IO_PNG_BUILDER_H
#define TEST_IO_PNG_BUILDER_H

#include <stddef.h>
#include <stdint.h>

/* A file in memory, which grows; zeroed at first. */
typedef struct builder {
    unsigned char *bytes; /* freed by free() */
    size_t size, room;
} builder;

void put32(unsigned char *to, uint32_t value); /* big endian */

void begin(builder *file); /* anew, with the signature */
void chunk(builder *file, const char *name, const void *data, size_t size);

/* begin, and IHDR */
void header(builder *file, uint32_t width, uint32_t height, int depth, int colour, int interlaced);

/* A chunk whose data are `head` and then `size` zero bytes, deflated; a multiple of 100,000. */
void packed_zeros(builder *file, const char *name, const char *head, size_t head_size, size_t size);

/* IDAT and IEND. Rows as PNG stores them: each begins with its filter, 0. */
void rows(builder *file, const void *data, size_t size);

/* A grey profile that libpng accepts: the header, a table of one tag, and bytes that are hard to
 * pack. At least 144. */
void make_profile(unsigned char *profile, size_t size);

void save(const builder *file, const char *path);

#endif
