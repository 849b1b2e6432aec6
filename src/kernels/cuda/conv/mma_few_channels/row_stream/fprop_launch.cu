/* fprop_launch.cu - conv_fprop for few channels and long rows on tensor cores (mma.sync),
 * compute capability 9.0.
 *
 * What is read comes once, whole rows of a channel, as they lie in memory: one warp issues bulk
 * copies into a ring of stages and does nothing else. The other warps gather operands from there:
 * rows of a MMA are pixels, its columns written channels, its depth read channels of one tap,
 * so that a fragment's elements are one address and multiples of a few strides, and nothing is
 * rearranged. Channels are apart as in memory modulo 16 bytes; padding is zeros that the warps at
 * the edge write. Where a step down is one tap's row to the next, a row's fragments meet the
 * weights of all taps of a column, whose rows of pixels are different sums of the same lane: a row
 * is read, gathered and split once. FP32 is three TF32 MMAs, each 8 of the depth summed alone.
 * A lane has two or four neighbours of a row, which leave together. Where a sum is not finite, the
 * warp makes its row again one by one. */
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/fprop_mainloop.cuh"
#include "kernels/cuda/device/launch.cuh"

static_assert(sizeof(uf_row_stream_fprop_conv) <= 4000, "kernel parameters");

template <typename T, uf_mma_math MATH, int M, int N, int LAGS>
static uf_status launch(uf_context *context, const uf_row_stream_fprop_plan &plan) {
    typedef row_stream_fprop_tile<T, MATH, M, N, LAGS> Tile;
    const uf_launch how = {dim3((unsigned)plan.blocks), plan.threads, plan.shared, false, 0};
    return uf_cuda_launch(context, "conv_row_stream_fprop", how, conv_row_stream_fprop<Tile>,
                          plan.stream);
}

template <typename T, uf_mma_math MATH, int M>
static uf_status launch_columns(uf_context *context, const uf_row_stream_fprop_plan &plan) {
    if (plan.lags == 1) {
        return plan.n == 1   ? launch<T, MATH, M, 1, 1>(context, plan)
               : plan.n == 2 ? launch<T, MATH, M, 2, 1>(context, plan)
                             : launch<T, MATH, M, 4, 1>(context, plan);
    }
    if constexpr (M == 1) {
        if (plan.n == 2) {
            return launch<T, MATH, M, 2, UF_ROW_STREAM_FPROP_LAGS>(context, plan);
        }
    }
    return launch<T, MATH, M, 1, UF_ROW_STREAM_FPROP_LAGS>(context, plan);
}

template <typename T, uf_mma_math MATH>
static uf_status launch_rows(uf_context *context, const uf_row_stream_fprop_plan &plan) {
    return plan.m == 1 ? launch_columns<T, MATH, 1>(context, plan)
                       : launch_columns<T, MATH, 2>(context, plan);
}

extern "C" uf_status uf_cuda_conv_row_stream_fprop(uf_context *context, uf_conv_direction direction,
                                                   const uf_conv_kernel_args *args) {
    uf_row_stream_fprop_plan plan;
    if (!uf_row_stream_fprop_plan_of(direction, args, &plan)) {
        UF_FAIL(UF_ERROR_INTERNAL, "conv_row_stream_fprop does not take these arguments");
    }
    return args->x.dtype == UF_BF16     ? launch_rows<__nv_bfloat16, UF_MMA_BF16>(context, plan)
           : args->math == UF_MATH_FP32 ? launch_rows<float, UF_MMA_TF32X3>(context, plan)
                                        : launch_rows<float, UF_MMA_TF32>(context, plan);
}
