#include "common/resample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One axis: output element i is the sum of count[i] input elements from first[i] on, each times its
 * weight. */
typedef struct axis {
    int64_t low, high;      /* input elements that are needed: [low, high) */
    int64_t most;           /* weights that each output element has room for */
    bool is_copy;           /* output element i is input element low + i */
    int64_t *first, *count; /* [size] */
    float *weights;         /* [size][most] */
} axis;

/* The part of the resized picture that is kept. */
typedef struct window {
    int64_t full_width, full_height; /* of the resized picture */
    int64_t left, top;
} window;

static int64_t below(uint32_t random, int64_t limit) {
    return (int64_t)((double)random * 0x1p-32 * (double)limit);
}

static window choose_window(const samples *picture, const resample_options *options) {
    const int64_t size = options->size, width = picture->width, height = picture->height;
    const int64_t shorter = width < height ? width : height;
    window w = {.full_width = width, .full_height = height};
    if (!options->random_crop || shorter < size) {
        w.full_width =
            width == shorter ? size : llround((double)width * (double)size / (double)shorter);
        w.full_height =
            height == shorter ? size : llround((double)height * (double)size / (double)shorter);
    }
    const int64_t spare_x = w.full_width - size, spare_y = w.full_height - size;
    w.left = options->random_crop ? below((uint32_t)options->random, spare_x + 1) : spare_x / 2;
    w.top =
        options->random_crop ? below((uint32_t)(options->random >> 32), spare_y + 1) : spare_y / 2;
    return w;
}

/* How far a triangle reaches to either side of its centre. */
static double reach(int64_t extent, int64_t full) {
    return fmax((double)extent / (double)full, 1.0);
}

static int64_t most_weights(int64_t extent, int64_t full) {
    return (int64_t)ceil(2.0 * reach(extent, full)) + 2;
}

/* Triangles as wide as an output pixel, or as an input pixel where the picture grows; those that
 * reach beyond the edge are cut off there, and the sum of the weights stays 1. */
static void fill_axis(axis *a, int64_t extent, int64_t full, int64_t offset, int64_t size) {
    const double ratio = (double)extent / (double)full, support = reach(extent, full);
    a->low = extent;
    a->high = 0;
    a->is_copy = true;
    for (int64_t i = 0; i < size; ++i) {
        const double centre = ((double)(i + offset) + 0.5) * ratio;
        const int64_t low = (int64_t)fmax(floor(centre - support), 0.0);
        const int64_t high = (int64_t)fmin(ceil(centre + support), (double)extent);
        float *weights = a->weights + i * a->most;
        double sum = 0.0;
        int64_t first = low, count = 0;
        for (int64_t k = low; k < high; ++k) {
            const double weight = 1.0 - fabs((double)k + 0.5 - centre) / support;
            if (weight <= 0.0) continue; /* at either end */
            if (count == 0) first = k;
            weights[count++] = (float)weight;
            sum += weight;
        }
        for (int64_t k = 0; k < count; ++k) weights[k] = (float)((double)weights[k] / sum);
        a->first[i] = first;
        a->count[i] = count;
        a->is_copy = a->is_copy && count == 1 && first == a->first[0] + i;
        if (first < a->low) a->low = first;
        if (first + count > a->high) a->high = first + count;
    }
}

/* Elements [at, at + count * stride) as floats of -1..1. */
static void read_plane(const samples *picture, int64_t at, int64_t count, float *plane) {
    const int64_t stride = picture->pixel_stride;
    if (picture->type == SAMPLE_U8) {
        const uint8_t *from = (const uint8_t *)picture->values + at;
        for (int64_t i = 0; i < count; ++i)
            plane[i] = (float)(from[i * stride] * (1.0 / 127.5) - 1.0);
    } else if (picture->type == SAMPLE_U16) {
        const uint16_t *from = (const uint16_t *)picture->values + at;
        for (int64_t i = 0; i < count; ++i)
            plane[i] = (float)(from[i * stride] * (1.0 / 32767.5) - 1.0);
    } else {
        const float *from = (const float *)picture->values + at;
        for (int64_t i = 0; i < count; ++i) plane[i] = from[i * stride];
    }
}

