/* bicubic.h - the bicubic filter that super-resolution is measured against, and the measure. */
#ifndef EXAMPLES_SUPERRES_BICUBIC_H
#define EXAMPLES_SUPERRES_BICUBIC_H

#include <stdint.h>

/* Resize a plane of height x width floats, rows first, to out_height x out_width. The filter is
 * Keys' with a = -0.5, widened by the factor where an axis shrinks, which prevents aliasing:
 *   w(x) = 1.5|x|^3 - 2.5|x|^2 + 1 up to 1;  -0.5|x|^3 + 2.5|x|^2 - 4|x| + 2 up to 2;  else 0
 * Element o lies at (o + 1/2) * in / out - 1/2. At a border the taps inside are scaled to a sum of
 * 1. That is Image.BICUBIC of Pillow and torch's interpolate(mode="bicubic", antialias=True);
 * MATLAB's imresize has the same filter and mirrors the border. Sums are f64. Overwrites `out`,
 * which may not be `in`.
 * Keys 1981, https://doi.org/10.1109/TASSP.1981.1163711 */
void bicubic(const float *in, int64_t height, int64_t width, float *out, int64_t out_height,
             int64_t out_width);

/* A pair to learn from, of a window of -1..1, side x side with a side that 4 divides: `large` is
 * the window at half its side, in 0..1; `small` is `large` at half its side, rounded to the 256
 * levels of a file. Photographs are soft at the size that a camera gives them; at half of it they
 * have something to restore. */
void bicubic_pair(const float *window, int64_t side, float *large, float *small);

/* Peak signal-to-noise ratio of a square image of 0..1 in dB, 10 log10(1 / mean squared error),
 * after clamping to 0..1 and without `border` pixels at each edge; 100 at most. */
double psnr(const float *image, const float *original, int64_t side, int64_t border);

#endif
