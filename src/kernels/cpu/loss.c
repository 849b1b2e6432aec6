/* loss.c - mean losses on the CPU. The formulas are in loss_math.inc; sums are in f64 over blocks
 * cut by the number of elements and are added in order. */
#include "kernels/cpu/elementwise.h"

#include <math.h>

#include "core/bf16.h"
#include "core/parallel.h"

#define PARTIALS 256
#define BLOCK_ELEMENTS 4096 /* of one block, at least */

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/loss.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/loss.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_bf16.inc"
#include "kernels/cpu/loss.inc"
#include "kernels/cpu/real_end.inc"

size_t uf_cpu_loss_workspace(uf_context *context, const uf_loss_kernel_args *args) {
    (void)context;
    (void)args;
    return 0;
}

typedef double block_function(const uf_loss_kernel_args *, int64_t begin, int64_t end);
typedef void gradient_function(const uf_loss_kernel_args *, int64_t count, int64_t begin,
                               int64_t end);

static block_function *const blocks_of[] = {
    [UF_F32] = loss_block_f32, [UF_F64] = loss_block_f64, [UF_BF16] = loss_block_bf16};
static gradient_function *const gradients_of[] = {
    [UF_F32] = loss_gradient_f32, [UF_F64] = loss_gradient_f64, [UF_BF16] = loss_gradient_bf16};

typedef struct loss_loop {
    const uf_loss_kernel_args *args;
    int64_t count, block;
    double partial[PARTIALS];
} loss_loop;

static void forward_block(void *argument, int64_t unit, int32_t thread) {
    loss_loop *loop = argument;
    const int64_t begin = unit * loop->block;
    const int64_t end = begin + loop->block < loop->count ? begin + loop->block : loop->count;
    (void)thread;
    loop->partial[unit] = blocks_of[loop->args->input.dtype](loop->args, begin, end);
}

static void backward_block(void *argument, int64_t unit, int32_t thread) {
    const loss_loop *loop = argument;
    const int64_t begin = unit * loop->block;
    const int64_t end = begin + loop->block < loop->count ? begin + loop->block : loop->count;
    (void)thread;
    gradients_of[loop->args->input.dtype](loop->args, loop->count, begin, end);
}

uf_status uf_cpu_loss_forward(uf_context *context, const uf_loss_kernel_args *args) {
    const int64_t count = uf_view_count(&args->input);
    int64_t blocks = (count + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS;
    blocks = blocks < 1 ? 1 : blocks > PARTIALS ? PARTIALS : blocks;
    loss_loop loop = {.args = args, .count = count, .block = (count + blocks - 1) / blocks};
    uf_parallel_for(context, blocks, forward_block, &loop);
    double sum = 0.0;
    for (int64_t unit = 0; unit < blocks; ++unit) {
        sum += loop.partial[unit];
    }
    const double mean = sum / (double)count; /* NaN for no elements, as PyTorch's */
    if (args->input.dtype == UF_F64) {
        *(double *)args->output.data = mean;
    } else {
        *(float *)args->output.data = (float)mean;
    }
    return UF_OK;
}

uf_status uf_cpu_loss_backward(uf_context *context, const uf_loss_kernel_args *args) {
    const int64_t count = uf_view_count(&args->input);
    const int64_t units = (count + UF_UNIT_ELEMENTS - 1) / UF_UNIT_ELEMENTS;
    loss_loop loop = {.args = args, .count = count, .block = UF_UNIT_ELEMENTS};
    uf_parallel_for(context, units, backward_block, &loop);
    return UF_OK;
}
