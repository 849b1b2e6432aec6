/* png.c - pictures through libpng. Rows go straight between the file and the picture's samples:
 * nothing holds a second copy. libpng reports errors by longjmp; only the functions that call
 * setjmp here see it. */
#include <unfurl/png.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <png.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/atomic_file.h"
#include "core/error.h"

#define SIGNATURE_SIZE 8
#define HEAD_SIZE                                                                                  \
    26 /* the signature, IHDR's length and name, width, height, depth, colour type                 \
        */
#define LARGEST_SIDE INT64_C(0x7fffffff) /* of a PNG file */
#define LARGEST_REAL 21474.83647         /* of gAMA and cHRM: 31 bits, in hundred-thousandths */
#define LARGEST_PROFILE 8000000 /* bytes; libpng's usual limit, which not every build has */
#define KEPT_CHUNKS 64
/* libpng clears two rows before it reads the first: of a pipe, whose claims nothing can be held
 * against, rows are no longer than libpng's usual limit. */
#define LONGEST_ROW_OF_A_PIPE 1000000
/* Data that may follow the last row: libpng inflates it all, at 1032 times its size. */
#define MOST_EXCESS 65536
#define DEFLATE_RATIO 1032.0 /* at most */

/* Bytes of samples, or -1 when a size_t or an offset into them could overflow. */
static int64_t sample_bytes(int64_t width, int64_t height, int32_t channels, int32_t depth) {
    int64_t bytes;
    if (__builtin_mul_overflow(width, (int64_t)channels * (depth / 8), &bytes) ||
        __builtin_mul_overflow(bytes, height, &bytes) || bytes > PTRDIFF_MAX) {
        return -1;
    }
    return bytes;
}

static size_t row_bytes(const uf_picture *picture) {
    return (size_t)(picture->width * picture->channels * (picture->depth / 8));
}

/* A picture of this library's, all zero on failure. */
static uf_status create(int64_t width, int64_t height, int32_t channels, int32_t depth,
                        uf_picture *picture) {
    memset(picture, 0, sizeof *picture);
    UF_CHECK_ARG(width >= 1 && height >= 1 && width <= LARGEST_SIDE && height <= LARGEST_SIDE,
                 "a picture of %" PRId64 "x%" PRId64 " pixels: each side must be 1 to %" PRId64,
                 width, height, LARGEST_SIDE);
    UF_CHECK_ARG(channels >= 1 && channels <= 4, "a picture has 1 to 4 channels, not %" PRId32,
                 channels);
    UF_CHECK_ARG(depth == 8 || depth == 16, "a picture has 8 or 16 bits a sample, not %" PRId32,
                 depth);
    const int64_t bytes = sample_bytes(width, height, channels, depth);
    /* calloc: pages of a picture that is never filled are never touched. */
    void *samples = bytes < 0 ? NULL : calloc((size_t)bytes, 1);
    if (samples == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY,
                "out of host memory for a picture of %" PRId64 "x%" PRId64 " pixels", width,
                height);
    }
    picture->struct_size = sizeof *picture;
    picture->width = width;
    picture->height = height;
    picture->channels = channels;
    picture->depth = depth;
    picture->samples = samples;
    picture->srgb_intent = -1;
    return UF_OK;
}

#define LEAST_ROOM (offsetof(uf_picture, icc_size) + sizeof(size_t)) /* icc_size is 4 bytes */

/* With less room the caller would never learn where the samples are. */
static uf_status check_room(size_t room) {
    UF_CHECK_ARG(room >= LEAST_ROOM,
                 "a uf_picture of %zu bytes: the smallest there ever was has %zu", room,
                 LEAST_ROOM);
    return UF_OK;
}

/* Hand a made or read picture to the caller: on failure all zero. */
static uf_status give(uf_status status, const uf_picture *known, uf_picture *picture, size_t room) {
    if (status == UF_OK) {
        uf_give_struct(known, sizeof *known, picture, room);
    }
    return status;
}

uf_status uf_picture_create_sized(int64_t width, int64_t height, int32_t channels, int32_t depth,
                                  uf_picture *picture, size_t picture_size) {
    UF_CHECK_ARG(picture != NULL, "uf_picture_create: picture is NULL");
    memset(picture, 0, picture_size);
    UF_TRY(check_room(picture_size));
    uf_picture known;
    const uf_status status = create(width, height, channels, depth, &known);
    return give(status, &known, picture, picture_size);
}

