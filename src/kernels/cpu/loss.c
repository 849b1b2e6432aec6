/* loss.c - mean losses on the CPU. The formulas are in loss_math.inc; sums are in f64 over blocks cut by the
 * number of elements and are added in order. */
#include "kernels/cpu/elementwise.h"

#include <math.h>

#include "kernels/cpu/parallel.h"

#define PARTIALS 256
#define BLOCK_ELEMENTS 4096 /* of one block, at least */

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/loss.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/loss.inc"
#include "kernels/cpu/real_end.inc"

size_t uf_cpu_loss_workspace(uf_context *context, const uf_loss_kernel_args *args) {
    (void)context;
    (void)args;
    return 0;
}

uf_status uf_cpu_loss_forward(uf_context *context, const uf_loss_kernel_args *args) {
    const bool wide = args->input.dtype == UF_F64;
    const int64_t count = uf_view_count(&args->input);
    int64_t blocks = (count + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS;
    blocks = blocks < 1 ? 1 : blocks > PARTIALS ? PARTIALS : blocks;
    const int64_t block = (count + blocks - 1) / blocks;
    double partial[PARTIALS];
    UF_PARALLEL_FOR(context->threads)
    for (int64_t unit = 0; unit < blocks; ++unit) {
        const int64_t begin = unit * block;
        const int64_t end = begin + block < count ? begin + block : count;
        partial[unit] = wide ? loss_block_f64(args, begin, end) : loss_block_f32(args, begin, end);
    }
    double sum = 0.0;
    for (int64_t unit = 0; unit < blocks; ++unit) {
        sum += partial[unit];
    }
    const double mean = sum / (double)count; /* NaN for no elements, as PyTorch's */
    if (wide) {
        *(double *)args->output.data = mean;
    } else {
        *(float *)args->output.data = (float)mean;
    }
    return UF_OK;
}

uf_status uf_cpu_loss_backward(uf_context *context, const uf_loss_kernel_args *args) {
    const int64_t count = uf_view_count(&args->input);
    const int64_t units = (count + UF_UNIT_ELEMENTS - 1) / UF_UNIT_ELEMENTS;
    void (*const run)(const uf_loss_kernel_args *, int64_t, int64_t, int64_t) =
        args->input.dtype == UF_F64 ? loss_gradient_f64 : loss_gradient_f32;
    UF_PARALLEL_FOR(context->threads)
    for (int64_t unit = 0; unit < units; ++unit) {
        const int64_t begin = unit * UF_UNIT_ELEMENTS;
        const int64_t left = count - begin;
        run(args, count, begin, begin + (left < UF_UNIT_ELEMENTS ? left : UF_UNIT_ELEMENTS));
    }
    return UF_OK;
}
