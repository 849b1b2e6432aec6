/* axis.c - axes, taps and tensors as conv_direct sees them; kernels of other families that read
 * windows plan with them too. */
#include "kernels/cuda/conv/simt_direct/plan.h"

#include <string.h>

#include "kernels/geometry.h"

static int64_t div_down(int64_t a, int64_t b) {
    return a >= 0 ? a / b : -uf_div_up(-a, b);
}

uf_direct_divisor uf_direct_divisor_of(int64_t divisor) {
    uf_direct_divisor made = {(uint32_t)divisor, 0, 0};
    if (divisor > 1) {
        uint32_t bits = 0;
        while ((INT64_C(1) << bits) < divisor) {
            ++bits;
        }
        made.multiplier =
            (uint32_t)(((UINT64_C(1) << (31 + bits)) + (uint64_t)divisor - 1) / (uint64_t)divisor);
        made.shift = bits - 1;
    }
    return made;
}

bool uf_direct_axis_of(const uf_conv_kernel_args *args, bool dgrad, int i, uf_direct_axis *axis,
                       uf_direct_tap taps[UF_DIRECT_TAPS], int32_t begin[UF_DIRECT_TAPS + 1]) {
    const int64_t kernel = args->w.extent[2 + i];
    const int64_t stride = args->stride[i];
    const int64_t padding = args->padding[i];
    const int64_t limit = INT64_C(1) << 28;
    if (kernel > UF_DIRECT_TAPS || stride > UF_DIRECT_PHASES || padding >= limit ||
        args->dilation[i] >= limit / 32 || args->x.extent[2 + i] >= limit ||
        args->y.extent[2 + i] >= limit) {
        return false;
    }
    memset(axis, 0, sizeof *axis);
    memset(axis->map, UF_DIRECT_DEAD, sizeof axis->map);
    axis->read = (int32_t)(dgrad ? args->y.extent[2 + i] : args->x.extent[2 + i]);
    axis->written = (int32_t)(dgrad ? args->x.extent[2 + i] : args->y.extent[2 + i]);
    axis->out_step = dgrad ? (int32_t)stride : 1;
    axis->out_shift = dgrad ? (int32_t)padding : 0;
    axis->in_step = dgrad ? 1 : (int32_t)stride;
    int32_t count = 0;
    for (int32_t phase = 0; phase < axis->out_step; ++phase) {
        const uf_axis_walk walk =
            dgrad ? uf_axis_dgrad(axis->written, kernel, stride, padding, args->dilation[i], phase)
                  : uf_axis_fprop(axis->written, kernel, stride, padding, args->dilation[i]);
        if (walk.taps == 0) {
            continue;
        }
        begin[axis->live] = count;
        const int64_t first_cell = (walk.out_first + axis->out_shift - phase) / axis->out_step;
        for (int64_t t = 0; t < walk.taps; ++t, ++count) {
            taps[count].phase = axis->live;
            taps[count].tap = (int32_t)(walk.tap_first + t * walk.tap_step);
            taps[count].offset = walk.in_first + t * walk.in_tap_step - first_cell * walk.in_step;
        }
        if (axis->out_step > 1) {
            axis->map[phase] = (uint8_t)axis->live;
        }
        axis->phase[axis->live++] = (uint8_t)phase;
    }
    begin[axis->live] = count;
    int64_t low = taps[0].offset, high = taps[0].offset;
    for (int32_t t = 1; t < count; ++t) {
        low = taps[t].offset < low ? taps[t].offset : low;
        high = taps[t].offset > high ? taps[t].offset : high;
    }
    axis->low = (int32_t)low;
    axis->span = (int32_t)(high - low); /* of one cell's window, for now */
    axis->cell_first = (int32_t)div_down(axis->out_shift, axis->out_step);
    axis->cells = (int32_t)div_down((int64_t)axis->written - 1 + axis->out_shift, axis->out_step) +
                  1 - axis->cell_first;
    for (int32_t t = 0; t < count; ++t) {
        taps[t].offset -= low;
    }
    return true;
}

void uf_direct_lower(uf_direct_axis *axis, uf_direct_tap taps[UF_DIRECT_TAPS], int32_t count,
                     int32_t by) {
    axis->low -= by;
    axis->span += by;
    for (int32_t t = 0; t < count; ++t) {
        taps[t].offset += by;
    }
}

void uf_direct_find_residues(uf_direct_axis *axis, const uf_direct_tap taps[UF_DIRECT_TAPS],
                             int32_t count) {
    if (axis->in_step == 1) {
        axis->residues = 1;
        return;
    }
    for (int32_t t = 0; t < count; ++t) {
        const int32_t residue = (int32_t)(taps[t].offset % axis->in_step);
        if (axis->map[residue] == UF_DIRECT_DEAD) {
            axis->map[residue] = (uint8_t)axis->residues;
            axis->residue[axis->residues++] = (uint8_t)residue;
        }
    }
}

int32_t uf_direct_residue(const uf_direct_axis *axis, int64_t offset) {
    return axis->in_step == 1 ? 0 : axis->map[offset % axis->in_step];
}

void uf_direct_set_tile(uf_direct_axis *axis, int32_t cell_span, int64_t tile) {
    axis->tile = (int32_t)tile;
    axis->tiles = (int32_t)uf_div_up(axis->cells, tile);
    axis->coords = (int32_t)tile + cell_span / axis->in_step;
    axis->span = (int32_t)(tile - 1) * axis->in_step + cell_span + 1;
}

void uf_direct_describe(uf_direct_conv *conv, const uf_conv_kernel_args *args, bool dgrad) {
    const uf_view *read = dgrad ? &args->y : &args->x;
    const uf_view *written = dgrad ? &args->x : &args->y;
    const uf_epilogue *epilogue = &args->epilogue;
    conv->kernel[0] = (int32_t)args->w.extent[2];
    conv->kernel[1] = (int32_t)args->w.extent[3];
    conv->dgrad = dgrad;
    for (int i = 0; i < 2; ++i) {
        conv->stride[i] = (int32_t)args->stride[i];
        conv->padding[i] = (int32_t)args->padding[i];
        conv->dilation[i] = (int32_t)args->dilation[i];
        conv->axis[i].read = (int32_t)read->extent[2 + i];
        conv->axis[i].written = (int32_t)written->extent[2 + i];
    }
    conv->batch = (int32_t)written->extent[0];
    conv->groups = (int32_t)args->groups;
    conv->read_per_group = (int32_t)(read->extent[1] / args->groups);
    conv->written_per_group = (int32_t)(written->extent[1] / args->groups);

    conv->scale = epilogue->scale.data;
    conv->scale_stride = epilogue->scale.stride[1];
    conv->shift = epilogue->shift.data;
    conv->shift_stride = epilogue->shift.stride[1];
    conv->activation = epilogue->activation.kind;
    conv->parameter = (float)epilogue->activation.parameter;
    conv->accumulate = args->mode == UF_ACCUMULATE;

    conv->read = read->data;
    conv->written = written->data;
    conv->weight = args->w.data;
    for (int axis = 0; axis < 4; ++axis) {
        conv->read_stride[axis] = read->stride[axis];
        conv->written_stride[axis] = written->stride[axis];
    }
    conv->w_group = args->w.extent[0] / args->groups * args->w.stride[0];
    conv->w_written = args->w.stride[dgrad ? 1 : 0];
    conv->w_read = args->w.stride[dgrad ? 0 : 1];
    conv->w_row = args->w.stride[2];
    conv->w_column = args->w.stride[3];
}
