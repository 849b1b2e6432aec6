/* plan.c - the plan of space_to_depth/launch.cu: the inner convolution, and the tiles that move x.
 */
#include "kernels/cuda/conv/transform/space_to_depth/plan.h"

#include <string.h>

#include "core/context.h"
#include "core/tensor.h"

enum {
    PIECE = 16,      /* bytes that a thread moves: alignment of rows of cells */
    LIMIT = 1 << 28, /* extents, channels, elements of w: sums of a few are int32_t */
    FAR = 1 << 30    /* offsets */
};

/* One axis of the inner convolution. */
typedef struct space_to_depth_axis {
    int64_t phases, origin, taps, cells;
} space_to_depth_axis;

/* An axis of stride 1 stays itself. Else taps are enough for the whole filter and for cells that
 * hold all pixels, and cells as many as the taps reach. */
static bool axis_of(const uf_conv_kernel_args *args, int axis, space_to_depth_axis *made) {
    const int64_t step = args->stride[axis], kernel = args->w.extent[2 + axis];
    const int64_t large = args->x.extent[2 + axis], small = args->y.extent[2 + axis];
    if (step == 1) {
        *made = (space_to_depth_axis){1, 0, kernel, large};
        return large < LIMIT && kernel < LIMIT;
    }
    if (step > UF_SPACE_TO_DEPTH_PHASES || (kernel > 1 && args->dilation[axis] != 1) ||
        kernel >= LIMIT || large >= LIMIT || small >= LIMIT || args->padding[axis] >= LIMIT) {
        return false;
    }
    const int64_t cells = uf_div_up(args->padding[axis] + large, step);
    const int64_t whole = uf_div_up(kernel, step);
    const int64_t taps = cells - small + 1 > whole ? cells - small + 1 : whole;
    *made = (space_to_depth_axis){step, args->padding[axis], taps, small + taps - 1};
    return made->cells < LIMIT;
}

/* Are all offsets of elements within 32 bits? */
static bool is_near(const uf_view *view) {
    int64_t reach = 0;
    for (int axis = 0; axis < 4; ++axis) {
        const int64_t step = view->stride[axis] < 0 ? -view->stride[axis] : view->stride[axis];
        if (view->extent[axis] > 1 && step >= FAR / (view->extent[axis] - 1)) {
            return false;
        }
        reach += view->extent[axis] > 1 ? (view->extent[axis] - 1) * step : 0;
    }
    return reach < FAR;
}

/* The move of x to `cells`. False: too many elements for 32-bit offsets. */
static bool move_of(const uf_view *x, const space_to_depth_axis *axes, const uf_view *cells,
                    int64_t multiprocessors, uf_space_to_depth_move *move) {
    const int64_t size = (int64_t)uf_dtype_size(x->dtype);
    const int64_t piece = PIECE / size, room = UF_SPACE_TO_DEPTH_TILE / size;
    const int64_t units = x->extent[0] * x->extent[1] * axes[0].phases;
    const int64_t pitch = cells->stride[2];
    if (!is_near(x) || units >= FAR / axes[1].phases ||
        units * axes[1].phases >= FAR / cells->stride[1]) {
        return false;
    }
    move->spacing = (int32_t)(axes[1].phases | 1);
    /* Rows are cut only where one does not fit a tile, and then into whole sectors. */
    const int64_t widest = room / move->spacing / PIECE * PIECE;
    const int64_t parts = uf_div_up(pitch, widest);
    const int64_t width = parts == 1 ? pitch : uf_round_up(uf_div_up(pitch, parts), PIECE);
    const int64_t fit = room / (width * move->spacing);
    const int64_t high = cells->extent[2];
    const int64_t height = fit < high ? fit : high;
    const int64_t tile[2] = {height, width}, extent[2] = {high, pitch};
    for (int i = 0; i < 2; ++i) {
        move->extent[i] = (int32_t)x->extent[2 + i];
        move->phases[i] = (int32_t)axes[i].phases;
        move->origin[i] = (int32_t)axes[i].origin;
        move->cells[i] = (int32_t)cells->extent[2 + i];
        move->tile[i] = (int32_t)tile[i];
        move->tiles[i] = (int32_t)uf_div_up(extent[i], tile[i]);
    }
    for (int axis = 0; axis < 4; ++axis) {
        move->stride[axis] = x->extent[axis] > 1 ? (int32_t)x->stride[axis] : 0;
    }
    move->plane = (int32_t)cells->stride[1];
    move->pitch = (int32_t)pitch;
    move->channels = (int32_t)x->extent[1];
    move->units = (int32_t)units;
    /* As many units as fit, but two blocks for each multiprocessor. */
    const bool whole = move->tiles[0] == 1 && move->tiles[1] == 1;
    const int64_t several = room / (height * width * move->spacing);
    const int64_t share = uf_div_up(units, 2 * multiprocessors);
    move->together = (int32_t)(!whole ? 1 : several < share ? several : share);
    const int64_t blocks = uf_div_up(units, move->together) * move->tiles[0] * move->tiles[1];
    move->blocks = (int32_t)blocks;
    for (int i = 0; i < 2; ++i) {
        const int64_t count = i == 0 ? 1 : piece;
        const int64_t wide = width * axes[1].phases;
        /* Both ends of a row may lie within 16 bytes. */
        const int64_t most = (wide < move->extent[1] ? wide : move->extent[1]) + 2 * (count - 1);
        move->segments[i] = (int32_t)uf_div_up(most, 32 * UF_SPACE_TO_DEPTH_TOGETHER * count);
        move->by_segments[i] = uf_direct_divisor_of(move->segments[i]);
    }
    move->runs = (int32_t)uf_div_up(height * width / piece, 8);
    move->fours = (int32_t)uf_div_up(axes[1].phases, 4);
    move->vector = x->extent[3] > 1 && x->stride[3] == 1;
    for (int axis = 0; axis < 3; ++axis) {
        move->vector = move->vector && move->stride[axis] % piece == 0;
    }
    move->wide = axes[1].phases >= piece - 1;
    move->by_channels = uf_direct_divisor_of(move->channels);
    move->by_row_phases = uf_direct_divisor_of(move->phases[0]);
    move->by_phases = uf_direct_divisor_of(move->phases[1]);
    move->by_rows = uf_direct_divisor_of(height);
    move->by_runs = uf_direct_divisor_of(move->runs);
    move->by_fours = uf_direct_divisor_of(move->fours);
    move->by_row = uf_direct_divisor_of(width / piece);
    return blocks < LIMIT;
}

