/* picture.c - making, handing over and freeing pictures. */
#include "io/picture.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

int64_t uf_picture_bytes(int64_t width, int64_t height, int32_t channels, int32_t depth) {
    int64_t bytes;
    if (__builtin_mul_overflow(width, (int64_t)channels * (depth / 8), &bytes) ||
        __builtin_mul_overflow(bytes, height, &bytes) || bytes > PTRDIFF_MAX) {
        return -1;
    }
    return bytes;
}

size_t uf_picture_row_bytes(const uf_picture *picture) {
    return (size_t)(picture->width * picture->channels * (picture->depth / 8));
}

uf_status uf_picture_new(int64_t width, int64_t height, int32_t channels, int32_t depth,
                         uf_picture *picture) {
    memset(picture, 0, sizeof *picture);
    UF_CHECK_ARG(width >= 1 && height >= 1 && width <= UF_LARGEST_SIDE && height <= UF_LARGEST_SIDE,
                 "a picture of %" PRId64 "x%" PRId64 " pixels: each side must be 1 to %" PRId64,
                 width, height, UF_LARGEST_SIDE);
    UF_CHECK_ARG(channels >= 1 && channels <= 4, "a picture has 1 to 4 channels, not %" PRId32,
                 channels);
    UF_CHECK_ARG(depth == 8 || depth == 16, "a picture has 8 or 16 bits a sample, not %" PRId32,
                 depth);
    const int64_t bytes = uf_picture_bytes(width, height, channels, depth);
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

uf_status uf_picture_check_room(size_t room) {
    UF_CHECK_ARG(room >= LEAST_ROOM,
                 "a uf_picture of %zu bytes: the smallest there ever was has %zu", room,
                 LEAST_ROOM);
    return UF_OK;
}

uf_status uf_picture_give(uf_status status, const uf_picture *known, uf_picture *picture,
                          size_t room) {
    if (status == UF_OK) {
        uf_give_struct(known, sizeof *known, picture, room);
    }
    return status;
}

uf_status uf_picture_create_sized(int64_t width, int64_t height, int32_t channels, int32_t depth,
                                  uf_picture *picture, size_t picture_size) {
    UF_CHECK_ARG(picture != NULL, "uf_picture_create: picture is NULL");
    memset(picture, 0, picture_size);
    UF_TRY(uf_picture_check_room(picture_size));
    uf_picture known;
    const uf_status status = uf_picture_new(width, height, channels, depth, &known);
    return uf_picture_give(status, &known, picture, picture_size);
}

void uf_picture_free(uf_picture *picture) {
    if (picture == NULL) {
        return;
    }
    free(picture->samples);
    free(picture->icc_profile);
    memset(picture, 0, picture->struct_size != 0 ? picture->struct_size : LEAST_ROOM);
}
