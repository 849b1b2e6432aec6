/* pad.c - padding on the CPU. */
#include "kernels/kernels.h"

#include <string.h>

#include "kernels/cpu/parallel.h"

/* Where element i of the padded axis, counted from the first inside one, comes from; -1 for a zero.
 */
static inline int64_t source_index(uf_pad_mode mode, int64_t i, int64_t extent) {
    if (i >= 0 && i < extent) {
        return i;
    }
    switch (mode) {
    case UF_PAD_REPLICATE:
        return i < 0 ? 0 : extent - 1;
    case UF_PAD_REFLECT:
        return i < 0 ? -i : 2 * (extent - 1) - i;
    case UF_PAD_ZERO:
        break;
    }
    return -1;
}

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/pad.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/pad.inc"
#include "kernels/cpu/real_end.inc"

uf_status uf_cpu_pad_forward(uf_context *context, const uf_pad_kernel_args *args) {
    const uf_view *output = &args->output;
    const int64_t rows =
        output->extent[3] == 0 ? 0 : output->extent[0] * output->extent[1] * output->extent[2];
    void (*const run)(const uf_pad_kernel_args *, int64_t) =
        output->dtype == UF_F64 ? forward_row_f64 : forward_row_f32;
    UF_PARALLEL_FOR(context->threads)
    for (int64_t row = 0; row < rows; ++row) {
        run(args, row);
    }
    return UF_OK;
}

uf_status uf_cpu_pad_backward(uf_context *context, const uf_pad_kernel_args *args) {
    const int64_t planes = args->grad_input.extent[0] * args->grad_input.extent[1];
    void (*const run)(const uf_pad_kernel_args *, int64_t) =
        args->grad_input.dtype == UF_F64 ? backward_plane_f64 : backward_plane_f32;
    UF_PARALLEL_FOR(context->threads)
    for (int64_t plane = 0; plane < planes; ++plane) {
        run(args, plane);
    }
    return UF_OK;
}
