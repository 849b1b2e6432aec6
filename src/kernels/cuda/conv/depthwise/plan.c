/* plan.c - tile and threads of conv_depthwise. */
#include "kernels/cuda/conv/depthwise/plan.h"

#include <string.h>

#include "core/tensor.h"
#include "kernels/cuda/conv/registry.h"

/* Vectors of `run` elements: one begins at each element 0 of a row, and rows are whole ones. */
static bool is_aligned(const uf_view *view, int64_t run) {
    for (int axis = 0; axis < 3; ++axis) {
        if (view->extent[axis] > 1 && view->stride[axis] % run != 0) {
            return false;
        }
    }
    return view->extent[3] % run == 0 &&
           (uintptr_t)view->data % ((uintptr_t)run * uf_dtype_size(view->dtype)) == 0;
}

/* Images, channels and rows follow each other. */
static bool is_dense(const uf_view *view) {
    int64_t step = view->extent[3];
    for (int axis = 2; axis >= 0; --axis) {
        if (view->extent[axis] > 1 && view->stride[axis] != step) {
            return false;
        }
        step *= view->extent[axis];
    }
    return true;
}

/* Runs side by side in a warp: whole warps to a row, or a whole fraction of one, unless more than
 * one lane in eight were idle. */
static int32_t piece_of(int32_t runs) {
    int32_t lanes = 32;
    while (lanes / 2 >= runs) {
        lanes /= 2;
    }
    const int32_t pieces = (int32_t)uf_div_up(runs, 32);
    return (int64_t)pieces * lanes * 7 <= (int64_t)runs * 8 ? lanes
                                                            : (int32_t)uf_div_up(runs, pieces);
}

typedef struct tile_shape {
    int32_t out_step, in_step, filter, rows, run;
    bool vector;
} tile_shape;

#define UF_DEPTHWISE_TILE(OUT, IN, FILTER, ROWS, RUN, VECTOR) {OUT, IN, FILTER, ROWS, RUN, VECTOR},
static const tile_shape tiles[] = {UF_DEPTHWISE_TILES_BF16 UF_DEPTHWISE_TILES};
static const tile_shape bf16_tiles[] = {UF_DEPTHWISE_TILES_BF16};
#undef UF_DEPTHWISE_TILE

/* The grid of this tile; false where threads are too many. */
static bool set_tile(uf_depthwise_plan *plan, const tile_shape *tile, const uf_view *written) {
    uf_depthwise_conv *depthwise = &plan->depthwise;
    const uf_direct_conv *conv = &depthwise->conv;
    plan->rows = tile->rows;
    plan->run = tile->run;
    plan->vector = tile->vector;
    depthwise->runs = (int32_t)uf_div_up(conv->axis[1].written - depthwise->origin[1], plan->run);
    /* A multiprocessor sends one request in about ten cycles, for 128 bytes or for less: short
     * rows, and elements without vectors, are stored together, unless writing is little of the
     * work. Longer rows lose more by waiting for the block than they gain. */
    const size_t row = (size_t)written->extent[3] * uf_dtype_size(written->dtype);
    depthwise->whole = depthwise->runs <= 32 && !conv->accumulate && is_dense(written) &&
                       row % 128 != 0 && tile->in_step == 1 &&
                       (row < 96 || (tile->run > 1 && !tile->vector));
    const int32_t piece = depthwise->whole ? depthwise->runs : piece_of(depthwise->runs);
    const int64_t strips = uf_div_up(conv->axis[0].written - depthwise->origin[0], plan->rows);
    const int64_t pieces = uf_div_up(depthwise->runs, piece);
    const double threads = (double)piece * (double)pieces * (double)strips *
                           (double)written->extent[0] * (double)written->extent[1];
    if (threads >= (double)(INT64_C(1) << 31) - UF_DEPTHWISE_THREADS) {
        return false;
    }
    depthwise->by_piece = uf_direct_divisor_of(piece);
    depthwise->by_strips = uf_direct_divisor_of(strips);
    depthwise->by_pieces = uf_direct_divisor_of(pieces);
    depthwise->by_channels = uf_direct_divisor_of(written->extent[1]);
    depthwise->by_written = uf_direct_divisor_of(conv->written_per_group);
    depthwise->threads = (int32_t)threads;
    plan->threads = depthwise->whole ? UF_DEPTHWISE_THREADS / piece * piece : UF_DEPTHWISE_THREADS;
    plan->blocks = uf_div_up(depthwise->threads, plan->threads);
    return true;
}

static size_t first_tile(uf_dtype dtype) {
    return dtype == UF_BF16 ? 0 : sizeof bf16_tiles / sizeof bf16_tiles[0];
}

/* Is a tile for the plan's steps and filter? */
static bool is_for(const tile_shape *tile, const uf_depthwise_plan *plan) {
    return tile->out_step == plan->out_step && tile->in_step == plan->in_step &&
           tile->filter == plan->filter;
}

