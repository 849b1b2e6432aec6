/* png_write.c - pictures to files. libpng writes the chunks; png_deflate.c makes the image data of
 * rows as they come. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <unfurl/context.h>

#include "core/atomic_file.h"
#include "core/error.h"
#include "io/png_deflate.h"
#include "io/png_job.h"

#define MOST_THREADS 16 /* unless an option asks for more: each has some 1.4 MB */
#define CHUNK_SIZE ((size_t)1 << 30)

struct uf_png_writer {
    uf_png_job job;
    uf_atomic_file file;
    bool is_open; /* `file` */
    uf_png_deflate *deflate;
    int64_t height, rows; /* rows that were given */
    size_t row_bytes;
    uf_status status; /* of the first failure */
    char path[];      /* as the caller named it */
};

static void on_write(png_structp png, png_bytep from, size_t size) {
    uf_png_writer *writer = png_get_io_ptr(png);
    writer->status = uf_atomic_write(&writer->file, from, size);
    if (writer->status != UF_OK) {
        png_error(png, "the file cannot be written");
    }
}

static void on_flush(png_structp png) {
    (void)png; /* the atomic file is flushed once, at the end */
}

static uint32_t hundred_thousandths(double value) {
    return (uint32_t)lround(value * 1e5);
}

/* The chunks that keep_colour_chunks kept, as they were. */
static void write_colour_chunks(const uf_png_writer *writer, const uf_picture *picture) {
    unsigned char data[32];
    if (picture->gamma > 0.0) {
        png_save_uint_32(data, hundred_thousandths(picture->gamma));
        png_write_chunk(writer->job.png, (png_const_bytep) "gAMA", data, 4);
    }
    if (picture->has_chromaticities) {
        for (int i = 0; i < 8; ++i) {
            png_save_uint_32(data + 4 * (size_t)i, hundred_thousandths(picture->chromaticities[i]));
        }
        png_write_chunk(writer->job.png, (png_const_bytep) "cHRM", data, 32);
    }
    if (picture->srgb_intent >= 0) {
        data[0] = (unsigned char)picture->srgb_intent;
        png_write_chunk(writer->job.png, (png_const_bytep) "sRGB", data, 1);
    }
}

