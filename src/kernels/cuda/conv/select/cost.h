/* cost.h - how long a variant of a convolution would take: what the choice compares. */
#ifndef UF_KERNELS_CUDA_CONV_SELECT_COST_H
#define UF_KERNELS_CUDA_CONV_SELECT_COST_H

#include "kernels/cuda/conv/select/choose.h"

UF_BEGIN_DECLS

/* Microseconds of a call on an H200, launches and packing included, from the arguments alone; the
 * variant suits them. */
double uf_cuda_conv_estimate(uf_conv_direction direction, const uf_conv_kernel_args *args,
                             uf_cuda_conv_variant variant);

/* What the models of kernels say whose plans are made in CUDA C++: cycles of an H200. */
double uf_cuda_conv_mma_cost(uf_conv_direction direction, const uf_conv_kernel_args *args);
double uf_cuda_conv_wgrad_mma_cost(const uf_conv_kernel_args *args);
double uf_cuda_conv_wgrad_rs_cost(const uf_conv_kernel_args *args);

UF_END_DECLS

#endif
