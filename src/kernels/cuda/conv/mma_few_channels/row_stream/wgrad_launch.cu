/* wgrad_launch.cu - conv_wgrad of few channels and long rows on tensor cores (mma.sync),
 * compute capability 9.0: what row_stream/fprop_launch.cu is, for w.
 *
 * One warp brings rows of x and y by `cp.async.bulk` copies, as they lie in memory, and does
 * nothing else. The others gather: rows of a MMA are 16 channels of x at one column of the filter,
 * its columns eight channels of y, its depth pixels of one row. Filters have three rows, as far
 * apart as a step down: a row of x meets the rows of y of three steps, and comes, is gathered and
 * is split once for all three. FP32 is three TF32 MMAs, each 8 pixels summed alone.
 *
 * Shares of the pixels follow from the shape; conv_direct_wgrad_add adds their sums in order,
 * repairs what is not finite and writes w. */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/wgrad_mainloop.cuh"
#include "kernels/cuda/device/launch.cuh"

static_assert(sizeof(row_stream_wgrad_args) <= 4000, "kernel parameters");

static row_stream_wgrad_args arguments(const uf_conv_kernel_args *args,
                                       const uf_row_stream_wgrad_plan &stream) {
    row_stream_wgrad_args made;
    made.stream = stream;
    direct_wgrad_begin(args, &made.sums);
    direct_wgrad_plan &p = made.sums;
    p.lanes_g = 1;
    p.tile_k = UF_ROW_STREAM_WGRAD_K;
    p.tile_c = UF_ROW_STREAM_WGRAD_C;
    p.tile_taps = p.taps;
    p.columns = UF_ROW_STREAM_WGRAD_C * p.taps;
    p.tiles_g = p.groups;
    p.tiles_k = stream.tiles_k;
    p.tiles_c = stream.tiles_c;
    p.tiles_t = 1;
    p.tiles = p.tiles_g * p.tiles_k * p.tiles_c;
    p.splits = stream.splits;
    direct_choose_adders(p);
    return made;
}

template <typename T, uf_mma_math MATH, int S>
static uf_status launch(uf_context *context, const row_stream_wgrad_args &args) {
    typedef row_stream_wgrad_tile<T, MATH, S> Tile;
    const uf_launch how = {dim3((unsigned)args.sums.tiles, (unsigned)args.sums.splits),
                           (UF_ROW_STREAM_WGRAD_WARPS + 1) * 32, (size_t)args.stream.shared, false,
                           0};
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

extern "C" size_t uf_cuda_conv_row_stream_wgrad_workspace(uf_conv_direction,
                                                          const uf_conv_kernel_args *args) {
    uf_row_stream_wgrad_plan plan;
    return uf_row_stream_wgrad_plan_of(args, &plan)
               ? direct_wgrad_workspace(arguments(args, plan).sums)
               : 0;
}

extern "C" uf_status uf_cuda_conv_row_stream_wgrad(uf_context *context, uf_conv_direction,
                                                   const uf_conv_kernel_args *args) {
    uf_row_stream_wgrad_plan plan;
    if (!uf_row_stream_wgrad_plan_of(args, &plan)) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_row_stream_wgrad does not take these arguments");
    }
    const row_stream_wgrad_args made = arguments(args, plan);
    return args->x.dtype == UF_BF16     ? launch_taps<uint16_t, UF_MMA_BF16>(context, made)
           : args->math == UF_MATH_FP32 ? launch_taps<float, UF_MMA_TF32X3>(context, made)
                                        : launch_taps<float, UF_MMA_TF32>(context, made);
}