/* Pixels [low, high) of row y as `channels` planes, one behind the other; room for four. */
static void convert_row(const samples *picture, int64_t y, int64_t low, int64_t high, int channels,
                        float *row) {
    const int64_t width = high - low, at = (y * picture->width + low) * picture->pixel_stride;
    const bool has_alpha = picture->channels % 2 == 0;
    const int colours = picture->channels - has_alpha;
    for (int c = 0; c < picture->channels; ++c) {
        read_plane(picture, at + c * picture->channel_stride, width, row + c * width);
    }
    const float *alpha = row + colours * width;
    for (int c = 0; has_alpha && c < colours; ++c) {
        float *plane = row + c * width;
        for (int64_t x = 0; x < width; ++x) { /* over white, which is 1 */
            plane[x] = 1.0f + (plane[x] - 1.0f) * (0.5f * alpha[x] + 0.5f);
        }
    }
    if (channels < colours) {
        const float *green = row + width, *blue = green + width;
        for (int64_t x = 0; x < width; ++x) {
            row[x] = 0.299f * row[x] + 0.587f * green[x] + 0.114f * blue[x];
        }
    }
    for (int c = colours; c < channels; ++c) {
        memcpy(row + c * width, row, (size_t)width * sizeof *row);
    }
}

/* Each output element of one plane of a row. */
static void resample_row(const axis *across, const float *plane, int64_t size, float *out) {
    if (across->is_copy) {
        memcpy(out, plane, (size_t)size * sizeof *out);
        return;
    }
    for (int64_t x = 0; x < size; ++x) {
        const float *from = plane + across->first[x] - across->low;
        const float *weights = across->weights + x * across->most;
        float sum = 0.0f;
        for (int64_t k = 0; k < across->count[x]; ++k) sum += weights[k] * from[k];
        out[x] = sum;
    }
}

/* Row y of the image as the sum of the rows that are resampled across; each has `stride` floats. */
static void sum_rows(const axis *down, const float *rows, int64_t stride, int64_t y, int64_t size,
                     float *out) {
    const float *from = rows + (down->first[y] - down->low) * stride;
    const float *weights = down->weights + y * down->most;
    for (int64_t x = 0; x < size; ++x) out[x] = weights[0] * from[x];
    for (int64_t k = 1; k < down->count[y]; ++k) {
        from += stride;
        for (int64_t x = 0; x < size; ++x) out[x] += weights[k] * from[x];
    }
}

static void mirror(float *row, int64_t size) {
    for (int64_t x = 0; x < size / 2; ++x) {
        const float left = row[x];
        row[x] = row[size - 1 - x];
        row[size - 1 - x] = left;
    }
}

/* Memory for at least `wanted` elements, whose contents do not matter. */
static bool make_room(void **memory, size_t *room, size_t wanted, size_t size) {
    if (wanted > *room) {
        free(*memory);
        *room = 0;
        *memory = malloc(wanted * size);
        if (*memory == NULL) return false;
        *room = wanted;
    }
    return true;
}

bool resample(resampler *r, const samples *picture, const resample_options *options, float *image) {
    const int64_t size = options->size, channels = options->channels;
    const window w = choose_window(picture, options);
    axis across = {.most = most_weights(picture->width, w.full_width)};
    axis down = {.most = most_weights(picture->height, w.full_height)};
    void *spans = r->spans, *weights = r->weights, *rows = r->rows;
    bool done = make_room(&spans, &r->span_room, (size_t)(4 * size), sizeof *r->spans) &&
                make_room(&weights, &r->weight_room, (size_t)(size * (across.most + down.most)),
                          sizeof *r->weights);
    r->spans = spans;
    r->weights = weights;
    if (!done) return false;
    across.first = r->spans, across.count = across.first + size;
    down.first = across.count + size, down.count = down.first + size;
    across.weights = r->weights, down.weights = across.weights + size * across.most;
    fill_axis(&across, picture->width, w.full_width, w.left, size);
    fill_axis(&down, picture->height, w.full_height, w.top, size);

    /* One row as it is, then the rows that are needed, resampled across. */
    const int64_t width = across.high - across.low, stride = channels * size;
    done = make_room(&rows, &r->row_room, (size_t)(4 * width + (down.high - down.low) * stride),
                     sizeof *r->rows);
    r->rows = rows;
    if (!done) return false;
    float *narrow = r->rows + 4 * width;
    for (int64_t y = down.low; y < down.high; ++y) {
        convert_row(picture, y, across.low, across.high, options->channels, r->rows);
        for (int64_t c = 0; c < channels; ++c) {
            resample_row(&across, r->rows + c * width, size,
                         narrow + (y - down.low) * stride + c * size);
        }
    }
    for (int64_t c = 0; c < channels; ++c) {
        for (int64_t y = 0; y < size; ++y) {
            float *row = image + (c * size + y) * size;
            sum_rows(&down, narrow + c * size, stride, y, size, row);
            if (options->mirrored) mirror(row, size);
        }
    }
    return true;
}

void resampler_free(resampler *r) {
    free(r->spans);
    free(r->weights);
    free(r->rows);
    *r = (resampler){0};
}
