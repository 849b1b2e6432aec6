/* png_read.c - pictures from files, through libpng. Rows go straight into the picture's samples:
 * nothing holds a second copy. */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "io/png_job.h"

#define SIGNATURE_SIZE 8
/* The signature, IHDR's length and name, width, height, depth, colour type. */
#define HEAD_SIZE 26
#define KEPT_CHUNKS 64
/* libpng clears two rows before it reads the first: of a pipe, whose claims nothing can be held
 * against, rows are no longer than libpng's usual limit. */
#define LONGEST_ROW_OF_A_PIPE 1000000
/* Data that may follow the last row: libpng inflates it all, at 1032 times its size. */
#define MOST_EXCESS 65536
#define DEFLATE_RATIO 1032.0 /* at most */

typedef struct png_reader {
    uf_png_job job;
    FILE *file;
    int error;                     /* errno of a failed read */
    bool refused;                  /* the job's message is ours */
    int64_t size;                  /* of the file; -1 when it is not known */
    unsigned char head[HEAD_SIZE]; /* looked at before libpng was, then given to it */
    int64_t given;                 /* bytes that libpng has */
    int64_t chunk_end;             /* its checksum included; at first the signature's */
    bool in_image;                 /* is the chunk an IDAT? */
    int64_t rows_left;             /* to be unpacked, of all passes; -1 before the first */
    int64_t excess;                /* bytes of IDAT given after the last row */
} png_reader;

static uint32_t big_endian(const unsigned char *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}
/* Leave libpng with a sentence of ours, to which the file's name is the subject. */
static _Noreturn void refuse(png_reader *reader, const char *format, ...) UF_PRINTF(2, 3);

static _Noreturn void refuse(png_reader *reader, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reader->job.message, sizeof reader->job.message, format, arguments);
    va_end(arguments);
    reader->refused = true;
    png_longjmp(reader->job.png, 1);
}

/* The length that a chunk claims is held against the file before libpng acts on it. */
static void enter_chunk(png_reader *reader, const unsigned char *start) {
    const int64_t claim = big_endian(start);
    reader->chunk_end = reader->given + claim + 4;
    reader->in_image = memcmp(start + 4, "IDAT", 4) == 0;
    if (reader->size >= 0 && reader->chunk_end > reader->size) {
        refuse(reader,
               "is truncated: the chunk at byte %" PRId64 " claims %" PRId64 " bytes and %" PRId64
               " follow",
               reader->given - 8, claim, reader->size - reader->given);
    }
}

static void on_read(png_structp png, png_bytep to, size_t size) {
    png_reader *reader = png_get_io_ptr(png);
    const bool is_start =
        reader->given == reader->chunk_end; /* of a chunk: its length and its name */
    size_t done = 0;
    while (done < size && reader->given + (int64_t)done < HEAD_SIZE) {
        to[done] = reader->head[reader->given + (int64_t)done];
        ++done;
    }
    if (done < size && fread(to + done, 1, size - done, reader->file) != size - done) {
        reader->error = feof(reader->file) ? 0 : errno;
        refuse(reader, "is truncated");
    }
    reader->given += (int64_t)size;
    if (is_start && size == 8) {
        enter_chunk(reader, to);
    } else if (reader->in_image && reader->rows_left == 0) {
        reader->excess += (int64_t)size;
        if (reader->excess > MOST_EXCESS) {
            refuse(reader, "holds more image data than its %" PRIu32 "x%" PRIu32 " pixels",
                   png_get_image_width(png, reader->job.info),
                   png_get_image_height(png, reader->job.info));
        }
    }
}

static void on_row(png_structp png, png_row_infop row, png_bytep samples) {
    (void)row, (void)samples;
    png_reader *reader = png_get_io_ptr(png);
    --reader->rows_left;
}

/* Colour chunks that are kept as they stand in the file: libpng would complete and correct them,
 * and what is carried to the next file is to be carried untouched. */
static const png_byte raw_chunks[] = "gAMA\0cHRM\0sRGB";
#define RAW_CHUNK_COUNT 3
/* The one that libpng is to unpack; it skips the rest of those that a picture can do without. */
static const png_byte unpacked_chunks[] = "iCCP";

/* A real number of a chunk. */
static double keep_real(png_reader *reader, const char *chunk, const png_byte *data) {
    const double value = big_endian(data) / 1e5;
    if (!uf_png_is_storable(value)) {
        refuse(reader, "has a %s chunk of %.5f; at most %.5f can be stored", chunk, value,
               UF_LARGEST_REAL);
    }
    return value;
}

static void keep_colour_chunks(png_reader *reader, uf_picture *picture) {
    png_unknown_chunkp chunks;
    const int count = png_get_unknown_chunks(reader->job.png, reader->job.info, &chunks);
    for (int i = 0; i < count; ++i) {
        const png_unknown_chunk *chunk = &chunks[i];
        if (memcmp(chunk->name, "gAMA", 4) == 0 && chunk->size == 4) {
            picture->gamma = keep_real(reader, "gAMA", chunk->data);
        } else if (memcmp(chunk->name, "sRGB", 4) == 0 && chunk->size == 1 && chunk->data[0] < 4) {
            picture->srgb_intent = chunk->data[0];
        } else if (memcmp(chunk->name, "cHRM", 4) == 0 && chunk->size == 32) {
            picture->has_chromaticities = true;
            for (int j = 0; j < 8; ++j) {
                picture->chromaticities[j] = keep_real(reader, "cHRM", chunk->data + 4 * (size_t)j);
            }
        }
    }
}

