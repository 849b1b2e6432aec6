/* jpeg_read.c - JPEG files, through libjpeg-turbo. The file's bytes lie in memory, so that a claim
 * of the header can be held against them; rows go straight into the picture's samples. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "io/jpeg_job.h"
#include "io/png_job.h"

#define MOST_BYTES ((size_t)1 << 30) /* of a file */
#define FIRST_BYTES ((size_t)1 << 16)
/* A progressive file says each sample again in every scan: real ones have some ten. */
#define MOST_SCANS 100
/* Huffman's codes take a bit for each block of 64 samples or more. A component may have the full
 * resolution in one direction and a quarter of it in the other. */
#define MOST_PIXELS_PER_BYTE (8 * 64 * 4)

typedef struct jpeg_reader {
    uf_jpeg_job job; /* first: libjpeg hands it to on_progress */
    struct jpeg_decompress_struct jpeg;
    struct jpeg_progress_mgr progress;
    bool too_many_scans;
    const char *path;
    unsigned char *bytes; /* owned */
    size_t size;
} jpeg_reader;

bool uf_has_jpeg(void) {
    return true;
}

static uf_status read_bytes(FILE *file, jpeg_reader *reader) {
    size_t room = 0;
    do {
        room = room == 0 ? FIRST_BYTES : 2 * room;
        unsigned char *grown = realloc(reader->bytes, room);
        if (grown == NULL) {
            UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory reading %s", reader->path);
        }
        reader->bytes = grown;
        reader->size += fread(reader->bytes + reader->size, 1, room - reader->size, file);
    } while (reader->size == room && room < MOST_BYTES);
    if (ferror(file)) {
        UF_FAIL(UF_ERROR_IO, "cannot read %s: %s", reader->path, strerror(errno));
    }
    if (reader->size == MOST_BYTES) {
        UF_FAIL(UF_ERROR_FORMAT, "%s has %zu bytes or more, too many for a JPEG picture",
                reader->path, MOST_BYTES);
    }
    return UF_OK;
}

static void on_progress(j_common_ptr jpeg) {
    jpeg_reader *reader = jpeg->client_data;
    if (reader->jpeg.input_scan_number > MOST_SCANS) {
        reader->too_many_scans = true;
        longjmp(reader->job.back, 1);
    }
}

static uf_status read_failure(const jpeg_reader *reader) {
    if (reader->job.out_of_memory) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory reading %s", reader->path);
    }
    if (reader->too_many_scans) {
        UF_FAIL(UF_ERROR_FORMAT, "%s has more than %d scans", reader->path, MOST_SCANS);
    }
    UF_FAIL(UF_ERROR_FORMAT, "%s is damaged or truncated (libjpeg: %s)", reader->path,
            reader->job.message);
}

static bool begin(jpeg_reader *reader) {
    if (setjmp(reader->job.back) != 0) {
        return false;
    }
    jpeg_create_decompress(&reader->jpeg);
    reader->progress.progress_monitor = on_progress;
    reader->jpeg.progress = &reader->progress;
    jpeg_mem_src(&reader->jpeg, reader->bytes, (unsigned long)reader->size);
    jpeg_save_markers(&reader->jpeg, JPEG_APP0 + 2, 0xffff); /* pieces of a colour profile */
    (void)jpeg_read_header(&reader->jpeg, TRUE);
    return true;
}

/* Can the picture be read? Its size is looked at before anything is allocated for it. */
static uf_status check_header(const jpeg_reader *reader, int64_t max_pixels) {
    const struct jpeg_decompress_struct *jpeg = &reader->jpeg;
    const int64_t pixels = (int64_t)jpeg->image_width * jpeg->image_height;
    if (jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is a JPEG picture for print (CMYK), which is not read",
                reader->path);
    }
    if (jpeg->num_components != 1 && jpeg->num_components != 3) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is a JPEG picture of %d components; it must have 1 or 3",
                reader->path, jpeg->num_components);
    }
    if (jpeg->arith_code) {
        UF_FAIL(UF_ERROR_FORMAT, "%s is a JPEG picture of arithmetic coding, which is not read",
                reader->path);
    }
    if (pixels > max_pixels) {
        UF_FAIL(UF_ERROR_FORMAT,
                "%s has %ux%u pixels, more than the %" PRId64 " that max_pixels allows",
                reader->path, jpeg->image_width, jpeg->image_height, max_pixels);
    }
    if (pixels / MOST_PIXELS_PER_BYTE > (int64_t)reader->size) {
        UF_FAIL(UF_ERROR_FORMAT, "%s claims %ux%u pixels, which its %zu bytes cannot hold",
                reader->path, jpeg->image_width, jpeg->image_height, reader->size);
    }
    return UF_OK;
}

/* A damaged profile is left out, like one that is too long. */
static bool read_profile(jpeg_reader *reader, uf_picture *picture) {
    JOCTET *profile = NULL;
    unsigned int size = 0;
    if (setjmp(reader->job.back) != 0) {
        return false;
    }
    if (jpeg_read_icc_profile(&reader->jpeg, &profile, &size)) {
        if (size <= UF_LARGEST_PROFILE) {
            picture->icc_profile = profile;
            picture->icc_size = size;
            strcpy(picture->icc_name, "ICC profile"); /* a JPEG file names none */
        } else {
            free(profile);
        }
    }
    return true;
}

static bool read_rows(jpeg_reader *reader, uf_picture *picture) {
    if (setjmp(reader->job.back) != 0) {
        return false;
    }
    const size_t stride = uf_picture_row_bytes(picture);
    reader->jpeg.out_color_space = picture->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    (void)jpeg_start_decompress(&reader->jpeg);
    while (reader->jpeg.output_scanline < reader->jpeg.output_height) {
        JSAMPROW row = (JSAMPROW)picture->samples + reader->jpeg.output_scanline * stride;
        (void)jpeg_read_scanlines(&reader->jpeg, &row, 1);
    }
    (void)jpeg_finish_decompress(&reader->jpeg);
    return true;
}

static uf_status read_picture(jpeg_reader *reader, int64_t max_pixels, uf_picture *picture) {
    if (!begin(reader)) {
        return read_failure(reader);
    }
    UF_TRY(check_header(reader, max_pixels));
    const uf_status status = uf_picture_new(reader->jpeg.image_width, reader->jpeg.image_height,
                                            reader->jpeg.num_components == 1 ? 1 : 3, 8, picture);
    if (status != UF_OK) {
        uf_error_prefix("%s", reader->path);
        return status;
    }
    if (!read_profile(reader, picture) || !read_rows(reader, picture)) {
        uf_picture_free(picture);
        return read_failure(reader);
    }
    return UF_OK;
}

uf_status uf_jpeg_read(FILE *file, const char *path, int64_t max_pixels, uf_picture *picture) {
    jpeg_reader reader = {.path = path};
    uf_jpeg_job_begin(&reader.job, (j_common_ptr)&reader.jpeg);
    uf_status status = read_bytes(file, &reader);
    if (status == UF_OK) {
        status = read_picture(&reader, max_pixels, picture);
        jpeg_destroy_decompress(&reader.jpeg);
    }
    free(reader.bytes);
    return status;
}
