/* jpeg_absent.c - JPEG files in a build without libjpeg-turbo. */
#include "core/error.h"
#include "io/jpeg.h"

#define REASON "this build of unfurl has no libjpeg-turbo (UNFURL_JPEG)"

bool uf_has_jpeg(void) {
    return false;
}

uf_status uf_jpeg_read(FILE *file, const char *path, int64_t max_pixels, uf_picture *picture) {
    (void)file, (void)max_pixels, (void)picture;
    UF_FAIL(UF_ERROR_UNSUPPORTED, "%s is a JPEG picture, which is not read: " REASON, path);
}

uf_status uf_jpeg_writer_create(const char *path, const uf_picture *picture, int32_t quality,
                                uf_jpeg_writer **writer) {
    (void)picture, (void)quality;
    *writer = NULL;
    UF_FAIL(UF_ERROR_UNSUPPORTED, "cannot write %s as a JPEG picture: " REASON, path);
}

/* Nobody has a writer to call these with. */
uf_status uf_jpeg_writer_rows(uf_jpeg_writer *writer, const void *samples, int64_t count) {
    (void)writer, (void)samples, (void)count;
    UF_FAIL(UF_ERROR_UNSUPPORTED, REASON);
}

uf_status uf_jpeg_writer_finish(uf_jpeg_writer *writer) {
    (void)writer;
    UF_FAIL(UF_ERROR_UNSUPPORTED, REASON);
}

void uf_jpeg_writer_destroy(uf_jpeg_writer *writer) {
    (void)writer;
}