void uf_picture_free(uf_picture *picture) {
    if (picture == NULL) {
        return;
    }
    free(picture->samples);
    free(picture->icc_profile);
    memset(picture, 0, picture->struct_size != 0 ? picture->struct_size : LEAST_ROOM);
}

/* The state that libpng's callbacks share, reading and writing. */
typedef struct png_job {
    png_structp png;
    png_infop info;
    FILE *file;
    int error;          /* errno of a failed read or write */
    bool out_of_memory; /* libpng could not have what it asked for */
    char message[128];  /* libpng's, or of `refuse` */
    /* Reading. */
    bool refused;                  /* the message is ours */
    int64_t size;                  /* of the file; -1 when it is not known */
    unsigned char head[HEAD_SIZE]; /* looked at before libpng was, then given to it */
    int64_t given;                 /* bytes that libpng has */
    int64_t chunk_end;             /* its checksum included; at first the signature's */
    bool in_image;                 /* is the chunk an IDAT? */
    int64_t rows_left;             /* to be unpacked, of all passes; -1 before the first */
    int64_t excess;                /* bytes of IDAT given after the last row */
} png_job;

static void on_error(png_structp png, png_const_charp message) {
    png_job *job = png_get_error_ptr(png);
    snprintf(job->message, sizeof job->message, "%s", message);
    png_longjmp(png, 1);
}

static png_voidp on_malloc(png_structp png, png_alloc_size_t size) {
    png_job *job = png_get_mem_ptr(png);
    void *memory = malloc(size);
    job->out_of_memory = job->out_of_memory || memory == NULL;
    return memory;
}

static void on_free(png_structp png, png_voidp memory) {
    (void)png;
    free(memory);
}

static void on_warning(png_structp png, png_const_charp message) {
    (void)png, (void)message;
}

static bool is_little_endian(void) {
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first == 1;
}

