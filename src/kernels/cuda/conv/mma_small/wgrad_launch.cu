/* wgrad_launch.cu - the weight gradient where launches, packing and idle multiprocessors would be
 * most of the time (sm_80 and later).
 *
 * Computes: conv_wgrad, in one launch, or two with splits.
 * Shapes and limits: all taps of a channel fit a tile, and a box fits shared memory;
 *   uf_small_wgrad_plan_of.
 * GEMM mapping: M = k of a group; N = columns (c, r, s); K = positions. A block has some rows and
 *   all taps of some channels of x.
 * Data path: y comes as [row][position], x as [channel][window] with zeros around the image, by
 *   4-byte cp.async, three boxes under way. A column is an offset in the window and a position
 *   another, so that one copy serves every tap.
 * Precision: FP32 is 3xTF32, each 8 of K summed alone. FFMAs compute sums of a split again that are
 *   not finite.
 * Split and order of sums: warps share rows, columns and, where there are too few of these, the
 *   positions of a box. Blocks share the boxes; conv_small_wgrad_add adds the splits in order.
 * Bound by: latency.
 * Chosen when: there are few pixels and small filters.
 */
#define UF_MMA_SHARED(name) extern __shared__ __align__(16) uint32_t name[]

#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/mma_small/wgrad_mainloop.cuh"
#include "kernels/cuda/device/launch.cuh"

/* `wide`: w is f32, whatever the type of its factors. */
template <typename Tile>
static uf_status launch(uf_context *context, const small_wgrad &p, bool wide) {
    const uf_small_wgrad_plan &plan = p.plan;
    const int64_t blocks = (int64_t)plan.row_tiles * plan.channel_tiles * plan.splits * p.groups;
    const uf_launch mma = {dim3((unsigned)blocks), 32 * plan.warps, (size_t)plan.shared};
    UF_TRY(uf_cuda_launch(context, "conv_small_wgrad", mma, conv_small_wgrad<Tile>, p));
    if (p.partial == nullptr) {
        return UF_OK;
    }
    const uf_launch add = {dim3((unsigned)((p.count + 31) / 32)), 32 * SMALL_ADDERS};
    return uf_cuda_launch(
        context, "conv_small_wgrad_add", add,
        wide ? conv_small_wgrad_add<float> : conv_small_wgrad_add<typename Tile::stored>, p);
}

static small_wgrad call_of(const uf_conv_kernel_args *args) {
    small_wgrad p;
    memset((void *)&p, 0, sizeof p);
    p.x = args->x.data;
    p.y = args->y.data;
    p.w = args->w.data;
    for (int axis = 0; axis < 4; ++axis) {
        p.x_stride[axis] = args->x.stride[axis];
        p.y_stride[axis] = args->y.stride[axis];
        p.w_stride[axis] = args->w.stride[axis];
    }
    for (int axis = 0; axis < 2; ++axis) {
        p.large[axis] = (int32_t)args->x.extent[2 + axis];
        p.small[axis] = (int32_t)args->y.extent[2 + axis];
        p.kernel[axis] = (int32_t)args->w.extent[2 + axis];
        p.stride[axis] = (int32_t)args->stride[axis];
        p.padding[axis] = (int32_t)args->padding[axis];
        p.dilation[axis] = (int32_t)args->dilation[axis];
    }
    p.count = uf_view_count(&args->w);
    p.batch = (int32_t)args->x.extent[0];
    p.groups = (int32_t)args->groups;
    p.k_per_group = (int32_t)(args->w.extent[0] / args->groups);
    p.c_per_group = (int32_t)args->w.extent[1];
    p.accumulate = args->mode == UF_ACCUMULATE;
    return p;
}