static void keep_profile(png_reader *reader, uf_picture *picture) {
    png_charp name;
    png_bytep profile;
    png_uint_32 size;
    int compression;
    if (png_get_iCCP(reader->job.png, reader->job.info, &name, &compression, &profile, &size) !=
        PNG_INFO_iCCP) {
        return;
    }
    if (!uf_png_is_storable_name(name)) {
        refuse(reader, "has a colour profile whose name cannot be stored");
    }
    picture->icc_profile = malloc(size > 0 ? size : 1);
    if (picture->icc_profile == NULL) {
        reader->job.out_of_memory = true;
        png_error(reader->job.png, "no memory for the colour profile");
    }
    memcpy(picture->icc_profile, profile, size);
    picture->icc_size = size;
    snprintf(picture->icc_name, sizeof picture->icc_name, "%s", name);
}

/* Up to the first row: the format after expansion, and the colour chunks. */
static bool read_header(png_reader *reader, uf_picture *picture) {
    if (setjmp(png_jmpbuf(reader->job.png)) != 0) {
        return false;
    }
    png_set_read_fn(reader->job.png, reader, on_read);
    /* The size was checked against the file already, more strictly than libpng's million would. */
    png_set_user_limits(reader->job.png, (png_uint_32)UF_LARGEST_SIDE,
                        (png_uint_32)UF_LARGEST_SIDE);
    png_set_chunk_malloc_max(reader->job.png, UF_LARGEST_PROFILE);
    png_set_chunk_cache_max(reader->job.png, KEPT_CHUNKS);
    png_set_keep_unknown_chunks(reader->job.png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(reader->job.png, PNG_HANDLE_CHUNK_AS_DEFAULT, unpacked_chunks, 1);
    png_set_keep_unknown_chunks(reader->job.png, PNG_HANDLE_CHUNK_ALWAYS, raw_chunks,
                                RAW_CHUNK_COUNT);
    png_read_info(reader->job.png, reader->job.info);
    keep_colour_chunks(reader, picture);
    keep_profile(reader, picture);
    png_set_expand(reader->job.png);
    if (uf_is_little_endian()) {
        png_set_swap(reader->job.png);
    }
    png_set_interlace_handling(reader->job.png);
    png_set_read_user_transform_fn(reader->job.png, on_row);
    png_read_update_info(reader->job.png, reader->job.info);
    picture->width = png_get_image_width(reader->job.png, reader->job.info);
    picture->height = png_get_image_height(reader->job.png, reader->job.info);
    picture->channels = png_get_channels(reader->job.png, reader->job.info);
    picture->depth = png_get_bit_depth(reader->job.png, reader->job.info);
    return true;
}

/* Interlaced pictures come in seven passes over the same rows. */
static bool read_rows(png_reader *reader, uf_picture *picture) {
    if (setjmp(png_jmpbuf(reader->job.png)) != 0) {
        return false;
    }
    const int passes =
        png_get_interlace_type(reader->job.png, reader->job.info) == PNG_INTERLACE_ADAM7 ? 7 : 1;
    const size_t stride = uf_picture_row_bytes(picture);
    if (png_get_rowbytes(reader->job.png, reader->job.info) != stride) {
        png_error(reader->job.png, "rows of an unexpected size");
    }
    reader->rows_left = passes == 1 ? picture->height : 0;
    for (int pass = 0; pass < passes && passes > 1; ++pass) {
        reader->rows_left +=
            PNG_PASS_COLS(picture->width, pass) > 0 ? PNG_PASS_ROWS(picture->height, pass) : 0;
    }
    for (int pass = 0; pass < passes; ++pass) {
        for (int64_t y = 0; y < picture->height; ++y) {
            png_read_row(reader->job.png, (png_bytep)picture->samples + (size_t)y * stride, NULL);
        }
    }
    png_read_end(reader->job.png, NULL);
    return true;
}

static uf_status read_failure(const png_reader *reader, const char *path) {
    if (reader->error != 0) {
        UF_FAIL(UF_ERROR_IO, "cannot read %s: %s", path, strerror(reader->error));
    }
    if (reader->job.out_of_memory) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory reading %s", path);
    }
    if (reader->refused) {
        UF_FAIL(UF_ERROR_FORMAT, "%s %s", path, reader->job.message);
    }
    UF_FAIL(UF_ERROR_FORMAT, "%s is damaged (libpng: %s)", path, reader->job.message);
}

/* Bits of a pixel as the file stores it; 1 for what libpng will not take. */
static int stored_bits(int depth, int colour) {
    static const int channels[] = {1, 0, 3, 1, 2, 0, 4};
    const bool known = colour < (int)(sizeof channels / sizeof channels[0]) && depth <= 16;
    return known && channels[colour] * depth > 0 ? channels[colour] * depth : 1;
}

