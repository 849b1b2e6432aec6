/* flatten.h - pointwise convolutions as one row per image. Needs no GPU and no toolkit. */
#ifndef UF_KERNELS_CUDA_CONV_FLATTEN_H
#define UF_KERNELS_CUDA_CONV_FLATTEN_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

/* The same convolution with long rows: each plane becomes a row, and the images become rows of one
 * image. The filter must be 1 x 1 with stride 1 and no padding, and planes of x and y contiguous;
 * other arguments are returned unchanged. */
uf_conv_kernel_args uf_conv_flat(const uf_conv_kernel_args *args);

UF_END_DECLS

#endif
