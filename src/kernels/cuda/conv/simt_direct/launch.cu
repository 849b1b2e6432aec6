/* launch.cu - main loop "direct" of simt_direct.
 *
 * Computes: fprop and dgrad of few channels.
 * Shapes and limits: up to 32 taps and 64 steps of an axis; a window of one read channel fits
 *     shared memory. f32 and bf16.
 * GEMM mapping: none. A cell is one step of the written side with all its phases (geometry.h);
 *     it meets one element of the read side per in_step. A block has a tile of cells. A lane
 *     has P x L x C sums, L column phases and C channels: L x C multiply-adds for each value
 *     read.
 * Data path: a tile's window is loaded once to shared memory, by cp.async for f32. A tap is the
 *     same offset into it for all cells. Lanes are neighbouring cells of the padded rows, so no
 *     bank conflict occurs. With several column phases, a warp passes one or two channels
 *     through shared memory and stores runs.
 * Precision: FFMA in f32; bf16 tensors are rounded once. A warp whose sums are not finite
 *     computes its elements again, one by one.
 * Split and order of sums: no split; chunks of read channels, then taps, then channels of a
 *     chunk. Rows that no tap reaches get the epilogue of 0.
 * Bound by: memory, or FFMAs where channels are many.
 * Chosen when: its modelled cost (plan.c) is the least of all variants'.
 */
#include "kernels/cuda/conv/registry.h"
#include "kernels/cuda/conv/simt_direct/launch.h"

extern "C" uf_status uf_conv_launch_simt_direct(uf_context *context, const uf_conv_problem *problem,
                                                const uf_conv_plan *chosen) {
    uf_direct_plan plan = *UF_CONV_CONST_PLAN_OF(uf_direct_plan, chosen);
    uf_direct_describe(&plan.conv, problem->args, problem->direction == UF_CONV_DGRAD);
    return problem->args->x.dtype == UF_BF16 ? uf_direct_launch_bf16(context, &plan)
                                             : uf_direct_launch_f32(context, &plan);
}
