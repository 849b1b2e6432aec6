/* picture.h - pictures in files, PNG or JPEG. Reading tells the format by the contents and never by
 * the name; writing is told. JPEG goes through libjpeg-turbo, an option of the build. */
#ifndef UNFURL_PICTURE_H
#define UNFURL_PICTURE_H

#include <unfurl/png.h>

UF_BEGIN_DECLS

typedef enum uf_picture_format { UF_PICTURE_PNG = 0, UF_PICTURE_JPEG } uf_picture_format;

/* Does this build read and write the format? False for a number that is none. */
UF_API bool uf_picture_has_format(uf_picture_format format);

typedef struct uf_picture_read_options {
    size_t struct_size;
    int64_t max_pixels; /* a picture of more is refused before it is unpacked; UF_PNG_MAX_PIXELS */
} uf_picture_read_options;

static inline uf_picture_read_options uf_picture_read_options_default(void) {
    uf_picture_read_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.max_pixels = UF_PNG_MAX_PIXELS;
    return options;
}

/* Read a picture, from a pipe too. uf_png_read says how a PNG file is. A JPEG file gives 8 bits a
 * sample, grey or RGB, and its colour profile, at most 8,000,000 bytes of it. The orientation of a
 * camera (EXIF) is ignored: rows are as they are stored. Refused are pictures for print (CMYK),
 * arithmetic coding, more than 100 scans, and whatever libjpeg-turbo would only guess at, such as
 * the rest of a truncated file. `options` may be NULL for all defaults. Errors: NOT_FOUND, IO,
 * FORMAT, OUT_OF_MEMORY, INVALID_ARGUMENT, UNSUPPORTED (a JPEG file, of a build without); *picture
 * is zeroed then. */
UF_API UF_NODISCARD uf_status uf_picture_read_sized(const char *path,
                                                    const uf_picture_read_options *options,
                                                    uf_picture *picture, size_t picture_size);
static inline UF_NODISCARD uf_status uf_picture_read(const char *path,
                                                     const uf_picture_read_options *options,
                                                     uf_picture *picture) {
    return uf_picture_read_sized(path, options, picture, sizeof *picture);
}

typedef struct uf_picture_write_options {
    size_t struct_size;
    uf_picture_format format; /* UF_PICTURE_PNG */
    /* 92; of JPEG, 1 to 100. From 90 on colours have the resolution of brightness (4:4:4), below
     * half of it (4:2:0). */
    int32_t quality;
    int32_t threads; /* 0; of PNG: see uf_png_write_options */
} uf_picture_write_options;

static inline uf_picture_write_options uf_picture_write_options_default(void) {
    uf_picture_write_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.quality = 92;
    return options;
}

/* Write, through a temporary file renamed over `path`. A JPEG file takes 8 bits a sample, grey or
 * RGB without alpha, sides of at most 65500 pixels, and keeps of the colour information the
 * profile. `options` may be NULL for all defaults. Errors: NOT_FOUND, IO, OUT_OF_MEMORY,
 * INVALID_ARGUMENT (a picture that the format does not hold, too), UNSUPPORTED (JPEG, of a build
 * without). */
UF_API UF_NODISCARD uf_status uf_picture_write_sized(const char *path, const uf_picture *picture,
                                                     size_t picture_size,
                                                     const uf_picture_write_options *options);
static inline UF_NODISCARD uf_status uf_picture_write(const char *path, const uf_picture *picture,
                                                      const uf_picture_write_options *options) {
    return uf_picture_write_sized(path, picture, sizeof *picture, options);
}

/* ---- row by row: a picture that is written while it is made, and is never whole in memory ---- */

typedef struct uf_picture_writer uf_picture_writer; /* used by one thread at a time */

/* Begin the file of a picture, whose `samples` are not read; the picture may be freed then.
 * `options` may be NULL for all defaults. Errors: as uf_picture_write. On failure *writer is NULL.
 */
UF_API UF_NODISCARD uf_status
uf_picture_writer_create_sized(const char *path, const uf_picture *picture, size_t picture_size,
                               const uf_picture_write_options *options, uf_picture_writer **writer);
static inline UF_NODISCARD uf_status
uf_picture_writer_create(const char *path, const uf_picture *picture,
                         const uf_picture_write_options *options, uf_picture_writer **writer) {
    return uf_picture_writer_create_sized(path, picture, sizeof *picture, options, writer);
}

/* Append `count` rows, 1 or more, interleaved as in uf_picture. They are copied. Errors: IO,
 * OUT_OF_MEMORY, INVALID_ARGUMENT (more rows than the picture has), STATE (an earlier call failed).
 */
UF_API UF_NODISCARD uf_status uf_picture_writer_rows(uf_picture_writer *writer, const void *samples,
                                                     int64_t count);

/* After the last row: put the file in its place. Errors: IO, STATE (rows are missing, an earlier
 * call failed, or the file is finished). */
UF_API UF_NODISCARD uf_status uf_picture_writer_finish(uf_picture_writer *writer);

/* Without uf_picture_writer_finish nothing is left of the file. NULL is legal. */
UF_API void uf_picture_writer_destroy(uf_picture_writer *writer);

UF_END_DECLS

#endif