static uint32_t big_endian(const unsigned char *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* ---- reading ---- */

/* Leave libpng with a sentence of ours, to which the file's name is the subject. */
static _Noreturn void refuse(png_job *job, const char *format, ...) UF_PRINTF(2, 3);

static _Noreturn void refuse(png_job *job, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(job->message, sizeof job->message, format, arguments);
    va_end(arguments);
    job->refused = true;
    png_longjmp(job->png, 1);
}

/* The length that a chunk claims is held against the file before libpng acts on it. */
static void enter_chunk(png_job *job, const unsigned char *start) {
    const int64_t claim = big_endian(start);
    job->chunk_end = job->given + claim + 4;
    job->in_image = memcmp(start + 4, "IDAT", 4) == 0;
    if (job->size >= 0 && job->chunk_end > job->size) {
        refuse(job,
               "is truncated: the chunk at byte %" PRId64 " claims %" PRId64 " bytes and %" PRId64
               " follow",
               job->given - 8, claim, job->size - job->given);
    }
}

static void on_read(png_structp png, png_bytep to, size_t size) {
    png_job *job = png_get_io_ptr(png);
    const bool is_start = job->given == job->chunk_end; /* of a chunk: its length and its name */
    size_t done = 0;
    while (done < size && job->given + (int64_t)done < HEAD_SIZE) {
        to[done] = job->head[job->given + (int64_t)done];
        ++done;
    }
    if (done < size && fread(to + done, 1, size - done, job->file) != size - done) {
        job->error = feof(job->file) ? 0 : errno;
        refuse(job, "is truncated");
    }
    job->given += (int64_t)size;
    if (is_start && size == 8) {
        enter_chunk(job, to);
    } else if (job->in_image && job->rows_left == 0) {
        job->excess += (int64_t)size;
        if (job->excess > MOST_EXCESS) {
            refuse(job, "holds more image data than its %" PRIu32 "x%" PRIu32 " pixels",
                   png_get_image_width(png, job->info), png_get_image_height(png, job->info));
        }
    }
}

static void on_row(png_structp png, png_row_infop row, png_bytep samples) {
    (void)row, (void)samples;
    png_job *job = png_get_io_ptr(png);
    --job->rows_left;
}

/* Colour chunks that are kept as they stand in the file: libpng would complete and correct them,
 * and what is carried to the next file is to be carried untouched. */
static const png_byte raw_chunks[] = "gAMA\0cHRM\0sRGB";
#define RAW_CHUNK_COUNT 3
/* The one that libpng is to unpack; it skips the rest of those that a picture can do without. */
static const png_byte unpacked_chunks[] = "iCCP";

static bool is_storable(double value) {
    return value >= 0.0 && value <= LARGEST_REAL;
}

/* libpng writes no others: a name is what is left of it without characters that it cannot have. */
static bool is_storable_name(const char *name) {
    for (; *name != '\0'; ++name) {
        const unsigned char c = (unsigned char)*name;
        if ((c > 32 && c < 127) || c > 160) {
            return true;
        }
    }
    return false;
}

/* A real number of a chunk. */
static double keep_real(png_job *job, const char *chunk, const png_byte *data) {
    const double value = big_endian(data) / 1e5;
    if (!is_storable(value)) {
        refuse(job, "has a %s chunk of %.5f; at most %.5f can be stored", chunk, value,
               LARGEST_REAL);
    }
    return value;
}

static void keep_colour_chunks(png_job *job, uf_picture *picture) {
    png_unknown_chunkp chunks;
    const int count = png_get_unknown_chunks(job->png, job->info, &chunks);
    for (int i = 0; i < count; ++i) {
        const png_unknown_chunk *chunk = &chunks[i];
        if (memcmp(chunk->name, "gAMA", 4) == 0 && chunk->size == 4) {
            picture->gamma = keep_real(job, "gAMA", chunk->data);
        } else if (memcmp(chunk->name, "sRGB", 4) == 0 && chunk->size == 1 && chunk->data[0] < 4) {
            picture->srgb_intent = chunk->data[0];
        } else if (memcmp(chunk->name, "cHRM", 4) == 0 && chunk->size == 32) {
            picture->has_chromaticities = true;
            for (int j = 0; j < 8; ++j) {
                picture->chromaticities[j] = keep_real(job, "cHRM", chunk->data + 4 * (size_t)j);
            }
        }
    }
}

static void keep_profile(png_job *job, uf_picture *picture) {
    png_charp name;
    png_bytep profile;
    png_uint_32 size;
    int compression;
    if (png_get_iCCP(job->png, job->info, &name, &compression, &profile, &size) != PNG_INFO_iCCP) {
        return;
    }
    if (!is_storable_name(name)) {
        refuse(job, "has a colour profile whose name cannot be stored");
    }
    picture->icc_profile = malloc(size > 0 ? size : 1);
    if (picture->icc_profile == NULL) {
        job->out_of_memory = true;
        png_error(job->png, "no memory for the colour profile");
    }
    memcpy(picture->icc_profile, profile, size);
    picture->icc_size = size;
    snprintf(picture->icc_name, sizeof picture->icc_name, "%s", name);
}

/* Up to the first row: the format after expansion, and the colour chunks. */
static bool read_header(png_job *job, uf_picture *picture) {
    if (setjmp(png_jmpbuf(job->png)) != 0) {
        return false;
    }
    png_set_read_fn(job->png, job, on_read);
    /* The size was checked against the file already, more strictly than libpng's million would. */
    png_set_user_limits(job->png, (png_uint_32)LARGEST_SIDE, (png_uint_32)LARGEST_SIDE);
    png_set_chunk_malloc_max(job->png, LARGEST_PROFILE);
    png_set_chunk_cache_max(job->png, KEPT_CHUNKS);
    png_set_keep_unknown_chunks(job->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(job->png, PNG_HANDLE_CHUNK_AS_DEFAULT, unpacked_chunks, 1);
    png_set_keep_unknown_chunks(job->png, PNG_HANDLE_CHUNK_ALWAYS, raw_chunks, RAW_CHUNK_COUNT);
    png_read_info(job->png, job->info);
    keep_colour_chunks(job, picture);
    keep_profile(job, picture);
    png_set_expand(job->png);
    if (is_little_endian()) {
        png_set_swap(job->png);
    }
    png_set_interlace_handling(job->png);
    png_set_read_user_transform_fn(job->png, on_row);
    png_read_update_info(job->png, job->info);
    picture->width = png_get_image_width(job->png, job->info);
    picture->height = png_get_image_height(job->png, job->info);
    picture->channels = png_get_channels(job->png, job->info);
    picture->depth = png_get_bit_depth(job->png, job->info);
    return true;
}

/* Interlaced pictures come in seven passes over the same rows. */
static bool read_rows(png_job *job, uf_picture *picture) {
    if (setjmp(png_jmpbuf(job->png)) != 0) {
        return false;
    }
    const int passes = png_get_interlace_type(job->png, job->info) == PNG_INTERLACE_ADAM7 ? 7 : 1;
    const size_t stride = row_bytes(picture);
    if (png_get_rowbytes(job->png, job->info) != stride) {
        png_error(job->png, "rows of an unexpected size");
    }
    job->rows_left = passes == 1 ? picture->height : 0;
    for (int pass = 0; pass < passes && passes > 1; ++pass) {
        job->rows_left +=
            PNG_PASS_COLS(picture->width, pass) > 0 ? PNG_PASS_ROWS(picture->height, pass) : 0;
    }
    for (int pass = 0; pass < passes; ++pass) {
        for (int64_t y = 0; y < picture->height; ++y) {
            png_read_row(job->png, (png_bytep)picture->samples + (size_t)y * stride, NULL);
        }
    }
    png_read_end(job->png, NULL);
    return true;
}

static uf_status read_failure(const png_job *job, const char *path) {
    if (job->error != 0) {
        UF_FAIL(UF_ERROR_IO, "cannot read %s: %s", path, strerror(job->error));
    }
    if (job->out_of_memory) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory reading %s", path);
    }
    if (job->refused) {
        UF_FAIL(UF_ERROR_FORMAT, "%s %s", path, job->message);
    }
    UF_FAIL(UF_ERROR_FORMAT, "%s is damaged (libpng: %s)", path, job->message);
}

/* Bits of a pixel as the file stores it; 1 for what libpng will not take. */
static int stored_bits(int depth, int colour) {
    static const int channels[] = {1, 0, 3, 1, 2, 0, 4};
    const bool known = colour < (int)(sizeof channels / sizeof channels[0]) && depth <= 16;
    return known && channels[colour] * depth > 0 ? channels[colour] * depth : 1;
}

/* The size before anything is allocated for it. */
static uf_status check_size(const png_job *job, const char *path, int64_t max_pixels) {
    const uint32_t width = big_endian(job->head + 16), height = big_endian(job->head + 20);
    if (width == 0 || height == 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s has a size of %" PRIu32 "x%" PRIu32 " pixels", path, width,
                height);
    }
    const double least_bytes = (double)width * (double)height *
                               stored_bits(job->head[24], job->head[25]) / 8.0 / DEFLATE_RATIO;
    if (job->size >= 0 && least_bytes > (double)job->size) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s claims %" PRIu32 "x%" PRIu32 " pixels, which its %" PRId64 " bytes cannot hold",
                path, width, height, job->size);
    }
    if ((uint64_t)width * height > (uint64_t)max_pixels) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s has %" PRIu32 "x%" PRIu32 " pixels, more than the %" PRId64
                " that max_pixels allows",
                path, width, height, max_pixels);
    }
    if (job->size < 0 && width > LONGEST_ROW_OF_A_PIPE) {
        UF_FAIL(UF_ERROR_FORMAT, "%s has rows of %" PRIu32 " pixels; of a pipe at most %d are read",
                path, width, LONGEST_ROW_OF_A_PIPE);
    }
    return UF_OK;
}