static void small_wgrad_divide(small_wgrad *p) {
    const uf_small_wgrad_plan &plan = p->plan;
    small_wgrad_divisors &by = p->by;
    by.channel_tiles = uf_small_divisor_of(plan.channel_tiles);
    by.row_tiles = uf_small_divisor_of(plan.row_tiles);
    by.splits = uf_small_divisor_of(plan.splits);
    for (int i = 0; i < 3; ++i) {
        by.boxes[i] = uf_small_divisor_of(plan.boxes[i]);
        by.box[i] = uf_small_divisor_of(plan.box[i]);
    }
    by.window[0] = uf_small_divisor_of(plan.window[0]);
    by.window[1] = uf_small_divisor_of(plan.window[1]);
    by.kernel = uf_small_divisor_of(p->kernel[1]);
    by.taps = uf_small_divisor_of(p->kernel[0] * p->kernel[1]);
    by.row_warps = uf_small_divisor_of(plan.row_warps);
    by.column_warps = uf_small_divisor_of(plan.column_warps);
}

/* The parts of threads in copies and stores. Needs p->partial. */
static void small_wgrad_share(const uf_conv_kernel_args *args, small_wgrad *p) {
    const uf_small_wgrad_plan &plan = p->plan;
    const int64_t taps = p->by.taps.by, row = p->c_per_group * taps;
    const int64_t element = (int64_t)uf_dtype_size(args->y.dtype), unit = 16 / element;
    const uf_view &w = args->w, &y = args->y;
    const bool dense = (w.extent[3] == 1 || w.stride[3] == 1) &&
                       (w.extent[2] == 1 || w.stride[2] == w.extent[3]) &&
                       (w.extent[1] == 1 || w.stride[1] == taps) &&
                       (w.extent[0] == 1 || w.stride[0] == row);
    p->whole =
        row % 4 == 0 && plan.channels * taps % 4 == 0 && p->count % 4 == 0 &&
        (p->partial != nullptr || (dense && w.dtype == UF_F32 && (uintptr_t)w.data % 16 == 0));
    p->vector_y = plan.box[0] == 1 && plan.box[2] == p->small[1] && y.stride[3] == 1 &&
                  (p->small[0] == 1 || y.stride[2] == p->small[1]) && y.stride[1] % unit == 0 &&
                  y.stride[0] % unit == 0 && plan.box[1] * plan.box[2] % unit == 0 &&
                  (uintptr_t)y.data % 16 == 0;
    const int32_t threads = 32 * plan.warps, columns = plan.channels * p->by.taps.by;
    p->words_y = p->vector_y ? plan.positions / (int32_t)unit : plan.positions;
    p->share_y = small_sharing_of(p->words_y, threads);
    p->share_x = small_sharing_of(plan.plane, threads);
    p->share_w = small_sharing_of(p->whole ? columns / 4 : columns, threads);
}

extern "C" uf_status uf_conv_launch_mma_small_wgrad(uf_context *context,
                                                    const uf_conv_problem *problem,
                                                    const uf_conv_plan *plan) {
    const uf_conv_kernel_args *const args = problem->args;
    small_wgrad p = call_of(args);
    p.plan = *UF_CONV_CONST_PLAN_OF(uf_small_wgrad_plan, plan);
    small_wgrad_divide(&p);
    const bool wide = args->w.dtype == UF_F32;
    p.partial = p.plan.splits > 1 ? (float *)args->workspace : nullptr;
    small_wgrad_share(args, &p);
    if (wide && args->x.dtype != UF_F32 && !p.whole) {
        /* One element at a time is stored in the type of the factors. */
        p.partial = (float *)args->workspace;
        small_wgrad_share(args, &p);
    }
    switch (uf_mma_math_of(args)) {
    case UF_MMA_TF32X3:
        return launch<small_wgrad_tile<UF_MMA_TF32X3, float>>(context, p, wide);
    case UF_MMA_TF32:
        return launch<small_wgrad_tile<UF_MMA_TF32, float>>(context, p, wide);
    default:
        return args->x.dtype == UF_BF16
                   ? launch<small_wgrad_tile<UF_MMA_BF16, uf_bf16>>(context, p, wide)
                   : launch<small_wgrad_tile<UF_MMA_BF16, float>>(context, p, wide);
    }
}
