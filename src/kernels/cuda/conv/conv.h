/* conv.h - the choice of a convolution's plan for a context (conv.c). */
#ifndef UF_KERNELS_CUDA_CONV_H
#define UF_KERNELS_CUDA_CONV_H

#include "kernels/cuda/device/backend.h"
#include "kernels/cuda/conv/select/choose.h"

UF_BEGIN_DECLS

/* The plan for the context's GPU and this build; plan has two elements, as for uf_conv_choose. */
uf_status uf_cuda_conv_untuned(const uf_context *context, uf_conv_direction direction,
                               const uf_conv_kernel_args *args, uf_conv_plan *plan);

/* The same, or the plan of the context's table of tuned convolutions, which is fixed from then on.
 */
uf_status uf_cuda_conv_chosen(const uf_context *context, uf_conv_direction direction,
                              const uf_conv_kernel_args *args, uf_conv_plan *plan);

UF_END_DECLS

#endif
