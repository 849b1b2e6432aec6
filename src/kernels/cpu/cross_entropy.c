/* cross_entropy.c - cross-entropy on the CPU, a row of logits at a time. Sums are in f64; those of
 * rows go over blocks cut by their number and are added in order. */
#include <math.h>

#include "core/bf16.h"
#include "core/parallel.h"
#include "kernels/kernels.h"

#define PARTIALS 256
#define UNIT_LOGITS 16384 /* of one unit of work, about */

static int64_t first_of_row(const uf_cross_entropy_kernel_args *args, int64_t row) {
    return row / args->inner * args->inner * args->classes + row % args->inner;
}

static int64_t divisor_of(const uf_cross_entropy_kernel_args *args) {
    return args->reduction == UF_REDUCTION_MEAN ? args->outer * args->inner : 1;
}

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/cross_entropy.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/cross_entropy.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_bf16.inc"
#include "kernels/cpu/cross_entropy.inc"
#include "kernels/cpu/real_end.inc"

static double (*const losses_of[])(const uf_cross_entropy_kernel_args *, int64_t row) = {
    [UF_F32] = row_loss_f32, [UF_F64] = row_loss_f64, [UF_BF16] = row_loss_bf16};
static void (*const elements_of[])(const uf_cross_entropy_kernel_args *, int64_t row) = {
    [UF_F32] = row_element_f32, [UF_F64] = row_element_f64, [UF_BF16] = row_element_bf16};
static void (*const gradients_of[])(const uf_cross_entropy_kernel_args *, int64_t row) = {
    [UF_F32] = row_gradient_f32, [UF_F64] = row_gradient_f64, [UF_BF16] = row_gradient_bf16};

typedef struct row_loop {
    const uf_cross_entropy_kernel_args *args;
    int64_t rows, block;
    double partial[PARTIALS];
} row_loop;

static int64_t block_end(const row_loop *loop, int64_t unit) {
    const int64_t end = (unit + 1) * loop->block;
    return end < loop->rows ? end : loop->rows;
}

static void sum_block(void *argument, int64_t unit, int32_t thread) {
    row_loop *loop = argument;
    double sum = 0.0;
    (void)thread;
    for (int64_t row = unit * loop->block; row < block_end(loop, unit); ++row) {
        sum += losses_of[loop->args->input.dtype](loop->args, row);
    }
    loop->partial[unit] = sum;
}

static void elements_block(void *argument, int64_t unit, int32_t thread) {
    const row_loop *loop = argument;
    (void)thread;
    for (int64_t row = unit * loop->block; row < block_end(loop, unit); ++row) {
        elements_of[loop->args->input.dtype](loop->args, row);
    }
}

static void gradient_block(void *argument, int64_t unit, int32_t thread) {
    const row_loop *loop = argument;
    (void)thread;
    for (int64_t row = unit * loop->block; row < block_end(loop, unit); ++row) {
        gradients_of[loop->args->input.dtype](loop->args, row);
    }
}

/* At most PARTIALS blocks of rows. Returns their number. */
static int64_t cut(row_loop *loop) {
    const int64_t least = 1 + UNIT_LOGITS / loop->args->classes;
    int64_t blocks = (loop->rows + least - 1) / least;
    blocks = blocks > PARTIALS ? PARTIALS : blocks < 1 ? 1 : blocks;
    loop->block = (loop->rows + blocks - 1) / blocks;
    return blocks;
}

uf_status uf_cpu_cross_entropy_forward(uf_context *context,
                                       const uf_cross_entropy_kernel_args *args) {
    row_loop loop = {.args = args, .rows = args->outer * args->inner};
    const int64_t blocks = cut(&loop);
    if (args->reduction == UF_REDUCTION_NONE) {
        uf_parallel_for(context, blocks, elements_block, &loop);
        return UF_OK;
    }
    uf_parallel_for(context, blocks, sum_block, &loop);
    double sum = 0.0;
    for (int64_t unit = 0; unit < blocks; ++unit) {
        sum += loop.partial[unit];
    }
    const double value = sum / (double)divisor_of(args);
    if (args->input.dtype == UF_F64) {
        *(double *)args->output.data = value;
    } else {
        *(float *)args->output.data = (float)value;
    }
    return UF_OK;
}

uf_status uf_cpu_cross_entropy_backward(uf_context *context,
                                        const uf_cross_entropy_kernel_args *args) {
    row_loop loop = {.args = args, .rows = args->outer * args->inner};
    const int64_t blocks = cut(&loop);
    uf_parallel_for(context, blocks, gradient_block, &loop);
    return UF_OK;
}
