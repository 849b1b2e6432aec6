/* jpeg.h - JPEG files, behind picture.h: through libjpeg-turbo (jpeg_read.c, jpeg_write.c), or
 * refused by a build without it (jpeg_absent.c). */
#ifndef UF_IO_JPEG_H
#define UF_IO_JPEG_H

#include <stdio.h>

#include "io/picture.h"

UF_BEGIN_DECLS

bool uf_has_jpeg(void);

/* Read the rest of `file`, which is at the picture's first byte. */
uf_status uf_jpeg_read(FILE *file, const char *path, int64_t max_pixels, uf_picture *picture);

typedef struct uf_jpeg_writer uf_jpeg_writer;

/* As the functions of uf_picture_writer; the arguments are checked but for what JPEG cannot hold.
 */
uf_status uf_jpeg_writer_create(const char *path, const uf_picture *picture, int32_t quality,
                                uf_jpeg_writer **writer);
uf_status uf_jpeg_writer_rows(uf_jpeg_writer *writer, const void *samples, int64_t count);
uf_status uf_jpeg_writer_finish(uf_jpeg_writer *writer);
void uf_jpeg_writer_destroy(uf_jpeg_writer *writer); /* NULL is legal */

UF_END_DECLS

#endif
