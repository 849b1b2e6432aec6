/* pad.c - padding on the CPU. */
#include "kernels/cpu/elementwise.h"

#include <math.h>
#include <string.h>

#include "core/bf16.h"
#include "core/parallel.h"

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

#include "kernels/cpu/real_bf16.inc"
#include "kernels/cpu/pad.inc"
#include "kernels/cpu/real_end.inc"

typedef void unit_function(const uf_pad_kernel_args *, int64_t);

static unit_function *const forward_rows[] = {
    [UF_F32] = forward_row_f32, [UF_F64] = forward_row_f64, [UF_BF16] = forward_row_bf16};
static unit_function *const backward_planes[] = {
    [UF_F32] = backward_plane_f32, [UF_F64] = backward_plane_f64, [UF_BF16] = backward_plane_bf16};

typedef struct pad_loop {
    const uf_pad_kernel_args *args;
    unit_function *run;
} pad_loop;

static void run_unit(void *argument, int64_t unit, int32_t thread) {
    const pad_loop *loop = argument;
    (void)thread;
    loop->run(loop->args, unit);
}

uf_status uf_cpu_pad_forward(uf_context *context, const uf_pad_kernel_args *args) {
    const uf_view *output = &args->output;
    const int64_t rows =
        output->extent[3] == 0 ? 0 : output->extent[0] * output->extent[1] * output->extent[2];
    pad_loop loop = {args, forward_rows[output->dtype]};
    uf_parallel_for(context, rows, run_unit, &loop);
    return UF_OK;
}

uf_status uf_cpu_pad_backward(uf_context *context, const uf_pad_kernel_args *args) {
    const int64_t planes = args->grad_input.extent[0] * args->grad_input.extent[1];
    pad_loop loop = {args, backward_planes[args->grad_input.dtype]};
    uf_parallel_for(context, planes, run_unit, &loop);
    return UF_OK;
}