static bool filter_of(const uf_view *w, const space_to_depth_axis *axes,
                      uf_space_to_depth_filter *filter) {
    const int64_t grown = axes[0].phases * axes[0].taps * axes[1].phases * axes[1].taps;
    if (w->extent[0] >= LIMIT / w->extent[1] || w->extent[0] * w->extent[1] >= LIMIT / grown) {
        return false;
    }
    for (int axis = 0; axis < 4; ++axis) {
        filter->stride[axis] = w->stride[axis];
    }
    for (int i = 0; i < 2; ++i) {
        filter->kernel[i] = (int32_t)w->extent[2 + i];
        filter->phases[i] = (int32_t)axes[i].phases;
        filter->taps[i] = (int32_t)axes[i].taps;
        filter->by_kernel[i] = uf_direct_divisor_of(filter->kernel[i]);
        filter->by_phases[i] = uf_direct_divisor_of(filter->phases[i]);
        filter->by_taps[i] = uf_direct_divisor_of(filter->taps[i]);
    }
    filter->channels = (int32_t)w->extent[1];
    filter->by_channels = uf_direct_divisor_of(filter->channels);
    filter->count = (int32_t)uf_view_count(w);
    filter->moved = (int32_t)(w->extent[0] * w->extent[1] * grown);
    return true;
}

/* A stand-in for addresses that are not known yet: aligned as those of tensors. */
static void *aligned_address(void) {
    return (void *)(uintptr_t)UF_ALIGNMENT;
}

/* A tensor whose planes have `pitch` elements to a row. */
static uf_view view_of(uf_dtype dtype, int64_t n, int64_t channels, int64_t high, int64_t wide,
                       int64_t pitch) {
    uf_view made = uf_view_nchw(aligned_address(), dtype, n, channels, high, wide);
    made.stride[2] = pitch;
    made.stride[1] = high * pitch;
    made.stride[0] = channels * made.stride[1];
    return made;
}

static size_t take(size_t *used, size_t bytes) {
    const size_t at = *used;
    *used += uf_align_up(bytes);
    return at;
}

/* A scale or a shift with an element for each of `channels`. Scratch has room for it also where
 * there is none, so that its size does not depend on that. */
static void spread(uf_view *vector, uf_dtype dtype, int64_t channels, size_t *at,
                   uf_space_to_depth_plan *plan) {
    *at = take(&plan->bytes, (size_t)channels * uf_dtype_size(dtype));
    if (vector->data != NULL) {
        *vector = uf_view_nchw(aligned_address(), dtype, 1, channels, 1, 1);
        plan->spread = (int32_t)channels;
    }
}

/* Cycles of the moves: five layers on an H200, within a fifth. */
static double cost_of(const uf_conv_kernel_args *args, const uf_space_to_depth_plan *plan) {
    const double bytes = 2.0 * (double)uf_view_count(&args->x);
    const double tensor = args->x.dtype == UF_BF16 ? bytes * 2 / 1000 : bytes * 4 / 1500;
    const double filter = (double)plan->filter.moved * 0.007;
    const double results = (double)uf_view_count(&args->y) * (args->x.dtype == UF_BF16 ? 2 : 4);
    return 5000 + tensor + 5000 + filter + (plan->fixups ? 2000 + results / 2500 : 0);
}

