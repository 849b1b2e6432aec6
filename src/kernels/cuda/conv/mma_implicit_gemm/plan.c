/* plan.c - tile, grid, splits, workspace and cost of mma_implicit_gemm/launch.cu. */
#include "kernels/cuda/conv/mma_implicit_gemm/plan.h"

#include <math.h>
#include <string.h>

#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/transform/bf16_upcast.h"

static mma_axis mma_axis_of(const uf_conv_kernel_args *args, bool dgrad, int axis) {
    mma_axis made;
    memset(&made, 0, sizeof made);
    const int64_t kernel = args->w.extent[2 + axis];
    const int64_t large = args->x.extent[2 + axis];
    const int64_t small = args->y.extent[2 + axis];
    made.read = (int32_t)(dgrad ? small : large);
    made.written = (int32_t)(dgrad ? large : small);
    made.kernel = (int32_t)kernel;
    made.stride = (int32_t)args->stride[axis];
    made.padding = (int32_t)args->padding[axis];
    made.dilation = (int32_t)args->dilation[axis];
    made.phases = dgrad ? made.stride : 1;
    for (int32_t phase = 0; phase < made.phases && phase < MMA_PHASES; ++phase) {
        const uf_axis_walk walk =
            dgrad ? uf_axis_dgrad(large, kernel, args->stride[axis], args->padding[axis],
                                  args->dilation[axis], phase)
                  : uf_axis_fprop(small, kernel, args->stride[axis], args->padding[axis],
                                  args->dilation[axis]);
        made.out_step = (int32_t)walk.out_step;
        made.in_step = (int32_t)walk.in_step;
        made.in_tap_step = (int32_t)walk.in_tap_step;
        made.tap_step = (int32_t)walk.tap_step;
        made.walk[phase].out_first = (int32_t)walk.out_first;
        made.walk[phase].out_count = (int32_t)walk.out_count;
        made.walk[phase].in_first = (int32_t)walk.in_first;
        made.walk[phase].tap_first = (int32_t)walk.tap_first;
        made.walk[phase].taps = (int32_t)walk.taps;
    }
    return made;
}

/* The most taps and the most elements that a phase of this axis has. */
static int64_t mma_most_taps(const mma_axis *axis) {
    const int64_t step = axis->tap_step < 1 ? 1 : axis->tap_step;
    return uf_div_up(axis->kernel, step);
}

static int64_t mma_most_elements(const mma_axis *axis) {
    return uf_div_up(axis->written, axis->out_step);
}

/* Channels per tile: wide tiles use each pixel more often, narrow ones fill the GPU where there are
 * few. */
static int mma_tile_n(int64_t channels, int64_t tiles, int tile) {
    if (tile != UF_CONV_ANY_TILE) {
        return MMA_LEAST_CHANNELS << tile;
    }
    if (channels <= 32) {
        return 32;
    }
    if (channels <= 64 || tiles * uf_div_up(channels, 128) < 264) {
        return 64;
    }
    return 128;
}

/* Blocks that fill a large GPU once; a split is worth its sum from eight k-tiles on. */
static int64_t mma_splits(int64_t blocks, int64_t k_tiles) {
    const int64_t wanted = 264 / blocks;
    const int64_t most = k_tiles / 8;
    const int64_t splits = wanted < most ? wanted : most;
    return splits < 1 ? 1 : splits > 64 ? 64 : splits;
}

mma_plan uf_mma_shape_of(uf_conv_direction direction, const uf_conv_kernel_args *args, int tile) {
    mma_plan plan;
    memset(&plan, 0, sizeof plan);
    mma_conv *const p = &plan.conv;
    const bool dgrad = direction == UF_CONV_DGRAD;
    const uf_view *const read = dgrad ? &args->y : &args->x;
    const uf_view *const written = dgrad ? &args->x : &args->y;
    p->axis[0] = mma_axis_of(args, dgrad, 0);
    p->axis[1] = mma_axis_of(args, dgrad, 1);
    p->batch = (int32_t)written->extent[0];
    p->groups = (int32_t)args->groups;
    p->read_per_group = (int32_t)(read->extent[1] / args->groups);
    p->written_per_group = (int32_t)(written->extent[1] / args->groups);
    const int64_t pixels =
        p->batch * mma_most_elements(&p->axis[0]) * mma_most_elements(&p->axis[1]); /* of a phase */
    const int64_t tiles =
        uf_div_up(pixels, MMA_PIXELS) * p->axis[0].phases * p->axis[1].phases * p->groups;
    const int64_t phase_taps = mma_most_taps(&p->axis[0]) * mma_most_taps(&p->axis[1]);
    plan.tile_n = mma_tile_n(p->written_per_group, tiles, tile);
    const int depth = args->math == UF_MATH_BF16 ? 32 : 16;
    p->chunks = (int32_t)uf_div_up(p->read_per_group, depth);
    p->blocks_n = (int32_t)uf_div_up(p->written_per_group, plan.tile_n);
    plan.blocks = tiles * p->blocks_n;
    /* More taps than elements to read: most taps of a pixel read outside, and the same pixel of
     * different images reads outside with the same taps. */
    p->batch_fastest = phase_taps > (int64_t)p->axis[0].read * p->axis[1].read && p->batch > 1;
    const int64_t used_taps =
        p->batch_fastest ? (int64_t)p->axis[0].read * p->axis[1].read : phase_taps;
    p->splits = (int32_t)mma_splits(plan.blocks, p->chunks * used_taps);

    const int64_t taps = args->w.extent[2] * args->w.extent[3];
    const double mean_taps = (double)taps / (double)(p->axis[0].phases * p->axis[1].phases);
    plan.k_tiles = (double)(p->chunks * used_taps) / p->splits;
    plan.mean_k_tiles =
        (mean_taps < (double)used_taps ? p->chunks * mean_taps / p->splits : plan.k_tiles);
    plan.pack_warps =
        (int64_t)p->groups * p->blocks_n * p->chunks * (plan.tile_n / 8) * 2; /* STEPS is 2 */
    plan.pack_rows = uf_div_up(taps, MMA_PACK_TAPS);
    plan.pack_rows = plan.pack_rows < 65535 ? plan.pack_rows : 65535;
    plan.packed = (int64_t)uf_align_up((size_t)(plan.pack_warps * taps * 64 * 4));
    p->partial_count = uf_view_count(written);
    const int64_t channels = written->extent[1];
    plan.add_pixels = written->extent[0] * written->extent[2] * written->extent[3];
    plan.add_rows = channels < 65535 ? channels : 65535;
    plan.workspace = plan.packed + (p->splits > 1 ? p->splits * p->partial_count * 4 : 0);
    return plan;
}

