/* dcgan_knn.c - does a generator make all ten kinds of garments? Each sample gets the class that
 * most of its nearest neighbours among Fashion-MNIST's training images have.
 *
 *   dcgan_knn --samples FILE [--size N] [--count N] [--data DIR] [--neighbours K] [--reference N]
 *   dcgan_knn --held-out N [--data DIR] ...        real images, whose classes are known
 *
 * FILE is what `unfurl generate --count 256` wrote, .h5 or .png, or a grid of dcgan_train's. Status
 * 0: at least 8 classes have 3 % of the samples each; 1: they do not. Noise falls into one or two
 * classes, and so do the samples of a generator that collapsed. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/common.h"
#include "common/data.h"
#include "common/options.h"
#include "common/resample.h"

const char *const example_name = "dcgan_knn";

enum { SIDE = 28, PIXELS = SIDE * SIDE, MOST_NEIGHBOURS = 100, BORDER = 2 };
#define LEAST_CLASSES 8
#define LEAST_SHARE 0.03

/* Images of SIDE x SIDE bytes. */
typedef struct images {
    uint8_t *pixels;
    int64_t *labels; /* NULL: unknown */
    int64_t count;
    int classes;
} images;

static void to_bytes(const float *image, uint8_t *pixels) {
    for (int i = 0; i < PIXELS; ++i) {
        const float level = (image[i] + 1.0f) * 127.5f + 0.5f;
        pixels[i] = (uint8_t)(level < 0.0f ? 0.0f : level > 255.0f ? 255.0f : level);
    }
}

static images allocate_images(int64_t count) {
    return (images){.pixels = allocate(count * PIXELS, 1), .count = count};
}

/* The first `most` images of a source, resized; 0: all. */
static images read_source(const char *path, bool held_out, int64_t most) {
    const data_options options = {.path = path, .channels = 1, .size = SIDE, .held_out = held_out};
    data_loader *loader = data_open(&options);
    const int64_t count = data_count(loader);
    images read = allocate_images(most > 0 && most < count ? most : count);
    read.classes = data_classes(loader);
    read.labels = read.classes > 0 ? allocate(read.count, sizeof *read.labels) : NULL;
    for (int64_t i = 0; i < read.count; ++i) {
        float image[PIXELS];
        data_read(loader, i, 1, image, read.labels != NULL ? read.labels + i : NULL);
        to_bytes(image, read.pixels + i * PIXELS);
    }
    data_close(loader);
    return read;
}

/* The images of a grid, `size` pixels a side with borders of 2. Places behind the last image are
 * black. */
static images read_grid(const char *path, int64_t size, int64_t most) {
    uf_picture grid;
    must(uf_png_read(path, &grid));
    const int64_t pitch = size + BORDER, columns = grid.width / pitch, rows = grid.height / pitch;
    if (columns < 1 || rows < 1 || grid.width != columns * pitch + BORDER ||
        grid.height != rows * pitch + BORDER || grid.depth != 8) {
        fail("%s has %" PRId64 "x%" PRId64 " pixels, which is no grid of images of %" PRId64
             "x%" PRId64 " with borders of %d",
             path, grid.width, grid.height, size, size, BORDER);
    }
    const int64_t places = columns * rows;
    images read = allocate_images(most > 0 && most < places ? most : places);
    resampler scratch = {0};
    int64_t last = -1;
    uint8_t *tile = allocate(size * size * grid.channels, 1);
    for (int64_t i = 0; i < read.count; ++i) {
        const int64_t top = BORDER + i / columns * pitch, left = BORDER + i % columns * pitch;
        for (int64_t y = 0; y < size; ++y) {
            memcpy(tile + y * size * grid.channels,
                   (const uint8_t *)grid.samples + ((top + y) * grid.width + left) * grid.channels,
                   (size_t)(size * grid.channels));
        }
        for (int64_t k = 0; k < size * size * grid.channels; ++k) {
            if (tile[k] != 0) last = i;
        }
        const samples picture = {tile, SAMPLE_U8, size, size, grid.channels, grid.channels, 1};
        float image[PIXELS];
        if (!resample(&scratch, &picture, &(resample_options){.channels = 1, .size = SIDE},
                      image)) {
            fail("no memory to resize images of %" PRId64 "x%" PRId64, size, size);
        }
        to_bytes(image, read.pixels + i * PIXELS);
    }
    if (most == 0) read.count = last + 1;
    if (read.count == 0) fail("%s is all black", path);
    free(tile);
    resampler_free(&scratch);
    uf_picture_free(&grid);
    return read;
}

static bool is_png(const char *path) {
    char first[8] = {0};
    FILE *file = fopen(path, "rb");
    if (file == NULL) return false; /* data_open says why */
    const bool is = fread(first, 1, 8, file) == 8 && memcmp(first, "\x89PNG\r\n\x1a\n", 8) == 0;
    fclose(file);
    return is;
}

