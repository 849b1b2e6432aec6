/* batch_norm.h - batch norm's backward call, for the layers that are one in evaluation. */
#ifndef UF_LAYERS_BATCH_NORM_H
#define UF_LAYERS_BATCH_NORM_H

#include "kernels/kernels.h"

/* args->grad_param_mode is that of the weight's gradient. The kernel has one mode for both: where
 * they differ, since one of two parameters is tied, there is a call for each. The second may write
 * grad_input over grad_output. */
uf_status uf_batch_norm_layer_backward(uf_context *context, const uf_batch_norm_kernel_args *args,
                                       uf_write_mode grad_bias_mode);

#endif