/* The first bytes, where a mistake can be told better than libpng tells it. */
static uf_status read_head(png_job *job, const char *path) {
    static const unsigned char signature[SIGNATURE_SIZE] = {137, 'P', 'N', 'G', 13, 10, 26, 10};
    const size_t got = fread(job->head, 1, HEAD_SIZE, job->file);
    if (got < HEAD_SIZE && ferror(job->file)) {
        UF_FAIL(UF_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
    }
    if (got == 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is empty, not a PNG file", path);
    }
    const size_t compared = got < SIGNATURE_SIZE ? got : SIGNATURE_SIZE;
    if (memcmp(job->head, signature, compared) != 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is not a PNG file", path);
    }
    if (got < HEAD_SIZE) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is truncated", path);
    }
    if (memcmp(job->head + 12, "IHDR", 4) != 0) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is damaged: it does not begin with an IHDR chunk", path);
    }
    return UF_OK;
}

static uf_status open_to_read(const char *path, FILE **file, int64_t *size) {
    struct stat info;
    *file = fopen(path, "rb");
    if (*file == NULL) {
        UF_FAIL(errno == ENOENT || errno == ENOTDIR ? UF_ERROR_NOT_FOUND : UF_ERROR_IO,
                "cannot open %s: %s", path, strerror(errno));
    }
    *size = -1; /* of a pipe it is not known */
    if (fstat(fileno(*file), &info) == 0) {
        if (S_ISDIR(info.st_mode)) {
            fclose(*file);
            UF_FAIL(UF_ERROR_FORMAT, "%s is a directory, not a PNG file", path);
        }
        *size = S_ISREG(info.st_mode) ? (int64_t)info.st_size : -1;
    }
    return UF_OK;
}

