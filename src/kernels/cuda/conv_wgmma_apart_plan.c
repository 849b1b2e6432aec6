/* conv_wgmma_apart_plan.c - tiles of conv_wgmma_apart.cu. */
#include "kernels/cuda/conv_wgmma_apart_plan.h"

#include <string.h>

static int64_t div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* Each element of the large side belongs to one of the small side. */
static bool is_apart(const uf_conv_kernel_args *args) {
    for (int axis = 0; axis < 2; ++axis) {
        const int64_t kernel = args->w.extent[2 + axis];
        if (kernel != args->stride[axis] || args->padding[axis] != 0 ||
            (kernel > 1 && args->dilation[axis] != 1) ||
            args->x.extent[2 + axis] != args->y.extent[2 + axis] * kernel) {
            return false;
        }
    }
    return (args->stride[1] <= 2 || args->stride[1] == 4) && args->stride[0] <= UF_APART_STRIDE;
}

/* Do tensor copies find what is read? Where it begins is asked when the kernel is launched. */
static bool is_aligned(const uf_view *read, int64_t element, bool flat) {
    const int64_t unit = 16 / element;
    const int64_t most = INT64_C(1) << 38;
    for (int axis = 0; axis < (flat ? 2 : 3); ++axis) {
        const int64_t step = read->stride[axis];
        if (read->extent[axis] > 1 && (step <= 0 || step % unit != 0 || step > most)) {
            return false;
        }
    }
    return read->extent[3] == 1 || read->stride[3] == 1;
}

/* Tiles of as few empty places as can be, then of long rows. */
static void lay_out(uf_apart_plan *plan) {
    int64_t least = -1;
    for (int32_t log = 8; 1 << log >= plan->tile.run; --log) {
        const int64_t down = div_up(plan->height, UF_APART_PIXELS >> log);
        const int64_t across = div_up(plan->width, INT64_C(1) << log);
        if ((1 << log) / plan->tile.run <= UF_APART_RUNS && (least < 0 || down * across < least)) {
            least = down * across;
            plan->log = log;
            plan->pixel_tiles[0] = (int32_t)down;
            plan->pixel_tiles[1] = (int32_t)across;
        }
    }
}

bool uf_apart_plan_of(uf_conv_direction direction, const uf_conv_kernel_args *args,
                      uf_apart_plan *plan) {
    const bool dgrad = direction == UF_CONV_DGRAD;
    const int32_t element = args->x.dtype == UF_BF16 ? 2 : 4;
    const uf_math math = element == 2 ? UF_MATH_BF16 : args->math;
    const uf_view *read = dgrad ? &args->y : &args->x;
    const int64_t limit = INT64_C(1) << 28;
    if (!is_apart(args) || (args->x.dtype != UF_F32 && args->x.dtype != UF_BF16)) {
        return false;
    }
    const int32_t columns = (int32_t)args->stride[1];
    const int64_t read_channels = read->extent[1] / args->groups;
    const int64_t written =
        (dgrad ? args->x.extent[1] : args->y.extent[1]) / args->groups * (dgrad ? columns : 1);
    const int64_t pixels = args->y.extent[2] * args->y.extent[3];
    memset(plan, 0, sizeof *plan);
    plan->tile = uf_apart_tile_of(math, element, dgrad ? 1 : columns, dgrad ? columns : 1);
    plan->read_rows = dgrad ? 1 : (int32_t)args->stride[0];
    plan->written_rows = dgrad ? (int32_t)args->stride[0] : 1;
    plan->row = (int32_t)args->y.extent[3];
    plan->flat = plan->read_rows * plan->tile.side == 1 &&
                 (read->extent[2] == 1 || read->stride[2] == read->extent[3]);
    if (pixels >= limit || !is_aligned(read, element, plan->flat)) {
        return false;
    }
    plan->width = plan->flat ? (int32_t)pixels : plan->row;
    plan->height = plan->flat ? 1 : (int32_t)args->y.extent[2];
    plan->chunks = (int32_t)div_up(read_channels, plan->tile.channels);
    plan->stages = plan->chunks * plan->read_rows;
    plan->channel_tiles = (int32_t)div_up(written, plan->tile.columns);
    plan->column_tiles = plan->channel_tiles * plan->written_rows;
    lay_out(plan);
    const int64_t places = (int64_t)plan->pixel_tiles[0] * plan->pixel_tiles[1];
    plan->tiles = plan->column_tiles * places * args->y.extent[0] * args->groups;
    const int32_t weights =
        plan->tile.planes * plan->tile.columns * 16 * (math == UF_MATH_FP32 ? 2 : 1);
    plan->stage_bytes = UF_APART_READ + weights;
    plan->weight_bytes = (int64_t)weights * plan->stages * plan->column_tiles * args->groups;
    const int32_t fixed = UF_APART_BARRIERS + UF_APART_STAGING;
    const int32_t buffers = (UF_APART_SHARED - fixed) / plan->stage_bytes;
    plan->buffers = buffers < UF_APART_STAGES ? buffers : UF_APART_STAGES;
    plan->shared = fixed + plan->buffers * plan->stage_bytes;
    plan->brief =
        math == UF_MATH_FP32 && read_channels * plan->read_rows * plan->tile.side <= UF_APART_BRIEF;
    /* Channels that are not there are zeros, unless another group's follow. And enough of what is
     * multiplied must be there. */
    const double wanted = (double)pixels * (double)written * (double)read_channels;
    const double made = (double)places * UF_APART_PIXELS * plan->channel_tiles *
                        plan->tile.columns * plan->chunks * plan->tile.channels;
    return (args->groups == 1 || read_channels % plan->tile.channels == 0) &&
           2.5 * wanted >= made && plan->tiles > 0 && plan->tiles < INT64_C(1) << 29;
}
