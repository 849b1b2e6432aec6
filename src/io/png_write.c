/* png_write.c - pictures to files, through libpng. Rows come straight from the picture's samples:
 * nothing holds a second copy. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/atomic_file.h"
#include "core/error.h"
#include "io/png_job.h"

typedef struct png_writer {
    uf_png_job job;
    FILE *file;
    int error; /* errno of a failed write */
} png_writer;

static void on_write(png_structp png, png_bytep from, size_t size) {
    png_writer *writer = png_get_io_ptr(png);
    if (fwrite(from, 1, size, writer->file) != size) {
        writer->error = errno;
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
static void write_colour_chunks(const png_writer *writer, const uf_picture *picture) {
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

static bool write_picture(png_writer *writer, const uf_picture *picture) {
    static const int colour_types[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                                       PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    if (setjmp(png_jmpbuf(writer->job.png)) != 0) {
        return false;
    }
    png_set_write_fn(writer->job.png, writer, on_write, on_flush);
    png_set_user_limits(writer->job.png, (png_uint_32)UF_LARGEST_SIDE,
                        (png_uint_32)UF_LARGEST_SIDE);
    png_set_chunk_malloc_max(writer->job.png, UF_LARGEST_PROFILE);
    png_set_IHDR(writer->job.png, writer->job.info, (png_uint_32)picture->width,
                 (png_uint_32)picture->height, picture->depth, colour_types[picture->channels - 1],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (picture->icc_profile != NULL) {
        png_set_iCCP(writer->job.png, writer->job.info, picture->icc_name,
                     PNG_COMPRESSION_TYPE_BASE, picture->icc_profile, picture->icc_size);
    }
    png_write_info_before_PLTE(writer->job.png, writer->job.info);
    write_colour_chunks(writer, picture);
    png_write_info(writer->job.png, writer->job.info);
    if (uf_is_little_endian()) {
        png_set_swap(writer->job.png);
    }
    const size_t stride = uf_picture_row_bytes(picture);
    for (int64_t y = 0; y < picture->height; ++y) {
        png_write_row(writer->job.png, (png_const_bytep)picture->samples + (size_t)y * stride);
    }
    png_write_end(writer->job.png, NULL);
    return true;
}

static uf_status check_picture(const uf_picture *picture) {
    UF_CHECK_ARG(picture->samples != NULL, "uf_png_write: the picture has no samples");
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

static uf_status write_failure(const png_writer *writer, const char *path) {
    if (writer->error != 0) {
        UF_FAIL(UF_ERROR_IO, "cannot write %s: %s", path, strerror(writer->error));
    }
    if (writer->job.out_of_memory) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory writing %s", path);
    }
    UF_FAIL(UF_ERROR_INVALID_ARGUMENT, "cannot write %s (libpng: %s)", path, writer->job.message);
}

static uf_status write_file(png_writer *writer, const char *path, const uf_picture *picture) {
    writer->job.png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &writer->job,
                                                uf_png_on_error, uf_png_on_warning, &writer->job,
                                                uf_png_on_malloc, uf_png_on_free);
    writer->job.info = writer->job.png != NULL ? png_create_info_struct(writer->job.png) : NULL;
    bool written = writer->job.info != NULL && write_picture(writer, picture);
    png_destroy_write_struct(&writer->job.png, &writer->job.info);
    /* The bytes that stdio still holds go out here. */
    if (written && fflush(writer->file) != 0) {
        writer->error = errno;
        written = false;
    }
    return written ? UF_OK : write_failure(writer, path);
}

uf_status uf_png_write_sized(const char *path, const uf_picture *given, size_t picture_size) {
    UF_CHECK_ARG(path != NULL && given != NULL, "uf_png_write: path or picture is NULL");
    uf_picture known = {.srgb_intent = -1};
    const uf_picture *picture = &known;
    UF_TRY(uf_read_zeroed_struct("uf_picture", given, &known, sizeof known, picture_size));
    UF_TRY(check_picture(picture));
    png_writer writer = {0};
    uf_atomic_file atomic;
    UF_TRY(uf_atomic_begin(path, &atomic));
    /* A descriptor of its own for stdio: closing it must not close the one that is synchronised. */
    const int descriptor = dup(atomic.descriptor);
    writer.file = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
    if (writer.file == NULL) {
        const int error = errno;
        if (descriptor >= 0) {
            close(descriptor);
        }
        uf_atomic_abort(&atomic);
        UF_FAIL(UF_ERROR_IO, "cannot write %s: %s", path, strerror(error));
    }
    const uf_status status = write_file(&writer, path, picture);
    fclose(writer.file);
    if (status != UF_OK) {
        uf_atomic_abort(&atomic);
        return status;
    }
    return uf_atomic_commit(&atomic);
}
