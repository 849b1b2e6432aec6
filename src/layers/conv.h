/* conv.h - calls of the three kernels of convolution, for layers. */
#ifndef UF_LAYERS_CONV_H
#define UF_LAYERS_CONV_H

#include "layers/layer.h"

uf_status uf_conv_layer_run(const uf_exec *exec, uf_conv_direction direction,
                            const uf_conv_kernel_args *args);

/* Check the arguments, and raise *size to the scratch they need. */
uf_status uf_conv_layer_need(const uf_exec *exec, uf_conv_direction direction,
                             const uf_conv_kernel_args *args, size_t *size);

#endif
