/* png.h - pictures in and out, through libpng. */
#ifndef UNFURL_PNG_H
#define UNFURL_PNG_H

#include <unfurl/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

UF_BEGIN_DECLS

/* Interleaved rows, top first: pixel (y, x) channel c is at (y*width + x)*channels + c. Samples are
 * uint8_t when depth is 8, uint16_t in host byte order when it is 16. */
typedef struct uf_picture {
    size_t struct_size; /* set by whatever fills the struct; 0 in a zeroed one */
    int64_t width, height;
    int32_t channels; /* 1 grey, 2 grey + alpha, 3 RGB, 4 RGBA */
    int32_t depth;    /* 8 or 16 bits a sample */
    void *samples;    /* owned; freed by uf_picture_free */
    /* Colour information carried from a file to the next untouched; each may be absent. */
    double gamma;        /* of the gAMA chunk; 0 when absent */
    int32_t srgb_intent; /* of the sRGB chunk; -1 when absent */
    bool has_chromaticities;
    double chromaticities[8]; /* cHRM: white x, y, red, green, blue */
    char icc_name[80];        /* iCCP; "" when absent */
    uint8_t *icc_profile;     /* owned; NULL when absent */
    uint32_t icc_size;
} uf_picture;

/* An empty picture with no colour information, to fill by hand. */
static inline uf_picture uf_picture_default(void) {
    uf_picture picture;
    memset(&picture, 0, sizeof picture);
    picture.struct_size = sizeof picture;
    picture.srgb_intent = -1;
    return picture;
}

/* Allocate samples for a picture with no colour information. Errors: INVALID_ARGUMENT,
 * OUT_OF_MEMORY. On failure and after uf_picture_free the struct is zeroed. */
UF_API UF_NODISCARD uf_status uf_picture_create_sized(int64_t width, int64_t height,
                                                      int32_t channels, int32_t depth,
                                                      uf_picture *picture, size_t picture_size);
static inline UF_NODISCARD uf_status uf_picture_create(int64_t width, int64_t height,
                                                       int32_t channels, int32_t depth,
                                                       uf_picture *picture) {
    return uf_picture_create_sized(width, height, channels, depth, picture, sizeof *picture);
}
UF_API void uf_picture_free(uf_picture *picture); /* NULL and zeroed structs are legal */

#define UF_PNG_MAX_PIXELS (INT64_C(1) << 28) /* unless an option says otherwise */

typedef struct uf_png_read_options {
    size_t struct_size;
    int64_t max_pixels; /* a picture of more is refused before it is unpacked; UF_PNG_MAX_PIXELS */
} uf_png_read_options;

static inline uf_png_read_options uf_png_read_options_default(void) {
    uf_png_read_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.max_pixels = UF_PNG_MAX_PIXELS;
    return options;
}

/* Read any PNG, from a pipe too: palettes, tRNS and depths below 8 are expanded. Chunks that
 * uf_picture has no room for are skipped unread. A colour profile that libpng refuses, or of more
 * than 8,000,000 bytes, is left out. Gamma, chromaticities or a profile's name that uf_png_write
 * could not store are an error. Errors: NOT_FOUND, IO, FORMAT (not a PNG, truncated, damaged, a
 * size of 0, too many pixels), OUT_OF_MEMORY; *picture is zeroed then. */
UF_API UF_NODISCARD uf_status uf_png_read_sized(const char *path,
                                                const uf_png_read_options *options,
                                                uf_picture *picture, size_t picture_size);
static inline UF_NODISCARD uf_status uf_png_read(const char *path, uf_picture *picture) {
    return uf_png_read_sized(path, NULL, picture, sizeof *picture);
}

/* The same; `options` may be NULL for all defaults. Errors: INVALID_ARGUMENT too. */
static inline UF_NODISCARD uf_status uf_png_read_with(const char *path,
                                                      const uf_png_read_options *options,
                                                      uf_picture *picture) {
    return uf_png_read_sized(path, options, picture, sizeof *picture);
}

/* Write; through a temporary file renamed over `path`, so that a failure leaves no half picture. A
 * colour profile that libpng refuses is left out.
 * Rows are filtered and compressed by as many threads as there are usable cores, 16 at most, which
 * end with the call; the bytes are the same for any number. Errors: NOT_FOUND, IO, OUT_OF_MEMORY,
 * INVALID_ARGUMENT. */
UF_API UF_NODISCARD uf_status uf_png_write_sized(const char *path, const uf_picture *picture,
                                                 size_t picture_size);
static inline UF_NODISCARD uf_status uf_png_write(const char *path, const uf_picture *picture) {
    return uf_png_write_sized(path, picture, sizeof *picture);
}

/* ---- row by row: a picture that is written while it is made, and is never whole in memory ---- */

typedef struct uf_png_write_options {
    size_t struct_size;
    /* Threads that filter and compress, 1 to 1024, the caller's among them; 0: as many as there are
     * usable cores, 16 at most. */
    int32_t threads;
} uf_png_write_options;

static inline uf_png_write_options uf_png_write_options_default(void) {
    uf_png_write_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    return options;
}

typedef struct uf_png_writer uf_png_writer; /* used by one thread at a time */

/* Begin the file of a picture, whose `samples` are not read. Its colours are written here; the
 * picture may be freed then. `options` may be NULL for all defaults. Errors: as uf_png_write. On
 * failure *writer is NULL. */
UF_API UF_NODISCARD uf_status uf_png_writer_create_sized(const char *path,
                                                         const uf_picture *picture,
                                                         size_t picture_size,
                                                         const uf_png_write_options *options,
                                                         uf_png_writer **writer);
static inline UF_NODISCARD uf_status uf_png_writer_create(const char *path,
                                                          const uf_picture *picture,
                                                          const uf_png_write_options *options,
                                                          uf_png_writer **writer) {
    return uf_png_writer_create_sized(path, picture, sizeof *picture, options, writer);
}

/* Append `count` rows, 1 or more, interleaved as in uf_picture. They are copied; threads compress
 * them while the caller makes the next ones, and the call waits where it is too far ahead of them.
 * Errors: IO, INVALID_ARGUMENT (more rows than the picture has), STATE (an earlier call failed). */
UF_API UF_NODISCARD uf_status uf_png_writer_rows(uf_png_writer *writer, const void *samples,
                                                 int64_t count);

/* After the last row: put the file in its place. Errors: IO, STATE (rows are missing, an earlier
 * call failed, or the file is finished). */
UF_API UF_NODISCARD uf_status uf_png_writer_finish(uf_png_writer *writer);

/* Without uf_png_writer_finish nothing is left of the file. NULL is legal. */
UF_API void uf_png_writer_destroy(uf_png_writer *writer);

UF_END_DECLS

#endif
