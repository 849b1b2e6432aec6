/* conv.h - what conv.c and conv_size.c share. */
#ifndef UF_OPS_CONV_H
#define UF_OPS_CONV_H

#include "ops/ops.h"

/* Are the parameters and the kernel's extents legal? `op` begins the message. */
uf_status uf_conv_check_params(const char *op, bool transposed, const uf_conv2d_params *params,
                               const int64_t kernel[2]);

#endif
