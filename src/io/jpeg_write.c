/* jpeg_write.c - pictures to JPEG files, row by row, through libjpeg-turbo. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/atomic_file.h"
#include "core/error.h"
#include "io/jpeg_job.h"

#define BUFFER_SIZE ((size_t)1 << 16)
#define FULL_COLOUR 90 /* the least quality whose colours have full resolution */

struct uf_jpeg_writer {
    uf_jpeg_job job; /* first: libjpeg hands it to the destination's functions */
    struct jpeg_compress_struct jpeg;
    struct jpeg_destination_mgr destination;
    uf_atomic_file file;
    bool is_open; /* `file` */
    int64_t height, rows;
    size_t row_bytes;
    uf_status status; /* of the first failure */
    unsigned char buffer[BUFFER_SIZE];
    char path[]; /* as the caller named it */
};

static void put(uf_jpeg_writer *writer, size_t size) {
    writer->status = uf_atomic_write(&writer->file, writer->buffer, size);
    if (writer->status != UF_OK) {
        longjmp(writer->job.back, 1);
    }
    writer->destination.next_output_byte = writer->buffer;
    writer->destination.free_in_buffer = BUFFER_SIZE;
}

static void on_start(j_compress_ptr jpeg) {
    uf_jpeg_writer *writer = jpeg->client_data;
    writer->destination.next_output_byte = writer->buffer;
    writer->destination.free_in_buffer = BUFFER_SIZE;
}

static boolean on_full(j_compress_ptr jpeg) {
    put(jpeg->client_data, BUFFER_SIZE);
    return TRUE;
}

static void on_end(j_compress_ptr jpeg) {
    uf_jpeg_writer *writer = jpeg->client_data;
    put(writer, BUFFER_SIZE - writer->destination.free_in_buffer);
}

/* Keep the first failure, whose message is libjpeg's if it is not set yet. */
static uf_status fail(uf_jpeg_writer *writer) {
    if (writer->status != UF_OK) {
        return writer->status;
    }
    writer->status =
        writer->job.out_of_memory
            ? uf_fail(UF_ERROR_OUT_OF_MEMORY, "out of host memory writing %s", writer->path)
            : uf_fail(UF_ERROR_INVALID_ARGUMENT, "cannot write %s (libjpeg: %s)", writer->path,
                      writer->job.message);
    return writer->status;
}

/* All before the rows. */
static bool write_head(uf_jpeg_writer *writer, const uf_picture *picture, int32_t quality) {
    struct jpeg_compress_struct *jpeg = &writer->jpeg;
    if (setjmp(writer->job.back) != 0) {
        return false;
    }
    jpeg_create_compress(jpeg);
    writer->destination.init_destination = on_start;
    writer->destination.empty_output_buffer = on_full;
    writer->destination.term_destination = on_end;
    jpeg->dest = &writer->destination;
    jpeg->image_width = (JDIMENSION)picture->width;
    jpeg->image_height = (JDIMENSION)picture->height;
    jpeg->input_components = picture->channels;
    jpeg->in_color_space = picture->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, quality, TRUE);
    if (quality >= FULL_COLOUR) {
        jpeg->comp_info[0].h_samp_factor = jpeg->comp_info[0].v_samp_factor = 1;
    }
    jpeg_start_compress(jpeg, TRUE);
    if (picture->icc_profile != NULL && picture->icc_size > 0) {
        jpeg_write_icc_profile(jpeg, picture->icc_profile, picture->icc_size);
    }
    return true;
}

static bool write_rows(uf_jpeg_writer *writer, const unsigned char *samples, int64_t count) {
    if (setjmp(writer->job.back) != 0) {
        return false;
    }
    for (int64_t y = 0; y < count; ++y) {
        /* libjpeg reads the row, and takes it without const. */
        JSAMPROW row = (JSAMPROW)(uintptr_t)(samples + (size_t)y * writer->row_bytes);
        (void)jpeg_write_scanlines(&writer->jpeg, &row, 1);
    }
    return true;
}

