/* wgrad_launch.cu - weight gradient of few channels and long rows, row by row (mma.sync, sm_90).
 *
 * Computes: conv_wgrad.
 * Shapes and limits: filters of 3 rows and 3 to 5 columns whose row dilation equals the row stride;
 *   channels of x in multiples of 16; rows of y of a multiple of 16 pixels, 64 or more, all at one
 *   alignment.
 * GEMM mapping: M = 16 channels of x at one column of the filter; N = 8 channels of y; K = pixels
 *   of a row.
 * Data path: one producer warp loads rows of x and y by `cp.async.bulk`, unconverted. MMA warps
 *   gather operands from there. A row of x meets the rows of y of three steps, so it is loaded,
 *   gathered and split once for all three rows of the filter.
 * Precision: FP32 is 3xTF32, each 8 pixels summed alone; TF32 and BF16 are one MMA. The reduction
 *   computes sums that are not finite again by FFMAs.
 * Split and order of sums: the shape alone splits the pixels; warps of a block are added in order,
 *   and conv_direct_wgrad_add adds the splits in order and writes w.
 * Bound by: latency; no unit is saturated.
 * Chosen when: rows are long and channels few, as in layers kb75 and kb81
 *   (docs/benchmark-layers.md).
 */
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/wgrad_mainloop.cuh"
#include "kernels/cuda/device/launch.cuh"

static_assert(sizeof(row_stream_wgrad_args) <= 4000, "kernel parameters");

template <typename T, uf_mma_math MATH, int S>
static uf_status launch(uf_context *context, const row_stream_wgrad_args &args) {
    typedef row_stream_wgrad_tile<T, MATH, S> Tile;
    const uf_launch how = {dim3((unsigned)args.sums.tiles, (unsigned)args.sums.splits),
                           (UF_ROW_STREAM_WGRAD_WARPS + 1) * 32, (size_t)args.stream.shared};
    UF_TRY(
        uf_cuda_launch(context, "conv_row_stream_wgrad", how, conv_row_stream_wgrad<Tile>, args));
    return direct_launch_add<T>(context, args.sums);
}

template <typename T, uf_mma_math MATH>
static uf_status launch_taps(uf_context *context, const row_stream_wgrad_args &args) {
    return args.stream.taps == 3   ? launch<T, MATH, 3>(context, args)
           : args.stream.taps == 4 ? launch<T, MATH, 4>(context, args)
                                   : launch<T, MATH, 5>(context, args);
}

extern "C" uf_status uf_conv_launch_mma_row_stream_wgrad(uf_context *context,
                                                         const uf_conv_problem *problem,
                                                         const uf_conv_plan *plan) {
    const uf_conv_kernel_args *args = problem->args;
    row_stream_wgrad_args made;
    made.stream = *UF_CONV_CONST_PLAN_OF(uf_row_stream_wgrad_plan, plan);
    uf_direct_wgrad_begin_tiles(args, UF_ROW_STREAM_WGRAD_K, UF_ROW_STREAM_WGRAD_C,
                                UF_ROW_STREAM_WGRAD_C * UF_ROW_STREAM_WGRAD_LAGS * made.stream.taps,
                                made.stream.splits, &made.sums);
    return args->x.dtype == UF_BF16     ? launch_taps<uint16_t, UF_MMA_BF16>(context, made)
           : args->math == UF_MATH_FP32 ? launch_taps<float, UF_MMA_TF32X3>(context, made)
                                        : launch_taps<float, UF_MMA_TF32>(context, made);
}
