/* channel_sum.c - sums over all but the channels, the gradient of a bias. A channel is cut into
 * blocks by its size; each block is summed in f64 by one thread and the blocks are added in order.
 */
#include "kernels/cpu/elementwise.h"

#include "core/bf16.h"
#include "core/parallel.h"

#define PARTIALS 256        /* sums of blocks that are in hand at a time */
#define BLOCK_ELEMENTS 8192 /* of one block, at least */
#define LANES 8             /* independent sums, so that one addition need not wait for the last */

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/channel_sum.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/channel_sum.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_bf16.inc"
#include "kernels/cpu/channel_sum.inc"
#include "kernels/cpu/real_end.inc"

typedef double block_function(const void *data, const uf_row_walk *walk, int64_t c, int64_t begin,
                              int64_t end);
typedef void write_function(const uf_channel_sum_kernel_args *args, int64_t c, double sum);

static block_function *const sum_blocks[] = {
    [UF_F32] = sum_block_f32, [UF_F64] = sum_block_f64, [UF_BF16] = sum_block_bf16};
static write_function *const write_sums[] = {
    [UF_F32] = write_sum_f32, [UF_F64] = write_sum_f64, [UF_BF16] = write_sum_bf16};

typedef struct sum_loop {
    const uf_channel_sum_kernel_args *args;
    uf_row_walk walk;
    int64_t first;                /* channel in hand */
    int64_t count, block, blocks; /* of one channel */
    double partial[PARTIALS];
} sum_loop;

static void sum_block(void *argument, int64_t unit, int32_t thread) {
    sum_loop *loop = argument;
    const uf_view *input = &loop->args->input;
    const int64_t begin = unit % loop->blocks * loop->block;
    const int64_t end = begin + loop->block < loop->count ? begin + loop->block : loop->count;
    const int64_t c = loop->first + unit / loop->blocks;
    (void)thread;
    loop->partial[unit] = sum_blocks[input->dtype](input->data, &loop->walk, c, begin, end);
}

size_t uf_cpu_channel_sum_workspace(uf_context *context, const uf_channel_sum_kernel_args *args) {
    (void)context;
    (void)args;
    return 0;
}

uf_status uf_cpu_channel_sum(uf_context *context, const uf_channel_sum_kernel_args *args) {
    const uf_view *const views[] = {&args->input};
    sum_loop loop = {.args = args, .walk = uf_row_walk_of(views, 1, 2)};
    const int64_t channels = args->input.extent[1];
    loop.count = loop.walk.extent[0] * loop.walk.extent[2] * loop.walk.row;
    loop.blocks = (loop.count + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS;
    loop.blocks = loop.blocks < 1 ? 1 : loop.blocks > PARTIALS ? PARTIALS : loop.blocks;
    loop.block = (loop.count + loop.blocks - 1) / loop.blocks;
    const int64_t channels_at_once = PARTIALS / loop.blocks;
    for (; loop.first < channels; loop.first += channels_at_once) {
        const int64_t left = channels - loop.first;
        const int64_t here = left < channels_at_once ? left : channels_at_once;
        uf_parallel_for(context, here * loop.blocks, sum_block, &loop);
        for (int64_t i = 0; i < here; ++i) {
            double sum = 0.0;
            for (int64_t b = 0; b < loop.blocks; ++b) {
                sum += loop.partial[i * loop.blocks + b];
            }
            write_sums[args->output.dtype](args, loop.first + i, sum);
        }
    }
    return UF_OK;
}
