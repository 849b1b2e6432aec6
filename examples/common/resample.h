/* resample.h - a square image of -1..1 out of a picture of any size: bilinear, and antialiased
 * where it shrinks, as torchvision's Resize(antialias=True) on tensors. */
#ifndef EXAMPLES_COMMON_RESAMPLE_H
#define EXAMPLES_COMMON_RESAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum sample_type {
    SAMPLE_U8,  /* 0..255 */
    SAMPLE_U16, /* 0..65535 */
    SAMPLE_F32  /* -1..1 */
} sample_type;

/* A picture as it was read. Channel c of pixel (y, x) is element (y * width + x) * pixel_stride +
 * c * channel_stride of `values`. */
typedef struct samples {
    const void *values;
    sample_type type;
    int64_t width, height;
    int channels; /* 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha */
    int64_t pixel_stride, channel_stride;
} samples;

/* Memory that grows with the largest picture; zeroed at first, used by one thread at a time. */
typedef struct resampler {
    int64_t *spans;
    float *weights, *rows;
    size_t span_room, weight_room, row_room; /* elements */
} resampler;

typedef struct resample_options {
    int channels; /* 1 or 3 */
    int64_t size;
    bool random_crop; /* a window anywhere, which `random` chooses; else the short side is resized
                         to `size` and the middle is kept */
    uint64_t random;
    bool mirrored;
} resample_options;

/* Write (channels, size, size). False where memory is lacking. */
bool resample(resampler *r, const samples *picture, const resample_options *options, float *image);
void resampler_free(resampler *r);

#endif
