/* data.h - pictures for a training: Fashion-MNIST, a folder of PNG or JPEG pictures, or a dataset
 * of an HDF5 file; batches in an order that is a function of the seed, made by threads ahead of the
 * step.
 *
 * Wrong data end the program with one sentence (common.h). */
#ifndef EXAMPLES_COMMON_DATA_H
#define EXAMPLES_COMMON_DATA_H

#include <stdbool.h>
#include <stdint.h>

/* The examples keep so much of a folder, 80,000 pictures of 64 x 64 in colour: a fast GPU would
 * wait where the same files are decoded again in each epoch. */
#define DATA_CACHE_BYTES (INT64_C(1) << 30)

typedef enum data_crop {
    DATA_CROP_CENTRE, /* the short side is resized to `size`, the middle is kept */
    DATA_CROP_RANDOM  /* a window of size x size anywhere, not resized; a picture that is smaller is
                         first resized until its short side fits */
} data_crop;

typedef struct data_options {
    /* Told apart by contents: a folder with IDX files (train-images-idx3-ubyte.gz and labels, or
     * t10k-...), a folder of PNG and JPEG pictures or of folders of such, one a class, or a file of
     * HDF5 with a dataset (N, C, H, W): u8 of 0..255, or floats of -1..1, which is read whole: one
     * that does not fit into memory is refused. Colour profiles, gamma and EXIF's orientation do
     * not count. */
    const char *path;
    /* HDF5: the dataset's name; NULL: the only one of four axes. Labels: "labels" beside it. */
    const char *dataset;
    /* 1 or 3: grey (0.299 R + 0.587 G + 0.114 B) or colour; transparency is on white. */
    int64_t channels;
    int64_t size;   /* side of the images that come out */
    int64_t batch;  /* images a step; 0: no steps, data_read alone */
    uint64_t seed;  /* of the order, of crops and flips */
    int threads;    /* that make the steps to come; 0: one for each core, at most 16 */
    bool flip;      /* mirror every other image, by chance */
    data_crop crop; /* of data_batch; data_read takes the middle */
    /* IDX files: t10k-... in place of train-... Else the share of the pictures that
     * `held_out_share` keeps from the training. */
    bool held_out;
    double held_out_share; /* 0 to 1; pictures are drawn by their number, whatever the seed */
    /* Bytes of decoded pictures of a folder that are kept; 0: each is read again every time. */
    int64_t cache_bytes;
} data_options;

typedef struct data_loader data_loader;

/* Path, dataset and options are copied. */
data_loader *data_open(const data_options *options);
void data_close(data_loader *loader); /* NULL is legal */

/* Pictures, and batches an epoch: its short last batch is left out. */
int64_t data_count(const data_loader *loader);
int64_t data_batches_per_epoch(const data_loader *loader);

/* Labels are 0 .. classes - 1; 0 classes: there are no labels. A class has its folder's name, or
 * NULL where labels are numbers. */
int data_classes(const data_loader *loader);
const char *data_class_name(const data_loader *loader, int label);

/* "/data/flowers: 3400 PNG and 0 JPEG pictures, 5 classes, 340 of them held out" */
const char *data_description(const data_loader *loader);

/* Batch number `step` of the training, from 0 on: a function of (options, step) alone, so that a
 * resumed training goes on with the same images. An epoch is a permutation of the pictures. Images
 * (batch, channels, size, size) in -1..1; *labels, unless NULL, gets (batch) labels, or NULL where
 * there are none. Both are valid until the next call. Calls with step, step + 1, ... find theirs
 * made; a jump is legal. */
const float *data_batch(data_loader *loader, int64_t step, const int64_t **labels);

/* Number of the picture at `place` of batch `step`. */
int64_t data_index(const data_loader *loader, int64_t step, int64_t place);

/* `count` pictures from number `first` on, as data_batch without flips makes them, from the middle;
 * `labels` may be NULL. */
void data_read(data_loader *loader, int64_t first, int64_t count, float *images, int64_t *labels);

#endif
