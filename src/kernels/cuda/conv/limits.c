/* limits.c - problems that fit 32-bit arithmetic: see problem.h. */
#include "kernels/cuda/conv/problem.h"

bool uf_conv_positions_fit(const uf_conv_kernel_args *args) {
    const int64_t limit = INT64_C(1) << 28;
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t kernel = args->w.extent[2 + axis];
        if (args->x.extent[2 + axis] >= limit || args->y.extent[2 + axis] >= limit ||
            args->padding[axis] >= limit || args->stride[axis] >= limit ||
            args->dilation[axis] >= limit || kernel >= limit ||
            (kernel - 1) * args->dilation[axis] >= limit) {
            return false;
        }
    }
    return args->x.extent[0] < limit && args->x.extent[1] < limit && args->y.extent[1] < limit &&
           args->w.extent[2] * args->w.extent[3] < limit;
}

bool uf_conv_tiles_fit(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    if (!uf_conv_positions_fit(args)) {
        return false;
    }
    const int64_t limit = INT64_C(1) << 30;
    const uf_view *written = direction == UF_CONV_DGRAD ? &args->x : &args->y;
    const int64_t phases = direction == UF_CONV_DGRAD ? args->stride[0] * args->stride[1] : 1;
    const int64_t plane = written->extent[2] * written->extent[3];
    const int64_t channel_tiles = args->groups * ((written->extent[1] / args->groups + 31) / 32);
    if (phases >= limit || plane >= limit || plane * written->extent[0] >= limit) {
        return false;
    }
    /* Phases differ by at most a row and a column: each counts as many tiles as the largest. */
    int64_t pixels = written->extent[0];
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t step = direction == UF_CONV_DGRAD ? args->stride[axis] : 1;
        pixels *= (written->extent[2 + axis] + step - 1) / step;
    }
    const int64_t tiles = (pixels / 128 + 1) * phases;
    return tiles < limit && tiles * channel_tiles < limit;
}
