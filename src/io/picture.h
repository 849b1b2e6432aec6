/* picture.h - samples in memory, behind the reader and the writer of files. */
#ifndef UF_IO_PICTURE_H
#define UF_IO_PICTURE_H

#include <stdio.h>

#include <unfurl/png.h>

UF_BEGIN_DECLS

#define UF_LARGEST_SIDE INT64_C(0x7fffffff) /* of a PNG file */

/* Bytes of samples, or -1 when a size_t or an offset into them could overflow. */
int64_t uf_picture_bytes(int64_t width, int64_t height, int32_t channels, int32_t depth);

size_t uf_picture_row_bytes(const uf_picture *picture);

/* A picture of this library's, all zero on failure. */
uf_status uf_picture_new(int64_t width, int64_t height, int32_t channels, int32_t depth,
                         uf_picture *picture);

/* With less room the caller would never learn where the samples are. */
uf_status uf_picture_check_room(size_t room);

/* Hand a made or read picture to the caller: on failure all zero. */
uf_status uf_picture_give(uf_status status, const uf_picture *known, uf_picture *picture,
                          size_t room);

/* Open a file that is to be `expected` ("a picture"). *size is -1 where it is not known, of a pipe.
 */
uf_status uf_picture_open(const char *path, const char *expected, FILE **file, int64_t *size);

/* Read a PNG file from its first byte on; *picture is zeroed before, and on failure. */
uf_status uf_png_read_stream(FILE *file, const char *path, int64_t size, int64_t max_pixels,
                             uf_picture *picture);

UF_END_DECLS

#endif
