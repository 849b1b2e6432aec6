/* taps.c - see conv/taps.h. */
#include "kernels/cuda/conv/taps.h"

#include <string.h>

#include "kernels/geometry.h"

static bool begin(const uf_conv_kernel_args *args, int axis, uf_conv_taps *taps) {
    memset(taps, 0, sizeof *taps);
    return args->w.extent[2 + axis] <= UF_CONV_TAPS && args->stride[axis] <= UF_CONV_KINDS;
}

bool uf_conv_taps_of_x(const uf_conv_kernel_args *args, int axis, uf_conv_taps *taps) {
    const int64_t stride = args->stride[axis];
    if (!begin(args, axis, taps)) {
        return false;
    }
    for (int32_t r = 0; r < args->w.extent[2 + axis]; ++r) {
        const int64_t at = r * args->dilation[axis] - args->padding[axis];
        const int64_t residue = (at % stride + stride) % stride;
        int32_t kind = 0;
        while (kind < taps->kinds && taps->residue[kind] != residue) {
            ++kind;
        }
        if (kind == taps->kinds) {
            taps->residue[taps->kinds++] = (int32_t)residue;
        }
        taps->filter[kind][taps->count[kind]] = (uint8_t)r;
        taps->shift[kind][taps->count[kind]++] = (at - residue) / stride;
    }
    return true;
}

bool uf_conv_taps_of_y(const uf_conv_kernel_args *args, int axis, uf_conv_taps *taps,
                       int64_t *elements) {
    *elements = 0;
    if (!begin(args, axis, taps)) {
        return false;
    }
    taps->kinds = (int32_t)args->stride[axis];
    for (int32_t phase = 0; phase < taps->kinds; ++phase) {
        const uf_axis_walk walk =
            uf_axis_dgrad(args->x.extent[2 + axis], args->w.extent[2 + axis], args->stride[axis],
                          args->padding[axis], args->dilation[axis], phase);
        taps->count[phase] = (int32_t)walk.taps;
        *elements = walk.out_count > *elements ? walk.out_count : *elements;
        for (int32_t t = 0; t < taps->count[phase]; ++t) {
            taps->filter[phase][t] = (uint8_t)(walk.tap_first + t * walk.tap_step);
            taps->shift[phase][t] = walk.in_first + t * walk.in_tap_step;
        }
    }
    return true;
}
