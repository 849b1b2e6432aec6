/* conv_wgrad_halves.h - what the weight gradient by f16 halves leaves to another kernel. */
#ifndef UF_KERNELS_CUDA_CONV_WGRAD_HALVES_H
#define UF_KERNELS_CUDA_CONV_WGRAD_HALVES_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

/* What is made again by another kernel behind the one that says so: nothing where *any is 0, and
 * where `spans` is not NULL only those spans of w (a row, 2^span_log channels, all taps), `per_row`
 * to a row, whose byte is not 0. All zeros: everything, always. */
typedef struct uf_wgrad_again {
    const uint32_t *any;
    const uint8_t *spans;
    int32_t per_row, span_log;
} uf_wgrad_again;

/* conv_wgrad_lines.cu: three TF32 products. */
uf_status uf_cuda_conv_wgrad_lines_again(uf_context *context, const uf_conv_kernel_args *args,
                                         const uf_wgrad_again *again);

UF_END_DECLS

#endif
