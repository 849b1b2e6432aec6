/* fprop_launch.cu - convolution of few channels and long rows, row by row (mma.sync, sm_90).
 *
 * Computes: conv_fprop.
 * Shapes and limits: read channels fill the K of an MMA; written rows have 48 pixels or more; no
 *   activation and no accumulation; weights and some rows fit shared memory.
 * GEMM mapping: M = pixels of a row; N = written channels; K = read channels of one tap.
 * Data path: one producer warp loads whole rows by `cp.async.bulk`, unconverted, into a ring of
 *   stages. MMA warps gather operands from there: a fragment's elements are one address and
 *   multiples of a few strides. Channels keep their distance in memory modulo 16 bytes; the warps
 *   at an edge take padding as zeros. Where the stride equals the dilation, a 3-row filter reads
 *   each row once for three rows of pixels, whose sums one lane holds. A lane has two or four
 *   neighbours of a row, one store.
 * Precision: FP32 is 3xTF32, each 8 of K summed alone; TF32 and BF16 are one MMA. A row of a warp
 *   with a sum that is not finite is computed again by FFMAs.
 * Split and order of sums: K is not split; rows of the filter, chunks, columns and channels are
 *   added in order.
 * Bound by: latency; no unit is saturated.
 * Chosen when: rows are long and channels few, as in layers kb75 and kb81
 *   (docs/benchmark-layers.md).
 */
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/fprop_mainloop.cuh"
#include "kernels/cuda/device/launch.cuh"

static_assert(sizeof(uf_row_stream_fprop_conv) <= 4000, "kernel parameters");

template <typename T, uf_mma_math MATH, int M, int N, int LAGS>
static uf_status launch(uf_context *context, const uf_row_stream_fprop_plan &plan) {
    typedef row_stream_fprop_tile<T, MATH, M, N, LAGS> Tile;
    const uf_launch how = {dim3((unsigned)plan.blocks), plan.threads, plan.shared};
    return uf_cuda_launch(context, "conv_row_stream_fprop", how, conv_row_stream_fprop<Tile>,
                          plan.stream);
}

template <typename T, uf_mma_math MATH>
static uf_status launch_tile(uf_context *context, const uf_row_stream_fprop_plan &plan) {
    constexpr int N = UF_ROW_STREAM_FPROP_N;
    if (plan.lags > 1) {
        return launch<T, MATH, 2, 1, UF_ROW_STREAM_FPROP_LAGS>(context, plan);
    }
    return plan.m == 1   ? launch<T, MATH, 1, N, 1>(context, plan)
           : plan.n == 2 ? launch<T, MATH, 2, 2, 1>(context, plan)
                         : launch<T, MATH, 2, N, 1>(context, plan);
}

extern "C" uf_status uf_conv_launch_mma_row_stream_fprop(uf_context *context,
                                                         const uf_conv_problem *problem,
                                                         const uf_conv_plan *chosen) {
    const uf_conv_kernel_args *args = problem->args;
    uf_row_stream_fprop_plan plan = *UF_CONV_CONST_PLAN_OF(uf_row_stream_fprop_plan, chosen);
    uf_direct_describe(&plan.stream.conv, args, false);
    return args->x.dtype == UF_BF16     ? launch_tile<uf_bf16, UF_MMA_BF16>(context, plan)
           : args->math == UF_MATH_FP32 ? launch_tile<float, UF_MMA_TF32X3>(context, plan)
                                        : launch_tile<float, UF_MMA_TF32>(context, plan);
}
