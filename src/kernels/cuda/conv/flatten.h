/* flatten.h - pointwise convolutions as one row per image. Plain C. */
#ifndef UF_KERNELS_CUDA_CONV_FLATTEN_H
#define UF_KERNELS_CUDA_CONV_FLATTEN_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

/* The same convolution, seen so that kernels find long rows: where the filter is 1 x 1, steps are
 * one, nothing is padded and the rows of both tensors' planes follow each other, a plane is one
 * row, and images are the rows of a single image. Others are left as they are. */
uf_conv_kernel_args uf_conv_flat(const uf_conv_kernel_args *args);

UF_END_DECLS

#endif
