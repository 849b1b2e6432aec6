/* launch.cu - few-channel convolutions on tensor cores as a GEMM over gathered patches (mma.sync).
 *
 * Computes: conv_fprop and conv_dgrad.
 * Shapes and limits: up to 16 live phases and 16 different offsets on an axis; the window of a tile
 *   and the weights of a slice of columns fit the shared memory of a block.
 * GEMM mapping: M = cells (one step of the written side with all its phases); N = written channels
 *   times live phases; K = read channels times different offsets. Weights are zeros where a phase
 *   does not read at an offset. Phases of few channels together fill an MMA.
 * Data path: a persistent block keeps its weights in shared memory, in fragment order. The window
 *   of the next tile comes by cp.async of 16, 8 or 4 bytes, or, for long lines, by `cp.async.bulk`.
 *   The block turns a window into records: 16 bytes of neighbours of K, converted once for all
 *   taps. One ldmatrix loads 16 cells and two such units; a pitch of an odd number of units avoids
 *   bank conflicts. Results are staged in shared memory and stored by `cp.async.bulk` in whole
 *   sectors; with an activation or an accumulation they are stored as floats, row by row.
 * Precision: FP32 is 3xTF32, each 8 of K summed alone; TF32 and BF16 are one MMA. A slice of a tile
 *   with a sum that is not finite is computed again by FFMAs.
 * Split and order of sums: K is not split; chunks of channels are added in order.
 * Bound by: latency; copies, records, MMAs and stores of a block follow each other.
 * Chosen when: few channels meet short rows, strides of many phases or an activation, or the GPU is
 *   not 9.0.
 */
#include "kernels/cuda/conv/mma_few_channels/im2col/instances/launch.h"
#include "kernels/cuda/conv/registry.h"

extern "C" uf_status uf_conv_launch_mma_im2col(uf_context *context, const uf_conv_problem *problem,
                                               const uf_conv_plan *chosen) {
    const uf_conv_kernel_args *args = problem->args;
    uf_im2col_plan plan = *UF_CONV_CONST_PLAN_OF(uf_im2col_plan, chosen);
    uf_direct_describe(&plan.im2col.conv, args, problem->direction == UF_CONV_DGRAD);
    uf_im2col_launch_type *const launch = args->x.dtype == UF_BF16     ? uf_im2col_launch_bf16
                                          : args->math == UF_MATH_FP32 ? uf_im2col_launch_fp32
                                          : args->math == UF_MATH_TF32 ? uf_im2col_launch_tf32
                                                                       : uf_im2col_launch_f32_bf16;
    return launch(context, &plan);
}
