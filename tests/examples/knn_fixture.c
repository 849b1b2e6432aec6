/* knn_fixture.c - what dcgan_knn is to judge.
 *
 *   knn_fixture data FOLDER           IDX files of ten kinds of pictures, easily told apart
 *   knn_fixture noise FILE.h5         256 images of noise
 *   knn_fixture black FILE.png        a grid with nothing in it
 *   knn_fixture take FOLDER FILE COUNT [CLASS]   held-out images, 32x32, as HDF5 or as a grid
 * (.png) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/common.h"
#include "common/data.h"
#include "common/grid.h"

const char *const example_name = "knn_fixture";

enum { SIZE = 32, PIXELS = SIZE * SIZE, SOURCE_SIZE = 28 };

static gzFile begin(const char *folder, const char *name, int rank, long count) {
    char path[1024];
    unsigned char header[16] = {0, 0, 8, (unsigned char)rank};
    const long extent[3] = {count, SOURCE_SIZE, SOURCE_SIZE};
    for (int i = 0; i < 4 * rank; ++i) {
        header[4 + i] = (unsigned char)(extent[i / 4] >> (8 * (3 - i % 4)));
    }
    snprintf(path, sizeof path, "%.900s/%s", folder, name);
    gzFile file = gzopen(path, "wb");
    if (file == NULL || gzwrite(file, header, (unsigned)(4 + 4 * rank)) != 4 + 4 * rank) {
        fail("cannot write %s", path);
    }
    return file;
}

/* Class c is bright in a band of its own, with noise all over. The last one is grey elsewhere:
 * noise is nearer to it than to the others. */
static void write_data(const char *folder, const char *images, const char *labels, long count) {
    gzFile file = begin(folder, images, 3, count);
    for (long i = 0; i < count * SOURCE_SIZE * SOURCE_SIZE; ++i) {
        const long image = i / (SOURCE_SIZE * SOURCE_SIZE), y = i / SOURCE_SIZE % SOURCE_SIZE;
        const int noise = (int)(random_bits((uint64_t)count, (uint64_t)i, 0) >> 58);
        const int ground = image % 10 == 9 ? 90 : 0;
        gzputc(file, (y / 3 == image % 10 ? 180 : ground) + noise);
    }
    gzclose(file);
    file = begin(folder, labels, 1, count);
    for (long i = 0; i < count; ++i) {
        gzputc(file, (int)(i % 10));
    }
    gzclose(file);
}

static void write_images(const char *path, const float *images, int64_t count) {
    if (strstr(path, ".png") != NULL) {
        grid_write(path, images, count, 8, 1, SIZE, SIZE);
    } else {
        must(uf_hdf5_write(path, "images", UF_F32, UF_SHAPE(count, 1, SIZE, SIZE), images));
    }
}

static void take(const char *folder, const char *path, int64_t count, int class) {
    const data_options options = {.path = folder, .channels = 1, .size = SIZE, .held_out = true};
    data_loader *loader = data_open(&options);
    float *images = allocate(count * PIXELS, sizeof *images);
    int64_t have = 0, label = 0;
    for (int64_t i = 0; have < count && i < data_count(loader); ++i) {
        data_read(loader, i, 1, images + have * PIXELS, &label);
        have += class < 0 || label == class;
    }
    write_images(path, images, have);
    free(images);
    data_close(loader);
}

int main(int argc, char **argv) {
    float *images = allocate(256 * PIXELS, sizeof *images);
    if (argc == 3 && strcmp(argv[1], "data") == 0) {
        write_data(argv[2], "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", 300);
        write_data(argv[2], "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", 200);
    } else if (argc == 3 && strcmp(argv[1], "noise") == 0) {
        for (int64_t i = 0; i < 256 * PIXELS; ++i) {
            images[i] = (float)((double)(random_bits(5, (uint64_t)i, 0) >> 40) * 0x1p-23 - 1.0);
        }
        write_images(argv[2], images, 256);
    } else if (argc == 3 && strcmp(argv[1], "black") == 0) {
        for (int64_t i = 0; i < 8 * PIXELS; ++i) {
            images[i] = -1.0f;
        }
        write_images(argv[2], images, 8);
    } else if (argc >= 5 && strcmp(argv[1], "take") == 0) {
        take(argv[2], argv[3], strtol(argv[4], NULL, 10),
             argc > 5 ? (int)strtol(argv[5], NULL, 10) : -1);
    } else {
        fail_usage("see the first lines of its source");
    }
    free(images);
    return 0;
}