/* The number of the plan's tile, and how many there are for its type, steps and filter. */
static int tile_number(const uf_depthwise_plan *plan, uf_dtype dtype, int *tiles_of_problem) {
    int number = 0, count = 0;
    for (size_t i = first_tile(dtype); i < sizeof tiles / sizeof tiles[0]; ++i) {
        if (is_for(&tiles[i], plan)) {
            const bool same = tiles[i].rows == plan->rows && tiles[i].run == plan->run &&
                              tiles[i].vector == plan->vector;
            number = same ? count : number;
            ++count;
        }
    }
    *tiles_of_problem = count;
    return number;
}

/* The first tile that suits and makes enough threads, or else the one that makes most. */
static bool choose_tile(uf_depthwise_plan *plan, const uf_view *read, const uf_view *written,
                        int wanted) {
    const bool coords =
        plan->depthwise.shift[1] == 0; /* a row's coordinates are those of vectors */
    uf_depthwise_plan next = *plan;
    bool found = false;
    int number = -1;
    for (size_t i = first_tile(read->dtype); i < sizeof tiles / sizeof tiles[0]; ++i) {
        const tile_shape *tile = &tiles[i];
        if (!is_for(tile, plan) || !uf_conv_is_tile(wanted, ++number) ||
            (tile->vector &&
             !(coords && is_aligned(read, tile->run * tile->in_step / tile->out_step) &&
               is_aligned(written, tile->run)))) {
            continue;
        }
        if (found && plan->vector && !tile->vector) {
            break;
        }
        if (set_tile(&next, tile, written) &&
            (!found || next.depthwise.threads > plan->depthwise.threads)) {
            *plan = next;
            found = true;
            if (plan->depthwise.threads >= UF_DEPTHWISE_ENOUGH) {
                break;
            }
        }
    }
    return found;
}

bool uf_depthwise_plan_of(const uf_conv_problem *problem, uf_depthwise_plan *plan) {
    const bool dgrad = problem->direction == UF_CONV_DGRAD;
    const uf_conv_kernel_args *args = problem->args;
    const uf_view *read = uf_conv_read(problem), *written = uf_conv_written(problem);
    const int64_t filter = args->w.extent[3], stride = args->stride[1];
    memset(plan, 0, sizeof *plan);
    if (problem->direction == UF_CONV_WGRAD || (read->dtype != UF_F32 && read->dtype != UF_BF16) ||
        args->w.extent[2] != filter || filter > UF_DIRECT_TAPS || args->stride[0] != stride ||
        stride > 2 || args->dilation[0] != 1 || args->dilation[1] != 1 ||
        read->extent[1] > UF_DEPTHWISE_CHANNELS * args->groups ||
        written->extent[1] > UF_DEPTHWISE_CHANNELS * args->groups ||
        (read->extent[3] > 1 && read->stride[3] != 1) ||
        (written->extent[3] > 1 && written->stride[3] != 1) || args->w.stride[3] != 1 ||
        args->w.stride[2] != filter) {
        return false;
    }
    uf_depthwise_conv *depthwise = &plan->depthwise;
    uf_direct_conv *conv = &depthwise->conv;
    const int64_t limit = INT64_C(1) << 28;
    for (int i = 0; i < 2; ++i) {
        if (read->extent[2 + i] >= limit || written->extent[2 + i] >= limit ||
            args->padding[i] >= limit) {
            return false;
        }
    }
    uf_direct_describe(conv, args, dgrad);
    plan->out_step = dgrad ? (int32_t)stride : 1;
    plan->in_step = dgrad ? 1 : (int32_t)stride;
    plan->filter = (int32_t)filter;

    /* A tile's window begins `before` elements before its first element: another padding shifts
     * it. Without a stride, dgrad is fprop with its taps reversed; with one, phases of a run are
     * fixed, and runs begin at theirs. */
    const int32_t before = uf_depthwise_padding(plan->filter);
    depthwise->flip = dgrad && stride == 1;
    for (int i = 0; i < 2; ++i) {
        const int32_t padding = (int32_t)args->padding[i];
        if (plan->out_step > 1) {
            depthwise->shift[i] = padding - before;
            depthwise->origin[i] = -(depthwise->shift[i] & 1);
        } else {
            depthwise->shift[i] = before - (depthwise->flip ? plan->filter - 1 - padding : padding);
        }
    }
    return choose_tile(plan, read, written, problem->tile);
}

/* Memory bounds it, and no other variant has anything to save: its rates are of tensors alone. */
bool uf_conv_plan_simt_depthwise(const uf_conv_problem *problem, uf_conv_plan *plan) {
    uf_depthwise_plan *const own = UF_CONV_PLAN_OF(uf_depthwise_plan, plan);
    if (!uf_conv_positions_fit(problem->args) || !uf_depthwise_plan_of(problem, own)) {
        return false;
    }
    plan->tile = tile_number(own, problem->args->x.dtype, &plan->tiles);
    uf_direct_clear_addresses(&own->depthwise.conv);
    plan->cost = 0.0;
    plan->workspace = 0;
    return true;
}
