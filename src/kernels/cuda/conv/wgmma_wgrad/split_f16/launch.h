/* launch.h - the fix-up behind the weight gradient by 3xF16. */
#ifndef UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_SPLIT_F16_LAUNCH_H
#define UF_KERNELS_CUDA_CONV_WGMMA_WGRAD_SPLIT_F16_LAUNCH_H

#include "kernels/kernels.h"

UF_BEGIN_DECLS

/* The part of w that a kernel computes behind one that marked it. All zeros: all of w. */
typedef struct uf_wgrad_fixup {
    const uint32_t *any;  /* NULL, or: 0 there, and nothing is computed */
    const uint8_t *spans; /* NULL: all; or a byte for each span of w (a row, 2^span_log channels,
                             all taps), 0: the span is not computed */
    int32_t per_row;      /* spans of a row */
    int32_t span_log;     /* log2 of a span's channels */
} uf_wgrad_fixup;

struct wgrad_rs_plan;

/* register_a/launch.cu, by 3xTF32, with a plan of uf_wgrad_rs_unbound; its workspace is that of the
 * whole weight gradient. */
uf_status uf_cuda_conv_wgrad_rs_fixup(uf_context *context, const uf_conv_kernel_args *args,
                                      const struct wgrad_rs_plan *plan,
                                      const uf_wgrad_fixup *fixup);

UF_END_DECLS

#endif
