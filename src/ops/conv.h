/* conv.h - what conv.c and conv_size.c share. */
#ifndef UF_OPS_CONV_H
#define UF_OPS_CONV_H

#include <unfurl/tuning.h>

#include "ops/ops.h"

/* Are the parameters and the kernel's extents legal? `op` begins the message. */
uf_status uf_conv_check_params(const char *op, bool transposed, const uf_conv2d_params *params,
                               const int64_t kernel[2]);

/* The kernel and its arguments behind an operation; `direction` is a uf_conv_direction. The views
 * may lack data. */
uf_status uf_conv_kernel_of(uf_context *context, uf_conv2d_operation operation,
                            const uf_conv2d_args *args, uf_conv_direction *direction,
                            uf_conv_kernel_args *kernel);

#endif