bool uf_space_to_depth_plan_of(const uf_conv_problem *problem, uf_space_to_depth_plan *plan) {
    const uf_conv_direction direction = problem->direction;
    const uf_conv_kernel_args *args = problem->args;
    const uf_view *x = &args->x, *w = &args->w, *y = &args->y;
    space_to_depth_axis axes[2];
    memset(plan, 0, sizeof *plan);
    if ((x->dtype != UF_F32 && x->dtype != UF_BF16) || uf_view_count(x) == 0 ||
        uf_view_count(y) == 0 || uf_view_count(w) == 0 || uf_view_count(y) >= 4 * (int64_t)LIMIT ||
        (args->mode == UF_ACCUMULATE && (x->dtype == UF_BF16 || direction == UF_CONV_FPROP)) ||
        (args->stride[0] == 1 && args->stride[1] == 1) || !axis_of(args, 0, &axes[0]) ||
        !axis_of(args, 1, &axes[1])) {
        return false;
    }
    const int64_t phases = axes[0].phases * axes[1].phases;
    const int64_t taps = axes[0].taps * axes[1].taps;
    if (x->extent[0] >= LIMIT || y->extent[1] >= LIMIT || x->extent[1] >= LIMIT / phases ||
        taps >= LIMIT) {
        return false;
    }
    const int64_t channels = x->extent[1] * phases;
    const int64_t piece = PIECE / (int64_t)uf_dtype_size(x->dtype);
    const int64_t pitch = uf_round_up(axes[1].cells, piece);
    if (axes[0].cells >= FAR / pitch || channels >= FAR / (axes[0].cells * pitch)) {
        return false;
    }
    uf_conv_kernel_args *inner = &plan->inner;
    *inner = *args;
    /* An epilogue's presence counts in a plan, its addresses and numbers in a launch. */
    inner->epilogue.activation.parameter = 0.0;
    if (inner->epilogue.scale.data != NULL) {
        inner->epilogue.scale.data = aligned_address();
    }
    if (inner->epilogue.shift.data != NULL) {
        inner->epilogue.shift.data = aligned_address();
    }
    inner->x = view_of(x->dtype, x->extent[0], channels, axes[0].cells, axes[1].cells, pitch);
    inner->w = view_of(x->dtype, w->extent[0], w->extent[1] * phases, axes[0].taps, axes[1].taps,
                       axes[1].taps);
    if (!move_of(x, axes, &inner->x, problem->gpu->multiprocessors, &plan->tensor) ||
        !filter_of(w, axes, &plan->filter)) {
        return false;
    }
    inner->y.data = aligned_address();
    inner->variant = NULL;
    inner->workspace = NULL;
    inner->workspace_size = 0;
    /* The moved filter does not outlive a call, nor does a packed form of it. */
    inner->packing = UF_CONV_PACK_IN_CALL;
    inner->packed = NULL;
    inner->mode = UF_OVERWRITE;
    bool padded = false;
    for (int i = 0; i < 2; ++i) {
        if (args->stride[i] != 1) {
            inner->stride[i] = inner->dilation[i] = 1;
            inner->padding[i] = 0;
        }
        padded = padded || axes[i].taps * axes[i].phases != w->extent[2 + i];
    }
    const size_t size = uf_dtype_size(x->dtype);
    plan->tensor_at = take(&plan->bytes, (size_t)(x->extent[0] * inner->x.stride[0]) * size);
    plan->filter_at = take(&plan->bytes, (size_t)uf_view_count(&inner->w) * size);
    if (direction == UF_CONV_DGRAD) {
        spread(&inner->epilogue.scale, x->dtype, channels, &plan->scale_at, plan);
        spread(&inner->epilogue.shift, x->dtype, channels, &plan->shift_at, plan);
    }
    /* The filter's padding may meet numbers that are not finite. In FP32 such weights also meet
     * zeros outside the image, which a fix-up ignores. */
    plan->fixups = direction == UF_CONV_FPROP &&
                   (padded || (x->dtype == UF_F32 && args->math == UF_MATH_FP32));
    plan->cost = cost_of(args, plan);
    return true;
}

uf_conv_kernel_args uf_space_to_depth_inner(const uf_space_to_depth_plan *plan,
                                            const uf_conv_kernel_args *args) {
    char *const scratch = args->workspace;
    uf_conv_kernel_args inner = plan->inner;
    inner.x.data = scratch + plan->tensor_at;
    inner.w.data = scratch + plan->filter_at;
    inner.y.data = args->y.data;
    /* The cache gives a plan to later calls, whose epilogue has other addresses and numbers. */
    inner.epilogue.activation = args->epilogue.activation;
    if (plan->spread == 0) {
        inner.epilogue.scale = args->epilogue.scale;
        inner.epilogue.shift = args->epilogue.shift;
    }
    if (plan->spread > 0 && inner.epilogue.scale.data != NULL) {
        inner.epilogue.scale.data = scratch + plan->scale_at;
    }
    if (plan->spread > 0 && inner.epilogue.shift.data != NULL) {
        inner.epilogue.shift.data = scratch + plan->shift_at;
    }
    inner.workspace = scratch + plan->bytes;
    inner.workspace_size = args->workspace_size - plan->bytes;
    return inner;
}
