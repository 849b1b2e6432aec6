/* loss.c - losses on the CPU. The formulas are in losses.def; sums are in f64 over blocks
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
typedef void elements_function(const uf_loss_kernel_args *, int64_t begin, int64_t end);
typedef void gradient_function(const uf_loss_kernel_args *, bool of_target, int64_t begin,
                               int64_t end);

static block_function *const blocks_of[] = {
    [UF_F32] = loss_block_f32, [UF_F64] = loss_block_f64, [UF_BF16] = loss_block_bf16};
static elements_function *const elements_of[] = {
    [UF_F32] = loss_elements_f32, [UF_F64] = loss_elements_f64, [UF_BF16] = loss_elements_bf16};
static gradient_function *const gradients_of[] = {
    [UF_F32] = loss_gradient_f32, [UF_F64] = loss_gradient_f64, [UF_BF16] = loss_gradient_bf16};

typedef struct loss_loop {
    const uf_loss_kernel_args *args;
    int64_t count, block;
    double partial[PARTIALS];
} loss_loop;

static int64_t block_end(const loss_loop *loop, int64_t unit) {
    const int64_t end = (unit + 1) * loop->block;
    return end < loop->count ? end : loop->count;
}

static void forward_block(void *argument, int64_t unit, int32_t thread) {
    loss_loop *loop = argument;
    (void)thread;
    loop->partial[unit] =
        blocks_of[loop->args->input.dtype](loop->args, unit * loop->block, block_end(loop, unit));
}

static void elements_block(void *argument, int64_t unit, int32_t thread) {
    const loss_loop *loop = argument;
    (void)thread;
    elements_of[loop->args->input.dtype](loop->args, unit * loop->block, block_end(loop, unit));
}

static void backward_block(void *argument, int64_t unit, int32_t thread) {
    const loss_loop *loop = argument;
    gradient_function *gradient = gradients_of[loop->args->input.dtype];
    (void)thread;
    if (loop->args->grad_input.data != NULL) {
        gradient(loop->args, false, unit * loop->block, block_end(loop, unit));
    }
    if (loop->args->grad_target.data != NULL) {
        gradient(loop->args, true, unit * loop->block, block_end(loop, unit));
    }
}

/* Elementwise work in units of a fixed size. */
static void each_unit(uf_context *context, const uf_loss_kernel_args *args,
                      void (*work)(void *argument, int64_t unit, int32_t thread)) {
    const int64_t count = uf_view_count(&args->input);
    loss_loop loop = {.args = args, .count = count, .block = UF_UNIT_ELEMENTS};
    uf_parallel_for(context, (count + UF_UNIT_ELEMENTS - 1) / UF_UNIT_ELEMENTS, work, &loop);
}

uf_status uf_cpu_loss_forward(uf_context *context, const uf_loss_kernel_args *args) {
    const int64_t count = uf_view_count(&args->input);
    if (args->reduction == UF_REDUCTION_NONE) {
        each_unit(context, args, elements_block);
        return UF_OK;
    }
    int64_t blocks = (count + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS;
    blocks = blocks < 1 ? 1 : blocks > PARTIALS ? PARTIALS : blocks;
    loss_loop loop = {.args = args, .count = count, .block = (count + blocks - 1) / blocks};
    uf_parallel_for(context, blocks, forward_block, &loop);
    double sum = 0.0;
    for (int64_t unit = 0; unit < blocks; ++unit) {
        sum += loop.partial[unit];
    }
    const double value = sum / (double)uf_loss_divisor(args); /* NaN for the mean of no elements */
    if (args->input.dtype == UF_F64) {
        *(double *)args->output.data = value;
    } else {
        *(float *)args->output.data = (float)value;
    }
    return UF_OK;
}

uf_status uf_cpu_loss_backward(uf_context *context, const uf_loss_kernel_args *args) {
    each_unit(context, args, backward_block);
    return UF_OK;
}
