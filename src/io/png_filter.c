/* png_filter.c - the five filters of PNG, section 9 of https://www.w3.org/TR/png-3/. A compiler
 * makes vector code of each loop: no iteration reads what another one writes. */
#include "io/png_filter.h"

#include <stdint.h>
#include <string.h>

/* One filter: out[i] = row[i] - prediction, modulo 256. The first `pixel` bytes have no neighbour
 * on their left; it counts as 0. */
typedef void filter_function(const unsigned char *restrict row, const unsigned char *restrict above,
                             size_t size, size_t pixel, unsigned char *restrict out);

static void filter_none(const unsigned char *restrict row, const unsigned char *restrict above,
                        size_t size, size_t pixel, unsigned char *restrict out) {
    (void)above, (void)pixel;
    memcpy(out, row, size);
}

static void filter_sub(const unsigned char *restrict row, const unsigned char *restrict above,
                       size_t size, size_t pixel, unsigned char *restrict out) {
    (void)above;
    memcpy(out, row, pixel);
    for (size_t i = pixel; i < size; ++i) {
        out[i] = (unsigned char)(row[i] - row[i - pixel]);
    }
}

static void filter_up(const unsigned char *restrict row, const unsigned char *restrict above,
                      size_t size, size_t pixel, unsigned char *restrict out) {
    (void)pixel;
    for (size_t i = 0; i < size; ++i) {
        out[i] = (unsigned char)(row[i] - above[i]);
    }
}

static void filter_average(const unsigned char *restrict row, const unsigned char *restrict above,
                           size_t size, size_t pixel, unsigned char *restrict out) {
    for (size_t i = 0; i < pixel; ++i) {
        out[i] = (unsigned char)(row[i] - above[i] / 2);
    }
    for (size_t i = pixel; i < size; ++i) {
        out[i] = (unsigned char)(row[i] - (row[i - pixel] + above[i]) / 2);
    }
}

static int16_t distance(int16_t a, int16_t b) {
    return (int16_t)(a < b ? b - a : a - b);
}

/* The neighbour nearest to left + up - corner; the left one, then the upper one, if several are. */
static void filter_paeth(const unsigned char *restrict row, const unsigned char *restrict above,
                         size_t size, size_t pixel, unsigned char *restrict out) {
    filter_up(row, above, pixel, pixel, out); /* the left one and the corner are 0 */
    for (size_t i = pixel; i < size; ++i) {
        const int16_t left = row[i - pixel], up = above[i], corner = above[i - pixel];
        const int16_t to_left = distance(up, corner), to_up = distance(left, corner);
        const int16_t to_corner = distance((int16_t)(left + up), (int16_t)(2 * corner));
        const int16_t other = to_up <= to_corner ? up : corner;
        const int16_t nearest = (to_left <= to_up) & (to_left <= to_corner) ? left : other;
        out[i] = (unsigned char)(row[i] - nearest);
    }
}

/* The bytes as numbers from -128 to 127: the sum of their absolute values. */
static uint64_t sum_absolute(const unsigned char *bytes, size_t size) {
    enum { BLOCK = 1 << 16 }; /* sums of 32 bits do not overflow in it */
    uint64_t sum = 0;
    for (size_t begin = 0; begin < size; begin += BLOCK) {
        const size_t end = size - begin < BLOCK ? size : begin + BLOCK;
        uint32_t part = 0;
        for (size_t i = begin; i < end; ++i) {
            const unsigned char opposite = (unsigned char)-bytes[i];
            part += bytes[i] < opposite ? bytes[i] : opposite;
        }
        sum += part;
    }
    return sum;
}

const unsigned char *uf_png_filter_row(const unsigned char *row, const unsigned char *above,
                                       size_t size, size_t pixel, unsigned char *best,
                                       unsigned char *other) {
    static filter_function *const filters[] = {filter_none, filter_sub, filter_up, filter_average,
                                               filter_paeth};
    uint64_t least = UINT64_MAX;
    for (unsigned char i = 0; i < sizeof filters / sizeof filters[0]; ++i) {
        other[0] = i;
        filters[i](row, above, size, pixel, other + 1);
        const uint64_t sum = sum_absolute(other + 1, size);
        if (sum < least) {
            unsigned char *const swap = best;
            best = other;
            other = swap;
            least = sum;
        }
    }
    return best;
}
