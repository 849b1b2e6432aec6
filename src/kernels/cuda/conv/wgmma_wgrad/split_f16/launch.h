/* launch.h - what the weight gradient by split f16 leaves to another kernel. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_SPLIT_F16_LAUNCH_H
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_SPLIT_F16_LAUNCH_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

/* What is made again by another kernel behind the one that says so: nothing where *any is 0, and
 * where `spans` is not NULL only those spans of w (a row, 2^span_log channels, all taps), `per_row`
 * to a row, whose byte is not 0. All zeros: everything, always. */
typedef struct uf_wgrad_fixup {
    const uint32_t *any;
    const uint8_t *spans;
    int32_t per_row, span_log;
} uf_wgrad_fixup;

/* register_a/launch.cu: three TF32 MMAs. */
uf_status uf_cuda_conv_wgrad_rs_fixup(uf_context *context, const uf_conv_kernel_args *args,
                                      const uf_wgrad_fixup *fixup);

UF_END_DECLS

#endif