/* All before the image data. */
static bool write_head(uf_png_writer *writer, const uf_picture *picture) {
    static const int colour_types[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                                       PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    png_structp png = writer->job.png;
    png_infop info = writer->job.info;
    if (setjmp(png_jmpbuf(png)) != 0) {
        return false;
    }
    png_set_write_fn(png, writer, on_write, on_flush);
    png_set_user_limits(png, (png_uint_32)UF_LARGEST_SIDE, (png_uint_32)UF_LARGEST_SIDE);
    png_set_chunk_malloc_max(png, UF_LARGEST_PROFILE);
    png_set_IHDR(png, info, (png_uint_32)picture->width, (png_uint_32)picture->height,
                 picture->depth, colour_types[picture->channels - 1], PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (picture->icc_profile != NULL) {
        png_set_benign_errors(png, 1); /* a profile that libpng refuses is left out */
        png_set_iCCP(png, info, picture->icc_name, PNG_COMPRESSION_TYPE_BASE, picture->icc_profile,
                     picture->icc_size);
        png_set_benign_errors(png, 0);
    }
    png_write_info_before_PLTE(png, info);
    write_colour_chunks(writer, picture);
    png_write_info(png, info);
    return true;
}

static bool write_chunk(uf_png_writer *writer, const char *name, const unsigned char *data,
                        size_t size) {
    if (setjmp(png_jmpbuf(writer->job.png)) != 0) {
        return false;
    }
    png_write_chunk(writer->job.png, (png_const_bytep)name, data, size);
    return true;
}

static uf_status check_picture(const uf_picture *picture) {
    UF_CHECK_ARG(picture->width >= 1 && picture->height >= 1 && picture->width <= UF_LARGEST_SIDE &&
                     picture->height <= UF_LARGEST_SIDE && picture->channels >= 1 &&
                     picture->channels <= 4 && (picture->depth == 8 || picture->depth == 16) &&
                     uf_picture_bytes(picture->width, picture->height, picture->channels,
                                      picture->depth) > 0,
                 "uf_png_write: %" PRId64 "x%" PRId64 " pixels of %" PRId32 " channels and %" PRId32
                 " bits are no picture",
                 picture->width, picture->height, picture->channels, picture->depth);
    bool colours = uf_png_is_storable(picture->gamma) && picture->srgb_intent < 4;
    for (int i = 0; i < 8 && picture->has_chromaticities; ++i) {
        colours = colours && uf_png_is_storable(picture->chromaticities[i]);
    }
    colours =
        colours && (picture->icc_profile == NULL || uf_png_is_storable_name(picture->icc_name));
    UF_CHECK_ARG(colours,
                 "uf_png_write: the picture's gamma, chromaticities, sRGB intent or name of "
                 "a colour profile cannot be stored");
    return UF_OK;
}

/* Keep the first failure, whose message is libpng's if it is not set yet. */
static uf_status fail(uf_png_writer *writer) {
    if (writer->status != UF_OK) {
        return writer->status;
    }
    if (writer->job.out_of_memory) {
        writer->status =
            uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory writing %s", writer->path);
    } else {
        writer->status = uf_fail(UF_ERROR_INVALID_ARGUMENT, "cannot write %s (libpng: %s)",
                                 writer->path, writer->job.message);
    }
    return writer->status;
}

/* Write the stripes that are packed; wait for as many as `awaited`, if there are so many. */
static uf_status write_stripes(uf_png_writer *writer, int64_t awaited) {
    const unsigned char *bytes;
    size_t size;
    while (uf_png_deflate_next(writer->deflate, awaited > 0, &bytes, &size)) {
        if (size == 0) {
            writer->status =
                uf_fail(UF_ERROR_INTERNAL,
                        "cannot write %s: zlib's output is longer than its bound", writer->path);
            return writer->status;
        }
        for (size_t begin = 0; begin < size; begin += CHUNK_SIZE) {
            const size_t left = size - begin;
            if (!write_chunk(writer, "IDAT", bytes + begin,
                             left < CHUNK_SIZE ? left : CHUNK_SIZE)) {
                return fail(writer);
            }
        }
        uf_png_deflate_release(writer->deflate);
        --awaited;
    }
    return UF_OK;
}

static uf_status begin(uf_png_writer *writer, const uf_picture *picture, int32_t threads) {
    const uf_png_rows rows = {
        .size = writer->row_bytes,
        .pixel = (size_t)(picture->channels * (picture->depth / 8)),
        .count = picture->height,
        .swap = picture->depth == 16 && uf_is_little_endian(),
    };
    UF_TRY(uf_atomic_begin(writer->path, &writer->file));
    writer->is_open = true;
    writer->deflate = uf_png_deflate_create(&rows, threads);
    writer->job.out_of_memory = writer->deflate == NULL;
    if (writer->deflate != NULL) {
        writer->job.png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &writer->job,
                                                    uf_png_on_error, uf_png_on_warning,
                                                    &writer->job, uf_png_on_malloc, uf_png_on_free);
        writer->job.info = writer->job.png != NULL ? png_create_info_struct(writer->job.png) : NULL;
    }
    return writer->job.info != NULL && write_head(writer, picture) ? UF_OK : fail(writer);
}

static uf_status create(const char *path, const uf_picture *picture, int32_t threads,
                        uf_png_writer **writer) {
    UF_TRY(check_picture(picture));
    const size_t length = strlen(path) + 1;
    uf_png_writer *made = calloc(1, sizeof *made + length);
    if (made == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory writing %s", path);
    }
    memcpy(made->path, path, length);
    made->height = picture->height;
    made->row_bytes = uf_picture_row_bytes(picture);
    const uf_status status = begin(made, picture, threads);
    if (status != UF_OK) {
        uf_png_writer_destroy(made);
        return status;
    }
    *writer = made;
    return UF_OK;
}

static int32_t default_threads(void) {
    const int32_t cores = uf_usable_cores();
    return cores < MOST_THREADS ? cores : MOST_THREADS;
}

uf_status uf_png_writer_create_sized(const char *path, const uf_picture *given, size_t picture_size,
                                     const uf_png_write_options *given_options,
                                     uf_png_writer **writer) {
    UF_CHECK_ARG(writer != NULL, "uf_png_writer_create: writer is NULL");
    *writer = NULL;
    UF_CHECK_ARG(path != NULL && given != NULL, "uf_png_writer_create: path or picture is NULL");
    uf_picture picture = {.srgb_intent = -1};
    UF_TRY(uf_read_zeroed_struct("uf_picture", given, &picture, sizeof picture, picture_size));
    uf_png_write_options options = uf_png_write_options_default();
    UF_TRY(uf_read_struct("uf_png_write_options", given_options, &options, sizeof options));
    UF_CHECK_ARG(options.threads >= 0 && options.threads <= 1024,
                 "uf_png_write_options.threads is %" PRId32 "; it must be 0 to 1024",
                 options.threads);
    return create(path, &picture, options.threads > 0 ? options.threads : default_threads(),
                  writer);
}

uf_status uf_png_writer_rows(uf_png_writer *writer, const void *samples, int64_t count) {
    UF_CHECK_ARG(writer != NULL && samples != NULL,
                 "uf_png_writer_rows: writer or samples is NULL");
    UF_CHECK_ARG(count >= 1 && count <= writer->height - writer->rows,
                 "uf_png_writer_rows: %" PRId64 " rows for %s, which lacks %" PRId64, count,
                 writer->path, writer->height - writer->rows);
    if (writer->status != UF_OK) {
        UF_FAIL(UF_ERROR_STATE, "uf_png_writer_rows: writing %s has failed already", writer->path);
    }
    const unsigned char *from = samples;
    while (count > 0) {
        const int64_t taken = uf_png_deflate_put(writer->deflate, from, count);
        from += (size_t)taken * writer->row_bytes;
        count -= taken;
        writer->rows += taken;
        UF_TRY(write_stripes(writer, taken == 0 ? 1 : 0));
    }
    return UF_OK;
}

uf_status uf_png_writer_finish(uf_png_writer *writer) {
    UF_CHECK_ARG(writer != NULL, "uf_png_writer_finish: writer is NULL");
    if (writer->status != UF_OK || !writer->is_open) {
        UF_FAIL(UF_ERROR_STATE, "uf_png_writer_finish: writing %s %s", writer->path,
                writer->status != UF_OK ? "has failed already" : "is finished");
    }
    if (writer->rows < writer->height) {
        UF_FAIL(UF_ERROR_STATE, "uf_png_writer_finish: %s has %" PRId64 " of %" PRId64 " rows",
                writer->path, writer->rows, writer->height);
    }
    UF_TRY(write_stripes(writer, INT64_MAX));
    if (!write_chunk(writer, "IEND", NULL, 0)) {
        return fail(writer);
    }
    writer->is_open = false;
    writer->status = uf_atomic_commit(&writer->file);
    return writer->status;
}

void uf_png_writer_destroy(uf_png_writer *writer) {
    if (writer == NULL) {
        return;
    }
    uf_png_deflate_destroy(writer->deflate);
    png_destroy_write_struct(&writer->job.png, &writer->job.info);
    if (writer->is_open) {
        uf_atomic_abort(&writer->file);
    }
    free(writer);
}

uf_status uf_png_write_sized(const char *path, const uf_picture *given, size_t picture_size) {
    UF_CHECK_ARG(path != NULL && given != NULL, "uf_png_write: path or picture is NULL");
    uf_picture picture = {.srgb_intent = -1};
    UF_TRY(uf_read_zeroed_struct("uf_picture", given, &picture, sizeof picture, picture_size));
    UF_CHECK_ARG(picture.samples != NULL, "uf_png_write: the picture has no samples");
    uf_png_writer *writer;
    UF_TRY(create(path, &picture, default_threads(), &writer));
    uf_status status = uf_png_writer_rows(writer, picture.samples, picture.height);
    if (status == UF_OK) {
        status = uf_png_writer_finish(writer);
    }
    uf_png_writer_destroy(writer);
    return status;
}