static int32_t distance(const uint8_t *a, const uint8_t *b) {
    int32_t sum = 0; /* at most 784 * 255^2 */
    for (int i = 0; i < PIXELS; ++i) {
        const int32_t difference = a[i] - b[i];
        sum += difference * difference;
    }
    return sum;
}

/* The class that most of the nearest neighbours have; where classes draw, the one of the nearest.
 */
static int64_t classify(const images *reference, const uint8_t *sample, int neighbours) {
    int32_t nearest[MOST_NEIGHBOURS];
    int64_t labels[MOST_NEIGHBOURS];
    int have = 0;
    for (int64_t i = 0; i < reference->count; ++i) {
        const int32_t d = distance(sample, reference->pixels + i * PIXELS);
        if (have == neighbours && d >= nearest[have - 1]) continue;
        int place = have < neighbours ? have++ : have - 1;
        for (; place > 0 && nearest[place - 1] > d; --place) {
            nearest[place] = nearest[place - 1];
            labels[place] = labels[place - 1];
        }
        nearest[place] = d;
        labels[place] = reference->labels[i];
    }
    int64_t best = 0;
    int most = 0;
    for (int i = 0; i < have; ++i) {
        int votes = 0;
        for (int j = 0; j < have; ++j) votes += labels[j] == labels[i];
        if (votes > most) {
            most = votes;
            best = labels[i];
        }
    }
    return best;
}

int main(int argc, char **argv) {
    const char *samples_path = NULL, *data_path = "/usr/share/datasets/fashion-mnist";
    int64_t size = 32, count = 0, held_out = 0, neighbours = 5, reference_count = 0;
    option table[] = {
        {OPTION_TEXT, "--samples", &samples_path, .value = "FILE",
         .help = "images of -1..1 (HDF5) or a grid with borders of 2 pixels (PNG)"},
        {OPTION_INTEGER, "--size", &size, 1, 4096, .value = "N",
         .help = "side of an image in a grid"},
        {OPTION_INTEGER, "--count", &count, 0, 1e6, .value = "N",
         .help = "the first N samples; 0: all"},
        {OPTION_INTEGER, "--held-out", &held_out, 0, 1e6, .value = "N",
         .help = "in place of samples: N held-out images, and how often their class is found"},
        {OPTION_TEXT, "--data", &data_path, .value = "DIR", .help = "folder of Fashion-MNIST"},
        {OPTION_INTEGER, "--neighbours", &neighbours, 1, MOST_NEIGHBOURS, .value = "K",
         .help = "nearest images that vote"},
        {OPTION_INTEGER, "--reference", &reference_count, 0, 1e6, .value = "N",
         .help = "training images to look among; 0: all"},
        {OPTION_END},
    };
    options_parse("Whether samples of garments are of all kinds.", (option *const[]){table}, 1,
                  argc, argv);
    if ((samples_path != NULL) == (held_out > 0)) {
        fail_usage("either --samples FILE or --held-out N says which images are meant");
    }
    const images judged = held_out > 0           ? read_source(data_path, true, held_out)
                          : is_png(samples_path) ? read_grid(samples_path, size, count)
                                                 : read_source(samples_path, false, count);
    const images reference = read_source(data_path, false, reference_count);
    if (reference.labels == NULL) fail("%s has no labels", data_path);
    if (held_out > 0 && judged.labels == NULL) fail("%s has no labels to compare with", data_path);

    int64_t *found = allocate(reference.classes, sizeof *found), right = 0;
    for (int64_t i = 0; i < judged.count; ++i) {
        const int64_t class = classify(&reference, judged.pixels + i * PIXELS, (int)neighbours);
        ++found[class];
        right += held_out > 0 && class == judged.labels[i];
    }
    int common = 0;
    printf("class  samples   share\n");
    for (int i = 0; i < reference.classes; ++i) {
        const double share = (double)found[i] / (double)judged.count;
        common += share >= LEAST_SHARE;
        printf("%5d  %7" PRId64 "  %4.1f %%\n", i, found[i], 100.0 * share);
    }
    if (held_out > 0) {
        printf("the right class: %" PRId64 " of %" PRId64 ", %.1f %%\n", right, judged.count,
               100.0 * (double)right / (double)judged.count);
    }
    const bool passed = common >= LEAST_CLASSES;
    printf("%d of %d classes have %.0f %% of %" PRId64 " samples or more: %s\n", common,
           reference.classes, 100.0 * LEAST_SHARE, judged.count,
           passed ? "enough" : "fewer than the 8 that are wanted");
    free(found);
    free(judged.pixels);
    free(judged.labels);
    free(reference.pixels);
    free(reference.labels);
    return passed ? 0 : 1;
}
