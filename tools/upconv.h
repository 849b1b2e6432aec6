/* upconv.h - upconv_7, the network of waifu2x that doubles a picture (nagadomi, MIT licence).
 *
 * Six 3x3 convolutions without padding, each followed by LeakyReLU 0.1, then a transposed
 * convolution k4 s2 p3. n + 14 pixels become 2n: output pixels 2a and 2a + 1 read the transposed
 * convolution's inputs a, a + 1 and a + 2, and each of these reads 13 pixels, so together they see
 * the input pixels a - 7 … a + 7. With a halo of 7 real pixels on each side a tile therefore gets
 * what the whole picture would have given it; beyond the picture's edge the edge is repeated.
 * https://github.com/nagadomi/waifu2x */
#ifndef UF_TOOLS_UPCONV_H
#define UF_TOOLS_UPCONV_H

#include <unfurl/unfurl.h>

enum { UPCONV_HALO = 7, UPCONV_SCALE = 2 };

#define UPCONV_WEIGHTS "upconv7_scale2x.h5" /* among the shipped weights */

/* Append the network: (N, 3, H + 14, W + 14), RGB in [0, 1] -> (N, 3, 2H, 2W), not clamped. */
uf_value upconv_build(uf_graph *graph, uf_store *store, uf_value input);

#endif