static bool write_end(uf_jpeg_writer *writer) {
    if (setjmp(writer->job.back) != 0) {
        return false;
    }
    jpeg_finish_compress(&writer->jpeg);
    return true;
}

static uf_status check_picture(const char *path, const uf_picture *picture) {
    UF_CHECK_ARG(picture->channels == 1 || picture->channels == 3,
                 "cannot write %s: a JPEG picture is grey or RGB and has no alpha; this one has "
                 "%" PRId32 " channels",
                 path, picture->channels);
    UF_CHECK_ARG(picture->depth == 8,
                 "cannot write %s: a JPEG picture has 8 bits a sample, not %" PRId32, path,
                 picture->depth);
    UF_CHECK_ARG(picture->width >= 1 && picture->height >= 1 &&
                     picture->width <= JPEG_MAX_DIMENSION && picture->height <= JPEG_MAX_DIMENSION,
                 "cannot write %s: %" PRId64 "x%" PRId64 " pixels; the sides of a JPEG picture are "
                 "1 to %ld",
                 path, picture->width, picture->height, JPEG_MAX_DIMENSION);
    return UF_OK;
}

uf_status uf_jpeg_writer_create(const char *path, const uf_picture *picture, int32_t quality,
                                uf_jpeg_writer **writer) {
    *writer = NULL;
    UF_TRY(check_picture(path, picture));
    const size_t length = strlen(path) + 1;
    uf_jpeg_writer *made = calloc(1, sizeof *made + length);
    if (made == NULL) {
        UF_FAIL(UF_ERROR_OUT_OF_MEMORY, "out of host memory writing %s", path);
    }
    memcpy(made->path, path, length);
    made->height = picture->height;
    made->row_bytes = uf_picture_row_bytes(picture);
    uf_jpeg_job_begin(&made->job, (j_common_ptr)&made->jpeg);
    uf_status status = uf_atomic_begin(path, &made->file);
    if (status == UF_OK) {
        made->is_open = true;
        status = write_head(made, picture, quality) ? UF_OK : fail(made);
    }
    if (status != UF_OK) {
        uf_jpeg_writer_destroy(made);
        return status;
    }
    *writer = made;
    return UF_OK;
}

uf_status uf_jpeg_writer_rows(uf_jpeg_writer *writer, const void *samples, int64_t count) {
    UF_CHECK_ARG(count >= 1 && count <= writer->height - writer->rows,
                 "uf_picture_writer_rows: %" PRId64 " rows for %s, which lacks %" PRId64, count,
                 writer->path, writer->height - writer->rows);
    if (writer->status != UF_OK) {
        UF_FAIL(UF_ERROR_STATE, "uf_picture_writer_rows: writing %s has failed already",
                writer->path);
    }
    if (!write_rows(writer, samples, count)) {
        return fail(writer);
    }
    writer->rows += count;
    return UF_OK;
}

uf_status uf_jpeg_writer_finish(uf_jpeg_writer *writer) {
    if (writer->status != UF_OK || !writer->is_open) {
        UF_FAIL(UF_ERROR_STATE, "uf_picture_writer_finish: writing %s %s", writer->path,
                writer->status != UF_OK ? "has failed already" : "is finished");
    }
    if (writer->rows < writer->height) {
        UF_FAIL(UF_ERROR_STATE, "uf_picture_writer_finish: %s has %" PRId64 " of %" PRId64 " rows",
                writer->path, writer->rows, writer->height);
    }
    if (!write_end(writer)) {
        return fail(writer);
    }
    writer->is_open = false;
    writer->status = uf_atomic_commit(&writer->file);
    return writer->status;
}

void uf_jpeg_writer_destroy(uf_jpeg_writer *writer) {
    if (writer == NULL) {
        return;
    }
    jpeg_destroy_compress(&writer->jpeg);
    if (writer->is_open) {
        uf_atomic_abort(&writer->file);
    }
    free(writer);
}
