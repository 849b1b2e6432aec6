#include "superres/bicubic.h"

#include "common/common.h"

#include <math.h>
#include <stdlib.h>

static double keys(double x) {
    x = fabs(x);
    if (x < 1.0) return (1.5 * x - 2.5) * x * x + 1.0;
    return x < 2.0 ? ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0 : 0.0;
}

/* The taps of every element of one axis: element o is the sum of weight[o * taps + t] times input
 * first[o] + t. Some
 * may lie beyond the filter and have a weight of 0. */
typedef struct axis {
    int64_t taps, *first;
    double *weight;
} axis;

static axis axis_create(int64_t in, int64_t out) {
    const double ratio = (double)in / (double)out, widening = fmax(ratio, 1.0);
    const int64_t most = (int64_t)ceil(4.0 * widening) + 1;
    axis a = {most < in ? most : in, allocate(out, sizeof(int64_t)), NULL};
    a.weight = allocate(out * a.taps, sizeof(double));
    for (int64_t o = 0; o < out; ++o) {
        const double centre = ((double)o + 0.5) * ratio - 0.5;
        int64_t first = (int64_t)ceil(centre - 2.0 * widening);
        first = first < 0 ? 0 : first;
        first = first > in - a.taps ? in - a.taps : first;
        double *weight = a.weight + o * a.taps, sum = 0.0;
        for (int64_t t = 0; t < a.taps; ++t) {
            weight[t] = keys(((double)(first + t) - centre) / widening);
            sum += weight[t];
        }
        for (int64_t t = 0; t < a.taps; ++t) {
            weight[t] /= sum;
        }
        a.first[o] = first;
    }
    return a;
}

static void axis_free(axis *a) {
    free(a->first);
    free(a->weight);
}

void bicubic(const float *in, int64_t height, int64_t width, float *out, int64_t out_height,
             int64_t out_width) {
    axis across = axis_create(width, out_width), down = axis_create(height, out_height);
    double *rows = allocate(height * out_width, sizeof(double));
    for (int64_t y = 0; y < height; ++y) {
        for (int64_t o = 0; o < out_width; ++o) {
            const float *from = in + y * width + across.first[o];
            double sum = 0.0;
            for (int64_t t = 0; t < across.taps; ++t) {
                sum += across.weight[o * across.taps + t] * (double)from[t];
            }
            rows[y * out_width + o] = sum;
        }
    }
    for (int64_t o = 0; o < out_height; ++o) {
        for (int64_t x = 0; x < out_width; ++x) {
            double sum = 0.0;
            for (int64_t t = 0; t < down.taps; ++t) {
                sum += down.weight[o * down.taps + t] * rows[(down.first[o] + t) * out_width + x];
            }
            out[o * out_width + x] = (float)sum;
        }
    }
    free(rows);
    axis_free(&down);
    axis_free(&across);
}

void bicubic_pair(const float *window, int64_t side, float *large, float *small) {
    const int64_t half = side / 2, quarter = side / 4;
    bicubic(window, side, side, large, half, half);
    for (int64_t i = 0; i < half * half; ++i) {
        large[i] = fminf(fmaxf(0.5f * large[i] + 0.5f, 0.0f), 1.0f);
    }
    bicubic(large, half, half, small, quarter, quarter);
    for (int64_t i = 0; i < quarter * quarter; ++i) {
        small[i] = roundf(fminf(fmaxf(small[i], 0.0f), 1.0f) * 255.0f) / 255.0f;
    }
}

double psnr(const float *image, const float *original, int64_t side, int64_t border) {
    const int64_t inner = side - 2 * border;
    double sum = 0.0;
    for (int64_t y = border; y < side - border; ++y) {
        for (int64_t x = border; x < side - border; ++x) {
            const double value = (double)image[y * side + x]; /* NaN stays NaN */
            const double clamped = value < 0.0 ? 0.0 : value > 1.0 ? 1.0 : value;
            const double off = clamped - (double)original[y * side + x];
            sum += off * off;
        }
    }
    const double error = sum / (double)(inner * inner);
    return error < 1e-10 ? 100.0 : -10.0 * log10(error);
}