void uf_mma_bind(mma_plan *plan, uf_conv_direction direction, const uf_conv_kernel_args *args) {
    mma_conv *const p = &plan->conv;
    const bool dgrad = direction == UF_CONV_DGRAD;
    const uf_view *const read = dgrad ? &args->y : &args->x;
    const uf_view *const written = dgrad ? &args->x : &args->y;
    p->read = (const float *)read->data;
    p->written = (float *)written->data;
    p->weight = (const float *)args->w.data;
    for (int axis = 0; axis < 4; ++axis) {
        p->read_stride[axis] = read->stride[axis];
        p->written_stride[axis] = written->stride[axis];
    }
    p->w_group = args->w.extent[0] / args->groups * args->w.stride[0];
    p->w_written = args->w.stride[dgrad ? 1 : 0];
    p->w_read = args->w.stride[dgrad ? 0 : 1];
    p->w_row = args->w.stride[2];
    p->w_column = args->w.stride[3];
    p->packed = (uint32_t *)uf_conv_packed_at(args);
    p->partial = (float *)(void *)uf_conv_behind_packed(args, plan->packed);
    const uf_epilogue *const epilogue = &args->epilogue;
    p->scale = (const float *)epilogue->scale.data;
    p->scale_stride = epilogue->scale.stride[1];
    p->shift = (const float *)epilogue->shift.data;
    p->shift_stride = epilogue->shift.stride[1];
    p->activation = epilogue->activation.kind;
    p->parameter = (float)epilogue->activation.parameter;
    p->accumulate = args->mode == UF_ACCUMULATE;
}

mma_conv uf_mma_bound(const mma_plan *plan, uf_conv_direction direction,
                      const uf_conv_kernel_args *args) {
    mma_plan bound = *plan;
    uf_mma_bind(&bound, direction, args);
    return bound.conv;
}

/* Cycles of an H200, fitted to 89 calls each in FP32 and TF32, a sixth and a fifth off on average:
 * of a k-tile by the tile's channels, where two blocks share a multiprocessor (of 128 channels
 * there is one); and of the epilogue of 32 channels of each of two. */
static double mma_cost(const mma_plan *plan, uf_mma_math math, int64_t multiprocessors) {
    const bool fp32 = math == UF_MMA_TF32X3;
    const double k_tile = plan->tile_n == 32   ? (fp32 ? 756.0 : 394.0)
                          : plan->tile_n == 64 ? (fp32 ? 1297.0 : 689.0)
                                               : (fp32 ? 2729.0 : 1108.0);
    const int64_t resident = plan->tile_n == 128 ? 1 : 2, blocks = plan->blocks * plan->conv.splits;
    const double waves = (double)uf_div_up(blocks, multiprocessors * resident);
    const double all = waves * plan->mean_k_tiles;
    return (all > plan->k_tiles ? all : plan->k_tiles) * (double)resident * k_tile +
           (double)uf_div_up(blocks, 2 * multiprocessors) * plan->tile_n / 32.0 *
               (fp32 ? 4158.0 : 2511.0) * (plan->tile_n == 128 ? 2.0 : 1.0);
}

double uf_mma_step_factor(uf_conv_direction direction, const uf_conv_kernel_args *args) {
    const double step = (double)args->stride[1];
    if (direction == UF_CONV_FPROP) {
        return step < 8 ? 1.0 : fmin(1.0 + 0.08 * (step - 2), 2.6);
    }
    return step < 4 ? 1.0 : fmin(1.0 + 0.05 * step, 1.8);
}

bool uf_conv_plan_mma_implicit_gemm(const uf_conv_problem *problem, uf_conv_plan *plan) {
    mma_plan *const own = UF_CONV_PLAN_OF(mma_plan, plan);
    if (!uf_conv_tiles_fit(problem->direction, problem->args) || problem->tile >= MMA_TILES) {
        return false;
    }
    plan->cost = 0.0;
    plan->workspace = 0;
    if (uf_view_count(uf_conv_written(problem)) == 0) {
        return true;
    }
    size_t used;
    const uf_conv_kernel_args args = uf_conv_upcast_args(problem->args, &used);
    *own = uf_mma_shape_of(problem->direction, &args, problem->tile);
    plan->tile = uf_mma_tile_of(own);
    plan->tiles = MMA_TILES;
    plan->workspace = used + (size_t)own->workspace;
    if (problem->args->x.dtype == UF_F32) { /* else the packed form is that of an upcast copy */
        plan->packed = (size_t)own->packed;
        plan->workspace_apart = plan->workspace - plan->packed;
    }
    if (!uf_conv_is_empty(problem)) {
        plan->cost = mma_cost(own, uf_mma_math_of(&args), problem->gpu->multiprocessors) *
                     uf_mma_step_factor(problem->direction, &args);
    }
    return true;
}