static uf_status read_picture(png_job *job, const char *path, uf_picture *picture) {
    uf_picture header = {.srgb_intent = -1}; /* all but the samples */
    if (!read_header(job, &header)) {
        uf_picture_free(&header);
        return read_failure(job, path);
    }
    uf_status status = create(header.width, header.height, header.channels, header.depth, picture);
    if (status != UF_OK) {
        uf_picture_free(&header);
        uf_error_prefix("%s", path);
        return status;
    }
    header.struct_size = sizeof header;
    header.samples = picture->samples;
    *picture = header;
    if (!read_rows(job, picture)) {
        uf_picture_free(picture);
        return read_failure(job, path);
    }
    return UF_OK;
}

uf_status uf_png_read_sized(const char *path, const uf_png_read_options *given, uf_picture *picture,
                            size_t picture_size) {
    UF_CHECK_ARG(picture != NULL, "uf_png_read: picture is NULL");
    memset(picture, 0, picture_size);
    UF_CHECK_ARG(path != NULL, "uf_png_read: path is NULL");
    UF_TRY(check_room(picture_size));
    uf_picture known;
    memset(&known, 0, sizeof known);
    uf_png_read_options options = uf_png_read_options_default();
    UF_TRY(uf_read_struct("uf_png_read_options", given, &options, sizeof options));
    UF_CHECK_ARG(options.max_pixels >= 1, "uf_png_read: max_pixels is %" PRId64,
                 options.max_pixels);
    png_job job = {.chunk_end = SIGNATURE_SIZE, .rows_left = -1};
    UF_TRY(open_to_read(path, &job.file, &job.size));
    uf_status status = read_head(&job, path);
    if (status == UF_OK) {
        status = check_size(&job, path, options.max_pixels);
    }
    if (status == UF_OK) {
        job.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &job, on_error, on_warning, &job,
                                           on_malloc, on_free);
        job.info = job.png != NULL ? png_create_info_struct(job.png) : NULL;
        status = job.info != NULL ? read_picture(&job, path, &known) : read_failure(&job, path);
        png_destroy_read_struct(&job.png, &job.info, NULL);
    }
    fclose(job.file);
    return give(status, &known, picture, picture_size);
}

/* ---- writing ---- */

