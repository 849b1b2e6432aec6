/* picture.h - the promises of a reader of pictures: one, or a sentence and a zeroed struct. */
#ifndef TEST_FUZZ_PICTURE_H
#define TEST_FUZZ_PICTURE_H

#include <stdbool.h>
#include <string.h>

#include <unfurl/unfurl.h>

#include "fuzz/fuzz.h"

/* `refuses`: the format has kinds that the reader names and does not read. Frees the picture. */
static inline void fuzz_check_picture(uf_status status, bool refuses, uf_picture *picture) {
    const uf_picture zero = {0};
    if (status != UF_OK) {
        FUZZ_DEMAND(status == UF_ERROR_FORMAT || status == UF_ERROR_OUT_OF_MEMORY ||
                    (refuses && status == UF_ERROR_UNSUPPORTED));
        FUZZ_DEMAND(uf_last_error()[0] != '\0');
        FUZZ_DEMAND(memcmp(picture, &zero, sizeof zero) == 0);
        return;
    }
    FUZZ_DEMAND(picture->width >= 1 && picture->height >= 1);
    FUZZ_DEMAND(picture->channels >= 1 && picture->channels <= 4);
    FUZZ_DEMAND(picture->depth == 8 || picture->depth == 16);
    /* Read the last sample: a sanitizer sees a block that is too small. */
    const size_t bytes =
        (size_t)(picture->width * picture->height * picture->channels * picture->depth / 8);
    volatile uint8_t last = ((const uint8_t *)picture->samples)[bytes - 1];
    (void)last;
    uf_picture_free(picture);
}

#endif
