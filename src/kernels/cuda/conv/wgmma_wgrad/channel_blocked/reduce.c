/* reduce.c - see channel_blocked/reduce.h. */
#include "kernels/cuda/conv/wgmma_wgrad/channel_blocked/reduce.h"

#include <string.h>

#include "kernels/cuda/conv/problem.h"

uf_channel_blocked_reduction uf_channel_blocked_reduction_of(const uf_conv_kernel_args *args,
                                                             int32_t width, int32_t splits) {
    const int32_t taps = (int32_t)(args->w.extent[2] * args->w.extent[3]);
    const int32_t groups = (int32_t)args->groups;
    const int32_t k_per_group = (int32_t)(args->w.extent[0] / args->groups);
    const int32_t c_per_group = (int32_t)args->w.extent[1];
    const int64_t rows = (int64_t)groups * k_per_group;
    uf_channel_blocked_reduction made;
    memset(&made, 0, sizeof made);
    made.width = width;
    made.splits = splits;
    made.rows = k_per_group < 64 ? (int32_t)uf_round_up(k_per_group, 8) : 64;
    made.channel_blocks = (int32_t)uf_div_up(c_per_group, width);
    made.columns = made.channel_blocks * taps * width;
    made.tiles_m = (int32_t)uf_div_up(k_per_group, 64);
    made.tiles = groups * made.tiles_m;
    while (1 << made.width_log < width) {
        ++made.width_log;
    }
    /* Spans grow while there still are enough of them to fill the GPU. */
    made.span_log = 3;
    const int32_t most =
        taps <= 16 ? UF_CHANNEL_BLOCKED_LONG_ELEMENTS : UF_CHANNEL_BLOCKED_SPAN_ELEMENTS;
    while (1 << made.span_log < c_per_group && taps << (made.span_log + 1) <= most &&
           rows * (c_per_group >> (made.span_log + 1)) >= 3 * UF_CONV_SPLIT_MULTIPROCESSORS) {
        ++made.span_log;
    }
    /* A thread adds four elements at a time; the others of a block share their splits. */
    made.adders = 1;
    while (made.adders < 16 && made.adders * 8 <= splits &&
           made.adders * (taps << made.span_log) <= UF_CHANNEL_BLOCKED_ADD_THREADS * 2) {
        made.adders *= 2;
    }
    made.spans = (c_per_group + (1 << made.span_log) - 1) >> made.span_log;
    made.items = (int32_t)rows * made.spans;
    return made;
}

size_t uf_channel_blocked_sums_bytes(const uf_channel_blocked_reduction *reduction) {
    return (size_t)reduction->splits * (size_t)reduction->tiles * (size_t)reduction->rows *
           (size_t)reduction->columns * sizeof(float);
}
