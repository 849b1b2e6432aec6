/* dgrad_launch.cu - data gradient of few channels and long rows, row by row (mma.sync, sm_90).
 *
 * Computes: conv_dgrad.
 * Shapes and limits: dense rows of 64 bytes to 16 KiB are written, without activation or
 *   accumulation; 3 live phases and at most 8 offsets across; ring and stages fit shared memory.
 * GEMM mapping: M = written channels, 16 a block; N = cells of a row, with one set of sums for each
 *   phase across; K = read channels times offsets.
 * Data path: one block per multiprocessor walks down runs of rows with specialised warps. Producers
 *   load each line once, as 16-byte records of K, rounded or split. MMA warps take tiles of a row
 *   in turn and stage them. Writers store a row by `cp.async.bulk` once all its tiles are staged.
 *   Rows of a plane are contiguous: the part of a sector at the end of a row is carried to the next
 *   row, so that all stores but those at the ends of a run are whole sectors. Rows without taps
 *   come from lines of constants.
 * Precision: FP32 is 3xTF32, each 8 of K summed alone; TF32 and BF16 are one MMA. A tile with a sum
 *   that is not finite is computed again by FFMAs.
 * Split and order of sums: K is not split; a cell's sums are added in the order of its taps.
 * Bound by: memory, at the rate at which it takes what is written.
 * Chosen when: rows are long and channels few, as in layers kb75 and kb81
 *   (docs/benchmark-layers.md).
 */
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/mma_few_channels/row_stream/dgrad_mainloop.cuh"
#include "kernels/cuda/device/launch.cuh"

static_assert(sizeof(uf_row_stream_dgrad_conv) <= 4000, "kernel parameters");

template <typename T, uf_mma_math MATH>
static uf_status launch(uf_context *context, const uf_row_stream_dgrad_plan &plan) {
    typedef row_stream_dgrad_tile<T, MATH, UF_ROW_STREAM_DGRAD_PHASES> Tile;
    const uf_launch how = {dim3((unsigned)plan.blocks), plan.threads, plan.shared};
    return uf_cuda_launch(context, "conv_row_stream_dgrad", how, conv_row_stream_dgrad<Tile>,
                          plan.stream);
}

extern "C" uf_status uf_conv_launch_mma_row_stream_dgrad(uf_context *context,
                                                         const uf_conv_problem *problem,
                                                         const uf_conv_plan *chosen) {
    const uf_conv_kernel_args *args = problem->args;
    uf_row_stream_dgrad_plan plan = *UF_CONV_CONST_PLAN_OF(uf_row_stream_dgrad_plan, chosen);
    uf_direct_describe(&plan.stream.conv, args, true);
    return args->x.dtype == UF_BF16     ? launch<uf_bf16, UF_MMA_BF16>(context, plan)
           : args->math == UF_MATH_FP32 ? launch<float, UF_MMA_TF32X3>(context, plan)
           : args->math == UF_MATH_TF32 ? launch<float, UF_MMA_TF32>(context, plan)
                                        : launch<float, UF_MMA_BF16>(context, plan);
}
