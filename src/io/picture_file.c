/* picture_file.c - pictures in files of either format: reading tells it by the first byte, writing
 * by an option. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <unfurl/picture.h>

#include "core/error.h"
#include "io/jpeg.h"
#include "io/picture.h"

struct uf_picture_writer {
    uf_png_writer *png;
    uf_jpeg_writer *jpeg; /* one of the two */
};

bool uf_picture_has_format(uf_picture_format format) {
    return format == UF_PICTURE_PNG || (format == UF_PICTURE_JPEG && uf_has_jpeg());
}

uf_status uf_picture_open(const char *path, const char *expected, FILE **file, int64_t *size) {
    struct stat info;
    *file = fopen(path, "rb");
    if (*file == NULL) {
        UF_FAIL(errno == ENOENT || errno == ENOTDIR ? UF_ERROR_NOT_FOUND : UF_ERROR_IO,
                "cannot open %s: %s", path, strerror(errno));
    }
    *size = -1;
    if (fstat(fileno(*file), &info) == 0) {
        if (S_ISDIR(info.st_mode)) {
            fclose(*file);
            UF_FAIL(UF_ERROR_FORMAT, "%s is a directory, not %s", path, expected);
        }
        *size = S_ISREG(info.st_mode) ? (int64_t)info.st_size : -1;
    }
    return UF_OK;
}

static uf_status read_any(FILE *file, const char *path, int64_t size, int64_t max_pixels,
                          uf_picture *picture) {
    const int first = getc(file);
    if (first == EOF && ferror(file)) {
        UF_FAIL(UF_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
    }
    if (first == EOF) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is empty, not a picture", path);
    }
    ungetc(first, file);
    switch (first) {
    case 0x89:
        return uf_png_read_stream(file, path, size, max_pixels, picture);
    case 0xff:
        return uf_jpeg_read(file, path, max_pixels, picture);
    default:
        UF_FAIL(UF_ERROR_FORMAT, "%s is neither a PNG nor a JPEG picture", path);
    }
}

uf_status uf_picture_read_sized(const char *path, const uf_picture_read_options *given,
                                uf_picture *picture, size_t picture_size) {
    UF_CHECK_ARG(picture != NULL, "uf_picture_read: picture is NULL");
    memset(picture, 0, picture_size);
    UF_CHECK_ARG(path != NULL, "uf_picture_read: path is NULL");
    UF_TRY(uf_picture_check_room(picture_size));
    uf_picture_read_options options = uf_picture_read_options_default();
    UF_TRY(uf_read_struct("uf_picture_read_options", given, &options, sizeof options));
    UF_CHECK_ARG(options.max_pixels >= 1, "uf_picture_read: max_pixels is %" PRId64,
                 options.max_pixels);
    FILE *file;
    int64_t size;
    uf_picture known;
    memset(&known, 0, sizeof known);
    UF_TRY(uf_picture_open(path, "a picture", &file, &size));
    const uf_status status = read_any(file, path, size, options.max_pixels, &known);
    fclose(file);
    return uf_picture_give(status, &known, picture, picture_size);
}

/* ---- writing ---- */

static uf_status create(const char *path, const uf_picture *picture,
                        const uf_picture_write_options *options, uf_picture_writer *writer) {
    if (options->format == UF_PICTURE_JPEG) {
        return uf_jpeg_writer_create(path, picture, options->quality, &writer->jpeg);
    }
    uf_png_write_options png = uf_png_write_options_default();
    png.threads = options->threads;
    return uf_png_writer_create(path, picture, &png, &writer->png);
}

uf_status uf_picture_writer_create_sized(const char *path, const uf_picture *given,
                                         size_t picture_size,
                                         const uf_picture_write_options *given_options,
                                         uf_picture_writer **writer) {
    UF_CHECK_ARG(writer != NULL, "uf_picture_writer_create: writer is NULL");
    *writer = NULL;
    UF_CHECK_ARG(path != NULL && given != NULL,
                 "uf_picture_writer_create: path or picture is NULL");
    uf_picture picture = {.srgb_intent = -1};
    UF_TRY(uf_read_zeroed_struct("uf_picture", given, &picture, sizeof picture, picture_size));
    picture.struct_size = sizeof picture;
    uf_picture_write_options options = uf_picture_write_options_default();
    UF_TRY(uf_read_struct("uf_picture_write_options", given_options, &options, sizeof options));
    UF_CHECK_ARG(options.format == UF_PICTURE_PNG || options.format == UF_PICTURE_JPEG,
                 "uf_picture_write_options.format is %d, which is none", (int)options.format);
    UF_CHECK_ARG(options.quality >= 1 && options.quality <= 100,
                 "uf_picture_write_options.quality is %" PRId32 "; it must be 1 to 100",
                 options.quality);
    uf_picture_writer *made = calloc(1, sizeof *made);
    if (made == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory writing %s", path);
    }
    const uf_status status = create(path, &picture, &options, made);
    if (status != UF_OK) {
        free(made);
        return status;
    }
    *writer = made;
    return UF_OK;
}

uf_status uf_picture_writer_rows(uf_picture_writer *writer, const void *samples, int64_t count) {
    UF_CHECK_ARG(writer != NULL && samples != NULL,
                 "uf_picture_writer_rows: writer or samples is NULL");
    return writer->jpeg != NULL ? uf_jpeg_writer_rows(writer->jpeg, samples, count)
                                : uf_png_writer_rows(writer->png, samples, count);
}

uf_status uf_picture_writer_finish(uf_picture_writer *writer) {
    UF_CHECK_ARG(writer != NULL, "uf_picture_writer_finish: writer is NULL");
    return writer->jpeg != NULL ? uf_jpeg_writer_finish(writer->jpeg)
                                : uf_png_writer_finish(writer->png);
}

void uf_picture_writer_destroy(uf_picture_writer *writer) {
    if (writer == NULL) {
        return;
    }
    uf_png_writer_destroy(writer->png);
    uf_jpeg_writer_destroy(writer->jpeg);
    free(writer);
}

uf_status uf_picture_write_sized(const char *path, const uf_picture *given, size_t picture_size,
                                 const uf_picture_write_options *options) {
    UF_CHECK_ARG(path != NULL && given != NULL, "uf_picture_write: path or picture is NULL");
    uf_picture picture = {.srgb_intent = -1};
    UF_TRY(uf_read_zeroed_struct("uf_picture", given, &picture, sizeof picture, picture_size));
    UF_CHECK_ARG(picture.samples != NULL, "uf_picture_write: the picture has no samples");
    uf_picture_writer *writer;
    UF_TRY(uf_picture_writer_create_sized(path, given, picture_size, options, &writer));
    uf_status status = uf_picture_writer_rows(writer, picture.samples, picture.height);
    if (status == UF_OK) {
        status = uf_picture_writer_finish(writer);
    }
    uf_picture_writer_destroy(writer);
    return status;
}