/* The size before anything is allocated for it. */
static uf_status check_size(const png_reader *reader, const char *path, int64_t max_pixels) {
    const uint32_t width = big_endian(reader->head + 16), height = big_endian(reader->head + 20);
    if (width == 0 || height == 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s has a size of %" PRIu32 "x%" PRIu32 " pixels", path, width,
                height);
    }
    const double least_bytes = (double)width * (double)height *
                               stored_bits(reader->head[24], reader->head[25]) / 8.0 /
                               DEFLATE_RATIO;
    if (reader->size >= 0 && least_bytes > (double)reader->size) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s claims %" PRIu32 "x%" PRIu32 " pixels, which its %" PRId64 " bytes cannot hold",
                path, width, height, reader->size);
    }
    if ((uint64_t)width * height > (uint64_t)max_pixels) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s has %" PRIu32 "x%" PRIu32 " pixels, more than the %" PRId64
                " that max_pixels allows",
                path, width, height, max_pixels);
    }
    if (reader->size < 0 && width > LONGEST_ROW_OF_A_PIPE) {
        UF_FAIL(UF_ERROR_FORMAT, "%s has rows of %" PRIu32 " pixels; of a pipe at most %d are read",
                path, width, LONGEST_ROW_OF_A_PIPE);
    }
    return UF_OK;
}

/* The first bytes, where a mistake can be told better than libpng tells it. */
static uf_status read_head(png_reader *reader, const char *path) {
    static const unsigned char signature[SIGNATURE_SIZE] = {137, 'P', 'N', 'G', 13, 10, 26, 10};
    const size_t got = fread(reader->head, 1, HEAD_SIZE, reader->file);
    if (got < HEAD_SIZE && ferror(reader->file)) {
        UF_FAIL(UF_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
    }
    if (got == 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is empty, not a PNG file", path);
    }
    const size_t compared = got < SIGNATURE_SIZE ? got : SIGNATURE_SIZE;
    if (memcmp(reader->head, signature, compared) != 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is not a PNG file", path);
    }
    if (got < HEAD_SIZE) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is truncated", path);
    }
    if (memcmp(reader->head + 12, "IHDR", 4) != 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: it does not begin with an IHDR chunk", path);
    }
    return UF_OK;
}

static uf_status read_picture(png_reader *reader, const char *path, uf_picture *picture) {
    uf_picture header = {.srgb_intent = -1}; /* all but the samples */
    if (!read_header(reader, &header)) {
        uf_picture_free(&header);
        return read_failure(reader, path);
    }
    uf_status status =
        uf_picture_new(header.width, header.height, header.channels, header.depth, picture);
    if (status != UF_OK) {
        uf_picture_free(&header);
        uf_error_prefix("%s", path);
        return status;
    }
    header.struct_size = sizeof header;
    header.samples = picture->samples;
    *picture = header;
    if (!read_rows(reader, picture)) {
        uf_picture_free(picture);
        return read_failure(reader, path);
    }
    return UF_OK;
}

uf_status uf_png_read_stream(FILE *file, const char *path, int64_t size, int64_t max_pixels,
                             uf_picture *picture) {
    png_reader reader = {.file = file, .size = size, .chunk_end = SIGNATURE_SIZE, .rows_left = -1};
    UF_TRY(read_head(&reader, path));
    UF_TRY(check_size(&reader, path, max_pixels));
    reader.job.png =
        png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &reader.job, uf_png_on_error,
                                 uf_png_on_warning, &reader.job, uf_png_on_malloc, uf_png_on_free);
    reader.job.info = reader.job.png != NULL ? png_create_info_struct(reader.job.png) : NULL;
    const uf_status status = reader.job.info != NULL ? read_picture(&reader, path, picture)
                                                     : read_failure(&reader, path);
    png_destroy_read_struct(&reader.job.png, &reader.job.info, NULL);
    return status;
}

uf_status uf_png_read_sized(const char *path, const uf_png_read_options *given, uf_picture *picture,
                            size_t picture_size) {
    UF_CHECK_ARG(picture != NULL, "uf_png_read: picture is NULL");
    memset(picture, 0, picture_size);
    UF_CHECK_ARG(path != NULL, "uf_png_read: path is NULL");
    UF_TRY(uf_picture_check_room(picture_size));
    uf_picture known;
    memset(&known, 0, sizeof known);
    uf_png_read_options options = uf_png_read_options_default();
    UF_TRY(uf_read_struct("uf_png_read_options", given, &options, sizeof options));
    UF_CHECK_ARG(options.max_pixels >= 1, "uf_png_read: max_pixels is %" PRId64,
                 options.max_pixels);
    FILE *file;
    int64_t size;
    UF_TRY(uf_picture_open(path, "a PNG file", &file, &size));
    const uf_status status = uf_png_read_stream(file, path, size, options.max_pixels, &known);
    fclose(file);
    return uf_picture_give(status, &known, picture, picture_size);
}
