/* upsample_conv.h - nearest upsampling by 2 with a convolution behind it, as one layer.
 *
 * Neighbouring taps of the convolution read the same pixel of the image before the upsampling. With
 * their weights added it is a transposed convolution of stride 2 on that image, with (K + 1)^2
 * products for each of its pixels in place of (2 K)^2. */
#ifndef UF_LAYERS_UPSAMPLE_CONV_H
#define UF_LAYERS_UPSAMPLE_CONV_H

#include "layers/conv.h"

/* Is the layer nearest upsampling, which makes of each pixel of `in` two by two of `out`? */
bool uf_layer_doubles(const uf_layer *layer, const void *attributes, const uf_shape *in,
                      const uf_shape *out);

/* The attributes of the uf_layer_conv_transpose2d that does what the upsampling and `layer` behind
 * it do. False: there is none. */
bool uf_layer_behind_doubling(const uf_layer *layer, const void *attributes,
                              uf_conv_attributes *made);

/* Makes the weight of that layer, (C_in, C_out, R + 1, S + 1), of the convolution's, its params[0].
 * Compilation appends it; no function of layers.h does. */
extern const uf_layer uf_layer_doubled_weight;

#endif
