/* fuzz_jpeg.c - any bytes: a picture, or a sentence and a zeroed struct. */
#include <stdlib.h>
#include <string.h>

#include <unfurl/unfurl.h>

#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uf_picture picture;
    const uf_picture zero = {0};
    const uf_status status = uf_picture_read(fuzz_file(data, size), NULL, &picture);
    if (status != UF_OK) {
        FUZZ_DEMAND(status == UF_ERROR_FORMAT || status == UF_ERROR_OUT_OF_MEMORY ||
                    status == UF_ERROR_UNSUPPORTED);
        FUZZ_DEMAND(uf_last_error()[0] != '\0');
        FUZZ_DEMAND(memcmp(&picture, &zero, sizeof zero) == 0);
        return 0;
    }
    FUZZ_DEMAND(picture.width >= 1 && picture.height >= 1);
    FUZZ_DEMAND(picture.channels >= 1 && picture.channels <= 4);
    FUZZ_DEMAND(picture.depth == 8 || picture.depth == 16);
    /* Read the last sample: a sanitizer sees a block that is too small. */
    const size_t bytes =
        (size_t)(picture.width * picture.height * picture.channels * picture.depth / 8);
    volatile uint8_t last = ((const uint8_t *)picture.samples)[bytes - 1];
    (void)last;
    uf_picture_free(&picture);
    return 0;
}

/* Small pictures, grey and RGB, of either resolution of colours, one of them with a profile. */
int fuzz_seed(int index, const char *path) {
    if (index >= 4 || !uf_picture_has_format(UF_PICTURE_JPEG)) {
        return 0;
    }
    uf_picture picture;
    if (uf_picture_create(19, 11, index % 2 == 0 ? 1 : 3, 8, &picture) != UF_OK) {
        return 0;
    }
    const size_t bytes = (size_t)(19 * 11 * picture.channels);
    for (size_t i = 0; i < bytes; ++i) {
        ((uint8_t *)picture.samples)[i] = (uint8_t)(i * 7);
    }
    if (index == 0 && (picture.icc_profile = calloc(1, 40)) != NULL) {
        picture.icc_size = 40;
    }
    uf_picture_write_options options = uf_picture_write_options_default();
    options.format = UF_PICTURE_JPEG;
    options.quality = index < 2 ? 92 : 50;
    const int written = uf_picture_write(path, &picture, &options) == UF_OK;
    uf_picture_free(&picture);
    return written;
}
