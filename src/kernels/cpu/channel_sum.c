/* channel_sum.c - sums over all but the channels, the gradient of a bias. A channel is cut into blocks by
 * its size; each block is summed in f64 by one thread and the blocks are added in order. */
#include "kernels/cpu/elementwise.h"

#include "kernels/cpu/parallel.h"

#define PARTIALS 256        /* sums of blocks that are in hand at a time */
#define BLOCK_ELEMENTS 8192 /* of one block, at least */
#define LANES 8             /* independent sums, so that one addition need not wait for the last */

#include "kernels/cpu/real_f32.inc"
#include "kernels/cpu/channel_sum.inc"
#include "kernels/cpu/real_end.inc"

#include "kernels/cpu/real_f64.inc"
#include "kernels/cpu/channel_sum.inc"
#include "kernels/cpu/real_end.inc"

size_t uf_cpu_channel_sum_workspace(uf_context *context, const uf_channel_sum_kernel_args *args) {
    (void)context;
    (void)args;
    return 0;
}

uf_status uf_cpu_channel_sum(uf_context *context, const uf_channel_sum_kernel_args *args) {
    const uf_view *const views[] = {&args->input};
    const uf_row_walk walk = uf_row_walk_of(views, 1, 2);
    const bool wide = args->input.dtype == UF_F64;
    const int64_t channels = args->input.extent[1];
    const int64_t count = walk.extent[0] * walk.extent[2] * walk.row;
    int64_t blocks = (count + BLOCK_ELEMENTS - 1) / BLOCK_ELEMENTS;
    blocks = blocks < 1 ? 1 : blocks > PARTIALS ? PARTIALS : blocks;
    const int64_t block = (count + blocks - 1) / blocks;
    const int64_t channels_at_once = PARTIALS / blocks;
    for (int64_t first = 0; first < channels; first += channels_at_once) {
        double partial[PARTIALS];
        const int64_t left = channels - first;
        const int64_t here = left < channels_at_once ? left : channels_at_once;
        UF_PARALLEL_FOR(context->threads)
        for (int64_t unit = 0; unit < here * blocks; ++unit) {
            const int64_t begin = unit % blocks * block;
            const int64_t end = begin + block < count ? begin + block : count;
            const int64_t c = first + unit / blocks;
            partial[unit] = wide ? sum_block_f64(args->input.data, &walk, c, begin, end)
                                 : sum_block_f32(args->input.data, &walk, c, begin, end);
        }
        for (int64_t i = 0; i < here; ++i) {
            double sum = 0.0;
            for (int64_t b = 0; b < blocks; ++b) {
                sum += partial[i * blocks + b];
            }
            if (wide) {
                write_sum_f64(args, first + i, sum);
            } else {
                write_sum_f32(args, first + i, sum);
            }
        }
    }
    return UF_OK;
}