static void on_write(png_structp png, png_bytep from, size_t size) {
    png_job *job = png_get_io_ptr(png);
    if (fwrite(from, 1, size, job->file) != size) {
        job->error = errno;
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
static void write_colour_chunks(const png_job *job, const uf_picture *picture) {
    unsigned char data[32];
    if (picture->gamma > 0.0) {
        png_save_uint_32(data, hundred_thousandths(picture->gamma));
        png_write_chunk(job->png, (png_const_bytep) "gAMA", data, 4);
    }
    if (picture->has_chromaticities) {
        for (int i = 0; i < 8; ++i) {
            png_save_uint_32(data + 4 * (size_t)i, hundred_thousandths(picture->chromaticities[i]));
        }
        png_write_chunk(job->png, (png_const_bytep) "cHRM", data, 32);
    }
    if (picture->srgb_intent >= 0) {
        data[0] = (unsigned char)picture->srgb_intent;
        png_write_chunk(job->png, (png_const_bytep) "sRGB", data, 1);
    }
}

static bool write_picture(png_job *job, const uf_picture *picture) {
    static const int colour_types[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                                       PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    if (setjmp(png_jmpbuf(job->png)) != 0) {
        return false;
    }
    png_set_write_fn(job->png, job, on_write, on_flush);
    png_set_user_limits(job->png, (png_uint_32)LARGEST_SIDE, (png_uint_32)LARGEST_SIDE);
    png_set_chunk_malloc_max(job->png, LARGEST_PROFILE);
    png_set_IHDR(job->png, job->info, (png_uint_32)picture->width, (png_uint_32)picture->height,
                 picture->depth, colour_types[picture->channels - 1], PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (picture->icc_profile != NULL) {
        png_set_iCCP(job->png, job->info, picture->icc_name, PNG_COMPRESSION_TYPE_BASE,
                     picture->icc_profile, picture->icc_size);
    }
    png_write_info_before_PLTE(job->png, job->info);
    write_colour_chunks(job, picture);
    png_write_info(job->png, job->info);
    if (is_little_endian()) {
        png_set_swap(job->png);
    }
    const size_t stride = row_bytes(picture);
    for (int64_t y = 0; y < picture->height; ++y) {
        png_write_row(job->png, (png_const_bytep)picture->samples + (size_t)y * stride);
    }
    png_write_end(job->png, NULL);
    return true;
}

static uf_status check_picture(const uf_picture *picture) {
    UF_CHECK_ARG(picture->samples != NULL, "uf_png_write: the picture has no samples");
    UF_CHECK_ARG(
        picture->width >= 1 && picture->height >= 1 && picture->width <= LARGEST_SIDE &&
            picture->height <= LARGEST_SIDE && picture->channels >= 1 && picture->channels <= 4 &&
            (picture->depth == 8 || picture->depth == 16) &&
            sample_bytes(picture->width, picture->height, picture->channels, picture->depth) > 0,
        "uf_png_write: %" PRId64 "x%" PRId64 " pixels of %" PRId32 " channels and %" PRId32
        " bits are no picture",
        picture->width, picture->height, picture->channels, picture->depth);
    bool colours = is_storable(picture->gamma) && picture->srgb_intent < 4;
    for (int i = 0; i < 8 && picture->has_chromaticities; ++i) {
        colours = colours && is_storable(picture->chromaticities[i]);
    }
    colours = colours && (picture->icc_profile == NULL || is_storable_name(picture->icc_name));
    UF_CHECK_ARG(colours,
                 "uf_png_write: the picture's gamma, chromaticities, sRGB intent or name of "
                 "a colour profile cannot be stored");
    return UF_OK;
}

static uf_status write_failure(const png_job *job, const char *path) {
    if (job->error != 0) {
        UF_FAIL(UF_ERROR_IO, "cannot write %s: %s", path, strerror(job->error));
    }
    if (job->out_of_memory) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory writing %s", path);
    }
    UF_FAIL(UF_ERROR_INVALID_ARGUMENT, "cannot write %s (libpng: %s)", path, job->message);
}

static uf_status write_file(png_job *job, const char *path, const uf_picture *picture) {
    job->png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, job, on_error, on_warning, job,
                                         on_malloc, on_free);
    job->info = job->png != NULL ? png_create_info_struct(job->png) : NULL;
    bool written = job->info != NULL && write_picture(job, picture);
    png_destroy_write_struct(&job->png, &job->info);
    /* The bytes that stdio still holds go out here. */
    if (written && fflush(job->file) != 0) {
        job->error = errno;
        written = false;
    }
    return written ? UF_OK : write_failure(job, path);
}

uf_status uf_png_write_sized(const char *path, const uf_picture *given, size_t picture_size) {
    UF_CHECK_ARG(path != NULL && given != NULL, "uf_png_write: path or picture is NULL");
    uf_picture known = {.srgb_intent = -1};
    const uf_picture *picture = &known;
    UF_TRY(uf_read_zeroed_struct("uf_picture", given, &known, sizeof known, picture_size));
    UF_TRY(check_picture(picture));
    png_job job = {0};
    uf_atomic_file atomic;
    UF_TRY(uf_atomic_begin(path, &atomic));
    /* A descriptor of its own for stdio: closing it must not close the one that is synchronised. */
    const int descriptor = dup(atomic.descriptor);
    job.file = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
    if (job.file == NULL) {
        const int error = errno;
        if (descriptor >= 0) {
            close(descriptor);
        }
        uf_atomic_abort(&atomic);
        UF_FAIL(UF_ERROR_IO, "cannot write %s: %s", path, strerror(error));
    }
    const uf_status status = write_file(&job, path, picture);
    fclose(job.file);
    if (status != UF_OK) {
        uf_atomic_abort(&atomic);
        return status;
    }
    return uf_atomic_commit(&atomic);
}
