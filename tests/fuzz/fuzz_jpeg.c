/* fuzz_jpeg.c - any bytes: a picture, or a sentence and a zeroed struct. */
#include <stdio.h>
#ifdef FUZZ_HAS_JPEG
#include <jpeglib.h>
#endif

#include <unfurl/unfurl.h>

#include "fuzz/picture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uf_picture picture;
    const uf_status status = uf_picture_read(fuzz_file(data, size), NULL, &picture);
    fuzz_check_picture(status, true, &picture);
    return 0;
}

#ifdef FUZZ_HAS_JPEG

/* Grey or RGB in each resolution of colours, progressive from number 5 on, two with restarts, one
 * with a profile. */
static void write_picture(FILE *file, int index) {
    enum { WIDTH = 37, HEIGHT = 27 };
    static const struct {
        int components, across, down; /* samples of the first component to one of the others */
    } kinds[] = {{3, 1, 1}, {3, 2, 1}, {3, 2, 2}, {1, 1, 1}, {3, 1, 2}};
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors; /* its exit would be a seed that cannot be made */
    unsigned char row[WIDTH * 3];
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = WIDTH;
    jpeg.image_height = HEIGHT;
    jpeg.input_components = kinds[index % 5].components;
    jpeg.in_color_space = jpeg.input_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 20 + 35 * (index % 3), TRUE);
    jpeg.comp_info[0].h_samp_factor = kinds[index % 5].across;
    jpeg.comp_info[0].v_samp_factor = kinds[index % 5].down;
    jpeg.restart_interval = index % 4 == 3 ? 2 : 0;
    if (index >= 5) {
        jpeg_simple_progression(&jpeg);
    }
    jpeg_start_compress(&jpeg, TRUE);
    if (index == 0) {
        jpeg_write_icc_profile(&jpeg, (const JOCTET[40]){0}, 40);
    }
    while (jpeg.next_scanline < jpeg.image_height) {
        for (unsigned i = 0; i < sizeof row; ++i) {
            row[i] = (unsigned char)(i % 5 == 0 ? i * 7 : (i + jpeg.next_scanline * 40) / 16);
        }
        JSAMPROW rows = row;
        (void)jpeg_write_scanlines(&jpeg, &rows, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
}

int fuzz_seed(int index, const char *path) {
    uf_picture picture;
    FILE *file = index < 10 ? fopen(path, "wb") : NULL;
    if (file == NULL) {
        return 0;
    }
    write_picture(file, index);
    FUZZ_DEMAND(fclose(file) == 0);
    FUZZ_DEMAND(uf_picture_read(path, NULL, &picture) == UF_OK);
    uf_picture_free(&picture);
    return 1;
}

#else

int fuzz_seed(int index, const char *path) {
    (void)index, (void)path;
    return 0;
}

#endif
